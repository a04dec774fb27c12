"""Trims the log and the inbox of one RM.

A message is deleted when no reader needs it any more: it is older than the replay horizon, the oldest snapshot kept was
taken behind it, and its callbacks and event records have been published.

A trimmed log begins with the first part of a commit in force, because readers without a position begin there.
"""

from __future__ import annotations

import asyncio
import json

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.log import first_part
from remuda_bus.untrusted import number_in

from .. import limits

log = structlog.get_logger()


async def trim(bus: Bus, rm_id: str, snapshot_seq: int, horizon_s: float, inbox_is_large: bool = False) -> None:
    """Delete what no reader needs. `snapshot_seq`: the stream sequence of the commit at which the oldest snapshot was
    taken. `horizon_s`: the replay horizon; ignored for a stream that is too full, and for the inbox when
    `inbox_is_large`. Raises LogTrimmed when another process trims at the same time."""
    first = await bus.first_message(subjects.LOG.name, subjects.log(rm_id))
    if first is None:
        return
    beyond_horizon = await _last_commit_beyond_horizon(bus, rm_id, horizon_s, snapshot_seq)
    inbox_up_to = snapshot_seq if inbox_is_large or await _is_too_full(bus, subjects.INBOX) else beyond_horizon
    if inbox_up_to >= first.seq:
        _, commit = await first_part(bus, rm_id, inbox_up_to)
        await bus.trim(subjects.INBOX.name, subjects.inbox(rm_id), commit.inbox_seq)
    log_up_to = min(
        await _published_callback(bus, rm_id), await _published_event(bus, rm_id, snapshot_seq), snapshot_seq
    )
    if not await _is_too_full(bus, subjects.LOG):
        log_up_to = min(log_up_to, beyond_horizon)
    if log_up_to >= first.seq:
        seq, _ = await first_part(bus, rm_id, log_up_to)
        await bus.trim(subjects.LOG.name, subjects.log(rm_id), seq)
        log.debug("trimmed", rm=rm_id, log_seq=seq)


async def _is_too_full(bus: Bus, stream: subjects.Stream) -> bool:
    """The replay horizon does not hold for the stream."""
    return await bus.fullness(stream.name) >= limits.TRIMMED_FROM


async def _last_commit_beyond_horizon(bus: Bus, rm_id: str, horizon_s: float, newest: int) -> int:
    """The stream sequence of the last commit in force that is older than the horizon, `newest` at most. 0: there is
    none."""
    younger = await bus.first_sequence_since(subjects.LOG.name, subjects.log(rm_id), horizon_s)
    if younger is None or younger > newest:
        return newest
    _, commit = await first_part(bus, rm_id, younger)
    return commit.parent  # in force, because a later commit has it as its parent


async def _published_callback(bus: Bus, rm_id: str) -> int:
    """The stream sequence of the commit of the newest callback, from which rmproxy continues. 0: there is no callback,
    and rmproxy begins with the oldest commit."""
    newest = await asyncio.gather(
        *(bus.last_message(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS)
    )
    return max(
        (number_in(message.headers, subjects.LOG_SEQ, 0) for message in newest if message is not None), default=0
    )


async def _published_event(bus: Bus, rm_id: str, newest: int) -> int:
    """The stream sequence of the commit from which the event history continues. `newest`: the RM has no history yet,
    which may then begin there."""
    mark = await bus.get(subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id))
    event = await bus.last_message(subjects.EVENTS.name, subjects.event(rm_id))
    published = [json.loads(mark.value)["seq"]] if mark is not None and mark.value is not None else []
    if event is not None:
        published.append(number_in(event.headers, subjects.LOG_SEQ, 0))
    return max(published, default=newest)
