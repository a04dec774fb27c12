"""What a replay keeps in a directory, and in place of values that would be too many."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from remuda.history import spool
from remuda.history.measures import EXACT_TIMES, Times, Waits
from remuda.history.spool import (
    ApplicationWaits,
    Event,
    Run,
    Sample,
    Spool,
    largest_differences,
    means_of,
    write_means,
)
from remuda_core import commands


@pytest.mark.parametrize("at_once", [1, 3, 5_000])
def test_it_gives_back_what_was_added(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_AT_ONCE", at_once)
    one = Spool()
    events = [
        Event(at_ms, commands.RemoveApplication("p", f"app-{at_ms}"), "root.a", at_ms % 2 == 0, at_ms)
        for at_ms in range(10)
    ]
    for event in events:
        one.add_event(event)
    for number in (0, 1, 1):
        one.add_run(5, number, Run(100 + number, number == 0))
    one.add_run(5, 1, Run(7, True))
    one.finish()
    assert [*one.events()] == events == [*one.events()]
    assert one.run_of(5, 0) == Run(100, True)
    assert one.run_of(5, 1) == Run(7, True), "the last one counts"
    assert one.run_of(5, 2) is None and one.run_of(6, 0) is None
    directory = Path(one._directory.name)
    assert directory.is_dir()
    del one
    assert not directory.exists()


def test_a_sample_has_all_of_few_and_is_like_many() -> None:
    few, many, chance = Sample(100), Sample(100), random.Random(1)
    for number in range(50):
        few.add(number, number)
    assert [*few.values()] == list(range(50))
    for number in range(20_000):
        many.add(number, chance.randrange(1_000))
    values = [*many.values()]
    assert len(values) == 100 and values == sorted(values)
    assert 400 < sum(values) / 100 < 600


def test_waits_are_counted_and_rounded_by_little() -> None:
    waits, chance = Waits(), random.Random(2)
    exact = sorted(int(chance.lognormvariate(10, 3)) for _ in range(20_000))
    for one in exact:
        waits.add(one)
    row = waits.row()
    assert row["count"] == len(exact) and row["most_ms"] == exact[-1]
    assert row["mean_ms"] == pytest.approx(sum(exact) / len(exact))
    for percent in (50, 95, 99):
        right = exact[-(-len(exact) * percent // 100) - 1]
        assert right * 0.998 <= row[f"p{percent}_ms"] <= right


@pytest.mark.parametrize("count", [1, 7, EXACT_TIMES, EXACT_TIMES + 1])
def test_few_times_are_exact(count: int) -> None:
    times, chance = Times(), random.Random(count)
    exact = sorted(chance.randrange(1 << 40 if count <= EXACT_TIMES else 1_000) for _ in range(count))
    for one in chance.sample(exact, count):
        times.add(one)
    assert times.count == count
    for percent in (1, 50, 95, 100):
        assert times.quantile(percent) == exact[-(-count * percent // 100) - 1]
    assert Times().quantile(50) == 0


@pytest.mark.parametrize("at_once", [1, 5_000])
def test_applications_that_gain_and_lose_most(at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_AT_ONCE", at_once)
    before, after = ApplicationWaits(tmp_path / "before"), tmp_path / "after"
    for number in range(8):
        before.add(f"app-{number}", 100.0, 2)
    before.add("app-3", 200.0, 1)  # its ID has come again
    before.add("gone", 1.0, 1)
    before.finish()
    write_means(after, {**{f"app-{number}": 50.0 + (number - 3) * 10 for number in range(8)}, "new": 7.0})
    assert means_of(tmp_path / "before")["app-3"] == 100.0 and means_of(after)["new"] == 7.0
    gained, lost = largest_differences(tmp_path / "before", after, 2)
    assert gained == [("app-3", -50.0), ("app-0", -30.0)]
    assert lost == [("app-7", 40.0), ("app-6", 30.0)]
    assert largest_differences(after, after, 2) == ([], [])
