"""Work on the state as it is now, while the state goes on: in a forked child, which has all of it as it was.

The child only computes and writes into a pipe. It has no other thread, so it takes no lock: no logging, no asyncio, no
bus. Its connections are those of the parent and are closed first, so that nobody takes a dead parent for alive.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Final, NoReturn

from .. import limits

Work = Callable[[], Iterable[bytes]]

STDERR: Final = 2


class ChildFailed(Exception):
    pass


class Child:
    """Forks when it is made; OSError when it cannot. `close` has to be awaited, whatever happened."""

    def __init__(self, work: Work) -> None:
        self._read_end, write_end = os.pipe()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _do(work, write_end)
        except OSError:
            os.close(self._read_end)
            raise
        finally:
            os.close(write_end)
        self._transport: asyncio.BaseTransport | None = None
        self._ended = False

    async def output(self) -> AsyncIterator[bytes]:
        """All that it writes. Raises ChildFailed when it did not come to its end."""
        reader = asyncio.StreamReader(limit=limits.CHILD_READ_BYTES)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._read_end, "rb", buffering=0)
        )
        while part := await reader.read(limits.CHILD_READ_BYTES):
            yield part
        status = await self._wait()
        if status:
            raise ChildFailed(f"the child process has ended with {status}")

    async def close(self) -> None:
        if self._transport is None:
            os.close(self._read_end)
        else:
            self._transport.close()
        if not self._ended:
            os.kill(self._pid, signal.SIGKILL)
            await self._wait()

    async def _wait(self) -> int:
        """In a thread: the memory of a large process takes its time to go."""
        _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        self._ended = True
        return os.waitstatus_to_exitcode(status)


class InProcess:
    """The same without a child: what is done stops everything else meanwhile."""

    def __init__(self, work: Work) -> None:
        self._parts = list(work())

    async def output(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part

    async def close(self) -> None:
        pass


def _do(work: Work, write_end: int) -> NoReturn:
    status = 1
    try:
        gc.disable()  # it would only copy memory
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _close_all_but(write_end)
        os.nice(limits.CHILD_NICENESS)
        for part in work():
            _write(write_end, part)
        status = 0
    except BrokenPipeError:
        pass  # nobody wants it any more
    except BaseException:  # noqa: BLE001 - it must not come back as a second parent
        os.write(STDERR, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _close_all_but(kept: int) -> None:
    for fd in map(int, os.listdir("/dev/fd")):
        if fd > STDERR and fd != kept:
            with suppress(OSError):  # the one of this listing
                os.close(fd)


def _write(pipe: int, part: bytes) -> None:
    left = memoryview(part)
    while left:
        left = left[os.write(pipe, left) :]
