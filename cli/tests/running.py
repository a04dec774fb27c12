"""Runs the command as people do, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Iterable, Sequence

import psutil

from tests.patience import PATIENCE, READY_S


async def remuda(*arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", *arguments, stdout=PIPE, stderr=STDOUT, limit=1024 * 1024
    )


async def finished(*arguments: str) -> tuple[int, str]:
    """Exit code and everything it printed."""
    process = await remuda(*arguments)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 90)
    except BaseException:
        process.kill()
        raise
    assert process.returncode is not None
    return process.returncode, output.decode()


async def status(url: str, *more: str) -> tuple[int, str]:
    """`remuda status` of a whole system. It is asked again while a service does not answer, which a busy machine may
    keep from it for seconds."""
    async with asyncio.timeout(READY_S):
        while (found := await finished("status", "--nats", url, *more))[0] and "do not answer" in found[1]:
            pass
    return found


class Lines:
    """The output of a process, line by line."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self.seen: list[str] = []

    async def until(self, pattern: str, within_s: float = 40.0) -> re.Match[str]:
        """The next line that matches."""
        async with asyncio.timeout(within_s * PATIENCE):
            while line := await self._stream.readline():
                self.seen.append(line.decode().rstrip())
                if found := re.search(pattern, self.seen[-1]):
                    return found
        raise AssertionError(f"no line matches {pattern!r}:\n" + "\n".join(self.seen))


async def eventually(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s * PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.02)


def gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def children(process: Process) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


async def stopped(process: Process, sign: signal.Signals = signal.SIGINT) -> int:
    process.send_signal(sign)
    return await asyncio.wait_for(process.wait(), 30)


async def finished_each(commands: Iterable[Sequence[str]]) -> list[tuple[int, str]]:
    """Like `finished` for many commands at once. Forks of one process, because imports take most of a second."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _FORKS, stdin=PIPE, stdout=PIPE, limit=1024 * 1024
    )
    output, _ = await asyncio.wait_for(process.communicate(json.dumps(list(map(list, commands))).encode()), 90)
    return [(code, said) for code, said in json.loads(output)]


_FORKS = """
import json, os, sys, tempfile
import uvloop, nats, structlog, rich.table, remuda_bus.nats, remuda_operations.queries
from remuda.main import app

def run(arguments, output):
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.argv = ["remuda", *arguments]
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1

started = []
for arguments in json.load(sys.stdin):
    output = tempfile.TemporaryFile()
    pid = os.fork()
    if not pid:
        code = run(arguments, output)
        sys.stdout.flush()
        os._exit(code)
    started.append((pid, output))
ended = []
for pid, output in started:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    output.seek(0)
    ended.append((code, output.read().decode()))
print(json.dumps(ended))
"""
