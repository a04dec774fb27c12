"""What the core is asked to do: values in the imperative, one per thing asked. `wire` reads them out of the inbox."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

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
    """`state`: one of `rules.connection`: lost, back, gone, deregistered. `registration`: the one it is about; 0:
    whichever there is."""

    state: str
    reason: str = ""
    registration: int = 0


class UpdateNode(Command):
    """`action`: the name of a NodeInfo.ActionFromRM. None for what the message did not carry."""

    partition: str
    node_id: str
    action: str
    attributes: Tags = {}
    capacity: Resource | None = None
    occupied: Resource | None = None
    existing_allocations: tuple[Allocated, ...] = ()


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


class RemoveApplication(Command):
    partition: str
    application_id: str


class SubmitAsk(Command):
    ask: Ask


class ReleaseAsk(Command):
    """Empty names are wildcards: no key, all asks of the application; no application, the key wherever it is."""

    partition: str
    application_id: str
    allocation_key: str
    termination_type: int = 0
    message: str = ""


class ReleaseAllocation(Command):
    """No uuid: all allocations of the application."""

    partition: str
    application_id: str
    uuid: str
    termination_type: int = 0
    message: str = ""
    allocation_key: str = ""


class RecoverAllocation(Command):
    allocation: Allocated


class AnswerPredicate(Command):
    """What the RM says to a question."""

    partition: str
    question: int
    success: bool
    reason: str = ""


class Schedule(Command):
    """Allocate what can be allocated now, at most `limit` allocations, or one in each partition if that is more."""

    limit: int


class CleanQueues(Command):
    """Remove the queues and partitions that nobody needs any more."""


class Tick(Command):
    """Time has passed."""
