"""structlog without rich, with which it would show tracebacks in colours and which takes three times as long to import.
Services log plain tracebacks."""

from __future__ import annotations

import importlib
import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
