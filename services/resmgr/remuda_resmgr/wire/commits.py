"""Commits: the facts that are appended to the log at once, as bytes."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec

from ..facts import Fact, kinds

_FACTS: Final[Any] = tuple[reduce(or_, kinds()), ...]  # type: ignore[misc]


class Commit(msgspec.Struct, frozen=True):
    """The facts were decided at `now_ms`."""

    now_ms: int
    facts: tuple[Fact, ...]


class _Encoded(msgspec.Struct, frozen=True):
    now_ms: int
    facts: msgspec.Raw


def encode(commit: Commit) -> bytes:
    return msgspec.msgpack.encode(commit)


def decode(payload: bytes) -> Commit:
    """Raises msgspec.DecodeError for bytes that are no commit, and for facts that this version does not know."""
    encoded = msgspec.msgpack.decode(payload, type=_Encoded)
    return Commit(encoded.now_ms, msgspec.msgpack.decode(encoded.facts, type=_FACTS))
