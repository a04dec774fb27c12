"""The kinds of intended differences of REST answers, each recognised from the two answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from inspect import getdoc
from typing import Any, Final

from .compare import RECORDS, Difference
from .events import FORM
from .recordings import Answer, Recorded
from .samples import samples_of


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

    YuniKorn answers 501 where its internal metrics are off, and its web interface fails.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        is_off = recorded.answer.status == 501 and "/history/" in recorded.request["path"] and ours.status == 200
        return is_off and (ours.body is None or isinstance(ours.body, list))


class ReportedWithoutDelay(Kind):
    """An allocation that the RM has reported was requested when it came

    YuniKorn shows a delay of decades, as from 1969.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        decades = isinstance(found.theirs, int) and found.theirs > 10**18
        return found.path[-1] == "allocationDelay" and found.ours is None and decades


class StateLogIsThere(Kind):
    """An application without a state change has an empty `stateLog`

    YuniKorn leaves it out, and its page of applications fails.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.path[-1] == "stateLog" and found.ours == [] and found.theirs is None


class NoAllocationLog(Kind):
    """An ask has no log of attempts

    YuniKorn counts the failures of its loop. `explain` shows what blocks the ask.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        is_log = isinstance(found.theirs, list) and all(
            isinstance(one, dict) and "message" in one for one in found.theirs
        )
        return found.path[-1] == "allocationLog" and found.ours is None and is_log


class AskedIsEnough(Kind):
    """A user with asks alone has a usage

    In YuniKorn it begins when its loop first tries one of the asks.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        one = found.ours if found.theirs is None else found.theirs
        none = found.ours is None or found.theirs is None
        return "/usage/user" in recorded.request["path"] and none and isinstance(one, dict) and self._is_of_nothing(one)

    def _is_of_nothing(self, one: Mapping[str, Any]) -> bool:
        shown = one.keys() - {"userName", "groups", "queues", "queuePath", "children"}
        below = [*one.get("children", ()), *([one["queues"]] if "queues" in one else [])]
        return not shown and all(map(self._is_of_nothing, below))


class EventsOfTheHistory(Kind):
    """Event records have the positions of the event history

    Simultaneous events have another order there, so a part of the history may hold other records.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if "/events/batch" not in recorded.request["path"] or ours.status != recorded.answer.status:
            return False
        if found.path == ("body", "HighestID"):
            lowest = _field(ours, "LowestID")
            return type(found.ours) is int and type(lowest) is int and found.ours >= lowest
        if "?" not in recorded.request["path"] or found.path[:2] != ("body", RECORDS) or FORM in found.path:
            return False
        mine, other = _field(ours, RECORDS), _field(recorded.answer, RECORDS)
        return isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other)


class EventsOfItsRules(Kind):
    """Events follow our rules for quotas, queues and reservations

    `make conformance` compares them step by step.
    """

    OF_RULES: Final = re.compile(r"QUEUE (SET|REMOVE) (?!QUEUE_APP)|NODE (ADD|REMOVE) NODE_RESERVATION ")

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.path[:2] == ("body", RECORDS) and any(map(self.OF_RULES.match, found.path[2:3]))


class NoExtraConfiguration(Kind):
    """The extra configuration of the RM is not shown

    It may hold secrets.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.path[-1] in ("extra", "Extra") and found.ours is None and isinstance(found.theirs, dict)


class OwnLogLevel(Kind):
    """The log level is that of the web service

    `logLevel` of the state dump is that of the process that answers.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.path == ("body", "logLevel") and isinstance(found.ours, str)


class OwnWords(Kind):
    """A refused configuration is refused in our words

    Reasons name the path and what was expected; `allowed` is the same.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        both = recorded.request["path"].endswith("/validate-conf") and found.path == ("body", "reason")
        return both and all(isinstance(one, str) and one for one in (found.ours, found.theirs))


class RejectedWithQueue(Kind):
    """A rejected application shows its queue, and our reason

    YuniKorn shows no queue.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if found.path[-1] == "rejectedMessage":
            return all(isinstance(one, str) and one for one in (found.ours, found.theirs))
        return found.path[-1] == "queueName" and bool(found.ours) and not found.theirs


class TemplateLimitsApplications(Kind):
    """A child template may hold maxapplications

    YuniKorn ignores it; here dynamic queues have and show it.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if found.path[-1] != "maxRunningApps" or found.theirs is not None:
            return False
        path = found.path[-2].strip("[]")
        return any(one["queuename"] == path and not one.get("isManaged") for one in _objects(ours.body, "queuename"))


class LaterPaths(Kind):
    """Paths of later versions are served

    Such as `scheduler/node-utilizations`, `placementrules` and applications by state. For the queues of the
    partition `default`, the first RM that has one is shown, or without an RM a root queue alone.
    """

    PATHS: Final = re.compile(
        r"/ws/v1/(scheduler/node-utilizations|events/stream|partition/[^/]+/"
        r"(queue/[^/]+|placementrules|applications/[^/]+|application/[^/]+))"
    )

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        path = recorded.request["path"].partition("?")[0]
        return recorded.answer.status == 404 and ours.status in (200, 400) and bool(self.PATHS.fullmatch(path))


class UtilizationIsThere(Kind):
    """A utilization of nodes where nothing is used has an empty list

    YuniKorn answers `{}`, and its own page fails.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        is_nothing = recorded.answer.body == {} and ours.body == {"type": "", "utilization": []}
        return recorded.request["path"].endswith("/scheduler/node-utilization") and is_nothing


class RootIsThePage(Kind):
    """The root shows the web page

    YuniKorn has its web interface on another port.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return recorded.request["path"] == "/" and recorded.answer.status == 404 and ours.status == 200


class HeadHasNoBody(Kind):
    """An answer to HEAD has no body

    The recordings hold a text that YuniKorn's server drops.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return recorded.request["method"] == "HEAD" and found.path == ("body",) and not found.ours


class MetricsOfItsParts(Kind):
    """Metrics describe the scheduler, not the parts of YuniKorn's process

    There are none of the Go runtime, its HTTP handler, YuniKorn's loops (`…_latency_milliseconds`), submissions,
    and released containers of a queue. A family of a queue exists as soon as the queue does.
    """

    PREFIXES: Final = ("go_", "process_", "promhttp_", "yunikorn_runtime_")
    OWN: Final = re.compile(r"\w+(_latency_milliseconds|_submission_total|_queue_container)({.*)?")
    OF_QUEUES: Final = ("_queue_resource", "_queue_app", "_node_usage_total")

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        if not recorded.request["path"].endswith("/metrics") or len(found.path) != 3:
            return False
        name = found.path[-1]
        if found.ours is None:
            return bool(self.OWN.fullmatch(name)) or name.startswith(self.PREFIXES)
        return found.path[1] == "families" and found.theirs is None and name.endswith(self.OF_QUEUES)


class QuotasUnderThePath(Kind):
    """Quotas of a queue are metrics under its whole name too

    YuniKorn has them under the last part of the name only.
    """

    SAMPLE: Final = re.compile(r'yunikorn_root_\w+_queue_resource{resource="[^"]*",state="(guaranteed|max)"}')

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return found.theirs is None and self.SAMPLE.fullmatch(_sample_of(found)) is not None


class QueuesByLabel(Kind):
    """Metrics of queues have a label `queue` too

    Later versions have families `yunikorn_queue_app` and `yunikorn_queue_resource` for all queues. The label keeps
    queues apart whose families have one name (`root.a-b`, `root.a_b`); in YuniKorn they overwrite each other.
    """

    SAMPLE: Final = re.compile(r'(yunikorn_(?:\w+_)?queue_(?:app|resource)){(?:queue="([^"]*)",)?(.*)}')

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        sample = self.SAMPLE.fullmatch(_sample_of(found))
        if sample is None:
            return False
        if found.theirs is None:
            return sample[2] is not None
        family = [
            (one, value) for name, value in samples_of(ours.text).items() if (one := self.SAMPLE.fullmatch(name))
            and one[1] == sample[1]
        ]  # fmt: skip
        several = len({one[2] for one, _ in family}) > 1
        values = [value for one, value in family if one[2] is not None and one[3] == sample[3]]
        return found.ours is None and several and float(found.theirs) in values


class AcceptedNow(Kind):
    """Accepted applications of a queue are those that have not started

    YuniKorn counts all that were ever accepted.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        return _sample_of(found).endswith('_queue_app{state="accepted"}')


class CountersOfTheData(Kind):
    """Counters begin with the data of the RM

    Those of YuniKorn begin with its process. Its gauge of the use of nodes shows one partition, as it was a second
    ago.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        name = _sample_of(found).partition("{")[0]
        counted = name.endswith("_attempt_total") and float(found.theirs or 0) > float(found.ours or 0)
        return counted or name.endswith("_node_usage_total")


class PartitionsAddedUp(Kind):
    """Metrics of queues of the same name in several partitions are added up

    In YuniKorn they overwrite each other.
    """

    def explains(self, recorded: Recorded, ours: Answer, found: Difference) -> bool:
        of_queue = "_queue_" in _sample_of(found)
        return of_queue and recorded.partitions > 1 and float(found.ours or 0) >= float(found.theirs or 0)


def _sample_of(found: Difference) -> str:
    """The name and labels of a sample of metrics; "": it is none."""
    numbers = all(value is None or isinstance(value, float) for value in (found.ours, found.theirs))
    return found.path[2] if len(found.path) == 3 and found.path[:2] == ("body", "samples") and numbers else ""


def _field(of: Answer, name: str) -> Any:
    """Of a JSON object; None: the answer is no object, or has no such field."""
    return of.body.get(name) if isinstance(of.body, Mapping) else None


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
    HistoryIsOn(), ReportedWithoutDelay(), StateLogIsThere(), NoAllocationLog(), AskedIsEnough(), EventsOfTheHistory(),
    EventsOfItsRules(), NoExtraConfiguration(), OwnLogLevel(), OwnWords(), RejectedWithQueue(),
    TemplateLimitsApplications(), LaterPaths(), UtilizationIsThere(), RootIsThePage(), HeadHasNoBody(),
    MetricsOfItsParts(), QuotasUnderThePath(), QueuesByLabel(), AcceptedNow(), CountersOfTheData(), PartitionsAddedUp(),
)  # fmt: skip


def kind_of(recorded: Recorded, ours: Answer, found: Difference) -> Kind | None:
    return next((kind for kind in KINDS if kind.explains(recorded, ours, found)), None)
