"""Pages of the event history."""

from __future__ import annotations

import re
import uuid
from typing import Final

from remuda_proto.bounds import INT64
from remuda_proto.si.v1 import si_pb2 as si
from remuda_web import limits
from remuda_web.source import Events
from remuda_web.ws_v1.go_json import Json, without_empty

# Positions in the history are those of the stream, whichever web service answers.
INSTANCE: Final = str(uuid.uuid5(uuid.NAMESPACE_URL, "remuda:EVENTS"))
_NUMBER: Final = re.compile(r"([+-]?)0*([0-9]+)")


class IllegalNumber(ValueError):
    """The message is that of the reference."""


def asked_for(count: str | None, start: str | None) -> tuple[int, int]:
    """The number of records that a request asks for, and the position of the first. Raises IllegalNumber."""
    most, first = limits.EVENTS, 0
    if count:
        most = _number(count)
        if most <= 0:
            raise IllegalNumber(f"Illegal number of events: {most}")
    if start:
        first = _number(start)
        if first < 0:
            raise IllegalNumber(f"Illegal id: {first}")
    return min(most, limits.EVENTS), first


def _number(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise IllegalNumber(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    sign, digits = found.groups()
    lowest, highest = INT64
    number = int(sign + digits[: len(str(highest)) + 1])  # a digit more than any has is out of range, too
    if not lowest <= number <= highest:
        raise IllegalNumber(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def page(found: Events) -> Json:
    return {
        "InstanceUUID": INSTANCE,
        "LowestID": found.lowest,
        "HighestID": found.highest,
        "EventRecords": [record(one.record) for one in found.records] or None,
    }


def record(event: si.EventRecord) -> Json:
    amounts = {name: without_empty({"value": one.value}) for name, one in event.resource.resources.items()}
    shown = {
        "type": event.type,
        "objectID": event.objectID,
        "message": event.message,
        "timestampNano": event.timestampNano,
        "eventChangeType": event.eventChangeType,
        "eventChangeDetail": event.eventChangeDetail,
        "referenceID": event.referenceID,
        "resource": {"resources": amounts} if amounts else {},
    }
    return without_empty(shown, "resource")
