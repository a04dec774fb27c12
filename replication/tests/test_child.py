"""A forked child sees what was, and nothing of the parent's depends on how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from remuda_replication.child import Child, ChildFailed, InProcess


async def output(child: Child | InProcess) -> bytes:
    try:
        return b"".join([part async for part in child.output()])
    finally:
        await child.close()


async def test_it_sees_what_was_when_it_was_forked() -> None:
    state = {"n": 1}
    child = Child(lambda: [str(state["n"]).encode()] * 100_000)
    state["n"] = 2
    assert await output(child) == b"1" * 100_000


async def test_without_a_child_it_is_the_same() -> None:
    assert await output(InProcess(lambda: [b"a", b"b"])) == b"ab"


async def test_failing(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> Iterator[bytes]:
        yield b"x"
        raise RuntimeError("on purpose")

    with pytest.raises(ChildFailed, match="ended with 1"):
        await output(Child(work))
    assert "RuntimeError: on purpose" in capfd.readouterr().err


async def test_killed() -> None:
    def work() -> Iterator[bytes]:
        yield b"x"
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChildFailed, match="ended with -9"):
        await output(Child(work))


async def test_given_up() -> None:
    """It ends when its pipe is not read any more, and leaves no zombie."""

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 100_000

    child = Child(endless)
    async for _ in child.output():
        break
    await child.close()
    never_read = Child(endless)
    await never_read.close()
    for pid in (child._pid, never_read._pid):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_it_keeps_no_connection_of_the_parent() -> None:
    """Otherwise a client would take an ended parent for alive."""
    one, other = socket.socketpair()
    with one, other:
        fds = await output(Child(lambda: [" ".join(os.listdir("/dev/fd")).encode()]))
        open_there = {int(fd) for fd in fds.split()}
        assert not open_there & {one.fileno(), other.fileno()}
        assert len(open_there - {0, 1, 2}) <= 2, "the pipe, and the listing itself"


def test_neither_a_child_nor_its_child_survives_the_parent() -> None:
    """Their results are of no use without it."""
    program = """
import os, time
from remuda_replication.child import Child, beside

def endless():
    os.write(1, b"begun\\n")
    time.sleep(600)

child = Child(lambda: [beside(endless, 600)])
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"begun\n"
        below = psutil.Process(parent.pid).children(recursive=True)
        assert len(below) == 2
        parent.kill()
        _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
