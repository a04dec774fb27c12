"""The calendar of a partition: what is refused, with field, value and what was expected; what is built; what a change
says."""

from __future__ import annotations

import pytest

from remuda_config import Invalid, load
from remuda_config.calendars import offsets_of, zone_named
from remuda_config.diff import difference

HOUR_MS = 3_600_000
QUEUES = """\
    queues:
      - name: root
        queues:
          - {name: eod, queues: [{name: books}]}
          - {name: night, resources: {max: {vcore: 2}}, properties: {runtime.default: 1h}, queues: [{name: a}]}
"""
GOOD = {
    "name": "w", "start": "2026-12-05 06:00", "days": "[]", "time": "''", "zone": "''", "duration": "4h", "since": "''",
    "until": "''", "skip": "[]", "nodes": "{rack: r1}", "ids": "[]", "unbounded": "''", "release": "false",
    "queue": "''", "lead": "''", "settings": "{}",
}  # fmt: skip
WEEKLY = {"start": "''", "days": "[mon, thu]", "time": "'18:00'"}
NO_NODES = {"nodes": "{}"}


def text(**changes: str) -> str:
    window = ", ".join(f"{key}: {value}" for key, value in (GOOD | changes).items())
    return f"partitions:\n  - name: default\n    calendar:\n      - {{{window}}}\n{QUEUES}"


def problems(**changes: str) -> list[str]:
    with pytest.raises(Invalid) as refused:
        load(text(**changes))
    return [f"{one.path.removeprefix('partitions[0].calendar[0].')}: {one.message}" for one in refused.value.problems]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "''"}, "name: bad name of a window ''"),
        ({"start": "tomorrow"}, "start: 'tomorrow': expected a date and a time, such as 2027-03-01 08:00, after 1970"),
        ({"start": "1969-01-01"}, "start: '1969-01-01': expected a date"),
        (
            {"start": "''"},
            "start: '': expected a date and a time, such as 2027-03-01 08:00, after 1970, or days and time",
        ),
        ({"duration": "0"}, "duration: '0': expected a duration of at least 1ms"),
        ({"zone": "Mars/Base"}, "zone: 'Mars/Base': expected the name of a time zone, such as Europe/Berlin"),
        ({"zone": "../../etc/passwd"}, "zone: '../../etc/passwd': expected the name"),
        ({"days": "[mon]"}, "days: expected either start, for a window that comes once, or days and time"),
        ({"since": "2026-01-01"}, "since: expected only with days"),
        (WEEKLY | {"days": "[mo]"}, "days[0]: 'mo': expected one of mon, tue, wed, thu, fri, sat, sun"),
        (WEEKLY | {"time": "'24:00'"}, "time: '24:00': expected a time of day, such as 18:00"),
        (WEEKLY | {"duration": "73h"}, "duration: '73h': expected at most 72h, the time between two of its days"),
        (WEEKLY | {"skip": "[2026-13-01]"}, "skip[0]: '2026-13-01': expected a day, such as 2027-12-24"),
        (WEEKLY | {"until": "x"}, "until: 'x': expected a date and a time"),
        (NO_NODES, "nodes: expected attributes of nodes, or ids, or settings of queues"),
        ({"settings": "{root.night: {maxapplications: 3}}"}, "settings: expected none in a window with nodes"),
        ({"unbounded": "yes"}, "unbounded: unknown value 'yes': expected refuse or allow"),
        ({"queue": "root.eod", "release": "true"}, "release: expected only in a window of maintenance"),
        ({"queue": "root.x"}, "queue: 'root.x': expected a queue of the partition below root"),
        ({"queue": "root"}, "queue: 'root': expected a queue of the partition below root"),
        ({"lead": "1h"}, "lead: expected only with a queue that nodes are kept for"),
        ({"queue": "root.eod", "lead": "soon"}, "lead: 'soon': expected a duration"),
        (NO_NODES | {"settings": "{root.x: {maxapplications: 3}}"}, 'settings["root.x"]: expected a queue'),
        (
            NO_NODES | {"settings": "{root.night.a: {resources: {max: {vcore: 3}}}}"},
            "settings: root.night.a: resources.max.vcore: 3 is above the max of root.night, 2",
        ),
        (
            NO_NODES | {"settings": "{root.night: {properties: {priority.offset: x}}}"},
            "settings: root.night: properties[\"priority.offset\"]: 'x': expected a whole number",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, str], problem: str) -> None:
    found = problems(**changes)
    assert any(one.startswith(problem) for one in found), found


def test_names_are_there_once_and_other_compatibilities_have_none() -> None:
    twice = text().replace("calendar:\n", "calendar:\n      - {name: w, start: 2027-01-01, duration: 1h, ids: [n1]}\n")
    with pytest.raises(Invalid, match=r"calendar\[1\].name: there is already a window 'w'"):
        load(twice)
    with pytest.raises(Invalid, match="calendar: compatibility: yunikorn-1.4 has no calendar"):
        load(text(), compatibility="yunikorn-1.4")


def test_times_are_by_the_clock_of_the_zone() -> None:
    (window,) = load(text(zone="Europe/Berlin")).partitions[0].calendar
    assert (window.start_ms, window.duration_ms, list(window.offsets)) == (1_796_446_800_000, 4 * HOUR_MS, [])
    (with_own,) = load(text(zone="Europe/Berlin", start="2026-12-05T06:00:00Z")).partitions[0].calendar
    assert with_own.start_ms == window.start_ms + HOUR_MS
    (weekly,) = load(text(**WEEKLY, zone="Europe/Berlin", skip="[1970-01-01, 2026-12-24]")).partitions[0].calendar
    assert (weekly.start_ms, list(weekly.days), weekly.time_ms, list(weekly.skip)) == (
        0,
        [0, 3],
        18 * HOUR_MS,
        [0, 20811],
    )
    assert {one.offset_ms for one in weekly.offsets} == {HOUR_MS, 2 * HOUR_MS}


def test_offsets_change_to_the_second() -> None:
    berlin, utc = zone_named("Europe/Berlin"), zone_named("UTC")
    assert berlin is not None and utc is not None
    changes = [one.from_ms for one in offsets_of(berlin)]
    assert changes[:3] == [0, 1_585_443_600_000, 1_603_587_600_000] and len(changes) == 83
    assert [one.offset_ms for one in offsets_of(utc)] == [0]


def test_queues_in_a_window_have_what_is_written_and_what_they_inherit() -> None:
    settings = "{root.Night: {resources: {max: {vcore: 9}}, properties: {application.sort.policy: fair}}}"
    (window,) = load(text(**NO_NODES, settings=settings)).partitions[0].calendar
    night, below = window.queues
    assert (night.path, night.config.max.resources["vcore"].value, len(night.config.queues)) == ("root.night", 9_000, 0)
    both = {"runtime.default": "1h", "application.sort.policy": "fair"}
    assert dict(night.config.properties) == both and (below.path, dict(below.config.properties)) == (
        "root.night.a",
        both,
    )


def test_a_change_of_a_window_is_told() -> None:
    before, after = load(text()), load(text(release="true"))
    (line,) = difference(before, after)
    window = "once, from 2026-12-05 06:00 UTC; for 240 min; nodes rack=r1"
    assert line == f"window w {window} → {window}; release"
