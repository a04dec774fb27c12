"""Facts about configurations, partitions and queues."""

from __future__ import annotations

from ..settings import PartitionSettings, QueueSettings, Timing
from .fact import Fact


class ConfigurationApplied(Fact):
    checksum: str
    source: str
    compatibility: str
    timing: Timing = Timing()


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


class QueueRestored(Fact):
    partition: str
    queue: str


class QueueRemoved(Fact):
    partition: str
    queue: str
    managed: bool
