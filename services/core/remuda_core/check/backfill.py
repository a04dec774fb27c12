"""Backfill: what the index has of it, compared with what follows from the state (semantics section 22)."""

from __future__ import annotations

from collections.abc import Iterable

from ..index.asks import AskClass
from ..index.partition import PartitionIndex
from ..settings import EASY, SHORTEST
from ..state import Partition, PendingAsk
from .topology import membership


def lasts_of(partition: Partition, ask: PendingAsk) -> tuple[int, int] | tuple[()]:
    """How long allocations of the ask run at most and are expected to, where asks are told apart by that."""
    if partition.settings.backfill != EASY or membership(ask):
        return ()
    shortest = partition.settings.backfill_order == SHORTEST
    return max(0, ask.ask.execution_timeout_ms), ask.expected_ms if shortest else 0


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
