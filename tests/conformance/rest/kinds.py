"""The kinds of intended differences of REST answers, each recognised from the two answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from inspect import getdoc
from typing import Any, Final

from .compare import Difference
from .recordings import Answer, Recorded


class Kind:
    """The docstring names the difference in a short sentence, and gives the reason in a paragraph."""

    @property
    def name(self) -> str:
        return (getdoc(self) or "").partition("\n")[0]

    @property
    def why(self) -> str:
        return " ".join((getdoc(self) or "").partition("\n")[2].split())

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        raise NotImplementedError


class HistoryIsOn(Kind):
    """The history of applications and containers is always kept

    The reference answers 501 where its internal metrics are off. The web interface shows its error page then. The web
    service keeps a sample a minute, and has none directly after its start.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return recorded.answer.status == 501 and "/history/" in recorded.request["path"] and ours.status == 200


class NoRequestTime(Kind):
    """An allocation does not show when it was requested

    An ask is forgotten once all of it is allocated, so `requestTime` and `allocationDelay` are left out. `remuda story`
    shows both times from the log.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        of_allocation = len(found.path) > 2 and found.path[-3] == "allocations"
        return of_allocation and found.path[-1] in ("requestTime", "allocationDelay") and found.ours is None


class PeakIsNow(Kind):
    """The largest usage of an application is what it uses now

    The core keeps no peak of an application's usage. `maxUsedResource` is what it uses at the moment, placeholders
    included, and never more than the peak.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if "maxUsedResource" not in found.path:
            return False
        return isinstance(found.theirs, int) and (found.ours or 0) < found.theirs


class StateLogIsThere(Kind):
    """An application without a state change has an empty `stateLog`

    The reference leaves the list out, and its web interface loses the whole page of applications then.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.path[-1] == "stateLog" and found.ours == [] and found.theirs is None


class EventsOfTheHistory(Kind):
    """Event records are those of the event history

    Their positions and their order are those of the history, and they are compared record by record by `make
    conformance`. Here their form is compared: each of ours has the types that the reference's records have.
    """

    TYPES: Final[Mapping[str, type]] = {
        "type": int, "objectID": str, "referenceID": str, "message": str, "timestampNano": int, "eventChangeType": int,
        "eventChangeDetail": int, "resource": dict,
    }  # fmt: skip

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if "/events/batch" not in recorded.request["path"] or ours.status != recorded.answer.status:
            return False
        if found.path == ("body", "HighestID"):
            return type(found.ours) is int and found.ours >= ours.body["LowestID"]
        records = list(ours.body.get("EventRecords") or ()) if isinstance(ours.body, Mapping) else []
        return found.path[:2] == ("body", "EventRecords") and bool(records) and all(map(self._has_form, records))

    def _has_form(self, record: Mapping[str, Any]) -> bool:
        return "resource" in record and all(type(value) is self.TYPES.get(name) for name, value in record.items())


class NoExtraConfiguration(Kind):
    """The extra configuration of the RM is not shown

    It may hold secrets. Any client that reads the configuration would see them.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.path[-1] in ("extra", "Extra") and found.ours is None and isinstance(found.theirs, dict)


class OwnLogLevel(Kind):
    """The log level is that of the web service

    `logLevel` of the state dump names a level of the process that answers.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.path == ("body", "logLevel") and isinstance(found.ours, str)


class OwnWords(Kind):
    """A refused configuration is refused in our words

    Reasons name the path of the wrong value and what was expected. Programs look at `allowed`, which is the same.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        both = recorded.request["path"].endswith("/validate-conf") and found.path == ("body", "reason")
        return both and all(isinstance(one, str) and one for one in (found.ours, found.theirs))


class RejectedWithQueue(Kind):
    """A rejected application shows the queue that it asked for, and our reason

    The reference shows no queue, because the application was placed in none. Operators look for the name that was
    wrong.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if found.path[-1] == "rejectedMessage":
            return all(isinstance(one, str) and one for one in (found.ours, found.theirs))
        return found.path[-1] == "queueName" and bool(found.ours) and not found.theirs


class TemplateLimitsApplications(Kind):
    """A child template may hold maxapplications

    The reference ignores `maxapplications` of a child template. Here a dynamic queue has it, and shows it.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if found.path[-1] != "maxRunningApps" or found.theirs is not None:
            return False
        path = found.path[-2].strip("[]")
        return any(one["queuename"] == path and not one["isManaged"] for one in _objects(ours.body, "queuename"))


class LaterPaths(Kind):
    """Paths of later versions are served

    Newer web interfaces of the family ask for paths that the reference does not know, such as
    `scheduler/node-utilizations`, `placementrules` and applications by state.
    """

    PATHS: Final = re.compile(
        r"/ws/v1/(scheduler/node-utilizations|events/stream|partition/[^/]+/"
        r"(queue/[^/]+|placementrules|applications/[^/]+|application/[^/]+))"
    )

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        path = recorded.request["path"].partition("?")[0]
        return recorded.answer.status == 404 and ours.status in (200, 400) and bool(self.PATHS.fullmatch(path))


class RootIsThePage(Kind):
    """The root shows the web page

    The reference has its web interface on another port, and nothing at `/`.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return recorded.request["path"] == "/" and recorded.answer.status == 404 and ours.status == 200


class HeadHasNoBody(Kind):
    """An answer to HEAD has no body

    HTTP knows none. The recordings hold the text that the reference's handler wrote and its server drops.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return recorded.request["method"] == "HEAD" and found.path == ("body",) and not found.ours


class MetricsOfItsParts(Kind):
    """Metrics describe the scheduler, not the parts of the reference's process

    Metrics of the Go runtime, of its HTTP handler, of the reference's own loops (`…_latency_milliseconds`) and of its
    counters of submissions do not exist here. A family of a queue exists as soon as the queue does.
    """

    PREFIXES: Final = ("go_", "process_", "promhttp_", "yunikorn_runtime_")

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if not recorded.request["path"].endswith("/metrics") or len(found.path) != 2:
            return False
        name = found.path[-1]
        if found.ours is None:
            own = name.endswith(("_latency_milliseconds", "_submission_total", "_queue_container"))
            return own or name.startswith(self.PREFIXES)
        return found.theirs is None and name.endswith(("_queue_resource", "_queue_app", "_node_usage_total"))


def _objects(value: Any, field: str) -> Iterator[Mapping[str, Any]]:
    """All objects with the field, at any depth."""
    if isinstance(value, Mapping):
        if field in value:
            yield value
        for one in value.values():
            yield from _objects(one, field)
    elif isinstance(value, list):
        for one in value:
            yield from _objects(one, field)


KINDS: Final = (
    HistoryIsOn(), NoRequestTime(), PeakIsNow(), StateLogIsThere(), EventsOfTheHistory(), NoExtraConfiguration(),
    OwnLogLevel(), OwnWords(), RejectedWithQueue(), TemplateLimitsApplications(), LaterPaths(), RootIsThePage(),
    HeadHasNoBody(), MetricsOfItsParts(),
)  # fmt: skip


def kind_of(recorded: Recorded, ours: Answer, found: Difference) -> Kind | None:
    return next((kind for kind in KINDS if kind.explains(recorded, ours, found)), None)
