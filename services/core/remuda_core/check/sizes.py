"""Bounds the memory of a state: the entries of every container of every object that is reachable from it, including
the scheduling index.

Objects are found by walking their fields, so new containers are counted, and bounded, without being named here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Any, Final

from .. import limits
from ..index.index import Index
from ..state import State

# Modules of values, which never change and whose size was bounded when they were read.
VALUES: Final = ("remuda_core.facts", "remuda_core.settings", "remuda_core.rules")

# Containers that are not counted, with the reason.
VECTOR = "one number for each resource name of the index"
RANK = "a few numbers"
VALUE = "was bounded when it was read, and never changes"
AMOUNTS = "one number for each resource name that a limit or the partition has"
TREE = "as long as the queue is deep"
EXCLUDED: Final = {
    **dict.fromkeys(("Application.tags", "Application.groups", "Application.placeholder_ask"), VALUE),
    "LeftGuest.queues": VALUE,
    **dict.fromkeys(("Node.attributes", "Node.capacity", "Node.occupied", "TaskGroup.min_resource"), VALUE),
    **dict.fromkeys(("Demand.resource", "Demand.items", "Demand.refused", "PendingAsk.refused"), VALUE),
    **dict.fromkeys(("Demand.need", "Demand.negated", "Demand.room", "PartitionIndex.no_limits"), VECTOR),
    **dict.fromkeys(("NodeGroup.capacity", "NodeGroup.obtainable", "NodeGroup.available"), VECTOR),
    **dict.fromkeys(("NodeGroup.room", "_Block.room", "Spot.room"), VECTOR),
    **dict.fromkeys(("FitList._nothing", "NodeIndex._weights", "NodeIndex.spare"), VECTOR),
    **dict.fromkeys(("Demand.rank", "Demand.search_start", "NodeGroup.rank", "AskClass.rank"), RANK),
    **dict.fromkeys(
        ("Gang.entry", "ApplicationAsks.entry", "LeafOrder.entry", "ParentOrder.entry", "Serving.entry"), RANK
    ),
    **dict.fromkeys(("ApplicationAsks.looked_at", "PreemptorGroup.kind"), RANK),
    **dict.fromkeys(("LeafOrder.maxima", "ParentOrder.maxima", "LeafOrder.due", "ParentOrder.due"), AMOUNTS),
    **dict.fromkeys(
        (
            "PartitionIndex.names",
            "NodeIndex._names",
            "Demands._names",
            "Demands.scales",
            "Partition.total",
            "Partition.occupied",
            "Node.bound",
        ),
        AMOUNTS,
    ),
    **dict.fromkeys(
        ("Queue.path_to_root", "Queue.ancestors_usage", "Application.trackers", "Application.application_limits"), TREE
    ),
    **dict.fromkeys(("LeafOrder.dormant_rank", "ParentOrder.dormant_rank"), RANK),
    "Spot.rank": RANK,
    **dict.fromkeys(("AskClass.admission", "ReservedNode.limits"), TREE),
    "AskClass.waits_for": "a limit, or a queue and what of it",
    "FitTree._found": "as long as the tree is deep",
    "Preemption.uuids": "a plan has at most VICTIMS_PER_PLAN",
}

# Containers of lists that count once, whatever they are made of: a few numbers and a member.
OF_ENTRIES: Final = frozenset(("LazyRanking._line", "LazyRanking._heap"))

# The maximum of entries in each object, for containers that may exceed the general rule.
EACH: Final = {
    "State.holds": limits.HOLDS,
    "State.drains": limits.DRAINS,
    "State.actions": limits.ACTIONS_KEPT,
    "State.action_times": limits.ACTIONS_KEPT,
    "Application.log": limits.FIRST_STATES + limits.LAST_STATES,
    "Queue.refusals": limits.REFUSALS_KEPT,
    "PendingAsk.waiting": 32,
    "PendingAsk.past": limits.REASONS_KEPT,
    "ApplicationAsks.reported": 32,
    "Partition.rejected": limits.REJECTED_APPLICATIONS,
    "Demand.spellings": limits.SPELLINGS,
    "FitTree._bits": 4 * limits.NEEDS_KEPT + 1,
    "CoveredNeeds._bits": limits.NEEDS_KEPT,
    "CoveredNeeds._free": limits.NEEDS_KEPT,
    **dict.fromkeys(("DemandBits._sharing", "DemandBits._free", "BitCounts._counts"), limits.DEMAND_BITS),
    **dict.fromkeys(
        ("DemandBits._levels", "DemandBits._masks"),
        (limits.LEVELS_KEPT + 32 * 64 + 2) * limits.RESOURCE_NAMES_PER_PARTITION,
    ),
    **dict.fromkeys(
        ("CoveredNeeds._levels", "CoveredNeeds._masks"), (limits.NEEDS_KEPT + 2) * limits.RESOURCE_NAMES_PER_PARTITION
    ),
}
# Sums of resources, which keep some zeros.
SUMS: Final = frozenset(
    ("Node.allocated", "Queue.allocated", "Queue.asked", "Queue.preempting", "Application.allocated",
     "Application.allocated_placeholder", "PendingSum.amounts", "Tracker.used")
)  # fmt: skip
# Node groups, and the ways between them: how many there may be beyond a multiple of the nodes.
PER_NODE: Final = {
    "NodeIndex._groups": limits.NODE_GROUPS_KEPT,
    "NodeGroup.next_groups": limits.NEXT_GROUPS_KEPT,
    "Demand.remembering_groups": limits.NEXT_GROUPS_KEPT,
}
# Verdicts of an RM that answers in batches outlive the asks that they were about: entries beyond the general rule.
VERDICTS: Final = {
    "PredicateClass.accepted": limits.VERDICTS_KEPT,
    "PredicateClass.refused": limits.VERDICTS_KEPT,
}
# The same in each partition. A ranking counts as LEFTOVERS nodes, and those that it has.
PER_PARTITION: Final = {
    "Partition.predicate_classes": limits.PREDICATE_CLASSES_KEPT,
    "Partition.idle_classes": limits.PREDICATE_CLASSES_KEPT,
    "Partition.class_questions": limits.CLASS_QUESTIONS_OPEN,
    "PredicateClass.asked": limits.CLASS_QUESTIONS_OPEN * limits.NODES_PER_QUESTION,
    "Rankings._of": 2 * limits.RANKED_NODES_KEPT // limits.LEFTOVERS,
    "AcceptedNodes._listed": limits.RANKED_NODES_KEPT,
    "AcceptedNodes._heap": 2 * limits.RANKED_NODES_KEPT,
}
# Containers with so many entries for each object of a class.
PER_OBJECT: Final = {
    "Demands._by_spelling": ("Demand", limits.SPELLINGS),
    # A class outlives its asks by its verdicts, which have a timer.
    "Timers._at": ("PredicateClass", 4),
    "Timers._times": ("PredicateClass", 4),
}

Containers = (dict, list, deque, set, frozenset, tuple)
NESTED: Final = (dict, list, deque, set)  # what is counted inside of a container


def sizes(state: State, index: Index | None = None) -> Counter[str]:
    """Counts by `Class.attribute` the entries in all objects of the class, including nested containers, and by `Class`
    the objects."""
    return measured(state, index)[0]


def measured(state: State, index: Index | None) -> tuple[Counter[str], Counter[str]]:
    """`sizes`, and by `Class.attribute` the entries of the largest container."""
    found: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    seen: set[int] = set()
    todo: list[Any] = [state, index]
    while todo:
        thing = todo.pop()
        kind: Any = type(thing)
        if thing is None or id(thing) in seen:
            continue
        seen.add(id(thing))
        found[kind.__name__] += 1
        for name, full_name in fields(thing):
            value: Any = getattr(thing, name, None)
            role = role_of(value.__class__)
            if role is Role.OBJECT:
                todo.append(value)
            elif role is not Role.VALUE:
                counted = 0 if full_name in EXCLUDED else entries(value, todo, nested=full_name not in OF_ENTRIES)
                if counted:
                    found[full_name] += counted
                    largest[full_name] = max(largest[full_name], counted)
    return found, largest


def entries(container: Any, todo: list[Any], *, nested: bool = True) -> int:
    """The number of entries. `nested`: including those of nested containers, except tuples. Appends the objects found
    to `todo`."""
    counted = len(container)
    inside: list[Any] = list(container)
    if isinstance(container, dict):
        inside += container.values()
    if all(role_of(kind) is Role.VALUE for kind in {value.__class__ for value in inside}):
        return counted
    while inside:
        value = inside.pop()
        role = role_of(value.__class__)
        if role is Role.OBJECT:
            todo.append(value)
        elif nested and value.__class__ in NESTED:
            counted += entries(value, todo)
        elif role is Role.TUPLE or (not nested and role is Role.CONTAINER):
            inside += value
    return counted


class Role(Enum):
    """VALUE: never changes. TUPLE: counts with the container that has it. OBJECT: of a class of the core."""

    VALUE = 0
    TUPLE = 1
    CONTAINER = 2
    OBJECT = 3


@cache
def role_of(kind: type) -> Role:
    if issubclass(kind, tuple):
        return Role.TUPLE
    if issubclass(kind, Containers):
        return Role.CONTAINER
    return Role.OBJECT if known(kind) else Role.VALUE


def known(kind: type) -> bool:
    """A class of the core whose objects may change."""
    return kind.__module__.startswith("remuda_core.") and not kind.__module__.startswith(VALUES)


@cache
def slots(kind: type) -> tuple[tuple[str, str], ...]:
    names = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    return tuple((name, f"{kind.__name__}.{name}") for name in (*getattr(kind, "__struct_fields__", ()), *names))


def fields(thing: Any) -> Iterable[tuple[str, str]]:
    kind: Any = type(thing)
    return slots(kind) or ((name, f"{kind.__name__}.{name}") for name in getattr(thing, "__dict__", ()))


# Bounds


def alive(state: State) -> int:
    """The number of nodes, queues, applications, asks, allocations … that the RM, the configuration and queries see."""
    return sum(
        len(partition.nodes)
        + len(partition.unreported)
        + len(partition.queues)
        + len(partition.applications)
        + len(partition.allocations)
        + len(partition.rejected)
        + len(partition.questions)
        + sum(len(application.asks) + len(application.replacements) for application in partition.applications.values())
        for partition in state.partitions.values()
    ) + sum(1 + len(one.allocations) for guests in state.left_guests.values() for one in guests.values())


def check_sizes(state: State, index: Index | None = None) -> None:
    """Raises AssertionError, which names the container that is too large."""
    (found, largest), there = measured(state, index), alive(state)
    nodes = sum(len(partition.nodes) for partition in state.partitions.values())
    for name, count in found.items():
        owners = found[name.partition(".")[0]]
        most = limits.ENTRIES_PER_THING * there + limits.LEFTOVERS * (owners + 1)
        if name in SUMS:
            most += limits.NAMES_KEPT * owners
        elif name in PER_NODE:
            most += 8 * nodes + PER_NODE[name]
        elif name in VERDICTS:
            most += VERDICTS[name]
        elif name in PER_PARTITION:
            most += PER_PARTITION[name] * len(state.partitions)
        elif name in PER_OBJECT:
            kind, entries_each = PER_OBJECT[name]
            most += entries_each * found[kind]
        elif name in EACH:
            each = EACH[name]
            assert largest[name] <= each, f"{name}: {largest[name]} entries in one, expected {each} at most"
            continue
        assert count <= most, f"{name}: {count} entries, where {there} things are alive and {owners} have it"
