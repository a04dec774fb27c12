"""The durable consumers from which an RM takes its callbacks and its events.

Each registration has a callback consumer of its own. Making it deletes the one of the former registration, so a former
instance of the RM receives nothing more.
"""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_rmproxy.records.record_store import another_process
from remuda_rmproxy.records.rm_record import RmRecord


async def first_callback_after(bus: Bus, record: RmRecord | None, rm_id: str, *, replay: bool) -> int:
    """Returns the sequence of CALLBACKS behind which the callbacks of a new registration begin. With a replay, and if
    the RM was registered, they begin behind the last acknowledged callback, otherwise behind the newest one.
    """
    if replay and record is not None and record.state == "registered":
        return await bus.acknowledged_sequence(subjects.CALLBACKS.name, subjects.callback_consumer(rm_id))
    newest = await bus.last_message(subjects.CALLBACKS.name, subjects.callback(rm_id, "*"))
    return 0 if newest is None else newest.seq


async def ensure_callback_consumer(bus: Bus, record: RmRecord) -> bool:
    """Makes the consumer of this registration unless it exists. Returns whether it was made. Raises Refused 503 when
    another process makes one, and other BusErrors.
    """
    stream, durable = subjects.CALLBACKS.name, subjects.callback_consumer(record.rm_id)
    registration = record.registration if record.state == "registered" else subjects.NO_REGISTRATION
    metadata = {subjects.REGISTRATION: str(registration)}
    existing = await bus.consumer_state(stream, durable)
    if existing is not None and metadata.items() <= existing.metadata.items():
        return False
    # A stream that is shorter than its callbacks were is a new one: sequences count from 1 again.
    is_new = await bus.last_sequence(stream) < record.callbacks_after
    try:
        subject = subjects.callback(record.rm_id, "*")
        await bus.create_consumer(stream, subject, durable, 0 if is_new else record.callbacks_after, metadata)
    except Refused as refusal:
        raise another_process(record.rm_id, refusal) from refusal
    return True


async def ensure_event_consumer(bus: Bus, rm_id: str) -> None:
    """Makes the consumer of events unless it exists. It outlives registrations, because the event history does."""
    stream, durable = subjects.EVENTS.name, subjects.event_consumer(rm_id)
    if await bus.consumer_state(stream, durable) is None:
        await bus.create_consumer(stream, subjects.event(rm_id), durable, 0, {})
