"""What an overview counts in storms is what one finds by looking at every ask, node and queue."""

from __future__ import annotations

from collections import Counter

import pytest

from remuda_core.shell.overview import overview_of, waits_of
from remuda_core.state import Partition, PendingAsk
from tests.property.storm import storm


def asks_of(partition: Partition, path: str) -> list[PendingAsk]:
    """Those that wait in a queue and below it."""
    return [
        ask
        for application in partition.applications.values()
        for ask in application.asks.values()
        if f"{application.queue.path}.".startswith(f"{path}.") and ask.pending
    ]


@pytest.mark.parametrize("seed", range(12))
def test_counts_are_those_of_all_asks(seed: int) -> None:
    state = storm(77_000 + seed, 120).state
    for partition in state.partitions.values():
        waits = waits_of(partition)
        for queue in partition.queues.values():
            asks, wait = asks_of(partition, queue.path), waits.of(queue)
            assert wait.pieces == sum(ask.pending for ask in asks), queue.path
            assert wait.since_ms == min((ask.at_ms for ask in asks), default=0), queue.path
            assert wait.reasons.total() == wait.pieces
        wanted = Counter[str]()
        for ask in asks_of(partition, "root"):
            wanted.update({name: ask.pending for name, amount in ask.ask.resource.items() if amount})
        assert {name: wait.pieces for name, wait in waits.resources.items()} == dict(wanted)


@pytest.mark.parametrize("seed", range(12))
def test_a_queue_is_listed_if_and_only_if_it_is_owed_something(seed: int) -> None:
    state = storm(78_000 + seed, 120).state
    named = {partition.name.partition("]")[2]: partition for partition in state.partitions.values()}
    found = overview_of(state, {name: waits_of(one) for name, one in named.items()})
    listed: object = found["below_guarantee"]
    assert isinstance(listed, dict)
    owed = {(row["partition"], row["queue"]) for row in listed["rows"]}
    for name, partition in named.items():
        below = set[str]()  # queues above those that are owed something
        for path, queue in sorted(partition.queues.items(), key=lambda one: -one[0].count(".")):
            pending = Counter[str]()
            for ask in asks_of(partition, path):
                pending.update({resource: amount * ask.pending for resource, amount in ask.ask.resource.items()})
            due = {resource: amount for resource, amount in queue.settings.guaranteed.items() if pending[resource] > 0}
            is_owed = bool(due) and all(queue.allocated.get(resource, 0) < amount for resource, amount in due.items())
            assert ((name, path) in owed) == (is_owed and path not in below), path
            if is_owed or path in below:
                below.add(path.rpartition(".")[0])
