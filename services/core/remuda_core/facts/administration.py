"""Facts about the actions of operators."""

from __future__ import annotations

import msgspec

from .fact import Fact


class Action(msgspec.Struct, frozen=True, gc=False):
    """An action of an operator, with its target and the reason. `kind`: the name of its class in `actions`. Fields that
    the kind does not have are empty. `queue`: the one that is held or resumed, or to which the application moves."""

    kind: str
    operator: str
    reason: str
    action_id: str
    partition: str
    application_id: str = ""
    queue: str = ""
    node_id: str = ""
    allocation_key: str = ""
    uuid: str = ""
    priority: int = 0
    force: bool = False


class ActionTaken(Fact):
    """The first fact of the decision, before the effects. `overridden`: the soft rules that it breaks by force.
    `repeated`: the action_id was used before, so there are no effects."""

    action: Action
    overridden: tuple[str, ...] = ()
    repeated: bool = False


class ActionRefused(Fact):
    """`soft`: `force` would have allowed it."""

    action: Action
    refusal: str
    repeated: bool = False
    soft: bool = False


class ApplicationMoved(Fact):
    """The application is in `queue` now, with all it has."""

    partition: str
    application_id: str
    queue: str
    from_queue: str


class QueueHeld(Fact):
    """Nothing is allocated or started in the queue and below it. A hold belongs to the path: it outlives the queue."""

    partition: str
    queue: str
    operator: str
    reason: str


class QueueResumed(Fact):
    partition: str
    queue: str
    operator: str
