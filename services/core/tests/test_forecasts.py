"""Forecasts of starts: plays of a state without arrivals, and intervals that learn how often they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus.bus import Refused
from remuda_core.actions import LendQuota
from remuda_core.commands import (
    Administer,
    Register,
    ReleaseAllocation,
    Schedule,
    SubmitApplication,
    SubmitAsk,
    Tick,
    UpdateNode,
)
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask
from remuda_core.limits import FORECASTS_SHOWN_MS
from remuda_core.settings import EASY, Configuration, PartitionSettings, QueueInWindow, QueueSettings, Window
from remuda_core.shell.copies import Copies, Source
from remuda_core.shell.forecasts import Forecasts
from remuda_core.shell.queries import Queries
from remuda_core.state import Run
from remuda_core.trials.forecast import run_ms, starts, unknown, world_of
from remuda_core.trials.intervals import Interval, Intervals, Open, quantile, raw_interval
from remuda_operations.queries.rows import Forecasts as Answer
from remuda_replication.log import Position

PARTITION = "[rm-1]default"
NOW_MS = 10_000_000
MINUTE_MS = 60_000


class Cluster:
    def __init__(
        self, *, nodes: int = 1, vcore: int = 4, maximum: int = 0, eod: int = 0, calendar: tuple[Window, ...] = ()
    ) -> None:
        """`maximum`, `eod`: of two queues; 0: none."""
        self.core, self.now_ms = Core("rm-1"), NOW_MS
        leaves = [QueueSettings(name, max={"vcore": m} if m else {}) for name, m in (("a", maximum), ("eod", eod))]
        root = QueueSettings("root", parent=True, submit_acl="*", admin_acl="joe", queues=tuple(leaves))
        settings = PartitionSettings("default", root, preemption_enabled=False, backfill=EASY, calendar=calendar)
        self.handle(Register("rm-1", Configuration("", (settings,))))
        for number in range(nodes):
            self.handle(UpdateNode(PARTITION, f"n{number}", "CREATE", {}, {"vcore": vcore}))
        self.handle(SubmitApplication(PARTITION, "app", "root.a", "alice"))

    def handle(self, command: object) -> list[object]:
        return self.core.handle(command, self.now_ms)  # type: ignore[arg-type,return-value]

    def ask(self, key: str, vcore: int, minutes: float, count: int = 1) -> None:
        need = {"vcore": vcore}
        self.handle(SubmitAsk(Ask(PARTITION, "app", key, need, count, 0, int(minutes * MINUTE_MS))))

    def cycle(self) -> list[str]:
        facts = self.handle(Schedule(1_000))
        return [fact.allocation_key for fact in facts if isinstance(fact, Allocated)]

    def starts(self) -> dict[str, list[float]]:
        """In minutes from now, by key."""
        partition = self.core.state.partitions[PARTITION]
        world = world_of(self.core.state, partition, self.core.index, self.now_ms)
        return {
            one.pending.ask.allocation_key: [(at_ms - self.now_ms) / MINUTE_MS for at_ms in found]
            for one, found in zip(world.waiting, starts(world, 5), strict=True)
        }


def test_without_earlier_runs_bounds_are_played() -> None:
    cluster = Cluster()
    cluster.ask("a", 3, 10)
    cluster.ask("b", 4, 5)
    assert cluster.cycle() == ["a"]
    cluster.ask("short", 1, 10)
    cluster.ask("long", 1, 20)
    assert cluster.starts() == {"b": [10.0] * 5, "short": [0.0] * 5, "long": [15.0] * 5}


def test_nodes_are_away_in_windows_and_when_they_leave() -> None:
    disks = Window("disks", NOW_MS + 10 * MINUTE_MS, duration_ms=20 * MINUTE_MS, ids=("n0",))
    cluster = Cluster(calendar=(disks,))
    cluster.ask("short", 1, 5)
    cluster.ask("long", 1, 20)
    cluster.ask("endless", 1, 0)
    assert cluster.starts() == {"short": [0.0] * 5, "long": [30.0] * 5, "endless": [30.0] * 5}
    cluster.now_ms += 15 * MINUTE_MS
    cluster.handle(Tick())
    assert cluster.starts() == {"short": [15.0] * 5, "long": [15.0] * 5, "endless": [15.0] * 5}
    leaves = {"remuda/leavesAt": str(NOW_MS + 40 * MINUTE_MS)}
    cluster.handle(UpdateNode(PARTITION, "n0", "UPDATE", leaves))
    assert cluster.starts() == {"short": [15.0] * 5, "long": [], "endless": []}


def test_nodes_are_kept_for_a_queue() -> None:
    span = {"duration_ms": 20 * MINUTE_MS, "ids": ("*",), "queue": "root.eod", "lead_ms": 5 * MINUTE_MS}
    cluster = Cluster(vcore=1, calendar=(Window("books", NOW_MS + 10 * MINUTE_MS, **span),))  # type: ignore[arg-type]
    cluster.ask("first", 1, 7)
    assert cluster.cycle() == ["first"]
    cluster.ask("long", 1, 20)
    cluster.ask("short", 1, 2)
    assert cluster.starts() == {"short": [7.0] * 5, "long": [30.0] * 5}


def test_a_maximum_holds_asks_back() -> None:
    cluster = Cluster(vcore=8, maximum=4)
    cluster.ask("a", 4, 10)
    assert cluster.cycle() == ["a"]
    cluster.ask("b", 4, 5)
    cluster.ask("c", 4, 5)
    assert cluster.starts() == {"b": [10.0] * 5, "c": [15.0] * 5}


def other(maximum: int, minutes: int, lasts: int, name: str = "night") -> Window:
    """A window that gives root.a another maximum; 0: none."""
    settings = QueueSettings("a", max={"vcore": maximum} if maximum else {})
    span = {"duration_ms": lasts * MINUTE_MS, "queues": (QueueInWindow("root.a", settings),)}
    return Window(name, NOW_MS + minutes * MINUTE_MS, **span)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("maximum", "calendar", "expected"),
    [
        (4, (other(8, 7, 20),), {"b": 7.0, "c": 10.0}),  # more room until minute 27
        (4, (other(0, 7, 20),), {"b": 7.0, "c": 10.0}),  # no maximum at all
        (8, (other(4, 4, 20),), {"b": 0.0, "c": 10.0}),  # what runs stays, and goes at minutes 5 and 10
        (8, (other(3, 1, 30),), {"b": 0.0, "c": 31.0}),
        (0, (other(4, 2, 6),), {"b": 0.0, "c": 8.0}),
        (4, (other(8, 3, 9), other(4, 3, 5, "rush")), {"b": 8.0, "c": 10.0}),  # the last one counts
    ],
)
def test_windows_change_the_maximum(maximum: int, calendar: tuple[Window, ...], expected: Mapping[str, float]) -> None:
    cluster = Cluster(vcore=8, maximum=maximum, calendar=calendar)
    cluster.ask("a", 4, 10)
    cluster.ask("b", 4, 5)
    first = cluster.starts()
    cluster.cycle()
    cluster.ask("c", 4, 5)
    assert {**first, **cluster.starts()} == {"a": [0.0] * 5, **{key: [at] * 5 for key, at in expected.items()}}


def test_nothing_starts_above_a_maximum() -> None:
    """Also not what wants nothing of the resource."""
    cluster = Cluster(vcore=8, maximum=8, calendar=(other(3, 1, 30),))
    cluster.ask("a", 4, 10)
    assert cluster.cycle() == ["a"]
    cluster.now_ms += MINUTE_MS
    cluster.handle(Tick())
    cluster.handle(UpdateNode(PARTITION, "n0", "UPDATE", {}, {"vcore": 8, "memory": 1}))
    cluster.handle(SubmitAsk(Ask(PARTITION, "app", "b", {"memory": 1}, 1, 0, 5 * MINUTE_MS)))
    assert cluster.cycle() == []
    assert cluster.starts() == {"b": [9.0] * 5}


def test_the_end_of_a_loan_is_played() -> None:
    cluster = Cluster(vcore=12, maximum=6, eod=8)

    def lend(lender: str, borrower: str, minutes: int) -> None:
        action = LendQuota(lender, borrower, {"vcore": 2}, False, NOW_MS + minutes * MINUTE_MS)
        cluster.handle(Administer("joe", (), False, "", lender, False, PARTITION, action))

    cluster.ask("a", 4, 10)
    assert cluster.cycle() == ["a"]
    lend("root.eod", "root.a", 6)
    cluster.ask("b", 4, 7)
    assert cluster.cycle() == ["b"]
    cluster.ask("c", 4, 5)
    assert cluster.starts() == {"c": [10.0] * 5}, "at minute 7 no more than 6 are allowed again"
    lend("root.a", "root.eod", 20)
    assert cluster.starts() == {"c": [10.0] * 5}
    cluster.ask("d", 6, 1)
    assert cluster.starts() == {"c": [10.0] * 5, "d": [20.0] * 5}


def test_run_times_are_drawn_from_the_last_runs() -> None:
    """Given that the allocation still runs; a bound is never exceeded."""
    runs = [Run(ran_ms, 1_000) for ran_ms in (100, 200, 300, 400, 500)]
    assert {run_ms(2_000, 0, runs, (), draw) for draw in range(5)} == {200, 400, 600, 800, 1_000}
    assert {run_ms(2_000, 700, runs, (), draw) for draw in range(5)} == {800, 1_000}
    assert run_ms(2_000, 1_500, runs, (), 3) == 2_000
    assert run_ms(0, 0, runs[:2], (), 3) > 10**15, "nothing is known"
    assert run_ms(2_000, 0, runs[:2], [Run(500, 1_000)], 3) == 1_000, "of all users"


def test_what_has_no_end_is_unknown() -> None:
    cluster = Cluster()
    cluster.ask("a", 4, 0)
    assert cluster.cycle() == ["a"]
    cluster.ask("b", 4, 5)
    cluster.ask("larger", 9, 5)
    partition = cluster.core.state.partitions[PARTITION]
    world = world_of(cluster.core.state, partition, cluster.core.index, cluster.now_ms)
    reasons = {one.pending.ask.allocation_key: unknown(world, one) for one in world.waiting}
    assert reasons == {
        "b": "1 of 1 allocations in the way have no bound, and earlier runs are not known",
        "larger": "no node is large enough",
    }


@given(seed=st.integers(0, 10**6))
def test_a_forecast_with_bounds_is_what_happens(seed: int) -> None:
    """If everything runs to its bound and nothing comes, each ask starts when the forecast says."""
    random = Random(seed)
    maxima = [random.choice((0, 3, 5, 8)) for _ in range(3)]
    calendar = [other(m, random.randint(1, 40), random.randint(1, 40), f"w{n}") for n, m in enumerate(maxima[1:])]
    cluster = Cluster(vcore=8, maximum=maxima[0], calendar=tuple(calendar))
    changes = sorted(time for one in calendar for time in (one.start_ms, one.start_ms + one.duration_ms))
    cluster.core.state.timing = msgspec.structs.replace(cluster.core.state.timing, reservation_delay_ms=0)
    ends: list[tuple[int, str]] = []

    def cycle() -> list[str]:
        begun = []
        for fact in cluster.handle(Schedule(1_000)):
            if isinstance(fact, Allocated):
                begun.append(fact.allocation_key)
                ends.append((cluster.now_ms + fact.execution_timeout_ms, fact.uuid))
        return begun

    for number in range(random.randint(2, 15)):
        cluster.ask(f"k{number}", random.choice((1, 2, 3, 5, 8)), random.choice((1, 2, 5, 5.5, 30)))
    cycle()
    forecast = cluster.starts()
    began_ms, found = cluster.now_ms, dict[str, float]()
    while len(found) < len(forecast) and (ends or changes):
        cluster.now_ms = min([end[0] for end in ends] + changes)
        changes = [time for time in changes if time > cluster.now_ms]
        cluster.handle(Tick())
        for at_ms, uuid in [one for one in ends if one[0] == cluster.now_ms]:
            ends.remove((at_ms, uuid))
            cluster.handle(ReleaseAllocation(PARTITION, "app", uuid, 1, "over"))
        found |= dict.fromkeys(cycle(), (cluster.now_ms - began_ms) / MINUTE_MS)
    assert forecast == {key: [found[key]] * 5 if key in found else [] for key in forecast}


def test_intervals_learn_to_hold() -> None:
    """Of samples that are too sure by a factor, four of five intervals hold after some hundred forecasts."""
    random, intervals, inside = Random(1), Intervals(), []
    for _ in range(2_000):
        middle = 1_000_000.0
        raw = Interval(middle, 0.9 * middle, 1.1 * middle)
        shown = intervals.widened(raw)
        waited_ms = middle * exp(random.gauss(0.3, 0.7))
        inside.append(shown.below_ms <= waited_ms <= shown.above_ms)
        intervals.resolve(Open(raw, shown), waited_ms)
    assert 0.77 < sum(inside[500:]) / 1_500 < 0.83
    assert 0.74 < sum(intervals.held) / len(intervals.held) < 0.86


def test_samples_without_a_start_lie_above_all_others() -> None:
    assert raw_interval([1.0, 2.0], 5) is None
    raw = raw_interval([1.0, 2.0, 3.0], 4)
    assert raw is not None and (raw.median_ms, raw.below_ms, raw.above_ms) == (2.5, 1.0, float("inf"))
    assert [quantile([1, 2, 3, 4], share) for share in (0.1, 0.5, 0.9)] == [1, 3, 4]


class Asked:
    """The forecasts of a cluster by a process that may fork, with a clock of its own for the time that it rests."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.now_s, self.plays = cluster, 0.0, 0
        self.copies = Copies(lambda: self.now_s)
        self.forecasts = Forecasts(lambda: cluster.now_ms)

    async def forked(self, fork: Callable[[], Source]) -> tuple[Position, Source]:
        self.plays += 1
        return Position(7), fork()

    async def eta(self, **request: object) -> Answer:
        answer = await self.copies.eta(self.forked, self.cluster.core, request, self.forecasts, in_child=True)
        return msgspec.json.decode(answer, type=Answer)

    async def sample(self) -> None:
        task = self.copies.sample(self.forked, self.cluster.core, self.forecasts)
        if task is not None:
            await task

    def rows(self, kind: str, **request: object) -> list[dict[str, Any]]:
        page = Queries(self.cluster.core, self.forecasts).kinds[kind](request)
        return msgspec.json.decode(msgspec.json.encode(page))["forecasts" if kind == "forecasts" else "asks"]


def full(key: str = "a") -> Cluster:
    """A cluster in which `key` runs for ten minutes and takes all room."""
    cluster = Cluster()
    cluster.ask(key, 4, 10)
    assert cluster.cycle() == [key]
    return cluster


async def test_the_answer_names_position_interval_and_reason() -> None:
    cluster = full()
    cluster.ask("b", 4, 5, count=2)
    cluster.ask("larger", 9, 5)
    asked = Asked(cluster)
    found = await asked.eta()
    b, larger = found.forecasts
    assert (b.key, b.queue, b.position, b.median_ms) == ("b", "root.a", 1, cluster.now_ms + 10 * MINUTE_MS)
    assert b.from_ms < b.median_ms < b.until_ms
    assert (larger.position, larger.median_ms, larger.unknown) == (3, 0, "no node is large enough")
    assert (found.held, found.of, found.log_seq, found.at_ms) == (0, 0, 7, cluster.now_ms)
    assert [one.key for one in (await asked.eta(application="app", key="larger")).forecasts] == ["larger"]
    cluster.now_ms += 10 * MINUTE_MS
    (allocation,) = cluster.core.state.partitions[PARTITION].allocations.values()
    cluster.handle(ReleaseAllocation(PARTITION, "app", allocation.fact.uuid, 1, "over"))
    assert cluster.cycle() == ["b"]
    cluster.now_ms += 1
    asked.now_s += 100.0
    found = await asked.eta()
    assert (found.held, found.of) == (1, 1)
    assert {(one.held, one.of) for one in found.forecasts} == {(1, 1)}


async def test_who_asks_again_within_a_minute_gets_the_same_forecasts() -> None:
    cluster = full()
    cluster.ask("b", 4, 5)
    asked = Asked(cluster)
    first = await asked.eta()
    cluster.now_ms += 59_000
    assert await asked.eta() == first
    assert await asked.eta(application="app", key="b") == first
    assert asked.plays == 1
    asked.now_s += 100.0
    cluster.ask("new", 4, 5)
    assert [one.key for one in (await asked.eta(application="app", key="new")).forecasts] == ["new"]
    assert asked.plays == 2, "it was not in the first"
    asked.now_s += 100.0
    cluster.now_ms += 60_000
    await asked.eta()
    assert asked.plays == 3


async def test_explanations_have_the_last_forecast_and_wait_for_none() -> None:
    cluster = full()
    cluster.ask("b", 4, 5)
    asked = Asked(cluster)
    assert [one["forecast"] for one in asked.rows("explain")] == [None]
    assert asked.rows("forecasts") == []
    await asked.sample()
    cluster.ask("new", 4, 5)
    b, new = asked.rows("explain", application="app")
    assert (b["forecast"]["median_ms"], new["forecast"]) == (cluster.now_ms + 10 * MINUTE_MS, None)
    assert asked.rows("forecasts", application="app", key="b") == [b["forecast"]]
    cluster.now_ms += FORECASTS_SHOWN_MS
    assert [one["forecast"] for one in asked.rows("explain")] == [None, None], "too old"
    assert asked.rows("forecasts") == []
    with pytest.raises(Refused, match="application 'other' does not exist"):
        asked.rows("forecasts", application="other")


async def test_forecasts_of_asks_that_have_started_are_not_shown() -> None:
    cluster = full()
    cluster.ask("b", 4, 5)
    asked = Asked(cluster)
    await asked.sample()
    (allocation,) = cluster.core.state.partitions[PARTITION].allocations.values()
    cluster.handle(ReleaseAllocation(PARTITION, "app", allocation.fact.uuid, 1, "over"))
    assert cluster.cycle() == ["b"]
    assert asked.rows("forecasts") == []
    assert (await asked.eta()).forecasts == []


async def test_forecasts_in_the_background_are_made_once_a_minute_and_rest() -> None:
    cluster = full()
    cluster.ask("b", 4, 5)
    asked = Asked(cluster)
    for _ in range(5):
        await asked.sample()
    assert asked.plays == 1
    cluster.now_ms += 60_000
    asked.copies._samples_after = 50.0
    await asked.sample()
    assert asked.plays == 1, "it rests"
    await asked.eta()
    assert asked.plays == 2, "an operator does not wait for that"
    cluster.now_ms += 60_000
    asked.now_s = 50.0
    await asked.sample()
    assert asked.plays == 3
