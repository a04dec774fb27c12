"""The bus of a process that ends at one of its calls, for tests of what is left then."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from remuda_bus.memory import MemoryBus


class FailingBus:
    """Call `number` raises `failure`: before the call has an effect, or after. Create_consumer has half of one before:
    the former consumer is gone."""

    def __init__(self, bus: MemoryBus, number: int, failure: Exception, *, after: bool) -> None:
        self._bus = bus
        self._left = number
        self._failure = failure
        self._after = after
        self.failed = False

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._bus, verb)
        return self._wrapped(found) if inspect.iscoroutinefunction(found) else found

    def _wrapped(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                if call == self._bus.create_consumer:
                    self._bus._stream(args[0]).durables.pop(args[2]).gone = True
                self._fail()
            answer = await call(*args, **options)
            if self._left == 0:
                self._fail()
            return answer

        return wrapped

    def _fail(self) -> None:
        self.failed = True
        raise self._failure
