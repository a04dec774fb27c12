"""Windows of a calendar, against a plain reading of semantics section 26: when they come is what a calendar with time
zones says; which ask is next and where it goes is what the reading finds; and when all are over, nothing is as if there
had been one.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from remuda_config import calendars
from remuda_core import commands
from remuda_core.actions import MoveApplication
from remuda_core.facts import Allocated, Fact, WindowClosed, WindowOpened
from remuda_core.rules.windows import Span, next_span
from remuda_core.settings import Configuration, Offset, QueueInWindow, QueueSettings, Window

from .leaving_oracle import is_of
from .storm import played
from .test_leaving import KINDS, MINUTE_MS, PARTITION, Day
from .windows_storm import WindowsStorm, drawn

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca",
    "America/Santiago", "Pacific/Apia",
)  # fmt: skip
DAY = timedelta(days=1)


@settings(max_examples=200)
@given(
    zone=st.sampled_from(ZONES),
    days=st.sets(st.integers(0, 6), min_size=1),
    minute=st.integers(0, 1_439),
    lasts=st.integers(1, 7 * 1_440),
    seconds=st.integers(1_609_459_200, 2_808_000_000),
    skipped=st.sets(st.integers(-3, 20), max_size=12),
    since=st.none() | st.integers(-20, 20),
    until=st.none() | st.integers(-20, 20),
)
def test_a_window_comes_when_the_clock_of_its_zone_says_so(
    zone: str, days: set[int], minute: int, lasts: int, seconds: int, skipped: set[int], since: int | None,
    until: int | None,
) -> None:  # fmt: skip
    found = calendars.zone_named(zone)
    assert found is not None
    now = datetime.fromtimestamp(seconds, UTC)
    at = {
        name: ms_of(now + days * DAY) if days is not None else 0 for name, days in (("since", since), ("until", until))
    }
    skip = {now.date() + days * DAY for days in skipped}
    window = Window(
        "w", days=tuple(sorted(days)), time_ms=minute * MINUTE_MS, duration_ms=lasts * MINUTE_MS,
        offsets=tuple(Offset(one.from_ms, one.offset_ms) for one in calendars.offsets_of(found)),
        since_ms=at["since"], until_ms=at["until"], skip=tuple(sorted((one - date(1970, 1, 1)).days for one in skip)),
    )  # fmt: skip
    assert next_span(window, ms_of(now)) == by_clock(window, found, skip, now)


def by_clock(window: Window, zone: ZoneInfo, skip: set[date], now: datetime) -> Span | None:
    """Day by day."""
    clock = time(*divmod(window.time_ms // MINUTE_MS, 60))
    for ahead in range(-30, 150):
        day = now.date() + ahead * DAY
        from_ms = ms_of(datetime.combine(day, clock, zone))
        if day.weekday() not in window.days or day in skip or from_ms < window.since_ms:
            continue
        if window.until_ms and from_ms >= window.until_ms:
            return None
        if ms_of(now) < from_ms + window.duration_ms:
            return Span(from_ms, from_ms + window.duration_ms)
    raise AssertionError("it comes each week")


def ms_of(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


class CalendarDay(Day):
    """With a calendar that changes."""

    def __init__(self, seed: int, kind: str, most: int = 4) -> None:
        self.drawing, self.most = Random(seed), most
        self.configured: Configuration | None = None
        super().__init__(seed, kind)

    def handle(self, command: commands.Command) -> list[Fact]:
        if isinstance(command, commands.Register):
            self.configured = self.with_calendar(command.configuration)
            command = replace(command, configuration=self.configured)
        return super().handle(command)

    def with_calendar(self, configuration: Configuration) -> Configuration:
        (partition,) = configuration.partitions
        queues = {f"root.{one.name}": one for one in partition.root.queues}
        calendar = drawn(self.drawing, queues, self.world.now_ms, self.most)
        partition = replace(partition, root=replace(partition.root, admin_acl="sam"))
        return replace(
            configuration, checksum=f"c{self.drawing.random()}", partitions=(replace(partition, calendar=calendar),)
        )

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice((self.ask, self.ask, self.wait, self.wait, self.other, self.answer, self.release))()
            self.handle(commands.Tick())
            self.check_windows()
            self.schedule()

    def other(self) -> None:
        """A node, a time at which one leaves, another calendar, or an application in another queue."""
        choice = self.random.random()
        if choice < 0.2 and self.configured is not None:
            self.configured = self.with_calendar(self.configured)
            self.handle(commands.Configure(self.configured))
        elif choice < 0.4:
            self.act(MoveApplication(f"a-{self.random.choice(('alice', 'bob'))}", f"root.{self.random.choice('ab')}"))
        elif choice < 0.6 and self.partition.nodes:
            rack = {"rack": self.random.choice("xy")}
            self.handle(
                commands.UpdateNode(PARTITION, self.random.choice(sorted(self.partition.nodes)), "UPDATE", rack)
            )
        else:
            self.plan()

    def check_windows(self) -> None:
        """After a tick: which windows are open, which nodes they drain, and what queues have."""
        now_ms, partition = self.world.now_ms, self.partition
        assert self.configured is not None
        outside = {f"root.{one.name}": one for one in self.configured.partitions[0].root.queues}
        shut: dict[str, set[str]] = {node_id: set() for node_id in partition.nodes}
        for window in partition.settings.calendar:
            span = next_span(window, now_ms)
            known = partition.windows.get(window.name)
            assert (known and (known.from_ms, known.until_ms)) == span
            is_open = span is not None and span.from_ms - (window.lead_ms if window.queue else 0) <= now_ms
            assert bool(known and known.open) == is_open, f"window {window} at {now_ms}"
            if not is_open:
                continue
            outside.update((one.path, one.config) for one in window.queues)
            if not window.queue:
                for node in partition.nodes.values():
                    shut[node.id] |= {window.name} if is_of(window, node) else set()
        for node in partition.nodes.values():
            assert set(node.in_windows) == shut[node.id]
            assert node.draining or not shut[node.id]
        for path, expected in outside.items():
            assert partition.queues[path].settings == expected


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_nothing_starts_that_a_window_forbids(kind: str, seed: int) -> None:
    CalendarDay(seed, kind).run(25)


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_windows_come_on_days_of_any_kind(seed: int) -> None:
    played(WindowsStorm(seed), seed, 80)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_when_all_windows_are_over_all_is_as_if_there_had_been_none(seed: int) -> None:
    """Two worlds with the same asks. In one, windows come and go while nothing is placed."""
    days = with_windows, without = CalendarDay(seed, "plain", 6), CalendarDay(seed, "plain", 0)
    for day in days:
        for node_id in sorted(day.partition.nodes):
            day.handle(commands.UpdateNode(PARTITION, node_id, "UPDATE", {"remuda/leavesAt": ""}))
        for _ in range(8):
            day.ask()
        for _ in range(60):
            day.world.now_ms += 10 * MINUTE_MS
            day.handle(commands.Tick())
    happened = [fact for _, facts in with_windows.world.log for fact in facts]
    opened = [fact.window for fact in happened if isinstance(fact, WindowOpened)]
    assert sorted(opened) == sorted(fact.window for fact in happened if isinstance(fact, WindowClosed))
    assert not with_windows.partition.windows and not with_windows.partition.leaving
    assert not any(timer.kind == "window" for timer in with_windows.world.state.timers)
    for path, queue in without.partition.queues.items():
        assert with_windows.partition.queues[path].settings == queue.settings
    for node_id, node in without.partition.nodes.items():
        assert with_windows.partition.nodes[node_id].draining == node.draining
    placed = [
        sorted((f.allocation_key, f.node_id) for f in day.handle(commands.Schedule(1_000)) if isinstance(f, Allocated))
        for day in days
    ]
    assert placed[0] == placed[1]


def test_off_there_is_no_fact_no_timer_and_no_vector() -> None:
    day = CalendarDay(1, "plain", 0)
    for node_id in sorted(day.partition.nodes):
        day.handle(commands.UpdateNode(PARTITION, node_id, "UPDATE", {"remuda/leavesAt": ""}))
    day.handle(commands.Schedule(10))
    index = day.world.core.index.find(day.partition)
    assert index is not None and index.nodes.falls is None
    assert not any("Window" in type(fact).__name__ for _, facts in day.world.log for fact in facts)
    assert not any(timer.kind == "window" for timer in day.world.state.timers)


def test_settings_in_a_window_may_be_of_queues_that_come_later() -> None:
    """A queue that the configuration takes away while its window is open leaves no trace."""
    day = CalendarDay(1, "plain", 0)
    assert day.configured is not None
    (partition,) = day.configured.partitions
    more = replace(partition.root, queues=(*partition.root.queues, QueueSettings("c")))
    night = Window(
        "night", day.world.now_ms, duration_ms=MINUTE_MS,
        queues=(QueueInWindow("root.c", QueueSettings("c", max={"vcore": 1})),),
    )  # fmt: skip
    for root, calendar in ((more, (night,)), (partition.root, ()), (more, ())):
        settings = replace(partition, root=root, calendar=calendar)
        checksum = f"{len(root.queues)} {len(calendar)}"
        day.handle(commands.Configure(replace(day.configured, checksum=checksum, partitions=(settings,))))
        day.world.now_ms += 1_000
        day.handle(commands.Tick())
    assert day.partition.queues["root.c"].settings.max == {}
