"""When waiting asks will start: the future played forward from the present, several times with other run times
(semantics section 22).

A *world* is what a forecast knows of a partition: free amounts of nodes, what runs where and for how long at most, and
the waiting asks in the order of queues. It is played without further arrivals: at each end, asks are placed in their
order; those that fit no node reserve one, and others may use it if they end in time, as in `cycle.backfill`.
Nodes leave as it is known, and come back at the end of the window that drains them; of each window the occurrence that
is open or comes next is played, also of those that change the maxima of queues, as loans do that end. Ranks and other
settings of queues stay as they are, and predicates, preemption, devices and groups of asks are not played.

Run times are drawn from the last runs of the user, given that the allocation still runs. The draws follow from the
number of the sample, so that equal states have equal forecasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

from ..index.index import Index
from ..index.limits import limit_of, limits_of
from ..index.partition import PartitionIndex
from ..limits import ASKS_FORECAST, FORECAST_STEPS
from ..rules.runtime import RUNS_NEEDED, name_of
from ..rules.windows import is_below, opens_ms
from ..settings import EASY
from ..state import Application, Budget, Node, Partition, PendingAsk, Queue, Run, State
from .maxima import Maximum, maxima_ahead

Amounts = tuple[int, ...]
SAMPLES: Final = 20
# Nothing is expected to end later.
NEVER_MS: Final = 2**62
# The maximum of a resource while there is none.
UNLIMITED: Final = 2**64


class Running(NamedTuple):
    """An allocation that runs. `bound_ms` 0: it has no bound. `runs`: the runs of which its run time is drawn."""

    node: int
    amounts: Amounts
    began_ms: int
    bound_ms: int
    runs: tuple[Run, ...]
    limits: tuple[int, ...]


class Waiting(NamedTuple):
    """One repeat of a waiting ask. `limits`: the numbers of the maxima and limits that it counts under."""

    pending: PendingAsk
    amounts: Amounts
    bound_ms: int
    runs: tuple[Run, ...]
    limits: tuple[int, ...]
    bound_to: int | None


class Change(NamedTuple):
    """So much more room there is under a limit from a time on, by the place of the resource; less, if negative."""

    at_ms: int
    limit: int
    more: dict[int, int]


class Away(NamedTuple):
    """A node is not there from `from_ms` until `until_ms`. `unbounded`: asks without a bound start until then. `queue`:
    it is kept for this one, from `opens_ms` on; "": it is there for nobody."""

    from_ms: int
    until_ms: int
    unbounded: bool = False
    queue: str = ""
    opens_ms: int = 0


@dataclass(slots=True)
class World:
    """The present of a partition, as forecasts see it. `everyone`: the last runs of all users. `rooms`: what is left
    under each limit, by the place of the resource. `reservations`: how many nodes may be reserved."""

    now_ms: int
    free: list[Amounts]
    capacity: list[Amounts]
    running: list[Running]
    waiting: list[Waiting]
    rooms: list[dict[int, int]]
    everyone: tuple[Run, ...]
    reservations: int
    backfill: bool
    left_out: int = 0
    # By the number of the node: when it is not there. And the changes of limits, the last one first.
    away: dict[int, list[Away]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    # When nodes return or limits change, the last time first.
    times_ms: list[int] = field(default_factory=list)


def world_of(state: State, partition: Partition, index: Index, now_ms: int) -> World:
    """The world of a partition. O(n log n) with nodes, allocations and pending asks; of these the first ASKS_FORECAST
    in the order of queues are in it."""
    one = index.of(state, partition)
    one.measure()
    nodes = [node for node in partition.nodes.values() if _takes_asks(node) and not node.full]
    names = sorted({name for node in nodes for name in node.capacity})
    numbers = {node.id: number for number, node in enumerate(nodes)}
    limits: dict[object, int] = {}
    rooms: list[dict[int, int]] = []
    runs: dict[tuple[str, str], tuple[Run, ...]] = {}
    ahead, changes = maxima_ahead(partition, now_ms), list[Change]()

    def amounts(resource: object) -> Amounts:
        return tuple(int(resource.get(name, 0)) for name in names)  # type: ignore[attr-defined]

    def limits_below(application: Application) -> tuple[int, ...]:
        found = []
        for limit in limits_of(application):
            if isinstance(limit, Budget):
                continue
            maxima = ahead.get(limit.path, ()) if ahead and isinstance(limit, Queue) else ()
            most = limit.most
            if maxima:
                most = {**dict.fromkeys((name for one in maxima for name in one.most), UNLIMITED), **limit.most}
            if most:
                if limit not in limits:
                    limits[limit] = len(rooms)
                    left = {at: most[name] - limit.used.get(name, 0) for at, name in enumerate(names) if name in most}
                    rooms.append(left)
                    changes.extend(_changes(limits[limit], maxima, names))
                found.append(limits[limit])
        return tuple(found)

    def runs_of(application: Application, tags: object) -> tuple[Run, ...]:
        name = name_of(tags, application.tags)  # type: ignore[arg-type]
        key = (application.user, name)
        if key not in runs:
            of_name = partition.runtimes.of(*key)
            runs[key] = of_name if len(of_name) >= RUNS_NEEDED else partition.runtimes.of(application.user)
        return runs[key]

    running = [
        Running(
            numbers[node.id], amounts(one.fact.resource), one.at_ms, max(0, one.fact.execution_timeout_ms),
            runs_of(one.application, one.fact.tags), limits_below(one.application),
        )
        for node in nodes
        for one in node.allocations.values()
    ]  # fmt: skip
    asks = sorted(_pending(partition, one), key=one.ask_rank)
    waiting, left_out = list[Waiting](), 0
    for pending in asks:
        repeats = pending.pending
        taken = min(repeats, ASKS_FORECAST - len(waiting))
        left_out += repeats - taken
        if taken > 0:
            wanted = one.demand_of(pending).required_node
            bound_to = numbers.get(wanted, -1) if wanted else None
            waiting += [
                Waiting(
                    pending, amounts(pending.ask.resource), max(0, pending.ask.execution_timeout_ms),
                    runs_of(pending.application, pending.ask.tags), limits_below(pending.application), bound_to,
                )
            ] * taken  # fmt: skip
    away = _away(partition, nodes)
    times = {span.until_ms for spans in away.values() for span in spans} | {change.at_ms for change in changes}
    return World(
        now_ms, [amounts(node.available()) for node in nodes], [amounts(node.obtainable()) for node in nodes], running,
        waiting, rooms, partition.runtimes.of(""), one.reserved_nodes.most(partition.settings.reservation_share),
        partition.settings.backfill == EASY, left_out, away,
        sorted(changes, key=lambda one: one.at_ms, reverse=True), sorted(times - {NEVER_MS}, reverse=True),
    )  # fmt: skip


def _takes_asks(node: Node) -> bool:
    """Now, or when a window of maintenance is over."""
    return node.ready and not (node.drained_by_rm or node.left or node.drained_by_operator)


def _changes(limit: int, maxima: Sequence[Maximum], names: Sequence[str]) -> Iterator[Change]:
    for before, after in pairwise(maxima):
        more = {
            at: after.most.get(name, UNLIMITED) - before.most.get(name, UNLIMITED)
            for at, name in enumerate(names)
            if name in before.most or name in after.most
        }
        yield Change(after.from_ms, limit, more)


def _away(partition: Partition, nodes: Sequence[Node]) -> dict[int, list[Away]]:
    found: dict[int, list[Away]] = {}
    for number, node in enumerate(nodes):
        if node.leaves_ms < NEVER_MS:
            found[number] = [Away(node.leaves_ms, NEVER_MS)]
        for window in partition.settings.calendar if node.windows else ():
            known = partition.windows.get(window.name)
            if known is not None and window.name in node.windows:
                from_ms, until_ms = known.from_ms, known.until_ms
                span = Away(from_ms, until_ms, window.unbounded, window.queue, opens_ms(window, from_ms))
                found.setdefault(number, []).append(span)
    return found


def _pending(partition: Partition, index: PartitionIndex) -> Iterator[PendingAsk]:
    for application in partition.applications.values():
        for pending in application.asks.values():
            if pending.pending and index.find_demand(pending) is not None:
                yield pending


# Draws


def drawn(number: int) -> int:
    """A number that looks random and follows from the given one (SplitMix64)."""
    mixed = (number + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return mixed ^ (mixed >> 31)


def run_ms(bound_ms: int, elapsed_ms: int, runs: Sequence[Run], everyone: Sequence[Run], draw: int) -> int:
    """A run time of an allocation that has run for `elapsed_ms`: the share of its bound that one of the last runs took
    of its own, or as long as that run where it has no bound. NEVER_MS: nothing is known of its end."""
    for known in ((runs if len(runs) >= RUNS_NEEDED else everyone), everyone):
        if bound_ms:
            lasts = [run.ran_ms * bound_ms // run.bound_ms for run in known if run.bound_ms]
        else:
            lasts = [run.ran_ms for run in known] if known is runs else []
        fitting = [one for one in lasts if one > elapsed_ms] if elapsed_ms else lasts
        if fitting:
            found = fitting[draw % len(fitting)]
            return max(elapsed_ms + 1, min(bound_ms, found) if bound_ms else found)
    return max(bound_ms, elapsed_ms + 1) if bound_ms else NEVER_MS


# Playing


class End(NamedTuple):
    at_ms: int
    bound_ms: int
    node: int
    amounts: Amounts
    limits: tuple[int, ...]


@dataclass(slots=True)
class _Play:
    """One play of a world."""

    world: World
    free: list[Amounts] = field(init=False)
    rooms: list[dict[int, int]] = field(init=False)
    ends: list[End] = field(init=False)
    steps: int = FORECAST_STEPS

    def __post_init__(self) -> None:
        self.free, self.rooms = list(self.world.free), [dict(room) for room in self.world.rooms]

    def begin(self, sample: int) -> list[int]:
        """Draw the end of everything. Returns the run times of the waiting asks. The samples take the runs of each one
        in turn, from a begin that is drawn: so they cover what is known of it, and differ between items."""
        world = self.world
        self.ends = []
        for number, one in enumerate(world.running):
            elapsed_ms = world.now_ms - one.began_ms
            lasts_ms = run_ms(one.bound_ms, elapsed_ms, one.runs, world.everyone, drawn(number) + sample)
            if lasts_ms < NEVER_MS:
                at_ms = max(world.now_ms + 1, one.began_ms + lasts_ms)
                bound_ms = one.began_ms + one.bound_ms if one.bound_ms else NEVER_MS
                self.ends.append(End(at_ms, max(bound_ms, at_ms), one.node, one.amounts, one.limits))
        heapify(self.ends)
        return [
            run_ms(one.bound_ms, 0, one.runs, world.everyone, drawn(number) + sample)
            for number, one in enumerate(world.waiting, len(world.running))
        ]

    def starts(self, sample: int, until: int | None) -> list[int | None]:
        """When each waiting ask starts; None: not before the steps are used up. `until`: the number of the ask after
        which nothing more is wanted."""
        world, lasts_ms = self.world, self.begin(sample)
        found: list[int | None] = [None] * len(world.waiting)
        left = list(range(len(world.waiting)))
        now_ms, times_ms, changes = world.now_ms, list(world.times_ms), list(world.changes)
        while left and self.steps > 0:
            while changes and changes[-1].at_ms <= now_ms:
                self._change(changes.pop())
            left = self._pass(now_ms, left, lasts_ms, found)
            while times_ms and times_ms[-1] <= now_ms:
                times_ms.pop()
            if not (self.ends or times_ms) or (until is not None and found[until] is not None):
                break
            now_ms = min(self.ends[0].at_ms if self.ends else NEVER_MS, times_ms[-1] if times_ms else NEVER_MS)
            while self.ends and self.ends[0].at_ms == now_ms:
                end = heappop(self.ends)
                self.free[end.node] = tuple(map(sum, zip(self.free[end.node], end.amounts, strict=True)))
                self._book(end.limits, end.amounts, -1)
        return found

    def _pass(self, now_ms: int, left: list[int], lasts_ms: list[int], found: list[int | None]) -> list[int]:
        """Place what fits, in order. Returns what is left."""
        waiting, reserved, rest = self.world.waiting, dict[int, tuple[int, Amounts]](), list[int]()
        failed: set[tuple[Amounts, int, tuple[int, ...], int | None, str]] = set()
        for place, number in enumerate(left):
            one = waiting[number]
            like = (one.amounts, one.bound_ms, one.limits, one.bound_to, self._queue(one))
            self.steps -= 1
            if like in failed or self.steps <= 0:
                rest.append(number)
                continue
            node = self._node(one, now_ms, reserved) if self._admits(one) else None
            if node is not None:
                found[number] = now_ms
                if lasts_ms[number] < NEVER_MS:
                    at_ms = now_ms + lasts_ms[number]
                    bound_ms = now_ms + one.bound_ms if one.bound_ms else NEVER_MS
                    heappush(self.ends, End(at_ms, bound_ms, node, one.amounts, one.limits))
                self.free[node] = tuple(a - b for a, b in zip(self.free[node], one.amounts, strict=True))
                self._book(one.limits, one.amounts, 1)
                if node in reserved and now_ms + (one.bound_ms or NEVER_MS) > reserved[node][0]:
                    until_ms, spare = reserved[node]
                    reserved[node] = until_ms, tuple(a - b for a, b in zip(spare, one.amounts, strict=True))
                continue
            rest.append(number)
            if len(reserved) < self.world.reservations and self._admits(one):
                self._reserve(one, now_ms, reserved)
            else:
                failed.add(like)
            if len(reserved) == len(self.free) and not any(map(any, self.free)):
                rest += left[place + 1 :]
                break
        return rest

    def _queue(self, one: Waiting) -> str:
        """The path of its queue, where nodes are kept for queues."""
        return one.pending.application.queue.path if self.world.away else ""

    def _is_there(self, node: int, one: Waiting, now_ms: int) -> bool:
        """Whether the node stays for as long as the ask may run."""
        return one.bound_to is not None or not any(_misses(span, one, now_ms) for span in self.world.away.get(node, ()))

    def _admits(self, one: Waiting) -> bool:
        return all(one.amounts[at] <= room for limit in one.limits for at, room in self.rooms[limit].items())

    def _change(self, change: Change) -> None:
        room = self.rooms[change.limit]
        for at, more in change.more.items():
            room[at] += more

    def _book(self, limits: tuple[int, ...], amounts: Amounts, times: int) -> None:
        for limit in limits:
            room = self.rooms[limit]
            for at in room:
                room[at] -= times * amounts[at]

    def _node(self, one: Waiting, now_ms: int, reserved: dict[int, tuple[int, Amounts]]) -> int | None:
        """A node with room: first those that are not reserved."""
        for node, free in enumerate(self.free):
            fits = node not in reserved and one.bound_to in (None, node) and _fits(free, one.amounts)
            if fits and self._is_there(node, one, now_ms):
                return node
        for node, (until_ms, spare) in reserved.items():
            fits = one.bound_to in (None, node) and _fits(self.free[node], one.amounts)
            if fits and self._is_there(node, one, now_ms):
                in_time = one.bound_ms and now_ms + one.bound_ms <= until_ms
                if in_time or (until_ms < NEVER_MS and _fits(spare, one.amounts)):
                    return node
        return None

    def _reserve(self, one: Waiting, now_ms: int, reserved: dict[int, tuple[int, Amounts]]) -> None:
        """The node that has room first by bounds. O(nodes + ends)."""
        best: tuple[int, int, Amounts] | None = None
        by_node: dict[int, list[End]] = {}
        for end in self.ends:
            by_node.setdefault(end.node, []).append(end)
        for node, free in enumerate(self.free):
            if (
                node in reserved
                or one.bound_to not in (None, node)
                or not _fits(self.world.capacity[node], one.amounts)
                or not self._is_there(node, one, now_ms)
            ):
                continue
            at_ms, then = self._room_at(free, by_node.get(node, ()), one.amounts, now_ms)
            if best is None or (at_ms, node) < best[:2]:
                best = at_ms, node, then
        self.steps -= len(self.free)
        if best is not None:
            at_ms, node, then = best
            if not self.world.backfill:
                at_ms = NEVER_MS
            reserved[node] = at_ms, tuple(a - b for a, b in zip(then, one.amounts, strict=True))

    def _room_at(self, free: Amounts, ends: Sequence[End], need: Amounts, now_ms: int) -> tuple[int, Amounts]:
        """When so much is free by bounds, and what is then; NEVER_MS: that is not known."""
        at_ms = now_ms
        found = False
        for end in sorted(ends, key=lambda end: end.bound_ms):
            if (found and end.bound_ms > at_ms) or end.bound_ms >= NEVER_MS:
                break
            free = tuple(a + b for a, b in zip(free, end.amounts, strict=True))
            if not found and _fits(free, need):
                found, at_ms = True, end.bound_ms
        return (at_ms, free) if found else (NEVER_MS, free)


def _misses(span: Away, one: Waiting, now_ms: int) -> bool:
    """Whether the node is away, or will be while the ask, started now, may still run."""
    if now_ms >= span.until_ms:
        return False
    if span.queue and (now_ms < span.opens_ms or is_below(one.pending.application.queue.path, span.queue)):
        return False
    if span.unbounded and not one.bound_ms:
        return now_ms >= span.from_ms
    return not one.bound_ms or now_ms + one.bound_ms > span.from_ms


def _fits(free: Amounts, need: Amounts) -> bool:
    return all(a >= b for a, b in zip(free, need, strict=True))


def starts(world: World, samples: int = SAMPLES, until: int | None = None) -> list[list[int]]:
    """The forecast starts of each waiting ask in ms, sorted, one of each sample in which it starts. `until`: the number
    of the ask after whose start nothing more is wanted."""
    found: list[list[int]] = [[] for _ in world.waiting]
    for sample in range(samples):
        for number, at_ms in enumerate(_Play(world).starts(sample, until)):
            if at_ms is not None:
                found[number].append(at_ms)
    for one in found:
        one.sort()
    return found


def unknown(world: World, one: Waiting) -> str:
    """Why no time is forecast for the ask; empty if one is. More than half of what runs where it fits has no end that
    is expected."""
    there = [each for each in world.running if _fits(world.capacity[each.node], one.amounts)]
    endless = [each for each in there if not each.bound_ms and len(each.runs) < RUNS_NEEDED]
    if not any(_fits(capacity, one.amounts) for capacity in world.capacity):
        return "no node is large enough"
    budget = limit_of(one.pending) if one.pending.application.queue.budgets else None
    if isinstance(budget, Budget):
        return f"{budget} leaves too little for it"
    if 2 * len(endless) > len(there):
        return f"{len(endless)} of {len(there)} allocations in the way have no bound, and earlier runs are not known"
    return ""
