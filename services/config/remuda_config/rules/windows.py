"""The calendar of a partition: what each window needs, and what queues have in it."""

from __future__ import annotations

from collections.abc import Iterator

from remuda_config import calendars, limits
from remuda_config.problems import Finding, Path
from remuda_config.schema import Partition, Queue, Window, WindowSettings
from remuda_proto import durations
from remuda_proto.bounds import shown
from remuda_proto.names import QUEUE

UNBOUNDED = ("refuse", "allow")
_WEEK_MS = 7 * 86_400_000


def check(partition: Partition, path: Path, compatibility: str) -> Iterator[Finding]:
    """Yields the problems of the calendar itself. What queues have in windows is verified as the queues are."""
    calendar, here = partition.calendar, (*path, "calendar")
    if calendar and compatibility != "none":
        yield here, f"compatibility: {compatibility} has no calendar"
    if len(calendar) > limits.MAX_WINDOWS:
        yield here, f"{len(calendar)} windows: expected at most {limits.MAX_WINDOWS}"
        return
    if len({window.queue.lower() for window in calendar if window.queue}) > limits.MAX_KEPT_QUEUES:
        yield here, f"nodes are kept for more than {limits.MAX_KEPT_QUEUES} queues: expected at most so many"
    leaves = dict(_paths(partition))
    seen: set[str] = set()
    for place, window in enumerate(calendar):
        at = (*here, place)
        if not QUEUE.matches(window.name):
            yield (*at, "name"), f"bad name of a window {shown(window.name)}: expected {QUEUE.expected}"
        elif window.name in seen:
            yield (*at, "name"), f"there is already a window {shown(window.name)}"
        seen.add(window.name)
        yield from _check_times(window, at)
        yield from _check_subject(window, at, leaves)


def _paths(partition: Partition) -> Iterator[tuple[str, Queue]]:
    root, _ = partition.root(())
    pending = [("root", root)]
    for path, queue in pending:
        yield path, queue
        pending.extend((f"{path}.{child.name.lower()}", child) for child in queue.queues)


def _check_times(window: Window, path: Path) -> Iterator[Finding]:
    zone = calendars.zone_named(window.zone or "UTC")
    if zone is None:
        yield (*path, "zone"), f"{shown(window.zone)}: {calendars.EXPECTED_ZONE}"
        zone = calendars.zone_named("UTC")
        assert zone is not None, "tzdata has it"
    lasts_ms = durations.milliseconds(window.duration)
    if not lasts_ms:
        yield (*path, "duration"), f"{shown(window.duration)}: {durations.EXPECTED}"
    if window.start and window.days:
        yield (*path, "days"), "expected either start, for a window that comes once, or days and time"
    elif window.days:
        yield from _check_weekly(window, path, lasts_ms or 0)
    elif calendars.instant_in(window.start, zone) is None:
        yield (*path, "start"), f"{shown(window.start)}: {calendars.EXPECTED_START}, or days and time"
    for key in ("time", "since", "until", "skip") if not window.days else ():
        if getattr(window, key):
            yield (*path, key), "expected only with days: a window with a start comes once"
    for key in ("since", "until"):
        text = getattr(window, key)
        if text and calendars.instant_in(text, zone) is None:
            yield (*path, key), f"{shown(text)}: {calendars.EXPECTED_START}"


def _check_weekly(window: Window, path: Path, lasts_ms: int) -> Iterator[Finding]:
    for place, day in enumerate(window.days):
        if day.lower() not in calendars.DAYS:
            yield (*path, "days", place), f"{shown(day)}: expected one of {', '.join(calendars.DAYS)}"
    if calendars.time_of_day(window.time) is None:
        yield (*path, "time"), f"{shown(window.time)}: {calendars.EXPECTED_TIME}"
    days = sorted({calendars.DAYS.index(day.lower()) for day in window.days if day.lower() in calendars.DAYS})
    gaps = [(after - before) % 7 or 7 for before, after in zip(days, [*days[1:], *days[:1]], strict=True)]
    if gaps and lasts_ms > min(gaps) * _WEEK_MS // 7:
        expected = f"expected at most {min(gaps) * 24}h, the time between two of its days"
        yield (*path, "duration"), f"{shown(window.duration)}: {expected}"
    if len(window.skip) > limits.MAX_SKIPPED_DAYS:
        yield (*path, "skip"), f"{len(window.skip)} days: expected at most {limits.MAX_SKIPPED_DAYS}"
    for place, day in enumerate(window.skip):
        if calendars.day_number(day) is None:
            yield (*path, "skip", place), f"{shown(day)}: {calendars.EXPECTED_DAY}"


def _check_subject(window: Window, path: Path, queues: dict[str, Queue]) -> Iterator[Finding]:
    of_nodes = bool(window.nodes or window.ids)
    if of_nodes and window.settings:
        yield (*path, "settings"), "expected none in a window with nodes: write a second window"
    elif not of_nodes and not window.settings:
        yield (*path, "nodes"), "expected attributes of nodes, or ids, or settings of queues"
    if window.unbounded.lower() not in ("", *UNBOUNDED):
        yield (*path, "unbounded"), f"unknown value {shown(window.unbounded)}: expected {' or '.join(UNBOUNDED)}"
    maintenance = of_nodes and not window.queue
    for key in ("unbounded", "release"):
        if getattr(window, key) and not maintenance:
            yield (*path, key), "expected only in a window of maintenance: with nodes, and without a queue"
    if window.queue and not of_nodes:
        yield (*path, "queue"), "expected nodes or ids with it: the nodes that are kept for the queue"
    if (window.queue and window.queue.lower() not in queues) or window.queue.lower() == "root":
        yield (*path, "queue"), f"{shown(window.queue)}: expected a queue of the partition below root"
    if window.lead and not window.queue:
        yield (*path, "lead"), "expected only with a queue that nodes are kept for"
    elif window.lead and durations.milliseconds(window.lead) is None:
        yield (*path, "lead"), f"{shown(window.lead)}: {durations.EXPECTED}, or 0"
    for name in window.settings:
        if name.lower() not in queues or name.lower() == "root":
            yield (*path, "settings", name), "expected a queue of the partition below root"


def in_window(partition: Partition, window: Window) -> Partition:
    """The partition as it is in the window."""
    changes = {name.lower(): settings for name, settings in window.settings.items()}
    root, _ = partition.root(())
    return partition.model_copy(update={"queues": [_changed(root, "root", changes)]})


def _changed(queue: Queue, path: str, changes: dict[str, WindowSettings]) -> Queue:
    update: dict[str, object] = {
        "queues": [_changed(child, f"{path}.{child.name.lower()}", changes) for child in queue.queues]
    }
    if (new := changes.get(path)) is not None:
        own = {key: amounts for key in ("guaranteed", "max") if (amounts := getattr(new.resources, key)) is not None}
        update["resources"] = queue.resources.model_copy(update=own)
        update["properties"] = {**queue.properties, **new.properties}
        if new.maxapplications is not None:
            update["maxapplications"] = new.maxapplications
        if new.limits is not None:
            update["limits"] = new.limits
    return queue.model_copy(update=update)
