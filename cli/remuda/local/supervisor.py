"""Supervise child processes: start them, restart those that end, copy their output to logs, stop them in order.

No child survives this process: the kernel kills them with it (PR_SET_PDEATHSIG). The terminal's Ctrl-C reaches only
this process, because each child has its own process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from remuda_replication.child import dying_with_parent

from .. import limits


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    WAITING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Program:
    """A command to supervise. `name` is unique in a supervisor and names the log file."""

    name: str
    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Process:
    """State of a supervised program. Only the supervisor changes it."""

    name: str
    log: Path
    pid: int | None = None
    state: State = State.STARTING
    restarts: int = 0
    last_line: str = ""
    ended: str = ""  # how it ended last: "killed by SIGKILL", "exit code 1"
    since: float = 0.0  # time.monotonic() of the last start

    @property
    def alive(self) -> bool:
        return self.pid is not None


OnChange = Callable[[Process], None]
OnLine = Callable[[str, str], None]


class Supervisor:
    """`changed(process)` is called after every change of state, `printed(name, line)` for every line of output."""

    def __init__(self, changed: OnChange | None = None, printed: OnLine | None = None) -> None:
        self.processes: dict[str, Process] = {}
        self._changed: OnChange = changed or (lambda process: None)
        self._printed: OnLine = printed or (lambda name, line: None)
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._stop: dict[str, asyncio.Event] = {}

    def start(self, program: Program) -> Process:
        """Start and supervise `program`. Needs a running event loop in the main thread."""
        process = Process(program.name, program.log)
        self.processes[program.name] = process
        self._stop[program.name] = asyncio.Event()
        self._keepers[program.name] = asyncio.create_task(self._keep(program, process), name=f"keep {program.name}")
        return process

    def ready(self, name: str) -> None:
        """Mark a started process as ready."""
        process = self.processes[name]
        if process.state is State.STARTING and process.alive:
            self._become(process, State.READY)

    async def stop(self, names: Iterable[str]) -> None:
        """Stop these processes at the same time. Returns when all have ended."""
        keepers = []
        for name in names:
            self._stop[name].set()
            keepers.append(self._keepers[name])
        if keepers:
            await asyncio.gather(*keepers)

    async def _keep(self, program: Program, process: Process) -> None:
        stop = self._stop[program.name]
        delay_s = limits.FIRST_DELAY_S
        while not stop.is_set():
            await self._run_once(program, process, stop)
            if stop.is_set():
                break
            delay_s = limits.FIRST_DELAY_S if time.monotonic() - process.since > limits.STEADY_AFTER_S else delay_s
            process.restarts += 1
            self._become(process, State.WAITING)
            await _sleep_unless(stop, delay_s)
            delay_s = min(2 * delay_s, limits.LONGEST_DELAY_S)
        self._become(process, State.STOPPED)

    async def _run_once(self, program: Program, process: Process, stop: asyncio.Event) -> None:
        process.since = time.monotonic()
        try:
            child = await _spawn(program)
        except OSError as error:
            process.ended = f"cannot be started: {error.strerror}"
            return
        process.pid = child.pid
        self._become(process, State.STARTING)
        assert child.stdout is not None
        copier = asyncio.create_task(self._copy(child.stdout, process))
        stopper = asyncio.create_task(self._end_when(stop, child, process))
        try:
            code = await child.wait()
        finally:
            stopper.cancel()
            _kill(child)
        process.pid = None
        process.ended = _how_it_ended(code)
        await asyncio.wait([copier], timeout=1.0)
        copier.cancel()

    async def _end_when(self, stop: asyncio.Event, child: asyncio.subprocess.Process, process: Process) -> None:
        await stop.wait()
        self._become(process, State.STOPPING)
        child.terminate()
        await asyncio.sleep(limits.STOP_WITHIN_S)
        _kill(child)

    async def _copy(self, output: asyncio.StreamReader, process: Process) -> None:
        log = LogFile(process.log)
        try:
            while line := await _line(output):
                with contextlib.suppress(OSError):  # a full disk must not block the child: its pipe is drained anyway
                    log.write(line)
                text = line.decode(errors="replace").rstrip()
                if text:
                    process.last_line = text
                    self._printed(process.name, text)
        finally:
            log.close()

    def _become(self, process: Process, state: State) -> None:
        process.state = state
        self._changed(process)


class LogFile:
    """A log file. Rotates once: the previous file is kept as `<name>.log.1`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("ab", buffering=0)

    def write(self, line: bytes) -> None:
        if self._file.tell() > limits.LARGEST_LOG_BYTES:
            self._file.close()
            self._path.replace(self._path.with_suffix(self._path.suffix + ".1"))
            self._file = self._path.open("ab", buffering=0)
        self._file.write(line)

    def close(self) -> None:
        self._file.close()


async def _spawn(program: Program) -> asyncio.subprocess.Process:
    die_with_parent = dying_with_parent(signal.SIGKILL)

    def prepare() -> None:
        os.setpgid(0, 0)  # the terminal's Ctrl-C is for the parent; here, because uvloop does not know `process_group`
        die_with_parent()

    return await asyncio.create_subprocess_exec(
        *program.argv,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        limit=limits.LONGEST_LINE_BYTES,
        env={**os.environ, **program.env},
        preexec_fn=prepare,
    )


async def _line(output: asyncio.StreamReader) -> bytes:
    """The next line, or a part of a very long line. Empty at the end."""
    try:
        return await output.readuntil(b"\n")
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as long:
        return await output.read(max(long.consumed, 1))


async def _sleep_unless(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


def _kill(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        try:
            child.kill()
        except ProcessLookupError:
            pass


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
