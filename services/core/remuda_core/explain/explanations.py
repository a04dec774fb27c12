"""Explains several waiting asks of one state. Results for one ask are used again for equal ones, so the state must not
change meanwhile.
"""

from __future__ import annotations

from ..facts import Constraint
from ..index.asks import ApplicationAsks
from ..index.index import Index
from ..index.partition import PartitionIndex
from ..rules.connection import RUNNING
from ..rules.required_node import required_node
from ..rules.resource import items_of
from ..state import Application, Partition, PendingAsk, State
from .constraints import (
    QUESTION,
    hold_constraints,
    node_constraints,
    place_constraints,
    preemption_constraints,
    room_constraints,
    standing_constraints,
)
from .holders import Holders, holders_of


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
        """Who holds what the constraint is about. All asks of an application have the same answer."""
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
            nodes = self._nodes[like] = node_constraints(partition, ask, index)
            self.looks += 1
        found = [*self._standing_of(ask, asks, index), *nodes]
        return [*found, *self._of_preemption(partition, ask)] if found else found

    def _standing_of(
        self, ask: PendingAsk, asks: ApplicationAsks | None, index: PartitionIndex | None
    ) -> list[Constraint]:
        """`asks`: of the same application, and like it."""
        if asks is None or ask.has_place:
            return [*room_constraints(self._state), *standing_constraints(ask, index)]
        found = self._standing.get(asks)
        if found is None:
            found = [*room_constraints(self._state), *standing_constraints(ask, index)]
            self._standing[asks] = found
        return found

    def _of_preemption(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        wants = ask.ask
        bound_to = required_node(wants.tags)
        if ask.preemption is not None or not (wants.allow_preempt_other or bound_to):
            return preemption_constraints(self._state, partition, ask)
        queue, resource = ask.application.queue, items_of(wants.resource)
        like = queue, resource, bound_to, wants.priority, wants.allow_preempt_other
        found = self._preemption.get(like)
        if found is None:
            found = self._preemption[like] = preemption_constraints(self._state, partition, ask)
            self.looks += bool(found)
        return found
