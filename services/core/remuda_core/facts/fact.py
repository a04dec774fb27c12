"""What every fact is, and the one that belongs to no subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Tags = Mapping[str, str]


class Fact(msgspec.Struct, frozen=True, gc=False):
    pass


class TimePassed(Fact):
    """All timers until then have been looked at: what they led to is in the facts before."""

    until_ms: int


def kinds() -> dict[str, type[Any]]:
    """Every kind of fact by its name."""
    return {kind.__name__: kind for kind in Fact.__subclasses__()}
