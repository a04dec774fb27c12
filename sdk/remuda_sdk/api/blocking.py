"""The scheduler's interface without asyncio, as the specification has it: for notebooks and programs with threads.

    with blocking.connect("local:") as scheduler:
        scheduler.register_resource_manager(request, callback)
        scheduler.update_node(nodes)

The methods of the callback run in a thread of their own, one after the other, and may call the scheduler. Questions
(`predicates`, `preemption_predicates`) run in another one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from remuda_bus.nats import Access
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api.connecting import scheduler_at
from remuda_sdk.api.interface import Callee, ResourceManagerCallback
from remuda_sdk.api.scheduler import Options

T = TypeVar("T")


def connect(
    url: str,
    *,
    access: Access | None = None,
    heartbeat_s: float | None = None,
    connect_within_s: float = 10.0,
    register_within_s: float = 20.0,
    retry_for_s: float = 30.0,
) -> BlockingScheduler:
    """The scheduler at a URL for a `with` block, with the arguments of `remuda_sdk.api.connect`."""
    return BlockingScheduler(url, Options(access, heartbeat_s, connect_within_s, register_within_s, retry_for_s))


class BlockingScheduler:
    """A scheduler with the methods of `SchedulerAPI`, and the same arguments and errors. Any thread may call them but
    the thread of the questions."""

    def __init__(self, url: str, options: Options) -> None:
        self._api = scheduler_at(url, options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="remuda scheduler", daemon=True)
        self._callbacks = ThreadPoolExecutor(1, "remuda callbacks")
        self._questions = ThreadPoolExecutor(1, "remuda questions")

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._await(self._api.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._await(self._api.__aexit__(kind, error, trace))
        finally:
            self._end()

    def register_resource_manager(
        self, request: si.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si.RegisterResourceManagerResponse:
        return self._await(self._api.register(request, Callee(callback, self._run_in_thread)))

    def update_allocation(self, request: si.AllocationRequest) -> None:
        self._await(self._api.update_allocation(request))

    def update_application(self, request: si.ApplicationRequest) -> None:
        self._await(self._api.update_application(request))

    def update_node(self, request: si.NodeRequest) -> None:
        self._await(self._api.update_node(request))

    def update_configuration(self, request: si.UpdateConfigurationRequest) -> None:
        self._await(self._api.update_configuration(request))

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until a session ends, and raise the error that has ended the session. `timeout_s`: return after this
        time, in seconds; None: wait without end."""

        async def wait() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._api.wait()

        self._await(wait())

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the scheduler was called in its own event loop: use remuda_sdk.api.connect there")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _run_in_thread(self, call: Callable[[], Any], is_question: bool) -> Any:
        pool = self._questions if is_question else self._callbacks
        return await self._loop.run_in_executor(pool, call)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._callbacks.shutdown(wait=False)
        self._questions.shutdown(wait=False)
