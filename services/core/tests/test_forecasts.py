"""Forecasts of starts: plays of a state without arrivals, and intervals that learn how often they hold."""

from __future__ import annotations

from math import exp
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from remuda_core.commands import Register, ReleaseAllocation, Schedule, SubmitApplication, SubmitAsk, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask
from remuda_core.settings import EASY, Configuration, PartitionSettings, QueueSettings
from remuda_core.shell.forecasts import Forecasts, sampled_of
from remuda_core.state import Run
from remuda_core.trials.forecast import run_ms, starts, unknown, world_of
from remuda_core.trials.intervals import Interval, Intervals, Open, quantile, raw_interval
from remuda_operations.queries.rows import Forecasts as Answer

PARTITION = "[rm-1]default"
NOW_MS = 10_000_000
MINUTE_MS = 60_000


class Cluster:
    def __init__(self, *, nodes: int = 1, vcore: int = 4, maximum: int = 0) -> None:
        self.core, self.now_ms = Core("rm-1"), NOW_MS
        queue = QueueSettings("a", max={"vcore": maximum} if maximum else {})
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(queue,))
        settings = PartitionSettings("default", root, preemption_enabled=False, backfill=EASY)
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


def test_a_maximum_holds_asks_back() -> None:
    cluster = Cluster(vcore=8, maximum=4)
    cluster.ask("a", 4, 10)
    assert cluster.cycle() == ["a"]
    cluster.ask("b", 4, 5)
    cluster.ask("c", 4, 5)
    assert cluster.starts() == {"b": [10.0] * 5, "c": [15.0] * 5}


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
    cluster = Cluster(vcore=8)
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
    while len(found) < len(forecast):
        cluster.now_ms = min(ends)[0]
        for at_ms, uuid in [one for one in ends if one[0] == cluster.now_ms]:
            ends.remove((at_ms, uuid))
            cluster.handle(ReleaseAllocation(PARTITION, "app", uuid, 1, "over"))
        found |= dict.fromkeys(cycle(), (cluster.now_ms - began_ms) / MINUTE_MS)
    assert forecast == {key: [found[key]] * 5 for key in forecast}


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
    assert intervals.held_share is not None and 0.74 < intervals.held_share < 0.86


def test_samples_without_a_start_lie_above_all_others() -> None:
    assert raw_interval([1.0, 2.0], 5) is None
    raw = raw_interval([1.0, 2.0, 3.0], 4)
    assert raw is not None and (raw.median_ms, raw.below_ms, raw.above_ms) == (2.5, 1.0, float("inf"))
    assert [quantile([1, 2, 3, 4], share) for share in (0.1, 0.5, 0.9)] == [1, 3, 4]


def test_the_answer_names_position_interval_and_reason() -> None:
    cluster = Cluster()
    cluster.ask("a", 4, 10)
    assert cluster.cycle() == ["a"]
    cluster.ask("b", 4, 5, count=2)
    cluster.ask("larger", 9, 5)
    forecasts = Forecasts()

    def asked() -> Answer:
        forecasts.resolve(cluster.core.state)
        sampled = sampled_of(cluster.core, "", "", 10, cluster.now_ms)
        head = {"rm": "rm-1", "state": "Running", "at_ms": cluster.now_ms, "log_seq": 7}
        answer = forecasts.answer(msgspec.json.encode({**head, "sampled": sampled}))
        return msgspec.json.decode(answer, type=Answer)

    found = asked()
    b, larger = found.forecasts
    assert (b.key, b.queue, b.position, b.median_ms) == ("b", "root.a", 1, cluster.now_ms + 10 * MINUTE_MS)
    assert b.from_ms < b.median_ms < b.until_ms
    assert (larger.position, larger.median_ms, larger.unknown) == (3, 0, "no node is large enough")
    assert (found.held, found.of, found.log_seq) == (0, 0, 7)
    cluster.now_ms += 10 * MINUTE_MS
    (allocation,) = cluster.core.state.partitions[PARTITION].allocations.values()
    cluster.handle(ReleaseAllocation(PARTITION, "app", allocation.fact.uuid, 1, "over"))
    assert cluster.cycle() == ["b"]
    cluster.now_ms += 1
    found = asked()
    assert (found.held, found.of) == (1, 1)
