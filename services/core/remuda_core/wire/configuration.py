"""Configurations, both ways: remuda.v1.Configuration and the values of `settings`, which have the same fields."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from remuda_proto.remuda.v1 import config_pb2

from .. import settings
from ..limits import SHARED_LEAF_BYTES
from .by_name import ByName, Conversion, same
from .resources import Shared, read_resource, write_resource

# A partition whose settings are the defaults.
DEFAULT: Final = settings.PartitionSettings("", settings.QueueSettings("root"))


def read_configuration(message: config_pb2.Configuration) -> settings.Configuration:
    found: settings.Configuration = CONFIGURATION.read(message)
    return found


def read_partition(message: config_pb2.PartitionConfig) -> settings.PartitionSettings:
    partition: settings.PartitionSettings = PARTITION.read(message)
    sort = message.node_sort_policy
    weights = dict(sort.resource_weights) or DEFAULT.resource_weights
    return replace(partition, node_sort=sort.type or "fair", resource_weights=weights, pack=sort.pack)


def write_partition(partition: settings.PartitionSettings) -> config_pb2.PartitionConfig:
    message: config_pb2.PartitionConfig = PARTITION.write(partition)
    sort = message.node_sort_policy
    sort.type, sort.pack = partition.node_sort, partition.pack
    sort.resource_weights.update(partition.resource_weights)
    return message


def read_timing(message: config_pb2.Timing) -> settings.Timing:
    """Missing fields have their defaults."""
    return settings.Timing(**{field.name: value for field, value in message.ListFields()})


def write_timing(timing: settings.Timing) -> config_pb2.Timing:
    return config_pb2.Timing(**{name: getattr(timing, name) for name in timing.__struct_fields__})


def read_queue(message: config_pb2.QueueConfig) -> settings.QueueSettings:
    queue: settings.QueueSettings = QUEUE.read(message)
    return queue


def write_queue(queue: settings.QueueSettings) -> config_pb2.QueueConfig:
    message: config_pb2.QueueConfig = QUEUE.write(queue)
    return message


def _read_below(messages: Any) -> tuple[settings.QueueSettings, ...]:
    return tuple(map(_read_one_below, messages))


def _read_one_below(message: config_pb2.QueueConfig) -> settings.QueueSettings:
    """A leaf that is the same as one read before is shared: a change of a configuration with thousands of queues
    concerns a few of them, and their RM waits while the others are read."""
    if message.queues:
        return read_queue(message)
    written = message.SerializeToString()
    return _LEAVES[written] if len(written) <= SHARED_LEAF_BYTES else read_queue(message)


_LEAVES: Final[Shared[bytes, settings.QueueSettings]] = Shared(
    lambda written: read_queue(config_pb2.QueueConfig.FromString(written))
)


def _unless(default: int) -> Conversion:
    """The default is not written: a log without the setting stays as it is."""
    return Conversion(lambda value: 0 if value == default else value, lambda value: value or default)


# Exceptions from `by_name`, by the full name of the message or of the field.
SPECIAL: Final = {
    "remuda.v1.Configuration.compatibility": Conversion(same, lambda text: text or "none"),
    "remuda.v1.PartitionConfig": Conversion(write_partition, read_partition),
    "remuda.v1.PartitionConfig.reservation_share": _unless(DEFAULT.reservation_share),
    "remuda.v1.PartitionConfig.queue_reservation_share": _unless(DEFAULT.queue_reservation_share),
    "remuda.v1.PartitionConfig.devices": Conversion(
        lambda units: write_resource(units) if units else None, read_resource
    ),
    "remuda.v1.PlacementFilter.type": Conversion(same, lambda text: text or "allow"),
    "remuda.v1.QueueConfig.queues": Conversion(lambda queues: list(map(write_queue, queues)), _read_below),
    "remuda.v1.Timing": Conversion(write_timing, read_timing),
}
_CONVERT: Final = ByName(SPECIAL)
QUEUE: Final = _CONVERT.of(settings.QueueSettings, config_pb2.QueueConfig)
PARTITION: Final = _CONVERT.of(
    settings.PartitionSettings, config_pb2.PartitionConfig, but=("node_sort", "resource_weights", "pack")
)
CONFIGURATION: Final = _CONVERT.of(settings.Configuration, config_pb2.Configuration)
