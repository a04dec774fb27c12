"""Configurations, both ways: remuda.v1.Configuration and the values of `settings`."""

from __future__ import annotations

from typing import Final

from remuda_proto.remuda.v1 import config_pb2

from .. import settings
from ..limits import SHARED_LEAF_BYTES
from .resources import Shared, read_resource, write_resource

# A partition whose settings are the defaults.
DEFAULT: Final = settings.PartitionSettings("", settings.QueueSettings("root"))


def read_configuration(message: config_pb2.Configuration) -> settings.Configuration:
    partitions = tuple(read_partition(partition) for partition in message.partitions)
    return settings.Configuration(
        message.checksum, partitions, message.compatibility or "none", message.source,
        read_timing(message.timing), message.revision,
    )  # fmt: skip


def read_timing(message: config_pb2.Timing) -> settings.Timing:
    """Missing fields have their defaults."""
    return settings.Timing(**{field.name: value for field, value in message.ListFields()})


def write_timing(timing: settings.Timing) -> config_pb2.Timing:
    return config_pb2.Timing(**{name: getattr(timing, name) for name in timing.__struct_fields__})


def read_partition(message: config_pb2.PartitionConfig) -> settings.PartitionSettings:
    sort = message.node_sort_policy
    weights = dict(sort.resource_weights) or {"vcore": 1.0, "memory": 1.0}
    rules = tuple(read_rule(rule) for rule in message.placement_rules)
    return settings.PartitionSettings(
        message.name, read_queue(message.root), sort.type or "fair", weights, message.preemption_enabled, rules,
        tuple(read_limit(limit) for limit in message.limits), message.preemption_threshold,
        message.preemption_interval_ms, sort.pack, message.quota_preemption_enabled,
        message.reservation_share or DEFAULT.reservation_share,
        message.queue_reservation_share or DEFAULT.queue_reservation_share, read_resource(message.devices),
        tuple(settings.TopologyLevel(one.level, one.attribute) for one in message.topology),
        message.backfill, message.backfill_order, tuple(map(read_window, message.calendar)),
        tuple(map(read_in_window, message.outside)),
    )  # fmt: skip


def _unless_default(partition: settings.PartitionSettings, name: str) -> int:
    """0 for the default: a log without the setting stays as it is."""
    value: int = getattr(partition, name)
    return 0 if value == getattr(DEFAULT, name) else value


def write_partition(partition: settings.PartitionSettings) -> config_pb2.PartitionConfig:
    return config_pb2.PartitionConfig(
        name=partition.name,
        root=write_queue(partition.root),
        preemption_enabled=partition.preemption_enabled,
        preemption_threshold=partition.preemption_threshold,
        preemption_interval_ms=partition.preemption_interval_ms,
        quota_preemption_enabled=partition.quota_preemption_enabled,
        reservation_share=_unless_default(partition, "reservation_share"),
        queue_reservation_share=_unless_default(partition, "queue_reservation_share"),
        node_sort_policy=config_pb2.NodeSortPolicy(
            type=partition.node_sort, resource_weights=partition.resource_weights, pack=partition.pack
        ),
        placement_rules=[write_rule(rule) for rule in partition.placement_rules],
        limits=[write_limit(limit) for limit in partition.limits],
        devices=write_resource(partition.devices) if partition.devices else None,
        topology=[config_pb2.TopologyLevel(level=one.level, attribute=one.attribute) for one in partition.topology],
        backfill=partition.backfill,
        backfill_order=partition.backfill_order,
        calendar=[write_window(window) for window in partition.calendar],
        outside=[write_in_window(queue) for queue in partition.outside],
    )


def read_window(message: config_pb2.Window) -> settings.Window:
    return settings.Window(
        message.name, message.start_ms, tuple(message.days), message.time_ms, message.duration_ms,
        _read_offsets(message),
        message.since_ms, message.until_ms, tuple(message.skip), dict(message.nodes), tuple(message.ids),
        message.unbounded, message.release, message.queue, message.lead_ms, tuple(map(read_in_window, message.queues)),
    )  # fmt: skip


def write_window(window: settings.Window) -> config_pb2.Window:
    plain = {name: getattr(window, name) for name in window.__struct_fields__ if name not in ("offsets", "queues")}
    return config_pb2.Window(
        **plain,
        offsets=_write_offsets(window),
        queues=[write_in_window(queue) for queue in window.queues],
    )


def read_in_window(message: config_pb2.QueueInWindow) -> settings.QueueInWindow:
    return settings.QueueInWindow(message.path, read_queue(message.config))


def write_in_window(queue: settings.QueueInWindow) -> config_pb2.QueueInWindow:
    return config_pb2.QueueInWindow(path=queue.path, config=write_queue(queue.config))


def read_queue(message: config_pb2.QueueConfig) -> settings.QueueSettings:
    template = message.child_template if message.HasField("child_template") else None
    return settings.QueueSettings(
        message.name,
        message.parent,
        read_resource(message.guaranteed),
        read_resource(message.max),
        message.max_applications,
        dict(message.properties),
        message.admin_acl,
        message.submit_acl,
        None
        if template is None
        else settings.ChildTemplate(
            template.max_applications,
            dict(template.properties),
            read_resource(template.guaranteed),
            read_resource(template.max),
            _read_budget(template),
        ),
        tuple(read_limit(limit) for limit in message.limits),
        tuple(map(_read_below, message.queues)),
        _read_budget(message),
    )


def _read_budget(message: config_pb2.QueueConfig | config_pb2.ChildTemplate) -> settings.Budget | None:
    if not message.HasField("budget"):
        return None
    found = message.budget
    amounts = read_resource(found.amounts)
    return settings.Budget(amounts, found.calendar, found.period_ms, found.zone, _read_offsets(found))


def write_budget(budget: settings.Budget | None) -> config_pb2.Budget | None:
    if budget is None:
        return None
    return config_pb2.Budget(
        amounts=write_resource(budget.amounts), calendar=budget.calendar, period_ms=budget.period_ms, zone=budget.zone,
        offsets=_write_offsets(budget),
    )  # fmt: skip


def _read_offsets(message: config_pb2.Window | config_pb2.Budget) -> tuple[settings.Offset, ...]:
    return tuple(settings.Offset(one.from_ms, one.offset_ms) for one in message.offsets)


def _write_offsets(of: settings.Window | settings.Budget) -> list[config_pb2.Offset]:
    return [config_pb2.Offset(from_ms=one.from_ms, offset_ms=one.offset_ms) for one in of.offsets]


def _read_below(message: config_pb2.QueueConfig) -> settings.QueueSettings:
    """A leaf that is the same as one read before is shared: a change of a configuration with thousands of queues
    concerns a few of them, and their RM waits while the others are read."""
    if message.queues:
        return read_queue(message)
    written = message.SerializeToString()
    return _LEAVES[written] if len(written) <= SHARED_LEAF_BYTES else read_queue(message)


_LEAVES: Final[Shared[bytes, settings.QueueSettings]] = Shared(
    lambda written: read_queue(config_pb2.QueueConfig.FromString(written))
)


def write_queue(queue: settings.QueueSettings) -> config_pb2.QueueConfig:
    template = queue.child_template
    return config_pb2.QueueConfig(
        name=queue.name,
        parent=queue.parent,
        guaranteed=write_resource(queue.guaranteed),
        max=write_resource(queue.max),
        max_applications=queue.max_applications,
        properties=queue.properties,
        admin_acl=queue.admin_acl,
        submit_acl=queue.submit_acl,
        child_template=None
        if template is None
        else config_pb2.ChildTemplate(
            max_applications=template.max_applications,
            properties=template.properties,
            guaranteed=write_resource(template.guaranteed),
            max=write_resource(template.max),
            budget=write_budget(template.budget),
        ),
        limits=[write_limit(limit) for limit in queue.limits],
        queues=[write_queue(child) for child in queue.queues],
        budget=write_budget(queue.budget),
    )


def read_limit(message: config_pb2.Limit) -> settings.Limit:
    users, groups = tuple(message.users), tuple(message.groups)
    return settings.Limit(
        users, groups, read_resource(message.max_resources), message.max_applications, message.description
    )


def write_limit(limit: settings.Limit) -> config_pb2.Limit:
    return config_pb2.Limit(
        users=limit.users, groups=limit.groups, max_resources=write_resource(limit.max_resources),
        max_applications=limit.max_applications, description=limit.description,
    )  # fmt: skip


def read_rule(message: config_pb2.PlacementRule) -> settings.PlacementRule:
    chosen = message.filter if message.HasField("filter") else None
    return settings.PlacementRule(
        message.name,
        message.create,
        message.value,
        None
        if chosen is None
        else settings.PlacementFilter(chosen.type or "allow", tuple(chosen.users), tuple(chosen.groups)),
        read_rule(message.parent) if message.HasField("parent") else None,
    )


def write_rule(rule: settings.PlacementRule) -> config_pb2.PlacementRule:
    chosen = rule.filter
    return config_pb2.PlacementRule(
        name=rule.name,
        create=rule.create,
        value=rule.value,
        filter=None
        if chosen is None
        else config_pb2.PlacementFilter(type=chosen.type, users=chosen.users, groups=chosen.groups),
        parent=None if rule.parent is None else write_rule(rule.parent),
    )
