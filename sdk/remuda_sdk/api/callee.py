"""Calls of the methods of a ResourceManagerCallback."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from remuda_sdk.api.interface import ResourceManagerCallback

# Kinds of questions -> methods.
QUESTIONS: Final = {
    "predicates": "predicates",
    "batch_predicates": "batch_predicates",
    "preemption_predicates": "preemption_predicates",
    "state_dump": "get_state_dump",
}
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
        own = getattr(type(self.callback), name, None)
        return own is not None and own is not getattr(ResourceManagerCallback, name, None)

    def method(self, name: str, *, is_question: bool = False) -> Callable[..., Coroutine[Any, Any, Any]]:
        """A coroutine function that calls this method. `is_question`: it may be called during another call."""
        bound = getattr(self.callback, name)

        async def call(*arguments: Any) -> Any:
            return await self._run(partial(bound, *arguments), is_question)

        return call

    def questions(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Coroutine functions that ask the RM, by the kind of question. Those that the RM has not defined are
        absent."""
        return {kind: self.method(name, is_question=True) for kind, name in QUESTIONS.items() if self.defines(name)}
