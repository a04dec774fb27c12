"""Explains several waiting asks of one state. Results for one ask are used again for equal ones, so the state must not
change meanwhile.
"""

from __future__ import annotations

from ..facts import Constraint
from ..index.ask_classes import ApplicationAsks
from ..index.index import Index
from ..rules.connection import RUNNING
from ..rules.required_node import required_node
from ..rules.resource import items_of
from ..state import Partition, PendingAsk, State
from .constraints import (
    node_constraints,
    place_constraints,
    preemption_constraints,
    room_constraints,
    standing_constraints,
)


class Explanations:
    def __init__(self, state: State, index: Index) -> None:
        self._state = state
        self._index = index
        self._nodes: dict[object, list[Constraint]] = {}
        self._preemption: dict[object, list[Constraint]] = {}

    @property
    def looks(self) -> int:
        """How often nodes or victims were searched, which determines the duration."""
        return len(self._nodes) + len(self._preemption)

    def of(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        """The constraints of the ask. Empty: it waits only for its turn."""
        found = self._of_its_own(partition, ask)
        rm_state = self._state.rm_state
        return found if rm_state == RUNNING else [Constraint("rm", "", f"the resource manager is {rm_state}"), *found]

    def _of_its_own(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        if not ask.pending:
            return [Constraint("question", "", "the RM is asked whether it may run where there is room for it")]
        if waits := place_constraints(ask):
            return waits
        # An ask with reserved nodes has more nodes to choose from than others of its demand.
        index = self._index.find(partition)
        line = index.lines.get(ask) if index is not None and not ask.reservations else None
        like = line.ask_class.demand if isinstance(line, ApplicationAsks) else ask
        nodes = self._nodes.get(like)
        if nodes is None:
            nodes = self._nodes[like] = node_constraints(partition, ask, index)
        found = [*room_constraints(self._state), *standing_constraints(ask, index), *nodes]
        return [*found, *self._of_preemption(partition, ask)] if found else found

    def _of_preemption(self, partition: Partition, ask: PendingAsk) -> list[Constraint]:
        if ask.preemption is not None:
            return preemption_constraints(self._state, partition, ask)
        wants = ask.ask
        like = (
            ask.application.queue, items_of(wants.resource), required_node(wants.tags), wants.priority,
            wants.allow_preempt_other, bool(ask.preempted_at_ms),
        )  # fmt: skip
        found = self._preemption.get(like)
        if found is None:
            found = preemption_constraints(self._state, partition, ask)
            if found:
                self._preemption[like] = found
        return found
