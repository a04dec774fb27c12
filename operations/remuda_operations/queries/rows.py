"""Rows of the core's answers: the shape of whatever is shown of queues, nodes, applications and asks.

The core fills these Structs (`remuda_core.shell.views`), and their JSON is the answer: the order of the fields here is
that of the JSON. Clients decode the same Structs. A field with a default may be missing in the answer of an older core;
fields of a newer core are ignored. The messages of `admin.proto` have fields with the same names
(`operations/tests/test_rows.py`).

Amounts are in base units, times in milliseconds since 1970, 0: never or unknown (docs/queries.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

T = TypeVar("T")
Amounts = Mapping[str, int]
Texts = Mapping[str, str]
PageToken = list[Any]  # opaque
# Where reading is restricted (`remuda_web.restricted`), an operator reads only these fields of a queue above those that
# the operator sees, of a node, a partition, an explained ask and the totals. Other rows are seen as a whole or not at
# all.
PUBLIC = msgspec.Meta(extra={"public": True})
Public = Annotated[T, PUBLIC]


class Hold(msgspec.Struct):
    """The operator who holds a queue or drains a node: nothing new starts there."""

    operator: str = ""
    reason: str = ""
    since_ms: int = 0


class PlacementFilter(msgspec.Struct):
    """The users and groups that a placement rule is for, or with the `type` deny is not for."""

    type: str = "allow"
    users: Sequence[str] = ()
    groups: Sequence[str] = ()


class PlacementRule(msgspec.Struct):
    """A rule that finds the queue of an application (docs/semantics.md, section 5)."""

    name: str
    create: bool = False
    value: str = ""
    filter: PlacementFilter | None = None
    parent: PlacementRule | None = None


class Partition(msgspec.Struct, kw_only=True):
    """A partition and its totals. `status`: Active or Draining."""

    name: Public[str]
    status: Public[str] = ""
    total: Public[Amounts] = {}
    allocated: Public[Amounts] = {}
    nodes: Public[int] = 0
    allocations: Public[int] = 0
    draining_since_ms: Public[int] = 0
    node_sort: Public[str] = ""
    resource_weights: Public[Mapping[str, float]] = {}
    placement_rules: Sequence[PlacementRule] = ()
    preemption_enabled: Public[bool] = True
    quota_preemption_enabled: Public[bool] = False
    yunikorn_1_4: Public[bool] = False


class DrainingApplication(msgspec.Struct):
    """An application that a draining queue still has."""

    id: str
    user: str = ""
    state: str = ""
    allocated: Amounts = {}


class Draining(msgspec.Struct):
    """The first applications that a draining queue still has, the access lists of the administrators that may act, and
    when it is reported next that the queue drains."""

    applications: Sequence[DrainingApplication] = ()
    admin_acls: Sequence[str] = ()
    report_ms: int = 0


class Excess(msgspec.Struct):
    """The usage of a queue above its maximum, and when allocations are preempted for it next."""

    above: Amounts = {}
    since_ms: int = 0
    preempt_at_ms: int = 0


class LimitUsage(msgspec.Struct, kw_only=True):
    """The usage of a user or of a group, one of which is set, under a limit. `max_applications` 0: no limit."""

    user: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    used: Amounts = {}
    max: Amounts = {}
    running_applications: int = 0
    max_applications: int = 0


class ChildTemplate(msgspec.Struct):
    """The settings of queues that placement rules make below a queue."""

    max_applications: int = 0
    properties: Texts = {}
    guaranteed: Amounts = {}
    max: Amounts = {}


class Limit(msgspec.Struct):
    """A limit for each of the users and groups in a queue and below it. `max_applications` 0: no limit."""

    users: Sequence[str] = ()
    groups: Sequence[str] = ()
    max_resources: Amounts = {}
    max_applications: int = 0
    description: str = ""


class FairShare(msgspec.Struct, kw_only=True):
    """The past use of a queue, or of a user of a leaf queue, beside its siblings: the queues of one parent, or the
    users of the leaf. `mean`: mean use, which counts half as much after `half_life_ms`, as it will be by `fair.ahead`.
    Of the `resource` of which the siblings have used most: its `share` of what all of them have used, and its `target`,
    the share that is due to it. `owes`: how much its mean is above its target; negative: below."""

    half_life_ms: int = 0
    mean: Amounts = {}
    resource: str = ""
    share: float = 0.0
    target: float = 0.0
    owes: Amounts = {}


class BudgetUse(msgspec.Struct, kw_only=True):
    """The budget of a queue and all queues below it in the present period, in base units * hours.

    `period`: day, week or month by the clocks of `zone`; empty: it lasts `period_ms`. It ends at `until_ms`; use counts
    since `from_ms`. `committed`: what running work may still use by its bounds. `left`: of `amounts`, without what is
    used, committed, and held for asks for which others are preempted; negative: too much is. `reached_ms`: when nothing
    of the resource `reached` is left to use, at the rate of the period so far; 0: not in this period."""

    period: str = ""
    period_ms: int = 0
    zone: str = ""
    from_ms: int = 0
    until_ms: int = 0
    amounts: Amounts = {}
    used: Amounts = {}
    committed: Amounts = {}
    left: Amounts = {}
    reached_ms: int = 0
    reached: str = ""


class QuotaLoan(msgspec.Struct, kw_only=True):
    """Amounts of the maximum, or of the guarantee, that the queue borrows from the other `queue`, or lends to it, until
    a time; and the operator who has arranged it."""

    queue: str = ""
    lends: bool = False
    amounts: Amounts = {}
    guaranteed: bool = False
    until_ms: int = 0
    operator: str = ""
    reason: str = ""


class Queue(msgspec.Struct, kw_only=True):
    """A queue. What is used, wanted and running includes all queues below it.

    `managed`: from the configuration; others are made by placement rules. `status`: Active or Draining. `held` and
    `draining`, `excess`: None unless an operator holds it, it drains, it is above its maximum. `max`: its own; a
    resource that is missing is not limited. `max_in_force`: with those of the queues above, and the partition's total.
    `allocating_accepted_applications`: accepted applications with allocations, which count as running. `waiting`:
    pending allocations, since `waiting_since_ms` (0: there are none); `waiting_for`: how many of them wait for each
    kind of constraint, by the first that was reported. `fair_share`: None: its parent ranks by present use.
    `budget`: None: it has none of its own. `loans`: its settings have them already."""

    partition: Public[str] = ""
    path: Public[str]
    leaf: Public[bool] = False
    managed: Public[bool] = False
    status: Public[str] = ""
    draining_since_ms: Public[int] = 0
    draining: Draining | None = None
    held: Hold | None = None
    excess: Excess | None = None
    allocated: Amounts = {}
    pending: Amounts = {}
    preempting: Amounts = {}
    guaranteed: Public[Amounts] = {}
    max: Public[Amounts] = {}
    max_in_force: Public[Amounts] = {}
    applications: int = 0
    max_applications: Public[int] = 0
    running_applications: int = 0
    allocating_accepted_applications: Sequence[str] = ()
    limited: Sequence[LimitUsage] = ()
    priority: Public[int] = 0
    asks_pending: bool = False
    waiting: int = 0
    waiting_since_ms: int = 0
    waiting_for: Mapping[str, int] = {}
    properties: Public[Texts] = {}
    template: Public[ChildTemplate | None] = None
    limits: Sequence[Limit] = ()
    submit_acl: str = ""
    admin_acl: str = ""
    fair_share: FairShare | None = None
    budget: BudgetUse | None = None
    loans: Sequence[QuotaLoan] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


class QueueTree(Queue, kw_only=True):
    """A queue with those below it, which the rows of a core do not have: the reader puts them together."""

    children: list[QueueTree] = []

    def with_all_below(self) -> Iterator[QueueTree]:
        """Yields the queue and all queues below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.with_all_below()


class PartitionTree(Partition, kw_only=True):
    """`queues` is the root queue with everything below it."""

    queues: QueueTree = msgspec.field(default_factory=lambda: QueueTree(path="root"))


class Queues(msgspec.Struct):
    """`state`: init, Running, Paused or Stopped."""

    rm: str = ""
    partitions: list[PartitionTree] = []
    state: str = ""


class QueuesPage(msgspec.Struct):
    state: str = ""
    partitions: list[PartitionTree] = []
    queues: list[QueueTree] = []
    next: PageToken | None = None


class AskName(msgspec.Struct):
    application: str
    key: str


class RejectedAllocation(msgspec.Struct):
    """An allocation that runs on a node, as the RM has reported, and could not be booked. `foreign`: it is not the
    scheduler's."""

    application_id: str = ""
    allocation_key: str = ""
    uuid: str = ""
    resource: Amounts = {}
    reason: str = ""
    foreign: bool = False


class NodeDevices(msgspec.Struct):
    """The devices of one resource on a node. `unit`: the amount of a device. `free`: on each device, in the order of
    `names`; negative where more is booked than there is. `unfit`: names of devices on which nothing new is placed."""

    resource: str = ""
    unit: int = 0
    names: Sequence[str] = ()
    free: Sequence[int] = ()
    unfit: Sequence[str] = ()


class NodePromise(msgspec.Struct):
    """When a reserved node has room for its ask at the latest, now and as it was promised first; when and why that
    changed last, 0: never."""

    promised_ms: int = 0
    first_ms: int = 0
    changed_ms: int = 0
    cause: str = ""


class NodeDeparture(msgspec.Struct):
    """When a node is drained; `operator`, `reason` and `since_ms` of the operator who has said so, or the `window` of
    the calendar that begins then; empty: it is by its attribute."""

    at_ms: int = 0
    operator: str = ""
    reason: str = ""
    since_ms: int = 0
    window: str = ""


class Window(msgspec.Struct, kw_only=True):
    """A window of the calendar. `kind`: maintenance, kept (for `queue`) or settings (of `queues`). `opens_ms`: when it
    is in force next, or since when it is; `from_ms` and `until_ms`: its begin and end; all 0: it does not come again.
    `nodes`: how many it is about, and how many allocations are `running` there."""

    partition: str = ""
    name: str
    kind: str = ""
    open: bool = False
    opens_ms: int = 0
    from_ms: int = 0
    until_ms: int = 0
    weekly: bool = False
    nodes: int = 0
    running: int = 0
    queue: str = ""
    queues: list[str] = []
    unbounded: bool = False
    release: bool = False


class Node(msgspec.Struct, kw_only=True):
    """A node. `occupied`: in use by others than the scheduler's allocations. `status`: Schedulable, NotReady or
    Draining. `drained`: None: no operator drains it now. `leaving`: None: it is not known when it is drained next.
    `windows`: those of the calendar that are open and about it.
    `rejected`: the first of `rejected_count`.
    `domain`: the values of the attributes of the levels of the topology, the coarsest first."""

    partition: Public[str] = ""
    id: Public[str]
    attributes: Public[Texts] = {}
    capacity: Public[Amounts] = {}
    occupied: Public[Amounts] = {}
    status: Public[str] = ""
    allocated: Public[Amounts] = {}
    available: Public[Amounts] = {}
    drained: Public[Hold | None] = None
    reserved_for: Public[AskName | None] = None
    allocations: Public[int] = 0
    rejected: Sequence[RejectedAllocation] = ()
    rejected_count: Public[int] = 0
    domain: Public[Sequence[str]] = ()
    devices: Public[Sequence[NodeDevices]] = ()
    promise: NodePromise | None = None
    leaving: Public[NodeDeparture | None] = None
    windows: Public[Sequence[str]] = ()


class NodePartition(msgspec.Struct):
    name: str
    nodes: list[Node] = []


class Nodes(msgspec.Struct):
    partitions: list[NodePartition] = []


class NodesPage(msgspec.Struct):
    nodes: list[Node] = []
    next: PageToken | None = None


class StateTransition(msgspec.Struct):
    at_ms: int
    state: str


class ReservedNodes(msgspec.Struct):
    """The nodes that are reserved for the ask with this key."""

    key: str
    nodes: Sequence[str] = ()


class TaskGroup(msgspec.Struct):
    """A task group of a gang. `count`: its placeholders, of which some were replaced or timed out."""

    name: str
    min_resource: Amounts = {}
    count: int = 0
    replaced: int = 0
    timed_out: int = 0


class Application(msgspec.Struct, kw_only=True):
    """An application, also an ended one.

    `tracked_group`: the group under whose limits it counts ("": none). `states`: its last states, without the
    `states_left_out` before them. `ends_ms`: when all its allocations time out. `max_allocated`: the most that its real
    allocations, or its placeholders, ever had of each resource. `asks`: pending allocations. `placeholders_until_ms`:
    when its placeholders time out."""

    partition: str = ""
    id: str
    queue: str = ""
    user: str = ""
    groups: Sequence[str] = ()
    tracked_group: str = ""
    tags: Texts = {}
    state: str = ""
    since_ms: int = 0
    submitted_ms: int = 0
    states: Sequence[StateTransition] = ()
    states_left_out: int = 0
    ends_ms: int = 0
    allocated: Amounts = {}
    allocated_placeholder: Amounts = {}
    max_allocated: Amounts = {}
    pending: Amounts = {}
    asks: int = 0
    allocations: int = 0
    counts_as_running: bool = False
    reservations: Sequence[ReservedNodes] = ()
    priority: int = 0
    execution_timeout_ms: int = 0
    placeholder_ask: Amounts = {}
    gang_scheduling_style: str = ""
    placeholders_until_ms: int = 0
    task_groups: Sequence[TaskGroup] = ()


class Rejection(msgspec.Struct, kw_only=True):
    """The last rejection of an application's ID."""

    partition: str = ""
    id: str
    queue: str = ""
    user: str = ""
    groups: Sequence[str] = ()
    state: str = ""
    since_ms: int = 0
    reason: str = ""


class Replacement(msgspec.Struct):
    """The allocation that takes the place of a placeholder, once the RM has released it. Its ask is pending no more."""

    key: str
    uuid: str = ""
    node: str = ""
    tags: Texts = {}


class Allocation(msgspec.Struct, kw_only=True):
    """An allocation. `replaced`: the UUID of the placeholder that it has replaced. `requested_ms`: when its ask came.
    `ends_ms`: the end of its execution time. `releasing`: the
    TerminationType with which the RM has been asked to release it; 0: it has not. `devices`: the names of its devices
    with commas between them, by resource."""

    partition: str = ""
    uuid: str
    application: str = ""
    key: str = ""
    node: str = ""
    resource: Amounts = {}
    priority: int = 0
    tags: Texts = {}
    task_group: str = ""
    placeholder: bool = False
    originator: bool = False
    replaced: str = ""
    replacement: Replacement | None = None
    since_ms: int = 0
    requested_ms: int = 0
    ends_ms: int = 0
    releasing: int = 0
    devices: Texts = {}


class Ask(msgspec.Struct, kw_only=True):
    """An ask with pending allocations, as it stands. `waits_for`: kind, place and resource of the first constraint that
    was reported of it; None: none was. Of equal asks of an application, only the first is reported. `required_node`:
    the node that it is bound to ("": none)."""

    partition: str = ""
    application: str
    queue: str = ""
    key: str
    resource: Amounts = {}
    priority: int = 0
    pending: int = 0
    since_ms: int = 0
    waits_for: Sequence[str] | None = None
    tags: Texts = {}
    required_node: str = ""
    task_group: str = ""
    placeholder: bool = False
    reserved_nodes: Sequence[str] = ()
    preempted_at_ms: int = 0


class Usage(msgspec.Struct, kw_only=True):
    """The usage of a user or of a group, one of which is set, in a queue and all queues below, and the limit that
    applies. `max_applications` 0: no limit. `fair_share`: of a user in a leaf queue that remembers; None: it does
    not."""

    partition: str = ""
    user: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    queue: str = ""
    used: Amounts = {}
    applications: int = 0
    running_applications: int = 0
    max: Amounts = {}
    max_applications: int = 0
    fair_share: FairShare | None = None


class Holder(msgspec.Struct, frozen=True):
    """An application that holds `amount` of what an ask waits for, or waits itself, since `since_ms`. `key`: of the ask
    for which a node is reserved."""

    application: str
    amount: int = 0
    allocations: int = 0
    since_ms: int = 0
    key: str = ""


class Holders(msgspec.Struct, frozen=True):
    """The first rows of `total`, those that hold most first. `complete`: no application was left out."""

    total: int = 0
    rows: Sequence[Holder] = ()
    complete: bool = True


class Constraint(msgspec.Struct):
    """A constraint that blocks an ask, at `where` (a queue path, a node); `reason` is text for people. If it concerns a
    `resource`, the ask needs `need` and `have` is left. `holders`: only if the query names the application."""

    constraint: str = ""
    where: str = ""
    resource: str = ""
    need: int = 0
    have: int = 0
    reason: str = ""
    since_ms: int = 0
    holders: Holders | UnsetType = UNSET


class EarlierConstraint(msgspec.Struct):
    """A constraint that was in the way. `ended_ms`: 0: until now."""

    constraint: str = ""
    where: str = ""
    resource: str = ""
    since_ms: int = 0
    ended_ms: int = 0


class Turn(msgspec.Struct, frozen=True):
    """The queue is the `place`-th, from 1, of `among` children of its parent that have something pending; 0: not
    known."""

    queue: str
    place: int = 0
    among: int = 0


class Position(msgspec.Struct, frozen=True):
    """`ahead` of the `waiting` pending allocations of the leaf queue come before the first one of the ask; `turns` of
    the queues on the path, root's child first."""

    ahead: int = 0
    waiting: int = 0
    turns: Sequence[Turn] = ()


class Forecast(msgspec.Struct, kw_only=True):
    """When a waiting ask will start, or its next repeat, as it was forecast at `at_ms`. `position`: in the order of
    queues of its partition, from 1. `unknown`: why there is no forecast; then the times are 0. `median_ms` 0 and no
    reason: later than was played. Four of five asks start between `from_ms` and `until_ms`; 0: an end that is not
    known. `held` of the last `of` intervals of the RM have held."""

    partition: str = ""
    application: str
    key: str
    queue: str = ""
    position: int = 0
    median_ms: int = 0
    from_ms: int = 0
    until_ms: int = 0
    unknown: str = ""
    at_ms: int = 0
    held: int = 0
    of: int = 0


class ExplainedAsk(msgspec.Struct, kw_only=True):
    """A pending ask and why it waits. `reason`: that of the first constraint. `history`: constraints that are over, the
    latest last. `forecast`: when it will start, by the last forecast; None: the ask was in none lately."""

    partition: Public[str] = ""
    application: Public[str]
    queue: Public[str] = ""
    key: Public[str]
    resource: Public[Amounts] = {}
    priority: Public[int] = 0
    pending: Public[int] = 0
    reserved_nodes: Public[Sequence[str]] = ()
    since_ms: Public[int] = 0
    constraints: Public[Sequence[Constraint]] = ()
    reason: Public[str] = ""
    position: Public[Position | None] = None
    history: Sequence[EarlierConstraint] = ()
    forecast: Public[Forecast | None] = None


class Explanation(msgspec.Struct):
    asks: list[ExplainedAsk] = []
    next: PageToken | None = None


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


class Stats(msgspec.Struct, kw_only=True):
    """Totals of an RM. `configuration`: its checksum. `inbox_seq`, `request_seq`: how far the RM's messages are
    decided. `allocations_ever`: all that were ever made."""

    rm: Public[str]
    state: Public[str] = ""
    registration: int = 0
    policy_group: str = ""
    build_info: Public[Texts] = {}
    configuration: str = ""
    inbox_seq: int = 0
    request_seq: int = 0
    nodes: Public[int] = 0
    applications: Public[int] = 0
    allocations: Public[int] = 0
    allocations_ever: Public[int] = 0


class Action(msgspec.Struct, kw_only=True):
    """The outcome of an operator's action. `action_id`: `<operator>/<ID>`. Fields that the `kind` does not have are
    empty. `at_ms`: when it was decided; 0: not known. `outcome`: accepted or refused; an accepted action has the
    `overridden` soft rules, a refused one the reason of the `refusal`, and `soft`: force would have allowed it."""

    kind: str
    operator: str
    reason: str = ""
    action_id: str
    partition: str = ""
    application_id: str = ""
    queue: str = ""
    node_id: str = ""
    allocation_key: str = ""
    uuid: str = ""
    priority: int = 0
    force: bool = False
    from_ms: int = 0
    borrower: str = ""
    amounts: Amounts = {}
    guaranteed: bool = False
    until_ms: int = 0
    at_ms: int = 0
    outcome: str
    overridden: Sequence[str] | UnsetType = UNSET
    refusal: str | UnsetType = UNSET
    soft: bool | UnsetType = UNSET

    @property
    def target(self) -> str:
        ask = f"{self.application_id}/{self.allocation_key}" if self.allocation_key else self.application_id
        return " to ".join(filter(None, (ask, self.queue))) or self.node_id or self.uuid


class ActionsPage(msgspec.Struct):
    actions: list[Action] = []
    next: PageToken | None = None


class DomainLevel(msgspec.Struct):
    level: str = ""
    attribute: str = ""


class WaitingGroup(msgspec.Struct, kw_only=True):
    """A group with pending members. `required`, `preferred`, `spread`: levels; "": none. `slice`: LEVEL/MEMBERS.
    `waiting`, `placed`: members. `waits_for`: kind, place and resource of the first constraint that was reported.
    `domain`: where most of its members are. `avoided`: the domain that others avoid for it."""

    application: str
    queue: str = ""
    group: str = ""
    required: str = ""
    preferred: str = ""
    spread: str = ""
    slice: str = ""
    waiting: int = 0
    placed: int = 0
    since_ms: int = 0
    waits_for: Sequence[str] = ()
    domain: Sequence[str] = ()
    avoided: Sequence[str] = ()
    avoided_since_ms: int = 0


class TopologyPartition(msgspec.Struct, kw_only=True):
    """`levels`: the coarsest first. `devices`: the amount of one device, by resource. `waiting`: the groups that wait
    longest, the first of `waiting_count`."""

    name: str = ""
    levels: Sequence[DomainLevel] = ()
    devices: Amounts = {}
    waiting: Sequence[WaitingGroup] = ()
    waiting_count: int = 0


class DomainDevices(msgspec.Struct):
    """Devices of one resource. `devices` and `capacity`: all; `used`: devices with something on them. Of nodes that
    take asks: `free`: what is free on devices, `whole` of them as a whole; `fragments`: of `free`, what no waiting or
    common ask can use; `unfit`: devices on which nothing new is placed."""

    resource: str = ""
    devices: int = 0
    used: int = 0
    whole: int = 0
    unfit: int = 0
    capacity: int = 0
    free: int = 0
    fragments: int = 0

    @property
    def unit(self) -> int:
        return self.capacity // self.devices if self.devices else 1


class Domain(msgspec.Struct, kw_only=True):
    """Nodes with the same `path` of attributes; the first domain of a partition has all nodes, an empty path and no
    level. `ready`: nodes that take asks; `empty`: of these, nodes on which nothing is."""

    partition: str = ""
    level: str = ""
    path: Sequence[str] = ()
    nodes: int = 0
    ready: int = 0
    empty: int = 0
    capacity: Amounts = {}
    allocated: Amounts = {}
    devices: Sequence[DomainDevices] = ()


class TopologyPage(msgspec.Struct):
    partitions: list[TopologyPartition] = []
    domains: list[Domain] = []
    next: PageToken | None = None


class ForecastsPage(msgspec.Struct):
    forecasts: list[Forecast] = []
    next: PageToken | None = None


class Forecasts(msgspec.Struct, kw_only=True):
    """Forecasts that were made at `at_ms`. `held`: how many of the last `of` intervals have held."""

    rm: str = ""
    state: str = ""
    at_ms: int = 0
    forecasts: list[Forecast] = []
    samples: int = 0
    held: int = 0
    of: int = 0
    log_seq: int = 0


class Rows(msgspec.Struct):
    """A page of any of these queries, its rows as they are: for readers that pass all fields on, also those of a newer
    core. The query determines which list is filled."""

    queues: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    applications: list[dict[str, Any]] = []
    rejections: list[dict[str, Any]] = []
    allocations: list[dict[str, Any]] = []
    usage: list[dict[str, Any]] = []
    asks: list[dict[str, Any]] = []
    forecasts: list[dict[str, Any]] = []
    windows: list[dict[str, Any]] = []
    next: PageToken | None = None


# The row of each query whose answer is a page of rows.
ROWS: Mapping[str, type[msgspec.Struct]] = {
    "queues": Queue, "nodes": Node, "applications": Application, "rejections": Rejection, "allocations": Allocation,
    "asks": Ask, "usage": Usage, "explain": ExplainedAsk, "actions": Action,
    "topology": Domain, "windows": Window, "forecasts": Forecast,
}  # fmt: skip
