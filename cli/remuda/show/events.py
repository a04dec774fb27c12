"""`remuda events`: the newest event records, and with --follow each new one.

An allocation has two records, of its application and of its node. People read them as one line; JSON has both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from google.protobuf.json_format import MessageToDict
from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_proto.si.v1 import si_pb2 as si

from .. import limits
from ..client.connections import bus_at
from ..client.known_rms import check_rm
from ..errors import Stopped
from ..terminal import event_loop
from ..terminal.output import print_entry
from ..terminal.units import amounts
from .wait_reasons import with_units

_STYLES = {"ADD": "green", "REMOVE": "red"}


def events(url: str, rm: str | None, count: int, follow: bool, as_json: bool) -> None:
    """Oldest first."""
    with contextlib.suppress(Stopped):
        event_loop.run(lambda: _events(url, rm, count, follow, as_json))


async def _events(url: str, rm: str | None, count: int, follow: bool, as_json: bool) -> None:
    async with bus_at(url) as bus:
        last = await bus.last_sequence(subjects.EVENTS.name)
        # The records of one RM are some of all: those that come before the newest `count` of all are not looked for.
        reader = await bus.read(subjects.EVENTS.name, subjects.event(rm or "*"), max(0, last - count))
        shown = False
        try:
            position = max(0, last - count)
            while follow or position < last:
                batch = await (
                    reader.batch() if follow else reader.batch(last - position, timeout_s=limits.EVENTS_WITHIN_S)
                )
                for message in batch if as_json else ():
                    print(_as_json(message), flush=True)
                for text in () if as_json else lines(batch):
                    print_entry(*text)
                if not batch:
                    break
                position, shown = batch[-1].seq, True
        finally:
            await reader.close()
        if rm is not None and not shown:
            await check_rm(bus, rm)


def _as_json(message: Message) -> str:
    event = si.EventRecord.FromString(message.payload)
    shown = MessageToDict(event, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    rm, position = subjects.rm_of(message.subject), message.seq
    return json.dumps({"rm": rm, "position": position, **shown, "timestampNano": event.timestampNano})


def lines(batch: Sequence[Message]) -> Iterator[tuple[str, Text]]:
    """One entry for each record, or for both records of an allocation where one follows the other."""
    records = [(subjects.rm_of(message.subject), si.EventRecord.FromString(message.payload)) for message in batch]
    at = 0
    while at < len(records):
        rm, event = records[at]
        pair = _allocation(records[at], records[at + 1]) if at + 1 < len(records) else None
        if pair is None:
            yield line(rm, event)
        else:
            of_application, of_node = pair
            yield line(rm, of_application, f"{of_node.referenceID} on {of_node.objectID}")
        at += 1 if pair is None else 2


def _allocation(*two: tuple[str, si.EventRecord]) -> tuple[si.EventRecord, si.EventRecord] | None:
    """The records of the application and of the node, if these are the two that tell of one allocation."""
    (rm, one), (other_rm, other) = two
    application, node = (one, other) if one.type == si.EventRecord.APP else (other, one)
    same = (rm, one.timestampNano, one.eventChangeType, one.resource) == (
        other_rm, other.timestampNano, other.eventChangeType, other.resource,
    )  # fmt: skip
    is_pair = same and application.type == si.EventRecord.APP and node.type == si.EventRecord.NODE
    of_allocations = node.eventChangeDetail == si.EventRecord.NODE_ALLOC and len(application.resource.resources) > 0
    return (application, node) if is_pair and of_allocations else None


def line(rm: str, event: si.EventRecord, reference: str | None = None) -> tuple[str, Text]:
    """Time and content of an entry. `reference`: what to show in the place of the record's own."""
    at = datetime.fromtimestamp(event.timestampNano / 1e9).astimezone().strftime("%H:%M:%S")
    kind = (
        si.EventRecord.Type.Name(event.type).lower() if event.type in si.EventRecord.Type.values() else str(event.type)
    )
    changes = si.EventRecord.ChangeType
    change = changes.Name(event.eventChangeType) if event.eventChangeType in changes.values() else ""
    resource = amounts({name: quantity.value for name, quantity in event.resource.resources.items()}, "")
    said = "; ".join(one for one in (resource, with_units(event.message)) if one)
    named = event.referenceID if reference is None else reference
    return at, Text.assemble(
        f"{rm} ", (f"{kind} ", "dim"), event.objectID, " ", (change.lower(), _STYLES.get(change, "")),
        *([f" {named}"] if named else []), *([f": {said}"] if said else []),
    )  # fmt: skip
