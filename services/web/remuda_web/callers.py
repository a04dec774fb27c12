"""The caller of a request, as the guard in front of the application has found it (`access`)."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import Scope

from remuda_bus.operator_api.callers import Caller

_KEY: Final = "caller"
NOBODY: Final = Caller()


def set_caller(scope: Scope, caller: Caller) -> None:
    scope.setdefault("state", {})[_KEY] = caller


def caller_of(request: Request) -> Caller:
    """Without a guard, nobody: who reads nothing and does not act."""
    found = request.scope.get("state", {}).get(_KEY, NOBODY)
    assert isinstance(found, Caller)
    return found
