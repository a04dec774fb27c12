"""Finds poison messages, which kill the processes that handle them, by handling them in a child process first.

A process that is killed (out of memory, a crash of the interpreter, `kill -9`) leaves no record of the cause. The core
that takes over records the position, if there are messages to handle. A core that takes over at a recorded position
handles the next messages in a forked child: a second process was killed there, or an operator has typed `remuda
resume`. A message is the cause only if the child is killed while this process survives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_replication.child import Child, ChildFailed, confine
from remuda_replication.leader import COMMANDS_PER_COMMIT, INBOX_BYTES_PER_COMMIT, Clock
from remuda_replication.log import split_commit
from remuda_replication.machine import Machine
from remuda_replication.rms.faults import KILLED, Fault

# Processor time and memory of a child that tries a message: far more than the largest message takes.
TRIAL_CPU_S = 20
TRIAL_BYTES = 1024**3
# An RM is halted after so many children were killed at a message, because a child may be killed for other reasons.
TRIALS = 2

log = structlog.get_logger()

KILLED_HERE = "a process was killed or cut off here; if a second process is, a child process tries the message first"


class PoisonMessage(Exception):
    """An inbox message kills every process that handles it. `seq`: its stream sequence; 0: the work after the last
    commit kills, without a message."""

    def __init__(self, seq: int, how: str) -> None:
        what = f"message {seq} of the inbox" if seq else "a pass without a message"
        super().__init__(f"two processes were killed here, and so was a child process that handled {what}: {how}")
        self.seq = seq


async def check_for_poison_message(
    bus: Bus, machine: Machine, name: str, clock_ms: Callable[[], int], inherited: bool
) -> None:
    """Check the next messages before a process that takes over handles them. Call it at the end of the log.
    `inherited`: the lease of the former leader has expired, so it may have been killed. Raises PoisonMessage."""
    log_id = machine.log_id
    last = await bus.last_message(subjects.inbox_stream(log_id), subjects.inbox(log_id))
    if last is None or last.seq <= machine.inbox_seq:
        return
    key = subjects.fault_key(log_id, KILLED)
    entry = await bus.get(subjects.FAULTS.name, key)
    is_on_record = entry is not None and entry.value is not None and Fault.decode(entry.value).seq == machine.inbox_seq
    if is_on_record:
        await _try_in_child(bus, machine)
    elif inherited:
        note = Fault(log_id, KILLED, machine.inbox_seq, KILLED_HERE, name, clock_ms())
        await bus.put(subjects.FAULTS.name, key, note.encode())


async def _try_in_child(bus: Bus, machine: Machine) -> None:
    rm_id = machine.log_id
    inbox = await bus.read(subjects.inbox_stream(rm_id), subjects.inbox(rm_id), machine.inbox_seq)
    try:
        messages = await inbox.batch(COMMANDS_PER_COMMIT, INBOX_BYTES_PER_COMMIT)
    finally:
        await inbox.close()
    log.warning(
        "two processes were killed here, a child process tries the messages first", rm=rm_id, inbox_seq=messages[0].seq
    )
    killed = [await _killed_at(machine, messages, bus.max_payload) for _ in range(TRIALS)]
    if None not in killed:
        raise PoisonMessage(*killed[-1])  # type: ignore[misc]


async def _killed_at(machine: Machine, messages: list[Message], limit: int) -> tuple[int, str] | None:
    """Handle the messages in a child. Returns the sequence of the last message that the child began, and how the child
    ended; None: the child survived, or could not be started."""
    try:
        child = Child(lambda: _handle(machine, messages, limit))
    except OSError as error:
        log.error("fork failed", rm=machine.log_id, error=repr(error))
        return None
    said = b""
    try:
        async for part in child.output():
            said += part
    except ChildFailed as error:
        return int(said.split()[-1]) if said else messages[0].seq, str(error)
    finally:
        await child.close()
    return None


def _handle(machine: Machine, messages: list[Message], limit: int) -> Iterator[bytes]:
    """Runs in the child: decide each message as the leader does, and write its sequence first."""
    confine(TRIAL_CPU_S, TRIAL_BYTES)
    clock = Clock(lambda: machine.now_ms, lambda: 0.0, machine.now_ms)
    deciding = machine.deciding(clock.now_ms)
    for message in messages:
        yield b"%d " % message.seq
        commit, _ = _run_to_end(deciding.commit(deque([message]), 0))
        list(split_commit(commit, limit))
    yield b"0 "
    commit, _ = _run_to_end(deciding.commit(deque(), 0))
    list(split_commit(commit, limit))


def _run_to_end(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that only pauses, without an event loop. Returns its result."""
    while True:
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value
