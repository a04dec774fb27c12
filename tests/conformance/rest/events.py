"""Compares event records: which things happened, not in which order and how often.

Messages are prose, and records of the type REQUEST say in words why an ask waits. All other fields of a record count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from remuda_proto.si.v1 import si_pb2 as si

Record = Mapping[str, Any]
TYPES: Final[Mapping[str, type]] = {
    "type": int, "objectID": str, "referenceID": str, "message": str, "timestampNano": int, "eventChangeType": int,
    "eventChangeDetail": int, "resource": dict,
}  # fmt: skip
FORM: Final = "form"
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def in_events(ours: Any, theirs: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """(path, ours, theirs) of each record that only one has, and of each of ours in another form."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        if ours != theirs:
            yield (FORM,), ours, theirs
        return
    for number, record in enumerate(ours):
        if not has_form(record):
            yield (FORM, f"[{number}]"), record, None
    mine, other = things_of(ours), things_of(theirs)
    for one in sorted(mine - other):
        yield (one,), True, None
    for one in sorted(other - mine):
        yield (one,), None, True


def has_form(record: Record) -> bool:
    return "resource" in record and all(type(value) is TYPES.get(name) for name, value in record.items())


def things_of(records: Iterable[Record]) -> set[str]:
    """What happened, as texts: type, kind of change, detail, object, reference, resource."""
    return {_thing(record) for record in records if record.get("type") != si.EventRecord.REQUEST}


def _thing(record: Record) -> str:
    kinds = si.EventRecord
    amounts = (record.get("resource") or {}).get("resources") or {}
    shown = [
        kinds.Type.Name(record.get("type", 0)),
        kinds.ChangeType.Name(record.get("eventChangeType", 0)),
        kinds.ChangeDetail.Name(record.get("eventChangeDetail", 0)),
        record.get("objectID", ""),
        _UUID.sub("(uuid)", record.get("referenceID", "")),
        *sorted(f"{name}={one['value']}" for name, one in amounts.items() if one.get("value")),
    ]
    return " ".join(shown)
