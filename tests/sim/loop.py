"""An asyncio event loop on virtual time: when nothing is ready, the next timer is due. No test waits in real time.

The same coroutines run in the same order each time: sets of tasks are ordered by when the tasks were made, not by where
they lie in memory.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from .story import CURRENT

STEPS_WITHOUT_TIME = 200_000
_numbers = itertools.count(1)


class Stuck(Exception):
    """Nothing will ever happen again, or everything happens at once for ever."""


class NumberedTask(asyncio.Task[Any]):
    def __init__(self, *args: Any, **options: Any) -> None:
        self.number = next(_numbers)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(asyncio.Future[Any]):
    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self.number = next(_numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class _Gate:
    """A callback of a stopped process waits until the process continues, or until the loop ends."""

    __slots__ = ("args", "callback", "context", "handle", "loop")

    def __init__(
        self, loop: VirtualLoop, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self.loop = loop
        self.callback = callback
        self.args = args
        self.context = context
        self.handle: asyncio.Handle

    def __call__(self) -> None:
        if self.handle.cancelled():
            return  # after the process went on, before its turn came
        process = CURRENT.get()
        if process is None or process.stopped is None or self.loop.ends:
            self.callback(*self.args)
        else:
            process.stopped.append(self.go_on)
            self.loop.held[self] = None

    def __repr__(self) -> str:
        """Without an address: it is told in stories, which are the same each time."""
        return f"<gate of {getattr(self.callback, '__qualname__', '?')}>"

    def go_on(self) -> None:
        if self not in self.loop.held:
            return  # the loop ended meanwhile
        del self.loop.held[self]
        if not self.handle.cancelled():
            self.loop.call_soon(self, context=self.context)


class VirtualLoop(asyncio.BaseEventLoop):
    """`on_task` hears of every task that is made, and in which context."""

    def __init__(self, on_task: Callable[[NumberedTask, Context | None], None]) -> None:
        super().__init__()
        self._now = 1_000.0
        self._clock_resolution = 1e-9
        self._selector = self
        self._steps = 0
        self._on_task = on_task
        self.held: dict[_Gate, None] = {}  # of processes that are stopped
        self.ends = False
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._now

    def create_future(self) -> NumberedFuture:
        return NumberedFuture(loop=self)

    def select(self, timeout: float | None) -> list[Any]:
        """Called by the loop where others wait for the network."""
        if timeout is None:
            raise Stuck(f"nothing is left to happen\n{self._tasks()}")
        self._steps = 0 if timeout > 0 else self._steps + 1
        if self._steps > STEPS_WITHOUT_TIME:
            raise Stuck(f"{self._steps} steps at once\n{self._tasks()}")
        self._now += timeout
        return []

    def call_soon(  # type: ignore[override]  # the stubs name the arguments' types
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        gate = _Gate(self, callback, args, copy_context() if context is None else context)
        gate.handle = super().call_soon(gate, context=gate.context)
        return gate.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        gate = _Gate(self, callback, args, copy_context() if context is None else context)
        handle = gate.handle = super().call_at(when, gate, context=gate.context)
        return handle

    def clear(self) -> None:
        """Ends every task, and the loop; also one that was stuck, and those of processes that are stopped."""
        self._steps, self.ends = 0, True
        for gate in list(self.held):
            gate.go_on()
        for _ in range(100):
            tasks = [task for task in sorted(asyncio.all_tasks(self), key=hash) if not task.done()]
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.call_soon(self.stop)
            self.run_forever()
        self.close()

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        """`select` does not wait."""

    def _make_task(self, _: Any, coroutine: Any, **options: Any) -> NumberedTask:
        """`options`: the context, if any; since Python 3.13.3 all that a task is made with, its name too."""
        task = NumberedTask(coroutine, loop=self, **options)
        self._on_task(task, options.get("context"))
        return task

    def _tasks(self) -> str:
        return "\n".join(f"  {task!r}" for task in sorted(asyncio.all_tasks(self), key=hash))
