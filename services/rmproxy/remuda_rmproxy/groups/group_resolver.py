"""Resolves the groups of users for the requests of RMs, with a bound on the time that a request waits.

A directory that does not answer delays a request by at most the time-out. After LOOKUPS_FAILED_BEFORE_PAUSE failures in
a row no request waits any more: one look-up at a time tries the directory again in the background, and meanwhile the
last known groups count. Each RM has a few look-ups at a time, so that one with many users leaves threads to others.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import structlog

from .. import limits
from .group_cache import GroupCache
from .resolution import DirectoryError, Lookup, Resolution, UnusableAnswer, failed, groups_of

log = structlog.get_logger()


class Groups(Protocol):
    """A resolver, as forwarding sees it. `is_used`: whether applications without groups are looked up at all."""

    is_used: bool

    def must_wait(self, users: Iterable[str]) -> bool: ...

    async def resolve(self, rm_id: str, users: Iterable[str]) -> Mapping[str, Resolution]: ...


class FromRequest:
    """Takes the groups that requests name, and looks none up."""

    is_used = False

    def must_wait(self, users: Iterable[str]) -> bool:
        return False

    async def resolve(self, rm_id: str, users: Iterable[str]) -> Mapping[str, Resolution]:
        return {}


FROM_REQUEST = FromRequest()


class GroupResolver:
    """Looks groups up in a directory and remembers the answers. `timeout_s`: of a look-up, with the wait for a thread.
    `clock_s`: monotonic.
    """

    is_used = True

    def __init__(
        self, lookup: Lookup, cache: GroupCache, timeout_s: float, clock_s: Callable[[], float],
        threads: int = limits.LOOKUP_THREADS,
    ) -> None:  # fmt: skip
        self._lookup = lookup
        self._cache = cache
        self._timeout_s = timeout_s
        self._clock_s = clock_s
        self._threads = LookupThreads(threads)
        self._running: dict[str, asyncio.Task[tuple[str, ...]]] = {}  # by user, also when no request awaits it any more
        self._of_rm: dict[str, tuple[asyncio.Semaphore, int]] = {}  # look-ups of an RM, with the requests that use it
        self._failures = 0  # in a row
        self._reason = ""  # of the last one
        self._try_again_s = 0.0

    def must_wait(self, users: Iterable[str]) -> bool:
        """Returns whether `resolve` would wait for the directory."""
        now_s = self._clock_s()
        return not self._pauses() and any(self._cache.fresh(user, now_s) is None for user in users)

    async def resolve(self, rm_id: str, users: Iterable[str]) -> Mapping[str, Resolution]:
        """Returns the groups of each user, or why there are none. Never raises for a directory that fails."""
        distinct = list(dict.fromkeys(users))
        slots, requests = self._of_rm.get(rm_id, (asyncio.Semaphore(limits.LOOKUPS_PER_RM), 0))
        self._of_rm[rm_id] = (slots, requests + 1)
        try:
            found = await asyncio.gather(*(self._resolve(user, slots) for user in distinct))
        finally:
            slots, requests = self._of_rm.pop(rm_id)
            if requests > 1:
                self._of_rm[rm_id] = (slots, requests - 1)
        return dict(zip(distinct, found, strict=True))

    def _pauses(self) -> bool:
        """The directory has failed several times in a row."""
        return self._failures >= limits.LOOKUPS_FAILED_BEFORE_PAUSE

    async def _resolve(self, user: str, slots: asyncio.Semaphore) -> Resolution:
        if (groups := self._cache.fresh(user, self._clock_s())) is not None:
            return Resolution(groups)
        if self._pauses():
            self._try_again(user)
            return self._last_known(user)
        async with slots:
            if (groups := self._cache.fresh(user, self._clock_s())) is not None:
                return Resolution(groups)
            if self._pauses():
                return self._last_known(user)
            try:
                async with asyncio.timeout(self._timeout_s):
                    return Resolution(await asyncio.shield(self._start(user)))
            except TimeoutError:
                self._failed(f"no answer within {self._timeout_s:g} s")
            except UnusableAnswer as error:
                return failed(user, str(error))
            except DirectoryError as error:
                return self._last_known(user, str(error))
        return self._last_known(user)

    def _try_again(self, user: str) -> None:
        """In the background, one look-up at a time."""
        now_s = self._clock_s()
        if now_s >= self._try_again_s and len(self._running) < limits.LOOKUP_THREADS:
            self._try_again_s = now_s + limits.LOOKUP_AGAIN_S
            self._start(user)

    def _start(self, user: str) -> asyncio.Task[tuple[str, ...]]:
        """The look-up of the user, of which there is one at a time."""
        task = self._running.get(user)
        if task is None:
            task = self._running[user] = asyncio.get_running_loop().create_task(self._look_up(user))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may never be awaited
        return task

    async def _look_up(self, user: str) -> tuple[str, ...]:
        """Raises DirectoryError."""
        try:
            groups = groups_of(user, await self._threads.run(lambda: self._lookup(user)))
        except UnusableAnswer:
            self._succeeded()
            raise
        except DirectoryError as error:
            self._failed(str(error))
            raise
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")
            raise DirectoryError(self._reason) from error
        finally:
            del self._running[user]
        self._succeeded()
        self._cache.put(user, groups, self._clock_s())
        return groups

    def _last_known(self, user: str, reason: str = "") -> Resolution:
        groups = self._cache.last_known(user, self._clock_s())
        return Resolution(groups) if groups is not None else failed(user, reason or self._reason)

    def _failed(self, reason: str) -> None:
        self._failures += 1
        self._reason = reason
        self._try_again_s = self._clock_s() + limits.LOOKUP_AGAIN_S
        if self._failures == limits.LOOKUPS_FAILED_BEFORE_PAUSE:
            log.warning("the directory of groups does not answer", reason=reason)

    def _succeeded(self) -> None:
        if self._pauses():
            log.info("the directory of groups answers again")
        self._failures = 0


T = TypeVar("T")
_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class LookupThreads:
    """A fixed number of threads that run blocking look-ups. A look-up that never returns occupies one thread.

    Not `concurrent.futures`: the interpreter waits for the threads of its executors when it ends.
    """

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs the work in a thread and returns a future of the running loop. Cancelling the future does not end the
        work.
        """
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
