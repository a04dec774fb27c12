"""Backfill: what the index has of it, compared with what follows from the state (semantics section 22)."""

from __future__ import annotations

from collections.abc import Iterable

from ..costs import bound_ms
from ..cycle.backfill import hole_of
from ..cycle.promises import starts
from ..index.asks import AskClass
from ..index.node_groups import Lasts
from ..index.partition import PartitionIndex
from ..settings import EASY, SHORTEST
from ..state import Partition, PendingAsk
from .topology import membership


def lasts_of(partition: Partition, ask: PendingAsk) -> Lasts:
    """The longest and the expected run time of the ask's allocations, where asks are told apart by these times."""
    lasts: Lasts = ()
    if partition.settings.backfill == EASY and not membership(ask):
        shortest = partition.settings.backfill_order == SHORTEST
        lasts = max(0, ask.ask.execution_timeout_ms), ask.expected_ms if shortest else 0
    if not ask.application.queue.budgets:
        return lasts
    return (*(lasts or (0, 0)), bound_ms(ask.application, ask.ask), ask.ask.placeholder)


def check_windows(partition: Partition, index: PartitionIndex, now_ms: int) -> None:
    """The index knows the present holes of all reserved nodes on which nothing has changed."""
    windows = index.windows
    if index.candidates is None or windows.all_changed:
        return
    known = windows.live | windows.idle
    assert not windows.live.keys() & windows.idle.keys(), "a hole is live or idle"
    for node in index.reserved_nodes.of:
        if node.id in windows.changed:
            continue
        again_ms = windows.again_ms.get(node.id)
        assert again_ms is not None, f"node {node.id}: reserved and not looked at"
        if again_ms > now_ms:
            expected = hole_of(index, node, starts(partition, node, now_ms).at_ms, now_ms)
            assert known.get(node.id) == expected, f"node {node.id}: {known.get(node.id)}, expected {expected}"
    gone = known.keys() - {node.id for node in index.reserved_nodes.of} - windows.changed.keys()
    assert not gone, f"holes of nodes that are not reserved: {sorted(gone)}"
    for node_id, hole in windows.idle.items():
        fitting = [one for one in index.candidates.fitting(hole, now_ms) if one not in index.candidates.new]
        assert node_id in windows.changed or not fitting, f"node {node_id}: idle, and {len(fitting)} ask classes fit"


def check_candidates(partition: Partition, index: PartitionIndex, ask_classes: Iterable[AskClass]) -> None:
    """Every ask class without a group is a candidate, and nothing else is; without backfill there are none."""
    assert (index.candidates is not None) == (partition.settings.backfill == EASY), f"{partition.name}: its candidates"
    if index.candidates is None:
        return
    wanted = {one for one in ask_classes if one.demand.possible and one.demand.group_of_asks is None}
    known = {one for one in ask_classes if one in index.candidates}
    assert known == wanted and len(index.candidates) == len(wanted), (
        f"{partition.name}: {len(index.candidates)} candidates for backfill, expected {len(wanted)}"
    )
    for node in partition.nodes.values():
        assert node.promise is None or node.reservation is not None, f"node {node.id}: promised to no ask"
        assert node.promise is None or node.promise.promised_ms > 0, f"node {node.id}: promised at no time"
