"""Rows of the core's answers: the fields that clients read. Further fields of a newer core are ignored.

Amounts are in base units, times in milliseconds since 1970 (docs/queries.md).
"""

from __future__ import annotations

from typing import Any

import msgspec

Amounts = dict[str, int]
PageToken = list[Any]  # opaque


class Excess(msgspec.Struct):
    """The usage of a queue above its maximum, and when allocations are preempted for it next."""

    above: Amounts = {}
    since_ms: int = 0
    preempt_at_ms: int = 0


class Hold(msgspec.Struct):
    """The operator who holds a queue: nothing new starts there."""

    operator: str = ""
    reason: str = ""
    since_ms: int = 0


class Queue(msgspec.Struct):
    """`max`: its own. `max_in_force`: with those of the queues above, and the partition's total. `waiting`: pending
    allocations in it and below, since `waiting_since_ms` (0: there are none). `held`: None: no operator holds it."""

    path: str
    partition: str = ""
    leaf: bool = False
    status: str = ""
    allocated: Amounts = {}
    pending: Amounts = {}
    guaranteed: Amounts = {}
    max: Amounts = {}
    max_in_force: Amounts = {}
    applications: int = 0
    waiting: int = 0
    waiting_since_ms: int = 0
    held: Hold | None = None
    excess: Excess | None = None
    children: list[Queue] = []

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


class Partition(msgspec.Struct):
    """`queues` is the root queue with everything below it."""

    name: str
    queues: Queue
    total: Amounts = {}
    allocated: Amounts = {}
    nodes: int = 0


class Queues(msgspec.Struct):
    """`state`: init, Running, Paused or Stopped."""

    rm: str = ""
    partitions: list[Partition] = []
    state: str = ""


class PartitionRow(msgspec.Struct):
    name: str
    total: Amounts = {}
    allocated: Amounts = {}
    nodes: int = 0


class QueuesPage(msgspec.Struct):
    state: str = ""
    partitions: list[PartitionRow] = []
    queues: list[Queue] = []
    next: PageToken | None = None


class Node(msgspec.Struct):
    id: str
    partition: str = ""
    capacity: Amounts = {}
    occupied: Amounts = {}
    allocated: Amounts = {}
    available: Amounts = {}
    status: str = ""
    allocations: int = 0


class NodePartition(msgspec.Struct):
    name: str
    nodes: list[Node] = []


class Nodes(msgspec.Struct):
    partitions: list[NodePartition] = []


class NodesPage(msgspec.Struct):
    nodes: list[Node] = []
    next: PageToken | None = None


class Holder(msgspec.Struct):
    """An application that holds `amount` of what an ask waits for. `key`: of the ask for which a node is reserved."""

    application: str
    amount: int = 0
    allocations: int = 0
    since_ms: int = 0
    key: str = ""


class Holders(msgspec.Struct):
    """The first rows of `total`, those that hold most first."""

    total: int = 0
    rows: list[Holder] = []
    complete: bool = True


class Constraint(msgspec.Struct):
    """A constraint that blocks an ask, at `where` (a queue path, a node); `reason` is text for people. If it concerns a
    `resource`, the ask needs `need` and `have` is left. `since_ms`: 0 if unknown. `holders`: None if the query named no
    application."""

    constraint: str = ""
    where: str = ""
    resource: str = ""
    need: int = 0
    have: int = 0
    reason: str = ""
    since_ms: int = 0
    holders: Holders | None = None


class EarlierConstraint(msgspec.Struct):
    """A constraint that was in the way. `ended_ms`: 0: until now."""

    constraint: str = ""
    where: str = ""
    resource: str = ""
    since_ms: int = 0
    ended_ms: int = 0


class Turn(msgspec.Struct):
    """The queue is the `place`-th, from 1, of `among` that have something pending; 0: not known."""

    queue: str
    place: int = 0
    among: int = 0


class Position(msgspec.Struct):
    """`ahead` of `waiting` pieces in its queue go first; `turns` of the queues on the way down."""

    ahead: int = 0
    waiting: int = 0
    turns: list[Turn] = []


class Ask(msgspec.Struct):
    application: str
    key: str
    partition: str = ""
    queue: str = ""
    pending: int = 0
    since_ms: int = 0
    constraints: list[Constraint] = []
    reason: str = ""
    position: Position | None = None
    history: list[EarlierConstraint] = []
    resource: dict[str, int] = {}
    priority: int = 0


class Step(msgspec.Struct):
    """A step of a change (docs/queries.md, What if). `text`: for people, in base units."""

    step: str
    where: str = ""
    key: str = ""
    who: str = ""
    resource: str = ""
    before: int = 0
    after: int = 0
    capacity: Amounts = {}
    text: str = ""


class Change(msgspec.Struct):
    """Steps that let the ask run. `exact`: no smaller amounts do."""

    steps: list[Step] = []
    exact: bool = True
    tried: int = 0
    of: int = 0


class WhatIf(msgspec.Struct):
    """`runs`: the ask runs without a change. `complete`: everything was tried."""

    rm: str = ""
    log_seq: int = 0
    at_ms: int = 0
    partition: str = ""
    queue: str = ""
    application: str = ""
    key: str = ""
    resource: Amounts = {}
    runs: bool = False
    constraints: list[Constraint] = []
    changes: list[Change] = []
    trials: int = 0
    complete: bool = True
    passes: int = 0


class Explanation(msgspec.Struct):
    asks: list[Ask] = []
    next: PageToken | None = None


class Rows(msgspec.Struct):
    """A page of any of these queries."""

    applications: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    asks: list[dict[str, Any]] = []
    allocations: list[dict[str, Any]] = []
    next: list[Any] | None = None


class Action(msgspec.Struct):
    """The outcome of an operator's action. `action_id`: `<operator>/<ID>`. `outcome`: accepted or refused. Fields that
    the `kind` does not have are empty. `at_ms`: when it was decided; 0: not known."""

    action_id: str
    operator: str
    kind: str
    outcome: str
    reason: str = ""
    refusal: str = ""
    overridden: list[str] = []
    soft: bool = False
    force: bool = False
    partition: str = ""
    application_id: str = ""
    queue: str = ""
    node_id: str = ""
    allocation_key: str = ""
    uuid: str = ""
    priority: int = 0
    at_ms: int = 0

    @property
    def target(self) -> str:
        ask = f"{self.application_id}/{self.allocation_key}" if self.allocation_key else self.application_id
        return " to ".join(filter(None, (ask, self.queue))) or self.node_id or self.uuid


class ActionsPage(msgspec.Struct):
    actions: list[Action] = []
    next: PageToken | None = None
