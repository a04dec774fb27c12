"""Log levels of a running process: changed over the bus, and reset by themselves."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_bus.process.log_levels import LogLevels

log = structlog.get_logger()


@pytest.fixture(autouse=True)
def _configuration() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.configure(**before)
    logging.getLogger("some.library").setLevel(logging.NOTSET)


async def ask(bus: MemoryBus, **request: Any) -> dict[str, Any]:
    return json.loads((await bus.request(subjects.log_level("core"), json.dumps(request).encode())).payload)


def lines(capsys: pytest.CaptureFixture[str]) -> str:
    log.debug("one line")
    return capsys.readouterr().out


async def test_a_level_is_changed_and_reset(capsys: pytest.CaptureFixture[str]) -> None:
    bus = MemoryBus()
    await LogLevels("core-1", "info").serve(bus, "core")
    assert "one line" not in lines(capsys)
    answer = await ask(bus, level="debug", for_s=0.05)
    assert answer == {"instance": "core-1", "logger": "", "level": "debug", "for_s": 0.05}
    assert "one line" in lines(capsys)
    async with asyncio.timeout(5):
        while "one line" in lines(capsys):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def test_a_later_change_counts_and_libraries_have_their_own() -> None:
    levels = LogLevels("core-1", "info")
    levels.change("some.library", "debug", 0.02)
    levels.change("some.library", "error", 60)
    await asyncio.sleep(0.05)  # the first change would have ended
    assert logging.getLogger("some.library").level == logging.ERROR
    levels._resets["some.library"].cancel()
    levels._reset("some.library")
    assert logging.getLogger("some.library").level == logging.NOTSET


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"level": "loud", "for_s": 1}, "level is 'loud'"),
        ({"level": "debug", "for_s": 0}, "for_s is 0"),
        ({"level": "debug", "for_s": True}, "for_s is True"),
        ({"level": "debug", "for_s": 1e9}, "for_s is 1000000000.0"),
        ({"level": "debug", "for_s": 1, "logger": 7}, "logger is 7"),
    ],
)
async def test_what_cannot_be_is_refused(request_: dict[str, Any], said: str) -> None:
    bus = MemoryBus()
    await LogLevels("core-1", "info").serve(bus, "core")
    with pytest.raises(Refused, match=said):
        await ask(bus, **request_)
