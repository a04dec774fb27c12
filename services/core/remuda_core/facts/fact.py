"""The base class of facts, and the fact that time has passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Tags = Mapping[str, str]


class Fact(msgspec.Struct, frozen=True, gc=False):
    pass


class TimePassed(Fact):
    """All timers due at `until_ms` have been handled. The facts that they led to come before this one."""

    until_ms: int


def kinds() -> dict[str, type[Any]]:
    """Every kind of fact by its name."""
    return {kind.__name__: kind for kind in Fact.__subclasses__()}
