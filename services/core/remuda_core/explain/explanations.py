"""The constraints of several waiting asks of one state. Asks that are alike are looked at once."""

from __future__ import annotations

from remuda_operations.queries.rows import Holders

from ..cycle.preempt import obstacle
from ..facts import Constraint
from ..index.asks import ApplicationAsks
from ..index.index import Index
from ..index.partition import PartitionIndex
from ..index.preemption import alike, group_label
from ..rules.connection import RUNNING
from ..rules.required_node import required_node
from ..state import Application, Partition, PendingAsk, State
from .holders import holders_of
from .nodes import QUESTION, node_constraints
from .standing import hold_constraints, place_constraints, standing_constraints


class Explanations:
    def __init__(self, state: State, index: Index) -> None:
        self._state = state
        self._index = index
        self._standing: dict[ApplicationAsks, list[Constraint]] = {}
        self._nodes: dict[object, list[Constraint]] = {}
        self._preemption: dict[object, list[Constraint]] = {}
        self._holders: dict[tuple[Application, Constraint], Holders] = {}
        # How often nodes or victims were searched, which determines the duration.
        self.looks = 0

    def of(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        """The constraints of the ask. Empty: it waits only for its turn."""
        found = self._of_its_own(partition, ask)
        rm_state = self._state.rm_state
        return found if rm_state == RUNNING else [Constraint("rm", "", f"the resource manager is {rm_state}"), *found]

    def holders(self, partition: Partition, ask: PendingAsk, constraint: Constraint) -> Holders:
        """The applications that hold what the constraint is about: the same for all asks of an application."""
        like = ask.application, constraint
        found = self._holders.get(like)
        if found is None:
            found = self._holders[like] = holders_of(partition, ask, constraint)
            self.looks += 1
        return found

    def _of_its_own(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        if not ask.pending:
            return [Constraint(QUESTION, "", "the RM is asked whether it may run where there is room for it")]
        if waits := place_constraints(ask):
            return [*hold_constraints(ask.application.queue), *waits]
        # An ask with reserved nodes has more nodes to choose from than others of its demand.
        index = self._index.find(partition)
        line = index.lines.get(ask) if index is not None else None
        asks = line if isinstance(line, ApplicationAsks) else None
        like = ask if asks is None or ask.reservations else asks.ask_class.demand
        nodes = self._nodes.get(like)
        if nodes is None:
            nodes = self._nodes[like] = node_constraints(partition, ask, index, self._state.now_ms)
            self.looks += 1
        found = [*self._standing_of(ask, asks, index), *nodes]
        return [*found, *self._of_preemption(partition, ask, index)] if found else found

    def _standing_of(
        self, ask: PendingAsk, asks: ApplicationAsks | None, index: PartitionIndex | None
    ) -> list[Constraint]:
        """`asks`: of the same application, and like it."""
        if asks is None or ask.has_place:
            return standing_constraints(self._state, ask, index)
        found = self._standing.get(asks)
        if found is None:
            found = self._standing[asks] = standing_constraints(self._state, ask, index)
        return found

    def _of_preemption(self, partition: Partition, ask: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
        wants = ask.ask
        bound_to = required_node(wants.tags)
        if ask.preemption is not None or not (wants.allow_preempt_other or bound_to):
            return _preemption_constraints(self._state, partition, ask)
        queue, resource = ask.application.queue, alike(partition, ask)
        like = queue, resource, bound_to, wants.priority, wants.allow_preempt_other, group_label(ask)
        found = self._preemption.get(like)
        if found is None:
            found = self._preemption[like] = _preemption_constraints(self._state, partition, ask, index)
            self.looks += bool(found)
        return found


def _preemption_constraints(
    state: State, partition: Partition, pending: PendingAsk, index: PartitionIndex | None = None
) -> list[Constraint]:
    """The preemption under way for the ask, or why there is no plan. May take as long as planning one."""
    under_way = pending.preemption
    if under_way is not None:
        left = sum(uuid in partition.allocations for uuid in under_way.uuids)
        if under_way.nodes:
            where = under_way.domain or under_way.node.id
            reason = f"{left} of the allocations in {where} have been preempted for its group and are still to go"
            return [Constraint("preemption", where, reason)]
        reason = f"{left} of the allocations on {under_way.node.id} have been preempted for it and are still to go"
        return [Constraint("preemption", under_way.node.id, reason)]
    wants = pending.ask.allow_preempt_other and partition.settings.preemption_enabled
    if not (wants or required_node(pending.ask.tags)):
        return []
    reason = obstacle(state, partition, pending, state.now_ms, index)
    return [Constraint("preemption", "", f"nothing can be preempted for it: {reason}")] if reason else []
