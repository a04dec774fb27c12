"""Builds the `remuda.v1.Configuration` that the core reads from verified models.

Building adds the root queue, turns names into lower case, replaces old spellings, lets children inherit properties, and
turns each filter into a list of names or one regular expression. It cannot fail, since the models have been verified.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from remuda_config import calendars
from remuda_config.rules import budgets, placement, properties, windows
from remuda_config.schema import ChildTemplate, Filter, LimitEntry, Partition, PlacementRule, Queue, Queues, Window
from remuda_proto.access_list import canonical
from remuda_proto.durations import milliseconds
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si

DEFAULT_WEIGHTS = {"vcore": 1.0, "memory": 1.0}

BUILT_IN = """\
partitions:
  - name: default
    placementrules:
      - name: provided
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: '*'
"""


# The key `checksum` of a text. It names the text that an update was made from, and is no part of the configuration.
_CHECKSUM_LINE = re.compile(r"""^checksum[ \t]*:[ \t]*(['"]?)(\w*)\1[ \t]*(?:#.*)?(?:\r?\n|\Z)""", re.MULTILINE)


def checksum(text: str) -> str:
    """Returns the SHA-256, in upper-case hex, of a text without its own line `checksum`."""
    return hashlib.sha256(without_checksum(text).encode(errors="surrogatepass")).hexdigest().upper()


def without_checksum(text: str) -> str:
    """Returns the text without its top-level line `checksum`."""
    return _CHECKSUM_LINE.sub("", text) if "checksum" in text else text


def checksum_in(text: str) -> str:
    """Returns the checksum that a text names, in upper case; empty: the text names none."""
    found = _CHECKSUM_LINE.search(text)
    return found[2].upper() if found else ""


def build(queues: Queues, text: str, source: str, compatibility: str) -> config_pb2.Configuration:
    return config_pb2.Configuration(
        checksum=checksum(text),
        partitions=[_partition(partition) for partition in queues.partitions],
        compatibility=compatibility,
        source=source,
    )


def _partition(partition: Partition) -> config_pb2.PartitionConfig:
    root, _ = partition.root(())
    policy = partition.nodesortpolicy
    return config_pb2.PartitionConfig(
        name=partition.plain_name,
        root=_queue(root, {}, parent=True),
        node_sort_policy=config_pb2.NodeSortPolicy(
            type=policy.type or "fair",
            resource_weights=policy.resourceweights or DEFAULT_WEIGHTS,
            pack="" if policy.pack == "none" else policy.pack,
        ),
        preemption_enabled=partition.preemption.enabled,
        preemption_threshold=partition.preemption.threshold,  # None: the default of the service
        preemption_interval_ms=milliseconds(partition.preemption.interval) or 0,
        quota_preemption_enabled=partition.preemption.quotapreemptionenabled,
        reservation_share=partition.reservations.share or 0,  # 0: the default
        queue_reservation_share=partition.reservations.queueshare or 0,
        placement_rules=[_rule(rule) for rule in partition.placementrules],
        limits=[_limit(limit) for limit in partition.limits],
        devices=_resource(partition.devices),
        topology=[config_pb2.TopologyLevel(level=one.level, attribute=one.attribute) for one in partition.topology],
        backfill="" if partition.backfill.policy == "none" else partition.backfill.policy,
        backfill_order="" if partition.backfill.order == "queue" else partition.backfill.order,
        calendar=[_window(window, partition) for window in partition.calendar],
    )


def _window(window: Window, partition: Partition) -> config_pb2.Window:
    zone = calendars.zone_named(window.zone or "UTC")
    assert zone is not None, "it is verified"
    return config_pb2.Window(
        name=window.name,
        start_ms=calendars.instant_in(window.start, zone) or 0,
        days=sorted({calendars.DAYS.index(day.lower()) for day in window.days}),
        time_ms=calendars.time_of_day(window.time) or 0,
        duration_ms=milliseconds(window.duration) or 0,
        offsets=calendars.offsets_of(zone) if window.days else (),
        since_ms=calendars.instant_in(window.since, zone) or 0,
        until_ms=calendars.instant_in(window.until, zone) or 0,
        skip=sorted(day for text in set(window.skip) if (day := calendars.day_number(text)) is not None),
        nodes=window.nodes,
        ids=sorted(set(window.ids)),
        unbounded=window.unbounded.lower() == "allow",
        release=window.release,
        queue=window.queue.lower(),
        lead_ms=milliseconds(window.lead) or 0,
        queues=_in_window(window, partition) if window.settings else (),
    )


def _in_window(window: Window, partition: Partition) -> Iterator[config_pb2.QueueInWindow]:
    """The queues that have other settings in the window: those that it names, and those that inherit from them."""
    before, _ = partition.root(())
    after, _ = windows.in_window(partition, window).root(())
    pending = [("root", _queue(before, {}, parent=True), _queue(after, {}, parent=True))]
    for path, outside, inside in pending:
        pending.extend((f"{path}.{old.name}", old, new) for old, new in zip(outside.queues, inside.queues, strict=True))
    for path, outside, inside in pending:
        del outside.queues[:], inside.queues[:]
        if outside != inside:
            yield config_pb2.QueueInWindow(path=path, config=inside)


def _queue(queue: Queue, above: Mapping[str, str], parent: bool = False) -> config_pb2.QueueConfig:
    current = properties.inherit(above, properties.canonical(queue.properties))
    return config_pb2.QueueConfig(
        name=queue.name.lower(),
        parent=parent or queue.is_parent,
        guaranteed=_resource(queue.resources.guaranteed),
        max=_resource(queue.resources.max),
        max_applications=queue.maxapplications,
        properties=current,
        admin_acl=canonical(queue.adminacl),
        submit_acl=canonical(queue.submitacl),
        child_template=_template(queue.childtemplate) if parent or queue.is_parent else None,
        queues=[_queue(child, current) for child in queue.queues],
        limits=[_limit(limit) for limit in queue.limits],
        budget=budgets.build(queue.budget),
    )


def _template(template: ChildTemplate | None) -> config_pb2.ChildTemplate | None:
    """None for an empty template. `maxapplications` alone makes a template (semantics section 6)."""
    if template is None:
        return None
    built = config_pb2.ChildTemplate(
        max_applications=template.maxapplications,
        properties=properties.canonical(template.properties),
        guaranteed=_resource(template.resources.guaranteed),
        max=_resource(template.resources.max),
        budget=budgets.build(template.budget),
    )
    return built if built.ByteSize() else None


def _limit(limit: LimitEntry) -> config_pb2.Limit:
    return config_pb2.Limit(
        description=limit.limit,
        users=limit.users,
        groups=limit.groups,
        max_resources=_resource(limit.maxresources),
        max_applications=limit.maxapplications,
    )


def _rule(rule: PlacementRule) -> config_pb2.PlacementRule:
    name = placement.canonical(rule.name) or rule.name
    return config_pb2.PlacementRule(
        name=name,
        create=rule.create,
        filter=_filter(rule.filter),
        parent=_rule(rule.parent) if rule.parent else None,
        value=rule.value.lower() if name == "fixed" else rule.value,
    )


def _filter(filter_: Filter) -> config_pb2.PlacementFilter:
    return config_pb2.PlacementFilter(
        type=filter_.type.lower() or "allow", users=_entries(filter_.users), groups=_entries(filter_.groups)
    )


def _entries(entries: list[str]) -> list[str]:
    """The core takes a single entry for a regular expression, so a single name becomes an expression for itself."""
    if len(entries) == 1 and not placement.is_expression(entries[0]):
        return [f"^{re.escape(entries[0])}$"]
    unique = list(dict.fromkeys(entries))
    return [f"^{re.escape(unique[0])}$"] if len(unique) == 1 and len(entries) > 1 else unique


def _resource(amounts: Mapping[str, int] | None) -> si.Resource | None:
    if not amounts:
        return None
    return si.Resource(resources={name: si.Quantity(value=amount) for name, amount in amounts.items()})
