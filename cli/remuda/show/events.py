"""`remuda events`: the newest event records, and with --follow each new one."""

from __future__ import annotations

import contextlib
import json
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
from ..terminal.output import console

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
                for message in batch:
                    _print(message, as_json)
                if not batch:
                    break
                position, shown = batch[-1].seq, True
        finally:
            await reader.close()
        if rm is not None and not shown:
            await check_rm(bus, rm)


def _print(message: Message, as_json: bool) -> None:
    event, rm = si.EventRecord.FromString(message.payload), subjects.rm_of(message.subject)
    if as_json:
        shown = MessageToDict(event, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        print(
            json.dumps({"rm": rm, "position": message.seq, **shown, "timestampNano": event.timestampNano}), flush=True
        )
        return
    console.print(line(rm, event), soft_wrap=True)


def line(rm: str, event: si.EventRecord) -> Text:
    at = datetime.fromtimestamp(event.timestampNano / 1e9).astimezone().strftime("%H:%M:%S")
    kind = (
        si.EventRecord.Type.Name(event.type).lower() if event.type in si.EventRecord.Type.values() else str(event.type)
    )
    changes = si.EventRecord.ChangeType
    change = changes.Name(event.eventChangeType) if event.eventChangeType in changes.values() else ""
    return Text.assemble(
        (at, "dim"), f" {rm} ", (f"{kind} ", "dim"), event.objectID, " ", (change.lower(), _STYLES.get(change, "")),
        *([f" {event.referenceID}"] if event.referenceID else []), *([f": {event.message}"] if event.message else []),
    )  # fmt: skip
