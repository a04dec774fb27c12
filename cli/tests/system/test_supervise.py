"""The supervisor's laws, with real processes: restart, back-off, logs, order, and no process left behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import psutil

from remuda.local.supervisor import Process, Program, State, Supervisor

SLEEPER = "print('hello', flush=True); import time; time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(60)"
)


def program(name: str, code: str, directory: Path) -> Program:
    return Program(name, (sys.executable, "-u", "-c", code), directory / f"{name}.log")


async def until(holds, within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.01)


async def test_what_is_printed_goes_to_the_log_and_to_the_listener(tmp_path: Path) -> None:
    lines: list[tuple[str, str]] = []
    supervisor = Supervisor(printed=lambda name, line: lines.append((name, line)))
    process = supervisor.start(program("a", SLEEPER, tmp_path))
    await until(lambda: lines)
    await supervisor.stop(["a"])
    assert lines == [("a", "hello")]
    assert process.last_line == "hello"
    assert (tmp_path / "a.log").read_text() == "hello\n"
    assert process.state is State.STOPPED
    assert process.pid is None


async def test_a_killed_process_is_started_again_and_has_to_become_ready_again(tmp_path: Path) -> None:
    states: list[State] = []
    supervisor = Supervisor(changed=lambda process: states.append(process.state))
    process = supervisor.start(program("a", SLEEPER, tmp_path))
    await until(lambda: process.alive)
    first = process.pid
    assert first is not None
    supervisor.ready("a")
    os.kill(first, signal.SIGKILL)
    await until(lambda: process.pid not in (None, first))
    assert process.restarts == 1
    assert process.ended == "killed by SIGKILL"
    assert process.state is State.STARTING
    await supervisor.stop(["a"])
    assert states == [State.STARTING, State.READY, State.WAITING, State.STARTING, State.STOPPING, State.STOPPED]


async def test_one_that_keeps_failing_is_started_less_and_less_often(tmp_path: Path) -> None:
    starts: list[float] = []

    def changed(process: Process) -> None:
        if process.state is State.STARTING:
            starts.append(time.monotonic())

    supervisor = Supervisor(changed)
    process = supervisor.start(program("a", "raise SystemExit(3)", tmp_path))
    await until(lambda: len(starts) == 4)
    assert process.ended == "exit code 3"
    await supervisor.stop(["a"])
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert pauses[0] < pauses[1] < pauses[2]


async def test_stopping_while_it_waits_for_its_restart_does_not_take_long(tmp_path: Path) -> None:
    supervisor = Supervisor()
    process = supervisor.start(program("a", "raise SystemExit(1)", tmp_path))
    await until(lambda: process.restarts >= 3)
    before = time.monotonic()
    await supervisor.stop(["a"])
    assert time.monotonic() - before < 1.0


async def test_one_that_ignores_the_signal_is_killed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("remuda.limits.STOP_WITHIN_S", 0.3)
    supervisor = Supervisor()
    process = supervisor.start(program("a", STUBBORN, tmp_path))
    await until(lambda: process.last_line == "here")
    await supervisor.stop(["a"])
    assert process.ended == "killed by SIGKILL"


async def test_a_program_that_cannot_be_started_says_so_and_is_tried_again(tmp_path: Path) -> None:
    supervisor = Supervisor()
    process = supervisor.start(Program("a", (str(tmp_path / "missing"),), tmp_path / "a.log"))
    await until(lambda: process.restarts >= 1)
    assert "No such file" in process.ended
    await supervisor.stop(["a"])


async def test_a_very_long_line_is_not_lost(tmp_path: Path) -> None:
    supervisor = Supervisor()
    code = "print('x' * 300_000, flush=True); print('end', flush=True); import time; time.sleep(60)"
    process = supervisor.start(program("a", code, tmp_path))
    await until(lambda: process.last_line == "end")
    await supervisor.stop(["a"])
    assert (tmp_path / "a.log").stat().st_size == 300_000 + 1 + 4


PARENT = """
import asyncio, pathlib, sys
from remuda.local.supervisor import Program, Supervisor

async def main():
    supervisor = Supervisor(changed=lambda p: print(p.pid, flush=True))
    argv = (sys.executable, "-c", "import time; time.sleep(60)")
    supervisor.start(Program("a", argv, pathlib.Path(sys.argv[1]) / "a.log"))
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_nobody_survives_the_supervisor(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    child = psutil.Process(pid)
    parent.kill()
    await parent.wait()
    await until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
