"""Storms in queues with budgets, against the oracle and all invariants; and the laws of budgets (semantics 25)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import remuda_config
from remuda_core import commands
from remuda_core.facts import Ask, BudgetPeriodBegan
from remuda_core.rules.budget import cost_of, hours, period_at, utc
from remuda_core.settings import Budget, Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Budget as Spent
from remuda_core.wire.configuration import read_configuration

from .spending_storm import SpendingStorm
from .storm import played
from .world import RM, World

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Asuncion")
MS = timedelta(milliseconds=1)


@given(seed=st.integers(0, 10**6))
@example(530)  # an ask that keeps a node asks whether it may preempt there
@example(813)  # an ask that keeps a node moves to a queue with a budget
@example(675)  # a placeholder without a bound, and then a default for bounds
def test_a_storm(seed: int) -> None:
    played(SpendingStorm(seed), seed, 80)


# Periods


def configured(period: str, zone: str) -> Budget:
    text = f"""
partitions:
  - name: default
    queues: [{{name: root, budget: {{amounts: {{vcore: 1h}}, period: {period}, timezone: {zone}}}}}]
"""
    budget = read_configuration(remuda_config.load(text)).partitions[0].root.budget
    assert budget is not None
    return budget


def midnight(day: datetime, zone: str) -> int:
    """When the day begins by the clocks of the zone: the earlier time if they show midnight twice."""
    local = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    return (local - EPOCH) // MS


@given(
    at_ms=st.integers(1_610_000_000_000, 2_170_000_000_000),
    period=st.sampled_from(("day", "week", "month")),
    zone=st.sampled_from(ZONES),
)
def test_periods_are_those_of_the_calendar(at_ms: int, period: str, zone: str) -> None:
    local = (EPOCH + at_ms * MS).astimezone(ZoneInfo(zone))
    first = {"day": local, "week": local - timedelta(days=local.weekday()), "month": local.replace(day=1)}[period]
    last = {"day": first + timedelta(days=1), "week": first + timedelta(days=7)}.get(period)
    last = last or (first + timedelta(days=32)).replace(day=1)
    found = period_at(configured(period, zone), at_ms)
    assert found.from_ms <= at_ms < found.until_ms
    for got_ms, day in ((found.from_ms, first), (found.until_ms, last)):
        assert abs(got_ms - midnight(day, zone)) <= (0 if zone != "America/Asuncion" else 3_600_000)
    assert period_at(configured(period, zone), found.until_ms).from_ms == found.until_ms
    assert period_at(configured(period, zone), found.from_ms - 1).until_ms == found.from_ms


@given(at_ms=st.integers(0, 10**14), length_ms=st.integers(60_000, 10**11))
def test_periods_of_a_fixed_length_are_counted_from_1970(at_ms: int, length_ms: int) -> None:
    found = period_at(Budget({}, "", length_ms), at_ms)
    assert found.from_ms <= at_ms < found.until_ms == found.from_ms + length_ms
    assert found.from_ms % length_ms == 0


@given(at_ms=st.integers(0, 10**14))
def test_times_are_shown_as_the_calendar_has_them(at_ms: int) -> None:
    at = EPOCH + timedelta(milliseconds=at_ms)
    assert utc(at_ms) == at.strftime("%Y-%m-%d %H:%M UTC").rjust(20, "0")


@pytest.mark.parametrize(
    ("cost", "shown"),
    [(0, "0"), (3_600_000, "1"), (36_000, "0.01"), (35_999, "0"), (5_400_000, "1.5"), (36_000_000, "10")],
)
def test_hours(cost: int, shown: str) -> None:
    assert hours(cost) == shown


def test_a_cost_is_that_of_the_bound() -> None:
    assert cost_of({"vcore": 2, "gpu": 0}, 5) == {"vcore": 10}
    assert cost_of({"vcore": 2}, 0) == {"vcore": 2}  # some has to be left


MINUTE = 60_000
PARTITION = f"[{RM}]default"


def minutes() -> World:
    """A queue with a budget for each minute, in which an allocation of 2 runs; its time is a whole minute."""
    world = World()
    world.now_ms = 100 * MINUTE
    leaf = QueueSettings("a", budget=Budget({"vcore": 10}, "", MINUTE))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(leaf,))
    world.handle(commands.Register(RM, Configuration("x", (PartitionSettings("default", root),))))
    world.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 100}))
    world.handle(commands.SubmitApplication(PARTITION, "app-1", "root.a", "ann"))
    add(world, 2)
    return world


def add(world: World, amount: int) -> None:
    key = f"k{len(world.log)}"
    world.handle(commands.SubmitAsk(Ask(PARTITION, "app-1", key, {"vcore": amount})))
    world.handle(commands.Schedule(1))


def budget_of(world: World) -> Spent:
    return world.state.partitions[PARTITION].queues["root.a"].budgets[0]


def test_what_is_used_after_the_end_counts_in_the_next_period_although_the_tick_is_late() -> None:
    world = minutes()
    world.now_ms += MINUTE + 10_000
    add(world, 3)
    assert budget_of(world).used_of("vcore") == 2 * MINUTE, "the period is over, and counts until its end"
    world.now_ms += 20_000
    facts = world.handle(commands.Tick())
    (began,) = (fact for fact in facts if isinstance(fact, BudgetPeriodBegan))
    assert (began.from_ms, began.until_ms) == (101 * MINUTE, 102 * MINUTE)
    assert budget_of(world).used_of("vcore") == 2 * 30_000 + 3 * 20_000


def test_periods_that_pass_without_a_tick_count_in_none() -> None:
    world = minutes()
    world.now_ms += MINUTE + 10_000
    add(world, 3)
    world.now_ms += 2 * MINUTE
    add(world, 4)
    world.now_ms += 20_000
    world.handle(commands.Tick())
    assert budget_of(world).from_ms == 103 * MINUTE
    assert budget_of(world).used_of("vcore") == 5 * 30_000 + 4 * 20_000
    world.now_ms += 5 * MINUTE  # nothing happened meanwhile
    world.handle(commands.Tick())
    assert budget_of(world).used_of("vcore") == 9 * (world.now_ms % MINUTE)


def test_a_queue_that_comes_back_goes_on_within_its_period_and_begins_anew_in_a_later_one() -> None:
    for away_ms, kept in ((20_000, 2 * 10_000), (2 * MINUTE, 0)):
        world = minutes()
        world.now_ms += 10_000
        configuration = world.state.configuration
        assert configuration is not None
        leaf = QueueSettings("a", budget=Budget({"vcore": 10}, "", MINUTE))
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(leaf,))
        world.handle(commands.RmConnection("deregistered", "gone"))
        world.now_ms += away_ms
        world.handle(commands.Register(RM, Configuration("x", (PartitionSettings("default", root),))))
        assert budget_of(world).used_of("vcore") == kept
