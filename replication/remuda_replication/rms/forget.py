"""Forgets an RM: deletes its messages, consumers, snapshots and entries, then its record, and last its halt.

Each step is idempotent: after an interruption the same call continues. The RM is halted meanwhile, so no service works
for it. All subjects are exact, never wildcards. An RM that registers under the same name later gets another life, which
is part of the UUIDs of its allocations (docs/adr/halts-and-faults.md).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Container

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_replication.lease import Lease, leader_of
from remuda_replication.rms import faults
from remuda_replication.rms.halts import OPERATOR, Halts

# A core stops leading a halted RM at once, or its lease expires. Checked at this interval.
CORE_RELEASE_TIMEOUT_S = 15.0
CORE_RELEASE_CHECK_INTERVAL_S = 0.25
# Services learn of a halt within milliseconds. After this time none of them reads the messages that forgetting deletes.
HALT_SETTLE_S = 1.0

FORGETTING = "forgetting"  # the state in the RM's record meanwhile
BEING_FORGOTTEN = "it is being forgotten"  # the reason of its halt meanwhile


class Busy(BusError):
    """Another process forgets the RM, or a core still leads it."""


class _AnyState(Container[str]):
    def __contains__(self, state: object) -> bool:
        return True


ANY = _AnyState()


async def forget(bus: Bus, rm_id: str, by: str, clock_ms: Callable[[], int], states: Container[str] = ANY) -> bool:
    """Forget an RM. Returns True once it is forgotten; False when its record is in none of `states` any more.

    `states`: the states of the record in which the RM may be forgotten (default: any; (): only if there is no record).
    `by`: the name of this process. Raises Busy when another process forgets the RM or a core does not let go of it,
    Refused when the RM registers at this moment, any BusError in an outage, ValueError when `rm_id` is no rmID."""
    subjects.check_rm_id(rm_id)
    lease = Lease(bus, subjects.forget_lease(rm_id), by)
    if not await lease.try_acquire():
        raise Busy(f"{rm_id!r} is being forgotten by another process, or the bus does not answer")
    try:
        if not await _mark(bus, rm_id, states):
            return False
        await Halts(bus, by, clock_ms).halt(rm_id, BEING_FORGOTTEN, OPERATOR)
        await _until_no_core_leads(bus, rm_id)
        await asyncio.sleep(HALT_SETTLE_S)
        await _end_life(bus, clock_ms())
        await _delete(bus, rm_id)
    finally:
        await lease.release()
    return True


async def _delete(bus: Bus, rm_id: str) -> None:
    for stream, subject in kept_in_streams(rm_id):
        newest = await bus.last_message(stream, subject)
        if newest is not None:
            await bus.trim(stream, subject, newest.seq + 1)
    await bus.delete_consumer(subjects.CALLBACKS.name, subjects.callback_consumer(rm_id))
    await bus.delete_consumer(subjects.EVENTS.name, subjects.event_consumer(rm_id))
    prefix = f"{subjects.key_of(rm_id)}."
    for bucket in (subjects.SNAPSHOTS.name, subjects.LEDGERS.name):
        for name in await bus.object_names(bucket):
            if name.startswith(prefix):
                await bus.delete_object(bucket, name)
    for bucket, key in kept_in_buckets(rm_id):
        if await bus.get(bucket, key) is not None:
            await bus.delete(bucket, key)


def kept_in_streams(rm_id: str) -> list[tuple[str, str]]:
    """All (stream, subject) on which messages of an RM are stored, but closed hours of its ledger: accounts are settled
    long after an RM is gone."""
    return [
        *((subjects.REQUESTS.name, subjects.request(rm_id, kind)) for kind in subjects.REQUEST_KINDS),
        (subjects.INBOX.name, subjects.inbox(rm_id)),
        (subjects.LOG.name, subjects.log(rm_id)),
        *((subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS),
        (subjects.EVENTS.name, subjects.event(rm_id)),
        (subjects.DEAD_LETTERS.name, subjects.dead_letter(rm_id)),
    ]


def kept_in_buckets(rm_id: str) -> list[tuple[str, str]]:
    """All (bucket, key) of an RM, in the order of deletion. The record comes last but one, and the halt last: while it
    stands, no service starts to work for the RM."""
    return [
        (subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id)),
        (subjects.EVENT_BOOKMARKS.name, faults.told_key(rm_id)),
        (subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(rm_id)),
        (subjects.CONFIGURATIONS.name, subjects.configuration_key(rm_id)),
        *(
            (subjects.CONFIGURATION_VERSIONS.name, subjects.version_key(number, rm_id))
            for number in range(subjects.RM_VERSIONS_KEPT)
        ),
        *((subjects.FAULTS.name, subjects.fault_key(rm_id, stream)) for stream in faults.STREAMS),
        (subjects.LEADERS.name, subjects.key_of(rm_id)),
        (subjects.RMS.name, subjects.key_of(rm_id)),
        (subjects.HALTS.name, subjects.key_of(rm_id)),
    ]


async def _mark(bus: Bus, rm_id: str, states: Container[str]) -> bool:
    """Mark the record, so that rmproxy refuses registrations meanwhile and continues after a restart. Returns False
    when the record is in none of `states`."""
    entry = await bus.get(subjects.RMS.name, subjects.key_of(rm_id))
    if entry is None or entry.value is None:
        return states in (ANY, ())
    record = json.loads(entry.value)
    if record.get("state", "") not in states:
        return False
    if record.get("state") != FORGETTING:
        record["state"] = FORGETTING
        await bus.put(subjects.RMS.name, subjects.key_of(rm_id), json.dumps(record).encode(), entry.revision)
    return True


async def _end_life(bus: Bus, now_ms: int) -> None:
    """Advance the life of RMs that register without a record."""
    while True:
        entry = await bus.get(subjects.FORGOTTEN.name, subjects.LIFE)
        before, revision = (int(entry.value), entry.revision) if entry is not None and entry.value else (0, 0)
        try:
            await bus.put(subjects.FORGOTTEN.name, subjects.LIFE, str(max(now_ms, before + 1)).encode(), revision)
            return
        except Refused:
            continue  # another RM was forgotten at the same moment


async def first_life(bus: Bus) -> int:
    """The life of an RM that registers without a record."""
    entry = await bus.get(subjects.FORGOTTEN.name, subjects.LIFE)
    return int(entry.value) if entry is not None and entry.value else 0


async def _until_no_core_leads(bus: Bus, rm_id: str) -> None:
    for _ in range(int(CORE_RELEASE_TIMEOUT_S / CORE_RELEASE_CHECK_INTERVAL_S)):
        if await leader_of(bus, rm_id) is None:
            return
        await asyncio.sleep(CORE_RELEASE_CHECK_INTERVAL_S)
    raise Busy(f"a core still leads {rm_id!r} after {CORE_RELEASE_TIMEOUT_S:g} s, though it is halted")
