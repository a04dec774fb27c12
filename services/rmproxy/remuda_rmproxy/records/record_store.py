"""Reads and writes the records of RMs in the bucket RMS."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_proto.bounds import shown
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.records.status_codes import OUTAGE


async def read_record(bus: Bus, rm_id: str) -> tuple[RmRecord | None, int]:
    """Reads the newest record of the RM and its revision; (None, 0): there is none. Raises BusError."""
    entry = await bus.get(subjects.RMS.name, subjects.key_of(rm_id))
    if entry is None or entry.value is None:
        return None, 0
    return RmRecord.decode(entry.value), entry.revision


async def write_record(bus: Bus, record: RmRecord, revision: int) -> None:
    """Writes a record. `revision`: the revision of the record that this one replaces. Raises Refused 503 when another
    process has replaced it, and other BusErrors.
    """
    try:
        await bus.put(subjects.RMS.name, subjects.key_of(record.rm_id), record.encode(), revision)
    except Refused as refusal:
        raise another_process(record.rm_id, refusal) from refusal


def another_process(rm_id: str, refusal: Refused) -> Refused:
    """Returns the refusal for a record that another process has written. Two rmproxies may work for a moment. The
    slower one refuses with a code that makes the RM try again.
    """
    reason = f"registration of {shown(rm_id)}: another process works on one ({refusal.reason}), try again"
    return Refused(reason, OUTAGE)
