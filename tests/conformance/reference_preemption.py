"""The reference's rules of preemption, in the place of ours (see reference_rules.py)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from remuda_core.cycle import preempt, schedule, victims
from remuda_core.cycle.preempt import attempt, interval_of
from remuda_core.cycle.preempt_groups import GroupPlan
from remuda_core.cycle.victims import Shortfall, VictimSearch
from remuda_core.facts import Fact
from remuda_core.index.limits import full_queue, limit_of
from remuda_core.index.partition import PartitionIndex
from remuda_core.index.preemption import can_preempt
from remuda_core.rules.properties import is_priority_fence, preemption_delay_ms, priority_offset
from remuda_core.rules.required_node import required_node
from remuda_core.rules.resource import items_of
from remuda_core.state import Allocation, Node, Partition, PendingAsk, Queue, State


@contextmanager
def choose_one_victim_after_the_other() -> Iterator[None]:
    """Victims are taken in their order until the ask fits; none of them is spared in the end. On its required node an
    ask preempts until the victims together are as large as the ask, whatever is free there. There the order is lowest
    priority, then youngest: which of them allow it, and which started their application, does not matter."""

    def in_order(
        self: VictimSearch, node: Node, shortfall: Shortfall, candidates: list[Allocation]
    ) -> list[Allocation] | None:
        return self._collect(node, shortfall, sorted(candidates, key=self._order))

    def all_of_it(pending: PendingAsk, node: Node) -> Shortfall | None:
        shortfall = shortfall_of(pending, node)
        return {name: amount for name, amount in pending.ask.resource.items() if amount} if shortfall else shortfall

    def greedy(
        self: VictimSearch, node: Node, wanted: Shortfall, candidates: list[Allocation]
    ) -> list[Allocation] | None:
        chosen: list[Allocation] = []
        left = dict(wanted)
        for victim in sorted(candidates, key=lambda candidate: self.cheapness(candidate)[2:]):
            if not left:
                break
            chosen.append(victim)
            victims.lessen(left, victim.fact.resource)
        short = shortfall_of(self.pending, node)
        for victim in chosen:
            victims.lessen(short or {}, victim.fact.resource)
        return None if short else chosen

    shortfall_of, plan = victims.shortfall_of, preempt.plan_on_required_node

    def planned(*arguments: Any) -> Any:
        with patch.object(preempt, "shortfall_of", all_of_it), patch.object(VictimSearch, "choose", greedy):
            return plan(*arguments)

    with (
        patch.object(preempt, "plan_on_required_node", planned),
        patch.object(VictimSearch, "choose", in_order),
    ):
        yield


@contextmanager
def preempt_once_per_ask() -> Iterator[None]:
    """An ask preempts for one of its allocations, and never again."""
    planned = preempt.plan

    def once(
        state: State, partition: Partition, pending: PendingAsk, *rest: Any, **named: Any
    ) -> preempt.Plan | GroupPlan | str:
        if pending.preempted_at_ms:
            return "it has preempted others before"
        return planned(state, partition, pending, *rest, **named)

    with patch.object(preempt, "plan", once):
        yield


@contextmanager
def compare_priorities_with_the_offset_of_the_meeting_queue() -> Iterator[None]:
    """The offset of the queue where ask and victim meet counts for the ask, and not for the victim."""
    neighbours = victims.neighbours

    def with_offset(pending: PendingAsk) -> Iterator[tuple[int, float, Queue]]:
        path_to_root = pending.application.queue.path_to_root
        for place, priority, child in neighbours(pending):
            properties = path_to_root[place].settings.properties
            above = 0.0 if is_priority_fence(properties) else priority
            yield place, above + priority_offset(properties), child

    with patch.object(victims, "neighbours", with_offset):
        yield


Normal = Callable[[State, Partition, PartitionIndex, int, int], Generator[Fact, None, int]]


@contextmanager
def preempt_before_the_next_ask() -> Iterator[None]:
    """An ask that finds no room preempts in its turn, before the asks behind it are placed."""
    normal: Normal = schedule.place_pending

    def in_turn(
        state: State, partition: Partition, index: PartitionIndex, limit: int, now_ms: int
    ) -> Generator[Fact, None, int]:
        if not index.gangs_to_serve:
            for pending in list(_in_front(state, partition, index, now_ms)):
                if (yield from attempt(state, partition, index, pending, now_ms)):
                    return limit
        return (yield from normal(state, partition, index, limit, now_ms))

    with patch.object(schedule, "place_pending", in_turn):
        yield


def _in_front(state: State, partition: Partition, index: PartitionIndex, now_ms: int) -> Iterator[PendingAsk]:
    """Asks that may preempt and come before the first that can be placed."""
    index.measure()
    waiting = [
        pending
        for application in partition.applications.values()
        for pending in application.asks.values()
        if pending.free and index.find_demand(pending) is not None
    ]
    for pending in sorted(waiting, key=index.ask_rank):
        if limit_of(pending) or index.leaf_of(pending.application).holds_back(pending.application):
            continue
        if full_queue(pending) is None and index.best_node(pending) is not None:
            return
        if not index.awaits_place(pending) and _may_preempt(state, partition, pending, now_ms):
            yield pending


def _may_preempt(state: State, partition: Partition, pending: PendingAsk, now_ms: int) -> bool:
    queue = pending.application.queue
    if not can_preempt(pending) or pending.preempted_at_ms or required_node(pending.ask.tags):
        return False
    refused_ms = queue.refusals.get((items_of(pending.ask.resource), "", pending.ask.priority))
    due_ms = pending.at_ms + preemption_delay_ms(queue.settings.properties)
    if refused_ms is not None:
        due_ms = max(due_ms, refused_ms + interval_of(state, partition))
    return due_ms <= now_ms
