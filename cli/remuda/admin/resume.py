"""`remuda resume RM`: end the halt of a resource manager after the cause of the fault is mended.

Nothing that the RM has sent is deleted, and the faults stay on record: if the same message raises an exception again,
the RM is halted again at once, and no process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_operations.queries.records import faults_of
from remuda_proto.remuda.resmgr.v1 import log_pb2 as peloton_pb2
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.lease import leader_of
from remuda_replication.rms.forget import BEING_FORGOTTEN
from remuda_replication.rms.halts import FAULT, OPERATOR, Halt, Halts

from .. import limits
from ..client.connections import bus_at
from ..errors import UserError
from ..show import faults
from ..terminal import arguments, event_loop
from ..terminal.output import console
from .asking import check_that_it_can_ask, have_typed


@dataclass(frozen=True, slots=True)
class Halted:
    """A halt that can be ended. `revision`: of the entry in the bucket HALTS."""

    halt: Halt
    revision: int
    faults: list[dict[str, Any]]


def resume(url: str, rm: str, yes: bool, as_json: bool) -> None:
    arguments.log_id(rm)
    check_that_it_can_ask(yes, f"resume {rm} starts scheduling for {rm} and needs a confirmation", not as_json)
    found = event_loop.run(lambda: _inspect(url, rm))
    if not as_json:
        _show(found)
    have_typed(rm, yes)
    leader, is_behind = event_loop.run(lambda: _resume(url, rm, found))
    if as_json:
        said = {**asdict(found.halt), "faults": found.faults, "leader": leader, "behind": is_behind}
        print(msgspec.json.encode(said).decode())
    else:
        inbox = "still handles its inbox" if is_behind else "has handled its inbox"
        console.print(f"{rm} is resumed: {leader} leads it and {inbox}", markup=False)


def _show(found: Halted) -> None:
    rm = found.halt.rm_id
    console.print(f"{rm}: halted: {found.halt.reason} (detected by {found.halt.by})", markup=False)
    for fault in found.faults:
        console.print(f"a fault is on record: {faults.line(fault)}", markup=False)
    console.print("This ends the halt. A core continues at the same message of the inbox. Nothing is deleted.")
    console.print(f"If the cause is not mended, {rm} is halted again.", markup=False)


async def _inspect(url: str, rm_id: str) -> Halted:
    """Raises UserError: not halted, or by what this command does not mend."""
    async with bus_at(url) as bus:
        halt = await Halts(bus, "remuda resume", _now_ms).refresh(rm_id)
        entry = await bus.get(subjects.HALTS.name, subjects.key_of(rm_id))
        if halt is None or entry is None or entry.value is None:
            raise UserError(f"{rm_id} is not halted; `remuda status` shows which RMs are")
        if halt.cause == OPERATOR:
            command = "rm forget" if halt.reason == BEING_FORGOTTEN else "rebuild"
            raise UserError(f"{rm_id}: {halt.reason}; `remuda {command} {rm_id}` completes that")
        if halt.cause != FAULT:
            raise UserError(
                f"{rm_id} is halted because its streams have lost or changed their past ({halt.reason}); only "
                f"`remuda rebuild {rm_id}` ends that"
            )
        return Halted(halt, entry.revision, await faults_of(bus, rm_id))


async def _resume(url: str, rm_id: str, found: Halted) -> tuple[str, bool]:
    """Returns the core that leads the RM, once its inbox is handled; True: it is not handled within
    RESUMES_WITHIN_S."""
    async with bus_at(url) as bus:
        try:
            await bus.delete(subjects.HALTS.name, subjects.key_of(rm_id), found.revision)
        except Refused:
            raise UserError(f"{rm_id} has been halted for another reason: see `remuda status`") from None
        newest = await bus.last_message(subjects.inbox_stream(rm_id), subjects.inbox(rm_id))
        leader, is_behind = None, True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.RESUMES_WITHIN_S):
                while leader is None or is_behind:
                    await asyncio.sleep(limits.LOOK_EVERY_S)
                    halt = await Halts(bus, "remuda resume", _now_ms).refresh(rm_id)
                    if halt is not None:
                        raise UserError(f"{rm_id} is halted again: {halt.reason}")
                    leader = await leader_of(bus, rm_id)
                    is_behind = newest is not None and await _handled(bus, rm_id) < newest.seq
    if leader is None:
        raise UserError(f"{rm_id} is not halted any more, but no core leads it after {limits.RESUMES_WITHIN_S:g} s")
    return leader, is_behind


async def _handled(bus: Bus, rm_id: str) -> int:
    """Up to which message the newest commit has handled the inbox."""
    commit = await bus.last_message(subjects.log_stream(rm_id), subjects.log(rm_id))
    try:
        kind = peloton_pb2.Commit if subjects.is_peloton(rm_id) else log_pb2.Commit
        return kind.FromString(commit.payload).inbox_seq if commit is not None else 0
    except DecodeError:
        return 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
