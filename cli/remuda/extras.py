"""Extras of the distribution: what is heavy and not everyone needs."""

from __future__ import annotations

import importlib.util
from typing import Final

from .errors import UserError

# The modules by which an extra is recognised.
MODULES: Final = {
    "archive": ("obstore",),
    "kubernetes": ("aiohttp",),
    "parquet": ("pyarrow",),
    "peloton": ("numpy",),
    "plot": ("matplotlib",),
    "telemetry": ("opentelemetry.sdk", "opentelemetry.exporter.otlp"),
}


def need(extra: str, what: str) -> None:
    """Raises UserError with the command that installs the extra, if one of its modules is missing. `what` needs it."""
    missing = [module for module in MODULES[extra] if not _is_installed(module)]
    if missing:
        raise UserError(f"{what} needs {', '.join(missing)}: pip install 'remuda-scheduler[{extra}]'")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False
