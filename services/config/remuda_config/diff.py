"""Lists the changes between two configurations for an operator: `root.prod: max memory 10G → 20G`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter

from remuda_config import calendars
from remuda_proto import quantities
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si

Described = Mapping[str, str]  # setting -> value
NOTHING = "(none)"
# The path of a queue, before and after; None: there is no such queue.
Pair = tuple[str, config_pb2.QueueConfig | None, config_pb2.QueueConfig | None]


def difference(before: config_pb2.Configuration, after: config_pb2.Configuration) -> list[str]:
    """Returns one line for each change, by partition and then by path of the queue; [] when nothing changed."""
    old = {partition.name: partition for partition in before.partitions}
    new = {partition.name: partition for partition in after.partitions}
    several = len(old.keys() | new.keys()) > 1
    lines = _changes("", {"compatibility": before.compatibility}, {"compatibility": after.compatibility})
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            lines.append(f"partition {name}: removed")
        elif name not in old:
            lines.append(f"partition {name}: added")
        else:
            prefix = f"partition {name}: " if several else ""
            lines += (prefix + line for line in _partition_changes(old[name], new[name]))
    return lines


def _partition_changes(old: config_pb2.PartitionConfig, new: config_pb2.PartitionConfig) -> list[str]:
    lines = _changes("", _describe_partition(old), _describe_partition(new))
    for path, before, after in sorted(_different(old.root, new.root, old.root.name), key=itemgetter(0)):
        if after is None:
            lines.append(f"{path}: removed")
        elif before is None:
            lines.append(f"{path}: added")
        else:
            lines += _changes(f"{path}: ", _describe_queue(before), _describe_queue(after))
    return lines


def _different(old: config_pb2.QueueConfig, new: config_pb2.QueueConfig, path: str) -> Iterator[Pair]:
    """The queues that may differ. A tree that is equal as a whole is passed over at its top."""
    if old == new:
        return
    yield path, old, new
    before = {queue.name: queue for queue in old.queues}
    after = {queue.name: queue for queue in new.queues}
    for name in before.keys() | after.keys():
        below = f"{path}.{name}"
        if name not in after:
            yield from ((each, queue, None) for each, queue in _queues(before[name], path))
        elif name not in before:
            yield from ((each, None, queue) for each, queue in _queues(after[name], path))
        else:
            yield from _different(before[name], after[name], below)


def _changes(prefix: str, old: Described, new: Described) -> list[str]:
    keys = [*old, *(key for key in new if key not in old)]
    return [
        f"{prefix}{key} {old.get(key, NOTHING)} → {new.get(key, NOTHING)}"
        for key in keys
        if old.get(key) != new.get(key)
    ]


def _queues(queue: config_pb2.QueueConfig, above: str) -> Iterator[tuple[str, config_pb2.QueueConfig]]:
    path = f"{above}.{queue.name}" if above else queue.name
    yield path, queue
    for child in queue.queues:
        yield from _queues(child, path)


def _describe_partition(partition: config_pb2.PartitionConfig) -> Described:
    weights = sorted(partition.node_sort_policy.resource_weights.items())
    return {
        "node sort policy": partition.node_sort_policy.type,
        **({"packed": f"by {partition.node_sort_policy.pack}"} if partition.node_sort_policy.pack else {}),
        **{f"weight of {name}": _number(weight) for name, weight in weights},
        "preemption": "enabled" if partition.preemption_enabled else "disabled",
        **({"quota preemption": "enabled"} if partition.quota_preemption_enabled else {}),
        **_count("preemption threshold", partition.preemption_threshold),
        **_count("preemption interval, ms", partition.preemption_interval_ms),
        **_count("reservation share", partition.reservation_share),
        **_count("reservation share of a queue", partition.queue_reservation_share),
        "placement rules": ", ".join(_rule(rule) for rule in partition.placement_rules) or NOTHING,
        **_amounts("device of", partition.devices),
        **_topology(partition),
        **(
            {"backfill": f"{partition.backfill} by {partition.backfill_order or 'queue'}"} if partition.backfill else {}
        ),
        **_limits(partition.limits),
        **{f"window {window.name}": show_window(window) for window in partition.calendar},
    }


def show_window(window: config_pb2.Window) -> str:
    """When it comes, and what it does."""
    if window.days:
        hours, minutes = divmod(window.time_ms // 60_000, 60)
        ahead = f" ({len(window.offsets)} offsets from UTC)" if len(window.offsets) > 1 else ""
        when = f"{','.join(calendars.DAYS[day] for day in window.days)} at {hours:02}:{minutes:02}{ahead}"
    else:
        when = f"once, from {_time(window.start_ms)}"
    parts = [when, f"for {_duration(window.duration_ms)}"]
    parts += [f"{name} {_time(at_ms)}" for name in ("since", "until") if (at_ms := getattr(window, f"{name}_ms"))]
    parts += [f"but on {len(window.skip)} days"] if window.skip else []
    nodes = [f"{name}={value}" for name, value in _sorted(window.nodes).items()]
    parts += [f"nodes {' '.join((*nodes, *window.ids))}"] if nodes or window.ids else []
    parts += [f"kept for {window.queue}, lead {_duration(window.lead_ms)}"] if window.queue else []
    parts += [f"{word}" for word in ("unbounded", "release") if getattr(window, word)]
    for one in window.queues:
        parts.append(f"{one.path}: " + " ".join(f"{key}={value}" for key, value in _describe_queue(one.config).items()))
    return "; ".join(parts)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _duration(lasts_ms: int) -> str:
    minutes, rest = divmod(lasts_ms, 60_000)
    return f"{lasts_ms} ms" if rest else f"{minutes} min"


def _topology(partition: config_pb2.PartitionConfig) -> Described:
    levels = ", ".join(f"{one.level} by {one.attribute}" for one in partition.topology)
    return {"topology": levels} if levels else {}


def _describe_queue(queue: config_pb2.QueueConfig) -> Described:
    template = queue.child_template
    return {
        "kind": "parent" if queue.parent else "leaf",
        **_amounts("guaranteed", queue.guaranteed),
        **_amounts("max", queue.max),
        **_count("maxapplications", queue.max_applications),
        "submitacl": repr(queue.submit_acl),
        "adminacl": repr(queue.admin_acl),
        **_sorted(queue.properties),
        **_count("template maxapplications", template.max_applications),
        **_amounts("template guaranteed", template.guaranteed),
        **_amounts("template max", template.max),
        **{f"template {name}": value for name, value in _sorted(template.properties).items()},
        **_limits(queue.limits),
        **_budget("budget", queue.budget),
        **_budget("template budget", template.budget),
    }


def _budget(name: str, budget: config_pb2.Budget) -> Described:
    if not budget.ByteSize():
        return {}
    period = f"{budget.calendar} of {budget.zone}" if budget.calendar else f"{budget.period_ms / 1_000:.10g} s"
    hours = {f"{key}, h": value for key, value in _amounts(name, budget.amounts).items()}
    return {**hours, f"period of {name}": period}


def _sorted(properties: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(properties.items()))


def _count(name: str, value: int) -> Described:
    return {name: str(value)} if value else {}


def _number(value: float) -> str:
    """With every digit, so that different numbers look different."""
    return str(int(value)) if value.is_integer() else repr(value)


def _amounts(name: str, resource: si.Resource) -> Described:
    amounts = sorted((key, amount.value) for key, amount in resource.resources.items())
    return {f"{name} {key}": quantities.show_amount(key, amount) for key, amount in amounts}


def _limits(limits: Iterable[config_pb2.Limit]) -> Described:
    described: dict[str, str] = {}
    for limit in limits:
        parts = {**_amounts("", limit.max_resources), **_count(" applications", limit.max_applications)}
        text = ", ".join(f"{name.strip()} {value}" for name, value in parts.items())
        for kind, entries in (("user", limit.users), ("group", limit.groups)):
            described.update((f"limit of {kind} {name}", text) for name in entries)
    return described


def _rule(rule: config_pb2.PlacementRule) -> str:
    text = f"{rule.name} {rule.value}" if rule.value else rule.name
    if rule.create:
        text += " (create)"
    for kind, entries in (("users", rule.filter.users), ("groups", rule.filter.groups)):
        if entries:
            text += f" ({rule.filter.type} {kind} {' '.join(entries)})"
    return f"{text} below {_rule(rule.parent)}" if rule.HasField("parent") else text
