"""What a replay keeps in a directory, and in place of values that would be too many."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from remuda.history import spool
from remuda.history.measures import Waits, quantile
from remuda.history.spool import Event, Run, Sample, Spool
from remuda_core import commands


@pytest.mark.parametrize("at_once", [1, 3, 5_000])
def test_it_gives_back_what_was_added(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_AT_ONCE", at_once)
    one = Spool()
    events = [
        Event(at_ms, commands.RemoveApplication("p", f"app-{at_ms}"), "root.a", at_ms % 2 == 0) for at_ms in range(10)
    ]
    for event in events:
        one.add_event(event)
    for number in (0, 1, 1):
        one.add_run(("p", "app", "key"), number, Run(100 + number, number == 0))
    one.add_run(("p", "app", "key"), 1, Run(7, True))
    one.finish()
    assert [*one.events()] == events == [*one.events()]
    assert one.run_of(("p", "app", "key"), 0) == Run(100, True)
    assert one.run_of(("p", "app", "key"), 1) == Run(7, True), "the last one counts"
    assert one.run_of(("p", "app", "key"), 2) is None and one.run_of(("p", "a", "pp"), 0) is None
    directory = Path(one._directory.name)
    assert directory.is_dir()
    del one
    assert not directory.exists()


def test_a_sample_has_all_of_few_and_is_like_many() -> None:
    few, many, chance = Sample(100), Sample(100), random.Random(1)
    for number in range(50):
        few.add(number, number)
    assert few.values() == list(range(50))
    for number in range(20_000):
        many.add(number, chance.randrange(1_000))
    values = many.values()
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
    assert len(waits.ended) < 12_000
    assert quantile({}, 50) == 0 and quantile({7: 1}, 99) == 7
