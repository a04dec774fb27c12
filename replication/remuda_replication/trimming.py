"""Trims the log and the inbox of one RM.

A message is deleted when no reader needs it any more: it is older than the replay horizon, the oldest snapshot kept was
taken behind it, and what is derived from it has been published.

A trimmed log begins with the first part of a commit in force, because readers without a position begin there.
"""

from __future__ import annotations

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus
from remuda_replication.log import first_part
from remuda_replication.machine import Machine

log = structlog.get_logger()


async def trim(bus: Bus, machine: Machine, snapshot_seq: int, horizon_s: float, inbox_is_large: bool = False) -> None:
    """Delete what no reader needs. `snapshot_seq`: the stream sequence of the commit at which the oldest snapshot was
    taken. `horizon_s`: the replay horizon; ignored for a stream that is too full, and for the inbox when
    `inbox_is_large`. Raises LogTrimmed when another process trims at the same time."""
    rm_id = machine.log_id
    first = await bus.first_message(subjects.log_stream(rm_id), subjects.log(rm_id))
    if first is None:
        return
    beyond_horizon = await _last_commit_beyond_horizon(bus, rm_id, horizon_s, snapshot_seq)
    inbox_up_to = (
        snapshot_seq if inbox_is_large or await _is_too_full(bus, subjects.inbox_stream(rm_id)) else beyond_horizon
    )
    if inbox_up_to >= first.seq:
        _, commit = await first_part(bus, rm_id, inbox_up_to)
        await bus.trim(subjects.inbox_stream(rm_id), subjects.inbox(rm_id), commit.inbox_seq)
    log_up_to = min(await machine.published_up_to(bus, snapshot_seq), snapshot_seq)
    if not await _is_too_full(bus, subjects.log_stream(rm_id)):
        log_up_to = min(log_up_to, beyond_horizon)
    if log_up_to >= first.seq:
        seq, _ = await first_part(bus, rm_id, log_up_to)
        await bus.trim(subjects.log_stream(rm_id), subjects.log(rm_id), seq)
        log.debug("trimmed", rm=rm_id, log_seq=seq)


async def _is_too_full(bus: Bus, stream: str) -> bool:
    """The replay horizon does not hold for the stream."""
    return await bus.fullness(stream) >= limits.TRIMMED_FROM


async def _last_commit_beyond_horizon(bus: Bus, rm_id: str, horizon_s: float, newest: int) -> int:
    """The stream sequence of the last commit in force that is older than the horizon, `newest` at most. 0: there is
    none."""
    younger = await bus.first_sequence_since(subjects.log_stream(rm_id), subjects.log(rm_id), horizon_s)
    if younger is None or younger > newest:
        return newest
    _, commit = await first_part(bus, rm_id, younger)
    return commit.parent  # in force, because a later commit has it as its parent
