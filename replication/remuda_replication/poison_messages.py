"""Finds messages that kill cores, by handling them in a child process first.

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

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Message
from remuda_replication.child import Child, ChildFailed, confine
from remuda_replication.leader import Clock
from remuda_replication.log import split_commit
from remuda_replication.machine import Machine
from remuda_replication.rms.faults import KILLED, Fault

log = structlog.get_logger()

KILLED_HERE = "a process was killed or cut off here; should a second one be, the message is tried in a child process"


class PoisonMessage(Exception):
    """The inbox message `seq` kills every process that handles it; 0: the work after the last commit does."""

    def __init__(self, seq: int, how: str) -> None:
        what = f"message {seq} of the inbox" if seq else "a pass without a message"
        super().__init__(f"two processes have ended without a word, and a child that handled {what}: {how}")
        self.seq = seq


async def check_for_poison_message(
    bus: Bus, machine: Machine, name: str, clock_ms: Callable[[], int], inherited: bool
) -> None:
    """Called by a core that takes over, at the end of the log. `inherited`: the lease of its predecessor has expired.
    Raises PoisonMessage."""
    log_id = machine.log_id
    last = await bus.last_message(subjects.inbox_stream(log_id), subjects.inbox(log_id))
    if last is None or last.seq <= machine.inbox_seq:
        return
    key = subjects.fault_key(log_id, KILLED)
    entry = await bus.get(subjects.FAULTS.name, key)
    is_on_record = entry is not None and entry.value is not None and Fault.decode(entry.value).seq == machine.inbox_seq
    if is_on_record:
        await _try(bus, machine)
    elif inherited:
        note = Fault(log_id, KILLED, machine.inbox_seq, KILLED_HERE, name, clock_ms())
        await bus.put(subjects.FAULTS.name, key, note.encode())


async def _try(bus: Bus, machine: Machine) -> None:
    rm_id = machine.log_id
    inbox = await bus.read(subjects.inbox_stream(rm_id), subjects.inbox(rm_id), machine.inbox_seq)
    try:
        messages = await inbox.batch(limits.COMMANDS_PER_COMMIT, limits.INBOX_BYTES_PER_COMMIT)
    finally:
        await inbox.close()
    log.warning("two processes have ended here, trying in a child", rm=rm_id, inbox_seq=messages[0].seq)
    begun = [await _begun(machine, messages, bus.max_payload) for _ in range(limits.TRIALS)]
    if None not in begun:
        raise PoisonMessage(*begun[-1])  # type: ignore[misc]


async def _begun(machine: Machine, messages: list[Message], limit: int) -> tuple[int, str] | None:
    """Handle the messages in a child. Returns the last message that it started, and how it ended; None: it survived."""
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
    confine(limits.TRIAL_CPU_S, limits.TRIAL_BYTES)
    clock = Clock(lambda: machine.now_ms, lambda: 0.0, machine.now_ms)
    deciding = machine.deciding(clock.now_ms)
    for message in messages:
        yield b"%d " % message.seq
        commit, _ = _alone(deciding.commit(deque([message]), 0))
        list(split_commit(commit, limit))
    yield b"0 "
    commit, _ = _alone(deciding.commit(deque(), 0))
    list(split_commit(commit, limit))


def _alone(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that only pauses, without an event loop."""
    while True:
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value
