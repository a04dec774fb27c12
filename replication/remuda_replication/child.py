"""Runs work on the present state in a forked child, while the parent changes its own copy.

The child only computes and writes into a pipe. It must not take locks, which threads of the parent may have held at
the fork: no logging, no asyncio, no bus. It first closes the connections it has inherited, so that they end with the
parent. It does not survive the parent either: its result would not be read.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import signal
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn

# Bytes read from a child at a time; and its niceness, so that leaders come first.
CHILD_READ_BYTES = 256 * 1024
CHILD_NICENESS = 10

Work = Callable[[], Iterable[bytes]]

STDERR: Final = 2
_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)  # here, because a forked child must not import


class ChildFailed(Exception):
    """A child process has ended with an error or by a signal."""


class Child:
    """A forked child that runs the work. The constructor forks, and raises OSError where that fails. `close` must be
    awaited in any case."""

    def __init__(self, work: Work) -> None:
        self._read_end, write_end = os.pipe()
        try:
            self._pid = _forked(work, write_end)
        except OSError:
            os.close(self._read_end)
            raise
        finally:
            os.close(write_end)
        self._transport: asyncio.BaseTransport | None = None
        self._ended = False

    async def output(self) -> AsyncIterator[bytes]:
        """Yield what the child writes, in pieces. Raises ChildFailed when it exits with an error or by a signal."""
        reader = asyncio.StreamReader(limit=CHILD_READ_BYTES)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._read_end, "rb", buffering=0)
        )
        while part := await reader.read(CHILD_READ_BYTES):
            yield part
        status = await self._wait()
        if status:
            raise ChildFailed(f"the child process has ended with {status}")

    async def close(self) -> None:
        """Kill the child if it still runs, and free the pipe."""
        if self._transport is None:
            os.close(self._read_end)
        else:
            self._transport.close()
        if not self._ended:
            os.kill(self._pid, signal.SIGKILL)
            await self._wait()

    async def _wait(self) -> int:
        """Wait in a thread, because freeing the memory of a large process takes time. Returns the exit code."""
        _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        self._ended = True
        return os.waitstatus_to_exitcode(status)


class InProcess:
    """Work with the interface of Child that runs in this process, and blocks it meanwhile."""

    def __init__(self, work: Work) -> None:
        self._parts = list(work())

    async def output(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part

    async def close(self) -> None:
        pass


def dying_with_parent(sign: signal.Signals) -> Callable[[], None]:
    """Returns what a child of this process calls first: from then on the kernel sends it this signal when the thread
    that has started it has ended."""
    parent = os.getpid()

    def prepare() -> None:
        with suppress(AttributeError):  # not on Linux
            _libc.prctl(_PR_SET_PDEATHSIG, sign)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def confine(cpu_s: int, more_bytes: int) -> None:
    """Limit the processor time of this child, and its memory beside what it has inherited, so that it is killed before
    its parent. Children of the child have the same limits. Call it in a child."""
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, used + more_bytes))
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError as error:  # not on Linux
        os.write(STDERR, f"a child is not confined: {error}\n".encode())


def end_within(seconds: int) -> None:
    """Have this child killed after `seconds`. Call it in a child."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def beside(work: Callable[[], bytes], within_s: int) -> bytes:
    """Do the work in a child of this child, so that changes of the state do not remain. Returns the result of the work.
    Raises ChildFailed. The child is killed after `within_s`, in s. Call it in a child."""
    read_end, write_end = os.pipe()
    pid = _forked(partial(_once, work, within_s), write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        done = pipe.read()
    if status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise ChildFailed(f"a child of the child has ended with {status}")
    return done


def _once(work: Callable[[], bytes], within_s: int) -> Iterable[bytes]:
    end_within(within_s)
    yield work()


def _forked(work: Work, write_end: int) -> int:
    """Do the work in a child that ends with this process. Return the ID of the child."""
    die_with_parent = dying_with_parent(signal.SIGKILL)
    pid = os.fork()
    if pid == 0:
        die_with_parent()
        _do(work, write_end)
    return pid


def _do(work: Work, write_end: int) -> NoReturn:
    status = 1
    try:
        gc.disable()  # collecting would write to shared pages, and so copy them
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _close_all_but(write_end)
        os.nice(CHILD_NICENESS)
        for part in work():
            _write(write_end, part)
        status = 0
    except BrokenPipeError:
        pass  # the parent has closed the pipe
    except BaseException:  # noqa: BLE001 - the child must not return into the code of the parent
        os.write(STDERR, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _close_all_but(kept: int) -> None:
    for fd in map(int, os.listdir("/dev/fd")):
        if fd > STDERR and fd != kept:
            with suppress(OSError):  # the descriptor of this listing is closed already
                os.close(fd)


def _write(pipe: int, part: bytes) -> None:
    left = memoryview(part)
    while left:
        left = left[os.write(pipe, left) :]
