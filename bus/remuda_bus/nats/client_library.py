"""The client of NATS, without the parts that few processes use: aiohttp for `ws://` addresses, and its own JetStream
API (`jetstream.py` speaks to JetStream itself). They take a third of the time that a command needs to start, so they
are imported when they are used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Final

SELDOM_USED: Final = ("aiohttp", "nats.js")


class _WhenUsed:
    """A finder of these modules, whose code runs when something is read from them."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in SELDOM_USED else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


sys.meta_path.insert(0, _WhenUsed)
try:
    importlib.import_module("nats.aio.client")
finally:
    sys.meta_path.remove(_WhenUsed)

from nats.aio.msg import Msg  # noqa: E402
from nats.errors import Error as NatsError  # noqa: E402

__all__ = ["Msg", "NatsError"]
