"""The fields that requests of queries may have. A service refuses others: it would answer another question than the one
that was meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from remuda_bus import limits, subjects
from remuda_bus.bus import Refused
from remuda_proto.bounds import shown

# Queries of the core whose answer is a page of rows -> the filters of each.
FILTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "queues": ("draining",),
    "nodes": (),
    "topology": (),
    "windows": (),
    "applications": ("application", "queue"),
    "rejections": (),
    "allocations": ("application", "node"),
    "asks": ("application", "key", "queue"),
    "usage": ("user", "group"),
    "explain": ("application", "key", "queue"),
    "forecasts": ("application", "key"),
    "actions": ("action",),
    subjects.GUESTS: ("partition", "queue", "prefix"),
}
PAGE: Final = ("limit", "after")
# Of every query of the core. `rm` repeats the subject.
ALWAYS: Final = ("min_log_seq", "rm")
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "stats": (),
    "overview": (),
    "digest": (),
    subjects.PREVIEW: ("configuration", "passes", "limit"),
    subjects.WHAT_IF: ("application", "key", "partition"),
    subjects.ETA: ("application", "key", "limit"),
}
# All queries of the core.
OF_CORE: Final[Mapping[str, tuple[str, ...]]] = {
    **{kind: (*filters, *PAGE, *ALWAYS) for kind, filters in FILTERS.items()},
    **{kind: (*fields, *ALWAYS) for kind, fields in _OTHERS.items()},
}
# Of a service that answers from an archive. `at`: a time, or the sequence of a commit.
OF_PAST: Final[Mapping[str, tuple[str, ...]]] = {
    **{kind: (*(name for name in OF_CORE[kind] if name != "min_log_seq"), "at") for kind in subjects.PAST_QUERIES},
    subjects.PAST_SPAN: ("rm",),
    subjects.PAST_REPLAY: ("rm", "text", "since", "title"),
    subjects.PAST_REPLAYS: ("rm",),
    subjects.PAST_REPORT: ("rm", "id"),
}


def expect_fields(request: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises Refused if the request has a field that is not `known`."""
    for name, value in request.items():
        if name not in known:
            raise Refused(unknown_field(name, value, known))


def unknown_field(name: str, value: object, known: Collection[str]) -> str:
    """Why a request with the field `name` is refused."""
    named = name if name.isidentifier() and len(name) <= limits.SHOWN_CHARACTERS else shown(name)
    return f"{named} is {shown(value)}, expected only these fields: {', '.join(known) or 'none'}"
