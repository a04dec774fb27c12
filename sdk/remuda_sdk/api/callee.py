"""Calls of the methods of a ResourceManagerCallback."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from remuda_sdk.api.interface import ResourceManagerCallback

Run = Callable[[Callable[[], Any], bool], Awaitable[Any]]


async def run_here(call: Callable[[], Any], is_question: bool) -> Any:
    """Call a function or coroutine function in this event loop."""
    returned = call()
    return await returned if inspect.isawaitable(returned) else returned


class Callee:
    """`run`: where the methods run."""

    def __init__(self, callback: ResourceManagerCallback, run: Run = run_here) -> None:
        if not isinstance(callback, ResourceManagerCallback):
            raise TypeError(f"callback {callback!r}: expected a ResourceManagerCallback")
        self.callback = callback
        self._run = run

    def defines(self, name: str) -> bool:
        """Whether the RM has defined this method itself."""
        return getattr(type(self.callback), name) is not getattr(ResourceManagerCallback, name)

    def method(self, name: str, *, is_question: bool = False) -> Callable[..., Awaitable[Any]]:
        """A coroutine function that calls this method. `is_question`: it may be called during another call."""
        bound = getattr(self.callback, name)

        async def call(*arguments: Any) -> Any:
            return await self._run(partial(bound, *arguments), is_question)

        return call

    def question(self, name: str) -> Callable[..., Awaitable[Any]] | None:
        """A coroutine function that asks the RM; None: the RM has not defined the method."""
        return self.method(name, is_question=True) if self.defines(name) else None
