"""Commands: what the core is asked to do. Values, named in the imperative; `wire` reads them from the inbox.

Fields have the names and units of si.v1 (000): amounts in base units, times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .actions import Action
from .facts import Allocated, Ask, Tags
from .rules.resource import Resource
from .settings import Configuration


class Command(msgspec.Struct, frozen=True, gc=False):
    pass


class Register(Command):
    rm_id: str
    configuration: Configuration
    version: str = ""
    policy_group: str = ""
    build_info: Tags = {}
    extra_config: Tags = {}
    life: int = 0
    registration: int = 0


class Configure(Command):
    configuration: Configuration


class RmConnection(Command):
    """The connection to the RM has changed. `state`: LOST, BACK, GONE or DEREGISTERED of `rules.connection`.
    `registration`: the number of the registration that is meant; 0: the current one."""

    state: str
    reason: str = ""
    registration: int = 0


class UpdateNode(Command):
    """`action`: the name of a NodeInfo.ActionFromRM, or its number if it has no name. None: not in the message.
    `refused`: why rmproxy has refused the node; `refused_existing`: the same of allocations, by position, from 1."""

    partition: str
    node_id: str
    action: str
    attributes: Tags = {}
    capacity: Resource | None = None
    occupied: Resource | None = None
    existing_allocations: tuple[Allocated, ...] = ()
    refused: str = ""
    refused_existing: Mapping[int, str] = {}


class SubmitApplication(Command):
    partition: str
    application_id: str
    queue: str
    user: str
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = {}
    execution_timeout_ms: int = 0
    placeholder_ask: Resource = {}
    gang_scheduling_style: str = ""
    # Why the groups of the user are not known; empty: they are.
    groups_problem: str = ""
    refused: str = ""


class RemoveApplication(Command):
    partition: str
    application_id: str


class SubmitAsk(Command):
    """`as_allocation`: the RM has sent an allocation without a node, and reads refusals as those of allocations.
    `refused`: why rmproxy has refused the ask; "": it has not. So in all commands."""

    ask: Ask
    as_allocation: bool = False
    refused: str = ""


class ReleaseAsk(Command):
    """Empty fields are wildcards. No `allocation_key`: all asks of the application. No `application_id`: all asks of
    the key."""

    partition: str
    application_id: str
    allocation_key: str
    termination_type: int = 0
    message: str = ""


class ReleaseAllocation(Command):
    """No `uuid`: all allocations of the application, or those of `allocation_key`."""

    partition: str
    application_id: str
    uuid: str
    termination_type: int = 0
    message: str = ""
    allocation_key: str = ""


class RecoverAllocation(Command):
    allocation: Allocated
    refused: str = ""


class AnswerPredicate(Command):
    """The RM's answer to the question with the number `question`. `spared`: keys of victims of a preemption that must
    not go for now."""

    partition: str
    question: int
    success: bool
    reason: str = ""
    spared: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """An RM's verdict about one node. `reason`: why the RM refuses it; "": it does not. `holds_ms`: 0: until the node
    changes."""

    node_id: str
    reason: str = ""
    holds_ms: int = 0


class AnswerPredicates(Command):
    """The RM's verdicts on the nodes of a question about a predicate class. Nodes without a verdict are refused for a
    while, because of `reason` if there is one."""

    partition: str
    question: int
    verdicts: tuple[Verdict, ...]
    reason: str = ""


class Administer(Command):
    """An operator acts. The sender has verified `operator`, `groups` and `scheduler_administrator` (the scheduler's ACL
    allows the operator). `reason`: in the operator's words. `action_id`: a repeated one changes nothing. `force`: act
    although a soft rule would refuse it. `action` is None if the message had none that this version knows."""

    operator: str
    groups: tuple[str, ...]
    scheduler_administrator: bool
    reason: str
    action_id: str
    force: bool
    partition: str
    action: Action | None


class Schedule(Command):
    """Run one scheduling pass. Allocates at most `limit` allocations, or one in each partition if that is more."""

    limit: int


class CleanQueues(Command):
    """Remove dynamic and draining queues that are empty, and draining partitions that are empty."""


class Tick(Command):
    """Time has passed: handle due timers, and explain waiting asks."""
