"""What of an RM's log and inbox nobody needs any more goes: what lies behind the oldest snapshot that is kept, and
behind what is told to the RM and to people, and is older than the replay horizon.

A log always begins with a whole commit that is in force: who reads without a position begins with it.
"""

from __future__ import annotations

import asyncio
import json

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, Unreadable
from remuda_bus.untrusted import number_in
from remuda_proto.remuda.v1 import log_pb2

from .. import limits

log = structlog.get_logger()


async def trim(bus: Bus, rm_id: str, snapshot_seq: int, horizon_s: float, inbox_is_large: bool = False) -> None:
    """`snapshot_seq`: the commit at which the oldest snapshot was taken. `inbox_is_large`: of this RM, so that its age
    does not count."""
    first = await bus.first_message(subjects.LOG.name, subjects.log(rm_id))
    if first is None:
        return
    old = await _last_old_commit(bus, rm_id, horizon_s, snapshot_seq)
    inbox = snapshot_seq if inbox_is_large or await _is_too_full(bus, subjects.INBOX) else old
    if inbox >= first.seq:
        _, commit = await _beginning_of(bus, rm_id, inbox)
        await bus.trim(subjects.INBOX.name, subjects.inbox(rm_id), commit.inbox_seq)
    told = min(await _told_to_rm(bus, rm_id), await _told_to_people(bus, rm_id, snapshot_seq), snapshot_seq)
    needed = told if await _is_too_full(bus, subjects.LOG) else min(told, old)
    if needed >= first.seq:
        seq, _ = await _beginning_of(bus, rm_id, needed)
        await bus.trim(subjects.LOG.name, subjects.log(rm_id), seq)
        log.debug("trimmed", rm=rm_id, log_seq=seq)


async def _is_too_full(bus: Bus, stream: subjects.Stream) -> bool:
    """So that age does not count any more."""
    return await bus.fullness(stream.name) >= limits.TRIMMED_FROM


async def _last_old_commit(bus: Bus, rm_id: str, horizon_s: float, newest: int) -> int:
    """The last commit in force, up to the `newest`, that is older than the horizon; 0: none is."""
    young = await bus.first_sequence_since(subjects.LOG.name, subjects.log(rm_id), horizon_s)
    if young is None or young > newest:
        return newest
    _, commit = await _beginning_of(bus, rm_id, young)
    return commit.parent  # is in force, since a commit hangs on it


async def _beginning_of(bus: Bus, rm_id: str, seq: int) -> tuple[int, log_pb2.Commit]:
    """The first part of the commit that has a message there. Raises Unreadable."""
    while True:
        message = await bus.message_at(subjects.LOG.name, seq)
        if message is None:
            raise Unreadable(f"{subjects.log(rm_id)} has no message {seq}, where it was to be trimmed")
        commit = log_pb2.Commit.FromString(message.payload)
        if commit.part == 0:
            return seq, commit
        seq = commit.parent


async def _told_to_rm(bus: Bus, rm_id: str) -> int:
    """The commit of the newest callback, from which rmproxy goes on; 0: it begins at the beginning."""
    newest = await asyncio.gather(
        *(bus.last_message(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS)
    )
    return max(
        (number_in(message.headers, subjects.LOG_SEQ, 0) for message in newest if message is not None), default=0
    )


async def _told_to_people(bus: Bus, rm_id: str, newest: int) -> int:
    """The commit from which the event history goes on. Where there is none, it may begin at the `newest`."""
    mark = await bus.get(subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id))
    event = await bus.last_message(subjects.EVENTS.name, subjects.event(rm_id))
    told = [json.loads(mark.value)["seq"]] if mark is not None and mark.value is not None else []
    if event is not None:
        told.append(number_in(event.headers, subjects.LOG_SEQ, 0))
    return max(told, default=newest)
