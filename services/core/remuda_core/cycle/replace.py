"""Replace placeholders by real asks, gang by gang in the order of queues and applications (semantics section 12)."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ..facts import PLACEHOLDER_REPLACED, TIMEOUT, Allocated, Fact, ReplacementAsked, ReplacementStarted
from ..index.gangs import AwaitingAsks
from ..index.partition import PartitionIndex
from ..limits import ANSWER_WITHIN_MS
from ..rules.devices import split
from ..rules.leaving import ends_before
from ..rules.lifecycle import RESUMING
from ..rules.required_node import required_node
from ..rules.resource import Resource, show
from ..state import Allocation, Node, PendingAsk, State
from .devices import needs_on
from .place import accepted, allocate, choose_devices, class_of, release_requested


def replace(state: State, index: PartitionIndex, budget: int, now_ms: int) -> Generator[Fact, None, int]:
    """Start replacements, at most `budget`. Returns how many were started. A gang none of whose asks finds a place is
    set aside until a node gains room."""
    started = 0
    while started < budget and (gang := index.next_gang()) is not None:
        for pending in gang.first_asks():
            found = yield from find_place(index, pending, now_ms)
            if found is not None:
                yield from take(state, pending, *found, now_ms)
                started += 1
                break
        else:
            index.block(gang)
    return started


def find_place(
    index: PartitionIndex, pending: PendingAsk, now_ms: int
) -> Generator[Fact, None, tuple[Allocation, Node] | None]:
    """(placeholder to replace, node for the ask); None if there is none. Asks the RM to release placeholders that are
    too small for the ask, unless the gang is resuming: then all of them are released anyway."""
    line, need = index.lines.get(pending), pending.ask.resource
    if not isinstance(line, AwaitingAsks) or not line.group.free:
        return None
    free = line.group.free
    resuming = line.gang.application.state == RESUMING
    if not resuming and not covers(next(iter(free)).fact.resource, need):
        for placeholder in [p for p in free if not p.releasing and not covers(p.fact.resource, need)]:
            message = f"too small for {pending.ask.allocation_key}: {show(placeholder.fact.resource)}, {show(need)}"
            yield release_requested(placeholder, TIMEOUT, message)
    return place(index, line, pending, now_ms) if index.lines.get(pending) is line else None


def place(
    index: PartitionIndex, line: AwaitingAsks, pending: PendingAsk, now_ms: int
) -> tuple[Allocation, Node] | None:
    """The oldest placeholder that is large enough, whose node takes the ask and stays until its bound, and whose
    devices serve it; else the oldest that is large enough, and a node with room beside it."""
    ask, first, bound_to = pending.ask, None, required_node(pending.ask.tags)
    for placeholder in line.group.free:
        if covers(placeholder.fact.resource, pending.ask.resource):
            node, first = placeholder.node, first or placeholder
            takes = node.takes(bound_to) and ends_before(
                ask.tags, ask.execution_timeout_ms, node.leaves_for(pending), now_ms
            )
            if takes and node.id not in pending.refused and same_devices(placeholder, pending):
                return placeholder, node
    elsewhere = index.best_node(pending) if first is not None else None
    return None if first is None or elsewhere is None else (first, elsewhere)


def same_devices(placeholder: Allocation, pending: PendingAsk) -> bool:
    """Whether the ask needs of devices what the placeholder has, and so can take over its devices."""
    node, fact, ask = placeholder.node, placeholder.fact, pending.ask
    if not node.devices:
        return True
    wanted = needs_on(node, ask.resource, ask.tags)
    held = {name: len(split(names)) for name, names in fact.devices.items()}
    same = held == {need.resource: need.devices for need in wanted}
    return same and wanted == needs_on(node, fact.resource, fact.tags)


def covers(room: Resource, need: Resource) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in need.items())


def take(state: State, pending: PendingAsk, placeholder: Allocation, node: Node, now_ms: int) -> Iterator[Fact]:
    """Start the replacement, and ask the RM to release the placeholder. The ask is allocated when the RM confirms the
    release. Where the RM declares predicates, it is asked about the node first."""
    held = same_devices(placeholder, pending) and node is placeholder.node
    devices = (
        placeholder.fact.devices if held else choose_devices(state.partitions[pending.ask.partition], pending, node)
    )
    allocation = allocate(state, pending, node, devices=devices)
    yield ReplacementStarted(allocation, placeholder.fact.uuid, placeholder.fact.allocation_key)
    if state.predicates and not accepted(pending, node, now_ms):
        yield ReplacementAsked(
            *allocation.ask_name,
            node.id,
            allocation.uuid,
            state.next_question,
            now_ms + ANSWER_WITHIN_MS,
            class_of(pending),
            allocation.resource if class_of(pending) else {},
            allocation.tags if class_of(pending) else {},
        )
    else:
        yield asked_for(placeholder, allocation)


def asked_for(placeholder: Allocation, allocation: Allocated) -> Fact:
    return release_requested(
        placeholder, PLACEHOLDER_REPLACED, f"replaced by {allocation.allocation_key}, {allocation.uuid}"
    )
