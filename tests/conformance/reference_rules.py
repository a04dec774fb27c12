"""The reference's rules in the place of ours.

Where the two rules decide differently, everything that follows differs, and a comparison would be blind. So a kind of
difference may name the reference's rule: a patch of the core, in force while a scenario is played again. If that rule
is the reason for a difference, the difference goes with it, and what follows can be compared. The patches exist for
the comparison alone: remuda never decides like this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from operator import itemgetter
from typing import Any
from unittest.mock import patch
from zlib import crc32

from msgspec.structs import replace

from remuda_core import timeouts
from remuda_core.commands import ReleaseAllocation
from remuda_core.cycle import preempt
from remuda_core.cycle.preempt_groups import GroupPlan
from remuda_core.cycle.reserve import within_quotas
from remuda_core.cycle.transitions import transition
from remuda_core.cycle.victims import VictimSearch
from remuda_core.decide import BY_COMMAND, allocation, ask, expire, node, submit
from remuda_core.evolve import BY_FACT, allocations, asks
from remuda_core.facts import Ask, AskChanged, NodeReserved, NodeUnreserved
from remuda_core.index import nodes
from remuda_core.index.asks import AskClass
from remuda_core.index.index import Index
from remuda_core.index.leaves import LeafOrder
from remuda_core.index.limits import full_queue, limit_of
from remuda_core.index.node_groups import Demand
from remuda_core.index.partition import PartitionIndex
from remuda_core.index.queues import ParentOrder, QueueOrder
from remuda_core.index.reservations import ReservedNodes
from remuda_core.index.updates import change_task_group
from remuda_core.rules import placement
from remuda_core.rules.lifecycle import COMPLETE, COMPLETING
from remuda_core.rules.placement import NotPlaced, Placed, Queues
from remuda_core.rules.placement_rules import Applicant
from remuda_core.rules.required_node import required_node
from remuda_core.settings import PartitionSettings, PlacementRule
from remuda_core.state import Allocation, Application, Node, Partition, PendingAsk, State, TaskGroup
from remuda_core.state.application import FreePlaceholders
from remuda_proto import bounds

Rule = Callable[[], AbstractContextManager[object]]


@contextmanager
def in_force(rules: Sequence[Rule]) -> Iterator[None]:
    """remuda's invariants do not hold for the reference's rules: where any is in force, they are not checked."""
    with ExitStack() as stack:
        for rule in rules:
            stack.enter_context(rule())
        if rules:
            stack.enter_context(patch("tests.conformance.in_process.check", lambda state, index: None))
            stack.enter_context(patch("tests.conformance.in_process.digest", lambda state: ""))
        yield


@contextmanager
def order_equals_by_chance(seed: int) -> Iterator[None]:
    """The reference takes equal queues, applications, placeholders and victims in the order of a hash map."""

    def mixed(name: str) -> tuple[int, str]:
        return crc32(f"{seed} {name}".encode()), name

    def shuffled(rank: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        def ranked(*arguments: Any) -> tuple[Any, ...]:
            *head, last = rank(*arguments)
            return (*head, mixed(last)) if isinstance(last, str) else (*head, last)

        return ranked

    def of_chance(search: VictimSearch, *arguments: Any) -> None:
        begin(search, *arguments)
        by_age = search.cheapness
        # Repeats of one ask are of one age.
        search.cheapness = lambda victim: (*by_age(victim)[:5], mixed(victim.fact.uuid))

    def places_of_chance(free: FreePlaceholders[Any]) -> Iterator[Allocation]:
        return iter(sorted(each(free), key=lambda placeholder: mixed(placeholder.fact.allocation_key)))

    def node_of_chance(
        partition: Partition, pending: PendingAsk, search: VictimSearch, refused: frozenset[str]
    ) -> tuple[Node, tuple[Allocation, ...]] | None:
        found = []
        names = sorted(partition.nodes)
        for name in sorted(partition.nodes.keys() - refused):
            best = best_node(partition, pending, search, frozenset(partition.nodes) - {name})
            if best is not None:
                facts = [victim.fact for victim in best[1]]
                opted_out = any(not fact.allow_preempt_self for fact in facts)
                turn = (names.index(name) + seed) % len(names)
                found.append(((opted_out, any(fact.originator for fact in facts), len(facts), turn), best))
        return min(found, key=itemgetter(0))[1] if found else None

    begin, each, best_node = VictimSearch.__init__, FreePlaceholders.__iter__, preempt.best_node
    with (
        patch.object(preempt, "best_node", node_of_chance),
        patch.object(QueueOrder, "rank", shuffled(QueueOrder.rank)),
        patch.object(LeafOrder, "application_rank", shuffled(LeafOrder.application_rank)),
        patch.object(VictimSearch, "__init__", of_chance),
        patch.object(FreePlaceholders, "__iter__", places_of_chance),
    ):
        yield


def reserve_where_the_ask_leaves_least() -> AbstractContextManager[object]:
    """Of the nodes that are large enough, the one of which the ask would leave the smallest part."""

    def left(available: Sequence[int], need: Sequence[int]) -> float:
        pairs = zip(available, need, strict=True)
        return sum((have - max(want, 0)) / have for have, want in pairs if have > max(want, 0))

    return patch.object(nodes, "_lacking", left)


def rank_updated_asks_as_new_ones() -> AbstractContextManager[object]:
    changed = asks.ask_changed

    def as_new(state: State, fact: AskChanged) -> asks.AskGone:
        gone = changed(state, fact)
        ask = fact.ask
        pending = state.partitions[ask.partition].applications[ask.application_id].asks[ask.allocation_key]
        state.next_seq = pending.seq = state.next_seq + 1
        pending.at_ms = state.now_ms
        return gone

    return patch.dict(BY_FACT, {AskChanged: as_new})


@contextmanager
def reserve_without_bounds() -> Iterator[None]:
    """Any number of nodes is reserved, whatever the quotas, until the ask is placed, and nobody takes them."""

    def nothing_in_the_way(kept: ReservedNodes, pending: PendingAsk, bound: bool) -> None:
        return None

    def nobody_may_take(pending: PendingAsk, node: Node) -> bool:
        return node.reservation in (None, pending)

    with (
        patch.object(ReservedNodes, "in_the_way", nothing_in_the_way),
        patch.object(ReservedNodes, "unjustified", lambda _: iter(())),
        patch.object(ReservedNodes, "next_claimants", lambda _: []),
        patch.object(preempt, "may_take", nobody_may_take),
    ):
        yield


def place_on_nodes_that_are_not_ready() -> AbstractContextManager[object]:
    return patch.object(Node, "ready", True)


class _Active:
    """A queue that does not say that it drains."""

    draining = False

    def __init__(self, queue: placement.QueueView) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    @property
    def path_to_root(self) -> list[_Active]:
        return [_Active(queue) for queue in self._queue.path_to_root]


def place_in_queues_that_drain() -> AbstractContextManager[object]:
    check = placement._check

    def passing_over(path: str, rule: PlacementRule, queues: Queues, who: Applicant) -> Placed | NotPlaced:
        return check(path, rule, {name: _Active(queue) for name, queue in queues.items()}, who)

    return patch.object(placement, "_check", passing_over)


@contextmanager
def accept_nonsense() -> Iterator[None]:
    """Empty names and negative amounts and counts are taken as they are; what the sums are then is no invariant any
    more. An ask with a negative amount fits no node, and nothing is placed as long as there is a node without an
    ID."""

    def nothing(*_: object) -> None:
        return None

    def problem(partition: Partition | None, application: Application | None, asked: Ask) -> str | None:
        return problem_of_ask(partition, application, replace(asked, max_allocations=abs(asked.max_allocations)))

    def fits_nowhere(nodes_of: nodes.NodeIndex, demand: Demand) -> bool:
        return min(demand.need, default=0) < 0 or "" in nodes_of._nodes

    def best(nodes_of: nodes.NodeIndex, demand: Demand) -> Node | None:
        return None if fits_nowhere(nodes_of, demand) else best_of(nodes_of, demand)

    def closest(nodes_of: nodes.NodeIndex, demand: Demand, but: str = "") -> tuple[Node | None, int]:
        return (None, 0) if fits_nowhere(nodes_of, demand) else closest_of(nodes_of, demand, but)

    problem_of_ask, best_of, closest_of = ask.problem_of_ask, nodes.NodeIndex.best, nodes.NodeIndex.closest
    with (
        patch.object(ask, "problem_of_ask", problem),
        patch.object(nodes.NodeIndex, "best", best),
        patch.object(nodes.NodeIndex, "closest", closest),
        patch.object(bounds, "problem_of_name", nothing),
        patch.object(allocation, "problem_of_resource", nothing),
        patch.object(ask, "problem_of_resource", nothing),
        patch.object(node, "problem_of_resource", nothing),
        patch.object(submit, "problem_of_resource", nothing),
    ):
        yield


@contextmanager
def keep_what_gave_back_everything_completing() -> Iterator[None]:
    """A release of all that an application holds clears the timer of its state: it stays Completing, until all is
    released once more."""
    released, ended = BY_COMMAND[ReleaseAllocation], expire.BY_TIMER_KIND["state"]
    given_back: set[tuple[str, str]] = set()

    def release_allocation(core: State, command: ReleaseAllocation, now_ms: int) -> Iterator[Any]:
        partition = core.partitions.get(command.partition)
        application = partition.applications.get(command.application_id) if partition is not None else None
        completing = application is not None and application.state == COMPLETING
        yield from released(core, command, now_ms)
        if command.uuid or partition is None or application is None:
            return
        given_back.add((partition.name, application.id))
        if completing and application.state == COMPLETING:
            yield from transition(partition, application, COMPLETE, now_ms)

    def state_ended(core: Any, partition: Partition, application: Application, *rest: Any) -> Iterator[Any]:
        if application.state != COMPLETING or (partition.name, application.id) not in given_back:
            yield from ended(core, partition, application, *rest)

    with (
        patch.dict(BY_COMMAND, {ReleaseAllocation: release_allocation}),
        patch.dict(expire.BY_TIMER_KIND, {"state": state_ended}),
    ):
        yield


def replace_placeholders_on_draining_nodes() -> AbstractContextManager[object]:
    return patch.object(Node, "takes", lambda node, bound_to: node.ready)


@contextmanager
def stop_at_a_bound_ask_without_room() -> Iterator[None]:
    """An ask whose required node is full ends the cycle; one whose node is unknown ends the turn of its application."""
    next_ask_class = PartitionIndex.next_ask_class

    def next_until_blocked(index: PartitionIndex) -> AskClass | None:
        ask_class = next_ask_class(index)
        if ask_class is None:
            return None
        found = ask_class.first()
        rank = index.ask_rank(found)
        for blocked in _bound_without_room(index):
            same = blocked.application is found.application
            known = required_node(blocked.ask.tags) in index.partition.nodes
            if (known or same) and blocked is not found and index.ask_rank(blocked) < rank:
                return None
        return ask_class

    with patch.object(PartitionIndex, "next_ask_class", next_until_blocked):
        yield


def _bound_without_room(index: PartitionIndex) -> Iterator[PendingAsk]:
    for application in index.partition.applications.values():
        for pending in application.asks.values():
            name = required_node(pending.ask.tags)
            if not name or not pending.pending or limit_of(pending) or full_queue(pending):
                continue
            bound_to = index.partition.nodes.get(name)
            left = bound_to.available() if bound_to is not None else {}
            if any(amount > left.get(resource, 0) for resource, amount in pending.ask.resource.items()):
                yield pending


@contextmanager
def limit_everything_by_the_cluster() -> Iterator[None]:
    """Nothing is placed that wants more than is left in the partition as a whole, which may be less than nothing."""
    of = Index.of

    def limited(index: Index, state: State, partition: Partition) -> PartitionIndex:
        settings = partition.root.settings
        if settings.max != partition.total:
            partition.root.settings = replace(settings, max=dict(partition.total))
            index.partitions.pop(partition.name, None)
        return of(index, state, partition)

    def first_within(order: ParentOrder, negated_headroom: Any) -> AskClass | None:
        return first(order, order.negated_headroom(None) if order.above is None else negated_headroom)

    first = ParentOrder.first
    with patch.object(Index, "of", limited), patch.object(ParentOrder, "first", first_within):
        yield


@contextmanager
def keep_nothing_for_preemptors() -> Iterator[None]:
    """The room freed for an ask that is bound to no node goes to the first ask that comes. Its node is reserved only if
    the ask fits under every maximum, and in the cluster as a whole, before the victims have gone."""
    carry_out, plan = preempt.carry_out, preempt.plan

    def planned(state: State, partition: Partition, *rest: Any, **named: Any) -> preempt.Plan | GroupPlan | str:
        with patch.object(partition, "preemptions", {}):
            return plan(state, partition, *rest, **named)

    def carried_out(core: Any, partition: Partition, found: preempt.Plan) -> Iterator[Any]:
        reserves = required_node(found.pending.ask.tags) or within_quotas(partition, found.pending)
        for fact in carry_out(core, partition, found):
            if reserves or not isinstance(fact, NodeReserved | NodeUnreserved):
                yield fact

    with patch.object(preempt, "carry_out", carried_out), patch.object(preempt, "plan", planned):
        yield


@contextmanager
def keep_quotas_that_are_removed() -> Iterator[None]:
    """An update changes a maximum or a guaranteed, and does not take it away."""
    configure = import_module("remuda_core.decide.configure")  # the package has a function of this name
    apply_queues, flatten = configure.apply_queues, configure.flatten

    def applied(partition: Partition, settings: PartitionSettings) -> Iterator[Any]:
        def kept(of: PartitionSettings) -> Iterator[tuple[str, bool, Any]]:
            for path, leaf, own in flatten(of):
                queue = partition.queues.get(path)
                if queue is not None:
                    was = queue.settings
                    own = replace(own, max=own.max or was.max, guaranteed=own.guaranteed or was.guaranteed)
                yield path, leaf, own

        with patch.object(configure, "flatten", kept):
            facts = list(apply_queues(partition, settings))
        yield from facts

    with patch.object(configure, "apply_queues", applied):
        yield


@contextmanager
def wait_for_places_that_were_too_small() -> Iterator[None]:
    """Real asks wait for every place that was asked for and not taken, unless the clock of the gang gave it up."""
    expected: Any = TaskGroup.awaited
    of, ended = Index.of, expire.BY_TIMER_KIND["placeholder"]
    given_up: Counter[TaskGroup] = Counter()

    def waits(group: TaskGroup) -> bool:
        return bool(expected.fget(group) or (group.name and group.count > group.replaced + given_up[group]))

    def placeholders_ended(state: State, partition: Partition, application: Application, *rest: Any) -> Iterator[Any]:
        left = {group: len(list(group.free)) for group in application.task_groups.values()}
        for fact in ended(state, partition, application, *rest):
            given_up.update(left)
            left = {}
            yield fact

    def looking_again(index: Index, state: State, partition: Partition) -> PartitionIndex:
        """These counts change at other times than those that the index expects."""
        found = of(index, state, partition)
        for application in partition.applications.values():
            for group in application.task_groups.values():
                change_task_group(found, application, group)
        return found

    with (
        patch.object(TaskGroup, "awaited", property(waits)),
        patch.object(Index, "of", looking_again),
        patch.dict(expire.BY_TIMER_KIND, {"placeholder": placeholders_ended}),
    ):
        yield


@contextmanager
def end_the_time_with_the_last_place() -> Iterator[None]:
    """The clock of a gang stops when it has no allocated placeholder, whatever is pending."""

    def ended(state: State, partition: Partition, application: Application) -> None:
        if not application.placeholders and application.placeholders_until_ms:
            state.timers.cancel(timeouts.of_placeholders(partition.name, application))
            application.placeholders_until_ms = 0

    with (
        patch.object(allocations, "end_without_placeholders", ended),
        patch.object(asks, "end_without_placeholders", ended),
    ):
        yield
