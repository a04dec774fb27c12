"""The caller of a request, as the guard in front of the application has found it (`access`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.types import Scope

from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator

_KEY: Final = "caller"
_SENDER: Final = "sender"
NOBODY: Final = Caller()
# Who sends the request as of now. Raises Problem when the sender is not known (any more).
Sender = Callable[[], Awaitable[Operator]]


def set_caller(scope: Scope, caller: Caller) -> None:
    scope.setdefault("state", {})[_KEY] = caller


def set_sender(scope: Scope, sender: Sender) -> None:
    scope.setdefault("state", {})[_SENDER] = sender


def sender_of(request: Request) -> Sender | None:
    """None: the guard asks for no identity, and none can end."""
    found: Sender | None = request.scope.get("state", {}).get(_SENDER)
    return found


def caller_of(request: Request) -> Caller:
    """The caller of a request. Without a guard it is nobody, who reads nothing and does not act."""
    found = request.scope.get("state", {}).get(_KEY, NOBODY)
    assert isinstance(found, Caller)
    return found
