"""The bound of open streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from remuda_web import limits
from remuda_web.problems import Problem
from remuda_web.streams import Streams


async def endless() -> AsyncGenerator[bytes]:
    while True:
        yield b""


async def test_streams_of_all_paths_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS_AT_ONCE", 2)
    streams = Streams()
    one, other = streams.counted(endless()), streams.counted(endless())
    await anext(one)
    assert not streams.are_full
    await anext(other)
    assert streams.are_full
    with pytest.raises(Problem, match="expected at most 2"):
        streams.answer(endless())
    await other.aclose()
    assert not streams.are_full
