"""The smallest change that would let a waiting ask run, found by trials on copies of the state
(docs/adr/explanations-and-previews.md). Nothing of the live state is touched: the caller makes the copies.

A change is a set of steps of one to WHAT_IF_KINDS kinds; no part of it suffices. The amounts of quotas and nodes begin
with what the ask needs itself. Where other asks would take that, the change is tried at its largest, and then made
smaller, one amount after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import gcd
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from .. import facts
from ..core import Core
from ..explain import Explanations
from ..explain.lacks import missing
from ..facts import Constraint
from ..index.limits import NOTHING_HELD
from ..limits import (
    WHAT_IF_CANDIDATES,
    WHAT_IF_KINDS,
    WHAT_IF_PASSES,
    WHAT_IF_SCANNED,
    WHAT_IF_TOGETHER,
    WHAT_IF_TRIALS,
)
from ..rules.devices import needs
from ..rules.required_node import required_node
from ..rules.resource import Resource, add
from ..rules.windows import is_of_nodes
from ..state import NEVER_MS, Application, Node, Partition, PendingAsk, Queue, Tracker
from . import steps
from .play import GivenUp, OnCopy, Played, play
from .steps import LIMIT, MAX, MAX_APPLICATIONS, Step, carry_out

# Kinds of changes, in the order in which they are tried. `quota` and `node` have amounts.
QUOTA: Final = "quota"
AMOUNTS: Final = (QUOTA, steps.NODE)
KINDS: Final = (
    steps.CONNECT, steps.RESUME, steps.ANSWER, steps.CONFIRM, steps.UNDRAIN, steps.WINDOW, steps.ASK, QUOTA,
    steps.NODE, steps.APPLICATION,
)  # fmt: skip
# Each is tried with one node, ask or application after the other.
CHOSEN: Final = (steps.UNDRAIN, steps.WINDOW, steps.ASK, steps.APPLICATION)
# Changes that may remove a constraint, by its kind.
AGAINST: Final[dict[str, tuple[str, ...]]] = {
    "rm": (steps.CONNECT,),
    "held": (steps.RESUME,),
    "allocations": (steps.APPLICATION,),
    "placeholder": (QUOTA, steps.NODE, steps.UNDRAIN, steps.APPLICATION),
    "stateaware": (steps.APPLICATION,),
    "maxapplications": (QUOTA, steps.APPLICATION),
    "user": (QUOTA, steps.APPLICATION),
    "group": (QUOTA, steps.APPLICATION),
    "queue": (QUOTA, steps.APPLICATION),
    "node": (steps.NODE, steps.UNDRAIN, steps.ASK, steps.APPLICATION),
    "device": (steps.NODE, steps.UNDRAIN, steps.ASK, steps.APPLICATION),
    "domain": (steps.NODE, steps.UNDRAIN, steps.APPLICATION),
    "slice": (steps.NODE, steps.UNDRAIN, steps.APPLICATION),
    "level": (),
    "too_large": (steps.NODE,),
    "unknown_node": (steps.NODE,),
    "unschedulable_node": (steps.UNDRAIN,),
    "leaving": (steps.NODE, steps.UNDRAIN, steps.APPLICATION),
    "window": (steps.NODE, steps.WINDOW, steps.APPLICATION),
    "full_node": (steps.NODE, steps.UNDRAIN, steps.APPLICATION),
    "predicate": (steps.NODE, steps.UNDRAIN, steps.APPLICATION),
    "reserved": (steps.ASK, steps.NODE, steps.UNDRAIN, steps.APPLICATION),
    "question": (steps.ANSWER,),
    "preemption": (steps.CONFIRM,),
}


class Change(msgspec.Struct, frozen=True):
    """The ask runs if these steps are carried out. `exact`: no smaller amounts do; else they were narrowed down by
    halving, and a smaller one may do where the order of asks depends on it. `tried` of the candidates (applications,
    nodes or asks), smallest first, `of` so many."""

    steps: list[Step]
    exact: bool = True
    tried: int = 0
    of: int = 0


class Found(msgspec.Struct, frozen=True):
    """`runs`: without a change. `constraints`: after the passes that were played. `complete`: no trial was left out."""

    runs: bool
    constraints: list[Constraint]
    changes: list[Change]
    trials: int
    complete: bool


def search(core: Core, ask: Ask, on_copy: OnCopy, now_ms: int) -> Found:
    """`core` is only read. The ask is pending there."""
    trials = Trials(on_copy, ask, now_ms, WHAT_IF_TRIALS)
    unchanged = trials.unchanged()
    if unchanged.runs:
        return Found(True, [], [], trials.made, complete=True)
    found = _Search(core, ask, trials, unchanged.constraints)
    complete = True
    try:
        found.look()
    except GivenUp:
        complete = False
    return Found(False, unchanged.constraints, found.changes, trials.made, complete)


class _Search:
    def __init__(self, core: Core, ask: Ask, trials: Trials, constraints: Sequence[Constraint]) -> None:
        self._partition, self._ask = ask.of(core)
        self._trials = trials
        self._bound_to = required_node(self._ask.ask.tags)
        self._constraints = constraints
        useful = {kind for constraint in constraints for kind in AGAINST[constraint.constraint]}
        self._kinds = [kind for kind in KINDS if kind in useful]
        self.changes: list[Change] = []

    def look(self) -> None:
        """Raises GivenUp; `changes` has those found before."""
        sufficient: list[set[str]] = []
        for count in range(1, WHAT_IF_KINDS + 1):
            # A change of more kinds, by which others lose something, is not needed if a smaller one is known.
            kinds_left = [kind for kind in self._kinds if not (self.changes and kind in CHOSEN)]
            for kinds in combinations(kinds_left, count):
                if any(known <= {*kinds} for known in sufficient):
                    continue
                change = self._of_kinds(kinds)
                if change is not None:
                    self.changes.append(change)
                    sufficient.append({*kinds})
        ends = any(step.step == steps.APPLICATION for change in self.changes for step in change.steps)
        if steps.APPLICATION in self._kinds and not ends and (several := self._several()) is not None:
            self.changes.append(several)

    def _several(self) -> Change | None:
        """Applications that have to end together, among the largest of those that hold something the ask waits for."""
        every = list(self._candidates(steps.APPLICATION))
        useful = [one for one in every if helps(self._partition, self._ask, one.where, self._constraints)]
        candidates = useful[-WHAT_IF_CANDIDATES:]
        for count in range(2, min(WHAT_IF_TOGETHER, len(candidates)) + 1):
            if self._trials.runs(candidates[-count:]):
                chosen = self._smaller(candidates, list(range(len(candidates) - count, len(candidates))))
                return Change([candidates[number] for number in chosen], tried=len(candidates), of=len(every))
        return None

    def _smaller(self, candidates: Sequence[Step], chosen: list[int]) -> list[int]:
        """None of them can be left out, and none can be a smaller candidate instead."""

        def runs(numbers: list[int]) -> bool:
            return self._trials.runs([candidates[number] for number in numbers])

        before: list[int] = []
        while chosen != before:
            before = chosen
            for one in reversed(before):
                others = [number for number in chosen if number != one]
                if runs(others):
                    chosen = others
                    continue
                fewer = (sorted((*others, number)) for number in range(one) if number not in others)
                chosen = next(filter(runs, fewer), chosen)
        return chosen

    def _of_kinds(self, kinds: Sequence[str]) -> Change | None:
        chosen = [kind for kind in kinds if kind in CHOSEN]
        if len(chosen) > 1:
            return None
        fixed = [step for kind in kinds if kind not in (*AMOUNTS, *chosen) for step in self._fixed(kind)]
        if not chosen:
            return self._with_amounts(kinds, fixed)
        candidates = list(self._candidates(chosen[0]))
        if chosen == [steps.APPLICATION] and len(candidates) > WHAT_IF_CANDIDATES:
            left = [one for one in self._constraints if not {*AGAINST[one.constraint]} & ({*kinds} - {*chosen})]
            candidates = [step for step in candidates if frees(self._partition, self._ask, step.where, left)]
        for number, candidate in enumerate(candidates[:WHAT_IF_CANDIDATES], 1):
            change = self._with_amounts(kinds, [*fixed, candidate])
            if change is not None:
                return replace(change, tried=number, of=len(candidates))
        return None

    def _fixed(self, kind: str) -> list[Step]:
        if kind == steps.RESUME:
            held = [queue for queue in self._ask.application.queue.path_to_root if queue.hold is not None]
            return [Step(kind, queue.path) for queue in reversed(held)]
        if kind == steps.CONFIRM:
            under_way = self._ask.preemption
            if under_way is None:
                return []
            if under_way.nodes:
                return [Step(kind, under_way.domain or "the partition", self._ask.ask.allocation_key)]
            return [Step(kind, under_way.node.id)]
        return [Step(kind)]

    def _with_amounts(self, kinds: Sequence[str], fixed: list[Step]) -> Change | None:
        if steps.CONFIRM in kinds and self._ask.preemption is None:
            return None
        if not any(kind in AMOUNTS for kind in kinds):
            return Change(fixed) if self._trials.runs(fixed) else None
        amounts = self._trials.amounts(fixed, self._bound_to)
        dimensions = list(amounts.node) if steps.NODE in kinds else []
        if QUOTA in kinds:
            if not amounts.quotas:
                return None
            dimensions = [*amounts.quotas, *dimensions]
        return self._smallest(fixed, dimensions, with_node=steps.NODE in kinds)

    def _smallest(self, fixed: list[Step], dimensions: list[Dimension], with_node: bool) -> Change | None:
        def runs(values: list[int]) -> bool:
            return self._trials.runs([*fixed, *steps_of(dimensions, values, self._bound_to, with_node)])

        values = [one.least for one in dimensions]
        exact = True
        if not runs(values):
            values = [one.most for one in dimensions]
            if not runs(values):
                return None
            before: list[int] = []
            while values != before:  # where others come first, less of one amount may allow less of another
                before = values
                for place in range(len(dimensions)):
                    values, one_exact = _lowered(runs, values, place, dimensions[place])
                    exact = exact and one_exact
        return Change([*fixed, *steps_of(dimensions, values, self._bound_to, with_node)], exact)

    def _candidates(self, kind: str) -> Iterator[Step]:
        """Steps of the kind, the smallest first."""
        match kind:
            case steps.UNDRAIN:
                off = [n for n in self._partition.nodes.values() if not n.schedulable or n.leaves_ms < NEVER_MS]
                fitting = [node for node in off if self._bound_to in ("", node.id)]
                for node in sorted(fitting, key=lambda node: (missing(self._ask.ask, node) > 0, node.id)):
                    yield Step(kind, node.id)
            case steps.WINDOW:
                ahead = (one for one in self._partition.settings.calendar if one.name in self._partition.windows)
                for window in ahead:
                    if is_of_nodes(window):
                        yield Step(kind, window.name)
            case steps.ASK:
                reserving = {node.reservation for node in self._partition.nodes.values()} - {None, self._ask}
                asks = [ask for ask in reserving if ask is not None]
                for ask in sorted(asks, key=lambda ask: (_size(self._partition, ask.ask.resource), -ask.seq)):
                    yield Step(kind, ask.application.id, ask.ask.allocation_key)
            case steps.APPLICATION:
                own = self._ask.application
                others = [a for a in self._partition.applications.values() if a is not own and not a.terminal]
                for application in sorted(others, key=lambda a: size_of(self._partition, a)):
                    yield Step(kind, application.id)


def size_of(partition: Partition, application: Application) -> tuple[float, int, str]:
    """Orders applications by what they hold: the largest share of the partition, then the number of allocations."""
    share = max(_size(partition, application.allocated), _size(partition, application.allocated_placeholder))
    return share, len(application.allocations), application.id


def _size(partition: Partition, resource: Resource) -> float:
    return max((amount / max(1, partition.total.get(name, 0)) for name, amount in resource.items()), default=0.0)


def steps_of(dimensions: Sequence[Dimension], values: Sequence[int], node_id: str, with_node: bool) -> list[Step]:
    """The steps of a change with these amounts. Quotas that stay as they are make no step; a node is one."""
    pairs = list(zip(dimensions, values, strict=True))
    found = [
        replace(one.step, after=value) for one, value in pairs if one.step.step != steps.NODE and value > one.before
    ]
    if with_node:
        capacity = {one.step.resource: value for one, value in pairs if one.step.step == steps.NODE}
        found.append(Step(steps.NODE, node_id, capacity=capacity))
    return found


def _lowered(
    runs: Callable[[list[int]], bool], values: list[int], place: int, dimension: Dimension
) -> tuple[list[int], bool]:
    """The values with the smallest one at `place` with which the ask runs, and whether it is certainly the smallest."""

    def at(units: int) -> list[int]:
        return [*values[:place], dimension.least + units * dimension.unit, *values[place + 1 :]]

    most = (values[place] - dimension.least) // dimension.unit
    for units in range(min(most, WHAT_IF_SCANNED)):
        if runs(at(units)):
            return at(units), True
    if most <= WHAT_IF_SCANNED:
        return values, True
    low, high = WHAT_IF_SCANNED - 1, WHAT_IF_SCANNED
    while high < most and not runs(at(high)):
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if runs(at(middle)):
            high = middle
        else:
            low = middle
    return at(high), False


T = TypeVar("T")


class Ask(msgspec.Struct, frozen=True):
    """`partition`: the name in the state."""

    partition: str
    application: str
    key: str

    def of(self, core: Core) -> tuple[Partition, PendingAsk]:
        partition = core.state.partitions[self.partition]
        return partition, partition.applications[self.application].asks[self.key]


class Unchanged(msgspec.Struct, frozen=True):
    """The outcome without a change. `runs`: the ask runs. `constraints`: those in its way after the passes."""

    runs: bool
    constraints: list[Constraint]


class Amounts(msgspec.Struct, frozen=True):
    """`quotas`: None: one that is in the way cannot be changed."""

    quotas: list[Dimension] | None
    node: list[Dimension]


class Trials:
    """Trials of one question, at most `most`. Each plays on a copy of its own."""

    def __init__(self, on_copy: OnCopy, ask: Ask, now_ms: int, most: int) -> None:
        self._on_copy = on_copy
        self._ask = ask
        self._now_ms = now_ms
        self._most = most
        self.made = 0

    def unchanged(self) -> Unchanged:
        def work(core: Core) -> Unchanged:
            played = play(core, WHAT_IF_PASSES, self._now_ms)
            partition = core.state.partitions[self._ask.partition]
            application = partition.applications.get(self._ask.application)
            left = application.asks.get(self._ask.key) if application is not None else None
            if self._ran(played) or left is None:
                return Unchanged(self._ran(played), [])
            if core.state.rm_state == "Running":
                core.index.of(core.state, partition)
            return Unchanged(False, Explanations(core.state, core.index).of(partition, left))

        return self._on(work, Unchanged)

    def runs(self, steps: Sequence[Step]) -> bool:
        """Raises GivenUp."""

        def work(core: Core) -> bool:
            decided = self._carry_out(core, steps)
            return self._got_a_node(decided) or self._ran(play(core, WHAT_IF_PASSES, self._now_ms))

        return self._on(work, bool)

    def amounts(self, steps: Sequence[Step], node_id: str) -> Amounts:
        """The amounts that can be changed beside these steps. Raises GivenUp."""

        def work(core: Core) -> Amounts:
            self._carry_out(core, steps)
            partition, ask = self._ask.of(core)
            return Amounts(of_quotas(partition, ask), of_node(partition, ask, node_id))

        return self._on(work, Amounts)

    def _on(self, work: Callable[[Core], T], kind: type[T]) -> T:
        if self.made >= self._most:
            raise GivenUp
        self.made += 1
        return msgspec.msgpack.decode(self._on_copy(lambda core: msgspec.msgpack.encode(work(core))), type=kind)

    def _carry_out(self, core: Core, steps: Sequence[Step]) -> list[facts.Fact]:
        partition = core.state.partitions[self._ask.partition]
        return carry_out(core, partition, (self._ask.application, self._ask.key), steps, self._now_ms)

    def _ran(self, played: Played) -> bool:
        wanted = (self._ask.partition, self._ask.application, self._ask.key)
        return any((one.partition, one.application, one.key) == wanted for one in played.placements)

    def _got_a_node(self, decided: Sequence[facts.Fact]) -> bool:
        wanted = (self._ask.partition, self._ask.application, self._ask.key)
        return any(
            (one.partition, one.application_id, one.allocation_key) == wanted
            for one in decided
            if isinstance(one, facts.Allocated)
        )


class Dimension(msgspec.Struct, frozen=True):
    """An amount of a change. The ask cannot run while it is below `least`; `least` = `before`: it needs no more. More
    than `most` helps no ask that waits now. Only multiples of `unit` beyond `least` make a difference."""

    step: Step
    least: int
    most: int
    unit: int = 1

    @property
    def before(self) -> int:
        return self.step.before


def of_quotas(partition: Partition, ask: PendingAsk) -> list[Dimension] | None:
    """Maxima and limits on the path to root. None: one that the ask does not fit cannot be changed: the number of
    applications of a queue that nobody has configured."""
    found = [*_of_resources(partition, ask), *_of_applications(partition, ask)]
    fixed = [one for one in found if one.step.step != MAX and not partition.queues[one.step.where].managed]
    if any(one.least > one.before for one in fixed):
        return None
    return [one for one in found if one not in fixed]


def _of_resources(partition: Partition, ask: PendingAsk) -> list[Dimension]:
    found = []
    for quota in ask.application.quotas:
        kind, queue = (MAX, quota) if isinstance(quota, Queue) else (LIMIT, quota.queue)
        held = NOTHING_HELD if ask.has_place else quota.held
        for name, maximum in sorted(quota.most.items()):
            if need := ask.ask.resource.get(name, 0):
                least = quota.used.get(name, 0) + held.get(name, 0) + need
                step = Step(kind, queue.path, who=_who(quota), resource=name, before=maximum)
                found.append(_dimension(partition, step, least, queue))
    return found


def _dimension(partition: Partition, step: Step, least: int, queue: Queue) -> Dimension:
    least = max(least, step.before)
    name = step.resource
    unit = unit_of(partition, name)
    return Dimension(step, least, least + -(-queue.pending.get(name, 0) // unit) * unit, unit)


def _of_applications(partition: Partition, ask: PendingAsk) -> list[Dimension]:
    if ask.application.counts_as_running:
        return []
    found = []
    for one in ask.application.application_limits:
        queue = one if isinstance(one, Queue) else one.queue
        waiting = sum(bool(a.asks) and not a.counts_as_running for a in partition.applications.values())
        step = Step(MAX_APPLICATIONS, queue.path, who=_who(one), before=one.most_running)
        least = max(one.most_running, one.running + 1)
        found.append(Dimension(step, least, least + waiting))
    return found


def _who(quota: Queue | Tracker) -> str:
    return f"{quota.kind} {quota.name}" if isinstance(quota, Tracker) else ""


def of_node(partition: Partition, ask: PendingAsk, node_id: str) -> list[Dimension]:
    """The capacity of a node that is added; by resource. `node_id`: of the node that the ask is bound to, or ""."""
    pending = partition.root.pending
    wanted = needs(partition.settings.devices, ask.ask.resource, ask.ask.tags)
    on_devices = {need.resource: need.devices for need in wanted}
    found = []
    for name, need in sorted(ask.ask.resource.items()):
        if need > 0:
            unit = unit_of(partition, name)
            if name in on_devices:  # a node has whole devices
                unit = partition.settings.devices[name]
                need = unit * on_devices[name]
            more = -(-pending.get(name, 0) // unit) * unit
            found.append(Dimension(Step("node", node_id, resource=name), need, need + more, unit))
    return found


def unit_of(partition: Partition, name: str) -> int:
    """The greatest common divisor of what waiting asks need of the resource: their sums are multiples of it."""
    needs = (ask.ask.resource.get(name, 0) for a in partition.applications.values() for ask in a.asks.values())
    return gcd(*needs) or 1


def frees(partition: Partition, ask: PendingAsk, application_id: str, constraints: Sequence[Constraint]) -> bool:
    """The end of the application would remove each of these constraints, as far as one can tell without trying."""
    application = partition.applications[application_id]
    return all(_frees(partition, ask, application, constraint) for constraint in constraints)


def helps(partition: Partition, ask: PendingAsk, application_id: str, constraints: Sequence[Constraint]) -> bool:
    """The end of the application would take something from one of these constraints."""
    application = partition.applications[application_id]
    any_amount = [replace(one, need=1, have=0) for one in constraints]
    return any(
        bool(application.allocations)
        if one.constraint in ("node", "device")
        else _frees(partition, ask, application, one)
        for one in any_amount
    )


def _frees(partition: Partition, ask: PendingAsk, application: Application, constraint: Constraint) -> bool:
    short = constraint.need - constraint.have
    match constraint.constraint:
        case "queue":
            queue = partition.queues[constraint.where]
            return queue in application.queue.path_to_root and _held(application, constraint.resource) >= short
        case "user" | "group":
            counted = {(one.kind, one.name) for one in application.trackers}
            named = (constraint.constraint, constraint.where) in counted
            return named and _held(application, constraint.resource) >= short
        case "node" | "device":
            return _makes_room(ask, application)
        case "maxapplications":
            return application.counts_as_running
        case "stateaware":
            return application.queue is ask.application.queue
    return True


def _held(application: Application, resource: str) -> int:
    return application.allocated.get(resource, 0) + application.allocated_placeholder.get(resource, 0)


def _makes_room(ask: PendingAsk, application: Application) -> bool:
    """On one of its nodes the ask would fit without it."""
    freed: dict[Node, dict[str, int]] = defaultdict(dict)
    for allocation in application.allocations.values():
        add(freed[allocation.node], allocation.fact.resource)
    need = {name: amount for name, amount in ask.ask.resource.items() if amount > 0}
    for node, amounts in freed.items():
        available = node.available()
        if all(amount <= available.get(name, 0) + amounts.get(name, 0) for name, amount in need.items()):
            return True
    return False
