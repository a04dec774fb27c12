"""The client of NATS imports aiohttp for `ws://` addresses, a sixth of the time that a command needs to start. After
this module, it is imported when such an address is used."""

from __future__ import annotations

import importlib
import sys
from typing import Any


class _WhenUsed:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `import` asks whether it is a module
            raise AttributeError(name)
        return getattr(importlib.import_module("aiohttp"), name)


if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = _WhenUsed()  # type: ignore[assignment]
    importlib.import_module("nats.aio.transport")
    del sys.modules["aiohttp"]
