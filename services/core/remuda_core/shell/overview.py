"""The overview of an RM for operators: asks that wait and since when, amounts that queues are owed, resources that are
idle although asks want them, and the actions of operators. Computed on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from msgspec.structs import asdict

from ..decide.names import plain
from ..limits import OVERVIEW_ACTIONS, OVERVIEW_ROWS
from ..rules.resource import Resource
from ..state import Application, Hold, Partition, PendingAsk, Queue, State
from . import views

View = dict[str, object]

# Constraints of asks that no node will ever fit as nodes are now.
_NOWHERE: Final = frozenset(["too_large", "unknown_node"])
UNREPORTED: Final = "unreported"
# Resources that every node has. All others are devices: a node either has them or is of no use to an ask for them.
_EVERYWHERE: Final = frozenset(["vcore", "memory", "pods", "ephemeral-storage", "storage", "disk"])


@dataclass(slots=True)
class Wait:
    """Pending allocations, and when the oldest of their asks came, in ms (0: there are none). `reasons`: how many of
    them wait for each kind of constraint, by the first that was reported; UNREPORTED: none was yet. Not by resource."""

    pieces: int = 0
    since_ms: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, pieces: int, since_ms: int) -> None:
        self.pieces += pieces
        if since_ms and (not self.since_ms or since_ms < self.since_ms):
            self.since_ms = since_ms

    def view(self) -> View:
        return {"waiting": self.pieces, "waiting_since_ms": self.since_ms}


NO_WAIT: Final = Wait()


@dataclass(slots=True)
class Waits:
    """The waiting asks of a partition: by the path of each queue with those below it, and by resource. `nowhere`: asks
    that fit no node, the first of equal ones for all of them."""

    queues: dict[str, Wait] = field(default_factory=dict)
    resources: dict[str, Wait] = field(default_factory=dict)
    nowhere: list[tuple[PendingAsk, Wait]] = field(default_factory=list)

    def of(self, queue: Queue) -> Wait:
        return self.queues.get(queue.path, NO_WAIT)


def waits_of(partition: Partition) -> Waits:
    """Looks at each application of queues with pending asks, and at each of these asks."""
    found, by_names, sizes = Waits(), dict[tuple[str, ...], Wait](), _Sizes(partition)
    for queue in partition.queues.values():
        if not queue.leaf or not queue.priorities:
            continue
        own = Wait()
        for application in queue.applications.values():
            if application.asks:
                _add(application, own, by_names, found.nowhere, sizes)
        for above in queue.path_to_root if own.pieces else ():
            wait = found.queues.setdefault(above.path, Wait())
            wait.add(own.pieces, own.since_ms)
            wait.reasons.update(own.reasons)
    for names, wait in by_names.items():
        for name in names:
            found.resources.setdefault(name, Wait()).add(wait.pieces, wait.since_ms)
    return found


class _Sizes:
    """Which demands the nodes of a partition are large enough for, when all has left them. Looks at the nodes once, and
    at each size of them once for each demand."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._capacities: list[Resource] | None = None
        self._known: dict[tuple[tuple[str, int], ...], bool] = {}

    def hold(self, demand: Resource) -> bool:
        """True also where there are no nodes: they may come."""
        key = tuple(demand.items())
        if (known := self._known.get(key)) is None:
            known = self._known[key] = self._hold(demand)
        return known

    def _hold(self, demand: Resource) -> bool:
        if self._capacities is None:
            nodes = self._partition.nodes.values()
            self._capacities = list({tuple(node.capacity.items()): node.capacity for node in nodes}.values())
        return not self._capacities or any(
            all(amount <= capacity.get(name, 0) for name, amount in demand.items() if amount > 0)
            for capacity in self._capacities
        )


def _add(
    application: Application, own: Wait, by_names: dict[tuple[str, ...], Wait],
    nowhere: list[tuple[PendingAsk, Wait]], sizes: _Sizes,
) -> None:  # fmt: skip
    """Add the waits of the application's pending asks. Of equal asks, only the first is told why it waits."""
    alike: Resource | None = None
    stuck: Wait | None = None
    reason = UNREPORTED
    for ask in application.asks.values():
        pieces, resource, at_ms = ask.pending, ask.ask.resource, ask.at_ms
        if not pieces:
            continue
        own.add(pieces, at_ms)
        names = tuple(resource) if all(resource.values()) else tuple(name for name in resource if resource[name])
        wait = by_names.get(names)
        if wait is None:
            wait = by_names[names] = Wait()
        wait.add(pieces, at_ms)
        if ask.waiting is not None:
            alike, stuck = resource, None
            reason = next((constraint for constraint, _, _ in ask.waiting), UNREPORTED)
            # An ask that its queue holds back is not compared with nodes before the queue has room for it.
            if any(constraint in _NOWHERE for constraint, _, _ in ask.waiting) or not sizes.hold(resource):
                stuck = Wait()
                nowhere.append((ask, stuck))
        elif alike is not resource and alike != resource:
            alike, stuck, reason = resource, None, UNREPORTED
        own.reasons[reason] += pieces
        if stuck is not None:
            stuck.add(pieces, at_ms)


def overview_of(state: State, waits: Mapping[str, Waits]) -> View:
    """`waits`: by the plain name of each partition. Lists have the `total` of their rows, and the first of them."""
    named = sorted((plain(one.name), one) for one in state.partitions.values())
    return {
        "applications": sum(not a.terminal for _, one in named for a in one.applications.values()),
        "allocations": sum(len(one.allocations) for _, one in named),
        "allocations_ever": state.next_allocation,
        "partitions": [_partition(name, one, waits[name]) for name, one in named],
        "below_guarantee": _listed(row for name, one in named for row in _owed(name, one, waits[name])),
        "fits_nowhere": _listed(row for name, _ in named for row in _nowhere(name, waits[name])),
        "idle": _listed(row for name, one in named for row in _idle(name, one, waits[name])),
        "held": _listed(
            {"partition": plain(partition), "queue": queue, **_held(hold)}
            for (partition, queue), hold in sorted(state.holds.items())
        ),
        "drained": _listed(
            {"partition": plain(partition), "node": node, **_held(hold)}
            for (partition, node), hold in sorted(state.drains.items())
            if not hold.from_ms and partition in state.partitions and node in state.partitions[partition].nodes
        ),
        "actions": [
            views.action(outcome, state.action_times.get(action_id, 0))
            for action_id, outcome in islice(reversed(state.actions.items()), OVERVIEW_ACTIONS)
        ],
    }


def _held(hold: Hold) -> View:
    return asdict(views.hold(hold))


def _listed(rows: Iterable[View]) -> View:
    found = list(rows)
    return {"total": len(found), "rows": found[:OVERVIEW_ROWS]}


def _partition(name: str, partition: Partition, waits: Waits) -> View:
    nodes = partition.nodes.values()
    return {
        "name": name,
        "total": partition.total,
        "occupied": views.amounts(partition.occupied),
        "allocated": views.amounts(partition.root.allocated),
        "pending": views.amounts(partition.root.pending),
        "nodes": len(partition.nodes),
        "unschedulable": sum(not node.schedulable for node in nodes),
        **waits.of(partition.root).view(),
    }


def _owed(name: str, partition: Partition, waits: Waits) -> Iterator[View]:
    """Queues that use less than what is guaranteed to them, of all that asks in them wait for: a queue that has all of
    its guaranteed cores is not owed the memory that goes with more of them. A queue above such a queue is owed
    nothing else."""
    told: set[Queue] = set()
    for queue in sorted(partition.queues.values(), key=lambda one: (-len(one.path_to_root), one.path)):
        guaranteed, wait = queue.settings.guaranteed, waits.of(queue)
        if not guaranteed or not wait.pieces or queue in told:
            continue
        pending = queue.pending
        short = [name for name in guaranteed if pending.get(name, 0) > 0]
        if not short or any(queue.allocated.get(name, 0) >= guaranteed[name] for name in short):
            continue
        told.update(queue.path_to_root)
        yield {
            "partition": name,
            "queue": queue.path,
            "guaranteed": {n: guaranteed[n] for n in short},
            "allocated": {n: queue.allocated.get(n, 0) for n in short},
            "pending": {n: pending[n] for n in short},
            **wait.view(),
        }


def _nowhere(name: str, waits: Waits) -> Iterator[View]:
    for ask, wait in waits.nowhere:
        yield {
            "partition": name,
            "queue": ask.application.queue.path,
            "application": ask.application.id,
            "key": ask.ask.allocation_key,
            **wait.view(),
        }


def _idle(name: str, partition: Partition, waits: Waits) -> Iterator[View]:
    """Devices that nodes have free, reserved or not, while asks wait for such devices. Where the partition knows each
    device, those with nothing on them: rests of others are left over, not idle."""
    wanted = sorted(waits.resources.keys() - _EVERYWHERE)
    if not wanted:
        return
    free, whole = dict.fromkeys(wanted, 0), dict[str, int]()
    for node in partition.nodes.values():
        if node.schedulable:
            for resource in wanted:
                if (devices := node.devices.get(resource)) is not None:
                    empty = devices.offered().count(devices.unit)
                    whole[resource] = whole.get(resource, 0) + empty
                    free[resource] += empty * devices.unit
                elif there := node.capacity.get(resource, 0):
                    left = there - node.occupied.get(resource, 0) - node.allocated.get(resource, 0)
                    free[resource] += max(0, left)
    pending = partition.root.pending
    for resource in wanted:
        if free[resource] > 0:
            yield {
                "partition": name,
                "resource": resource,
                "free": free[resource],
                **({"devices": whole[resource]} if resource in whole else {}),
                "pending": pending.get(resource, 0),
                **waits.resources[resource].view(),
            }
