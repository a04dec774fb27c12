"""Makes the consumers of a registration again that are gone although the registration is in force: deleted by an
operator, or lost with their stream."""

from __future__ import annotations

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused, Reply
from remuda_bus.untrusted import Malformed, number_in
from remuda_proto.bounds import shown
from remuda_rmproxy.records.extra_config import EVENTS
from remuda_rmproxy.records.record_store import read_record
from remuda_rmproxy.records.status_codes import INVALID, NOT_REGISTERED, OUTAGE, SUPERSEDED
from remuda_rmproxy.sessions.callback_consumers import ensure_callback_consumer, ensure_event_consumer

log = structlog.get_logger()


async def resume(bus: Bus, message: Message) -> Reply:
    """Answers an RM whose consumer is gone. Raises Refused: 400 the request states no registration, 404 the RM is not
    registered, 409 its registration is superseded, 503 it has to register and report; BusError."""
    rm_id = subjects.rm_of(message.subject)
    try:
        stated = number_in(message.headers, subjects.REGISTRATION)
    except Malformed as problem:
        raise Refused(str(problem), INVALID) from None
    record, _ = await read_record(bus, rm_id)
    if record is not None and record.state == "report_wanted":
        raise Refused(f"rmID {shown(rm_id)} has to register and to report", OUTAGE)
    over = f"registration {stated} of {shown(rm_id)} is over"
    if record is None or record.state != "registered":
        is_known = record is not None and record.state == "deregistered"
        why = "another instance has deregistered it" if is_known else "the RM is not registered any more"
        raise Refused(f"{over}: {why}", NOT_REGISTERED)
    if stated != record.registration:
        raise Refused(f"{over}: another instance has registered, as {record.registration}", SUPERSEDED)
    if await ensure_callback_consumer(bus, record):
        log.warning("the callback consumer of an RM was gone and is made again", rm=rm_id, registration=stated)
    if record.extra_config.get(EVENTS, "").lower() == "true":
        await ensure_event_consumer(bus, rm_id)
    return Reply(b"", {subjects.REGISTRATION: str(stated)})
