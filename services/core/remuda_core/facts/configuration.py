"""Facts about configurations, partitions and queues."""

from __future__ import annotations

from ..rules.resource import Resource
from ..settings import PartitionSettings, QueueSettings, Timing
from .fact import Fact


class ConfigurationApplied(Fact):
    checksum: str
    source: str
    compatibility: str
    timing: Timing = Timing()
    revision: int = 0


class ConfigurationRefused(Fact):
    checksum: str
    source: str
    reason: str


class PartitionAdded(Fact):
    partition: str
    config: PartitionSettings


class PartitionChanged(Fact):
    partition: str
    config: PartitionSettings


class PartitionDraining(Fact):
    partition: str


class PartitionRemoved(Fact):
    partition: str


class QueueAdded(Fact):
    partition: str
    queue: str
    leaf: bool
    managed: bool
    config: QueueSettings


class QueueChanged(Fact):
    partition: str
    queue: str
    leaf: bool
    managed: bool
    config: QueueSettings
    changed: tuple[str, ...]


class QueueDraining(Fact):
    partition: str
    queue: str


class QueueDrainOverdue(Fact):
    """The queue has been draining since `since_ms` and is not empty. `applications`: how many are in it;
    `application_ids` and `users`: of the first of them; `admin_acls`: of the queue and those above that have one, from
    the queue upwards; `next_ms`: when this is reported again."""

    partition: str
    queue: str
    since_ms: int
    applications: int
    application_ids: tuple[str, ...]
    users: tuple[str, ...]
    allocated: Resource
    admin_acls: tuple[str, ...]
    next_ms: int


class QueueRestored(Fact):
    partition: str
    queue: str


class QueueRemoved(Fact):
    partition: str
    queue: str
    managed: bool
