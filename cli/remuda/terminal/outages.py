"""Exceptions of libraries for an outage or a wrong setting, as a line for the user."""

from __future__ import annotations

import pydantic

from remuda_bus.bus import BusError
from remuda_bus.nats import NatsError
from remuda_bus.settings import SettingsProblems

from .arguments import quoted


def message(error: Exception) -> str | None:
    """Returns the line for the user; None: the exception is neither an outage nor a wrong setting, so it is a bug."""
    if isinstance(error, SettingsProblems | BusError | NatsError):
        return str(error) or type(error).__name__
    if isinstance(error, pydantic.ValidationError):
        return _setting(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return None


def _setting(error: pydantic.ValidationError) -> str:
    """Message for a service setting from the environment."""
    return "; ".join(
        f"REMUDA_{'_'.join(map(str, problem['loc'])).upper()}={quoted(str(problem['input']))}: {problem['msg']}"
        for problem in error.errors()
    )
