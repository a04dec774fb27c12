"""A fixed number of threads that run blocking look-ups. A look-up that never returns keeps its thread and nothing else.

Not `concurrent.futures`: the interpreter waits for the threads of its executors when it ends."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class LookupThreads:
    def __init__(self, threads: int) -> None:
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """A future of the running loop. Cancelling it does not end the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._work.put((loop, future, work))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            thread = threading.Thread(target=self._serve, name=f"groups-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def _serve(self) -> None:
        while True:
            loop, future, work = self._work.get()
            done: Callable[[asyncio.Future[Any], Any], None] = _set_result
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - passed on to the task that awaits it
                done, result = _set_exception, error
            self._idle.release()
            try:
                loop.call_soon_threadsafe(done, future, result)
            except RuntimeError:
                return  # the loop is closed


def _set_result(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
