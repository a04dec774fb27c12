"""The door of the core: protobuf outside, values inside (remuda.v1 in proto/). Nothing else in the core knows a
protobuf.

Reading never judges: a message that could be parsed becomes commands, and `decide` says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from remuda_proto.constants import NODE_PARTITION
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si

from . import commands, facts, settings
from .limits import SHAPES
from .rules.resource import Resource, clamp

K = TypeVar("K")
V = TypeVar("V")


class Shared(dict[K, V]):
    """What was read, by how it was written: so it is read once, and shared. Never change it. Bounded, because it comes
    from outside."""

    def __init__(self, read: Callable[[K], V]) -> None:
        self._read = read

    def __missing__(self, written: K) -> V:
        if len(self) >= SHAPES:
            self.clear()
        value = self[written] = self._read(written)
        return value


def _read_quantities(written: bytes) -> Resource:
    quantities = si.Resource.FromString(written).resources
    return {name: quantities[name].value for name in sorted(quantities)}


def _read_tag(written: bytes) -> tuple[str, str]:
    entry = si.AllocationAsk.TagsEntry.FromString(written)
    return entry.key, entry.value


def _read_tags(written: tuple[bytes, ...]) -> facts.Tags:
    return dict(map(TAG.__getitem__, written))


# Resources and tags in the log and in snapshots: see shell/schema.py. Lists of protobuf's are sliced: that is twice as
# quick as to go through them.
RESOURCES: Final = Shared(_read_quantities)
TAG: Final = Shared(_read_tag)
TAGS: Final = Shared(_read_tags)
NO_TAGS: Final[facts.Tags] = {}
_written_shapes: dict[tuple[tuple[str, int], ...], si.Resource] = {}
_written_allocations: dict[tuple[object, ...], si.Allocation] = {}


def read_resource(message: si.Resource) -> Resource:
    """The result is shared: never change it."""
    return RESOURCES[message.SerializeToString()]


def write_resource(resource: Resource) -> si.Resource:
    """The result is shared: copy from it, never change it."""
    key = tuple(resource.items())
    message = _written_shapes.get(key)
    if message is None:
        if len(_written_shapes) >= SHAPES:
            _written_shapes.clear()
        message = _written_shapes[key] = si.Resource()
        for name, amount in resource.items():
            message.resources[name].value = clamp(amount)
    return message


class Scribe:
    """Reads the commands of one commit and writes its facts. Remembers in which message an ask came: when it is
    accepted, copying that is cheaper than writing it anew."""

    def __init__(self) -> None:
        self._asks: dict[int, tuple[facts.Ask, si.AllocationAsk]] = {}

    def read(self, message: inbox_pb2.Command) -> tuple[str, Iterable[commands.Command]]:
        """The name of what was asked, and one command per thing asked, in the order in which they are to be handled.
        They are read one by one as they are taken: a message may hold tens of thousands."""
        kind = message.WhichOneof("command")
        if kind is None:
            return "Nothing", []
        name, read = READERS[kind]
        asked = read(getattr(message, kind))
        return name, self._remember(asked, message.allocation) if kind == "allocation" else asked

    def _remember(self, asked: Iterable[commands.Command], request: si.AllocationRequest) -> Iterable[commands.Command]:
        """The same; of each ask the message that it came in."""
        original = iter(request.asks)
        for command in asked:
            if type(command) is commands.SubmitAsk:
                self._asks[id(command.ask)] = (command.ask, next(original))
            yield command

    def write(self, decided: Iterable[facts.Fact], decision: log_pb2.Decision) -> None:
        """Behind what the decision has."""
        add, asks = decision.facts.add, self._asks
        for fact in decided:
            if type(fact) is facts.AskAccepted and (original := asks.get(id(fact.ask))) is not None:
                add().ask_accepted.ask.CopyFrom(original[1])
            else:
                WRITERS[type(fact)](fact, add())


# Commands, out of the inbox


def read_register(message: inbox_pb2.Register) -> Iterable[commands.Command]:
    yield commands.Register(
        message.rm_id, read_configuration(message.configuration), message.version, message.policy_group,
        dict(message.build_info), dict(message.extra_config), message.life, message.registration,
    )  # fmt: skip


def read_configure(message: inbox_pb2.Configure) -> Iterable[commands.Command]:
    yield commands.Configure(read_configuration(message.configuration))


def read_rm_connection(message: inbox_pb2.RmConnection) -> Iterable[commands.Command]:
    yield commands.RmConnection(message.state, message.reason, message.registration)


def read_node_request(message: si.NodeRequest) -> Iterable[commands.Command]:
    for node in message.nodes:
        existing = tuple(read_reported(allocation) for allocation in node.existingAllocations)
        partition = node.attributes.get(NODE_PARTITION, "")
        try:
            action = si.NodeInfo.ActionFromRM.Name(node.action)
        except ValueError:
            action = str(node.action)
        attributes = dict(node.attributes)
        if node.action == si.NodeInfo.UPDATE and attributes.keys() == {NODE_PARTITION}:
            attributes = {}  # every node comes with its partition: alone it is no new attribute
        yield commands.UpdateNode(
            partition, node.nodeID, action, attributes,
            read_resource(node.schedulableResource) if node.HasField("schedulableResource") else None,
            read_resource(node.occupiedResource) if node.HasField("occupiedResource") else None, existing,
        )  # fmt: skip


def read_application_request(message: si.ApplicationRequest) -> Iterable[commands.Command]:
    for removed in message.remove:
        yield commands.RemoveApplication(removed.partitionName, removed.applicationID)
    for new in message.new:
        yield commands.SubmitApplication(
            new.partitionName, new.applicationID, new.queueName, new.ugi.user, tuple(new.ugi.groups), dict(new.tags),
            new.executionTimeoutMilliSeconds, read_resource(new.placeholderAsk), new.gangSchedulingStyle,
        )  # fmt: skip


def read_allocation_request(message: si.AllocationRequest) -> Iterable[commands.Command]:
    """In the order in which the parts of one request take effect: what is reported, what is asked, what is released."""
    for allocation in message.allocations:
        yield commands.RecoverAllocation(read_reported(allocation))
    for ask in message.asks:
        yield commands.SubmitAsk(read_ask(ask, read_resource(ask.resourceAsk), read_tags(ask.tags)))
    for release in message.releases.allocationsToRelease:
        yield commands.ReleaseAllocation(
            release.partitionName,
            release.applicationID,
            release.UUID,
            release.terminationType,
            release.message,
            release.allocationKey,
        )
    for withdrawn in message.releases.allocationAsksToRelease:
        yield commands.ReleaseAsk(
            withdrawn.partitionName,
            withdrawn.applicationID,
            withdrawn.allocationKey,
            withdrawn.terminationType,
            withdrawn.message,
        )


def read_predicate_answers(message: inbox_pb2.PredicateAnswers) -> Iterable[commands.Command]:
    for answer in message.answers:
        yield commands.AnswerPredicate(answer.partition, answer.question, answer.success, answer.reason)


READERS: Final[dict[str, tuple[str, Callable[[Any], Iterable[commands.Command]]]]] = {
    "register": ("Register", read_register),
    "configure": ("Configure", read_configure),
    "rm_connection": ("RmConnection", read_rm_connection),
    "node": ("UpdateNode", read_node_request),
    "application": ("UpdateApplication", read_application_request),
    "allocation": ("UpdateAllocation", read_allocation_request),
    "predicate_answers": ("AnswerPredicates", read_predicate_answers),
}


def read_ask(ask: si.AllocationAsk, resource: Resource, tags: facts.Tags) -> facts.Ask:
    preemption = ask.preemptionPolicy if ask.HasField("preemptionPolicy") else None
    return facts.Ask(
        ask.partitionName,
        ask.applicationID,
        ask.allocationKey,
        resource,
        ask.maxAllocations,
        ask.priority,
        ask.executionTimeoutMilliSeconds,
        tags,
        ask.taskGroupName,
        ask.placeholder,
        ask.Originator,
        None if preemption is None else preemption.allowPreemptSelf,
        None if preemption is None else preemption.allowPreemptOther,
    )


def read_reported(allocation: si.Allocation) -> facts.Allocated:
    return read_allocation(allocation, read_resource(allocation.resourcePerAlloc), read_tags(allocation.allocationTags))


def read_allocation(allocation: si.Allocation, resource: Resource, tags: facts.Tags) -> facts.Allocated:
    return facts.Allocated(
        allocation.partitionName,
        allocation.applicationID,
        allocation.allocationKey,
        allocation.UUID,
        allocation.nodeID,
        resource,
        allocation.priority,
        tags,
        allocation.taskGroupName,
        allocation.placeholder,
    )


def read_tags(tags: Mapping[str, str]) -> facts.Tags:
    return {name: tags[name] for name in tags} or NO_TAGS  # half the time of dict(tags)


# The configuration, both ways


def read_configuration(message: config_pb2.Configuration) -> settings.Configuration:
    partitions = tuple(read_partition(partition) for partition in message.partitions)
    return settings.Configuration(
        message.checksum, partitions, message.compatibility or "none", message.source,
        read_timing(message.timing),
    )  # fmt: skip


def read_timing(message: config_pb2.Timing) -> settings.Timing:
    """What the message leaves out lasts as long as usual."""
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
        message.preemption_interval_ms,
    )  # fmt: skip


def write_partition(partition: settings.PartitionSettings) -> config_pb2.PartitionConfig:
    return config_pb2.PartitionConfig(
        name=partition.name,
        root=write_queue(partition.root),
        preemption_enabled=partition.preemption_enabled,
        preemption_threshold=partition.preemption_threshold,
        preemption_interval_ms=partition.preemption_interval_ms,
        node_sort_policy=config_pb2.NodeSortPolicy(
            type=partition.node_sort, resource_weights=partition.resource_weights
        ),
        placement_rules=[write_rule(rule) for rule in partition.placement_rules],
        limits=[write_limit(limit) for limit in partition.limits],
    )


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
        ),
        tuple(read_limit(limit) for limit in message.limits),
        tuple(read_queue(queue) for queue in message.queues),
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
        ),
        limits=[write_limit(limit) for limit in queue.limits],
        queues=[write_queue(child) for child in queue.queues],
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


# Facts, both ways. Most have the fields of their message, by name and in order; the three that embed a message of si.v1
# are written out. What is read is of shell/schema.py: its resources and tags are bytes.


def read_fact(message: log_pb2.Fact) -> facts.Fact:
    name = message.WhichOneof("fact")
    if name is None:
        raise ValueError("a fact of a kind this version does not know: the log was written by a newer one")
    return FACT_READERS[name](getattr(message, name))


def write_ask(ask: facts.Ask, message: si.AllocationAsk) -> None:
    message.partitionName = ask.partition
    message.applicationID = ask.application_id
    message.allocationKey = ask.allocation_key
    message.resourceAsk.CopyFrom(write_resource(ask.resource))
    message.maxAllocations = ask.max_allocations
    if ask.priority:
        message.priority = ask.priority
    if ask.execution_timeout_ms:
        message.executionTimeoutMilliSeconds = ask.execution_timeout_ms
    if ask.tags:
        message.tags.update(ask.tags)
    if ask.task_group:
        message.taskGroupName = ask.task_group
    if ask.placeholder:
        message.placeholder = True
    if ask.originator:
        message.Originator = True
    if ask.allow_preempt_self is not None:
        message.preemptionPolicy.allowPreemptSelf = ask.allow_preempt_self
        message.preemptionPolicy.allowPreemptOther = bool(ask.allow_preempt_other)


def write_allocated(fact: facts.Allocated, message: log_pb2.Allocated) -> None:
    write_allocation(fact, message.allocation)
    if fact.execution_timeout_ms:
        message.execution_timeout_ms = fact.execution_timeout_ms
    if fact.originator:
        message.originator = True
    if fact.allow_preempt_self is not None:
        message.preemption_policy.allowPreemptSelf = fact.allow_preempt_self
    if fact.question:
        message.question = fact.question


def write_allocation(fact: facts.Allocated, message: si.Allocation) -> None:
    """Allocations of one application are mostly alike: what is the same in them is copied."""
    key = (
        fact.application_id,
        fact.partition,
        fact.priority,
        fact.task_group,
        fact.placeholder,
        *fact.resource.items(),
    )
    alike = _written_allocations.get(key)
    if alike is None:
        if len(_written_allocations) >= SHAPES:
            _written_allocations.clear()
        alike = _written_allocations[key] = si.Allocation(
            partitionName=fact.partition,
            applicationID=fact.application_id,
            resourcePerAlloc=write_resource(fact.resource),
            priority=fact.priority,
            taskGroupName=fact.task_group,
            placeholder=fact.placeholder,
        )
    message.CopyFrom(alike)
    message.allocationKey = fact.allocation_key
    message.UUID = fact.uuid
    message.nodeID = fact.node_id
    if fact.tags:
        message.allocationTags.update(fact.tags)


def written_allocated(fact: facts.Allocated) -> log_pb2.Allocated:
    message = log_pb2.Allocated()
    write_allocated(fact, message)
    return message


def read_logged_ask(message: Any) -> facts.Ask:
    return read_ask(message, RESOURCES[message.resourceAsk], TAGS[tuple(message.tags[:])])


def read_logged_allocation(message: Any) -> facts.Allocated:
    return read_allocation(message, RESOURCES[message.resourcePerAlloc], TAGS[tuple(message.allocationTags[:])])


def read_allocated(message: Any) -> facts.Allocated:
    a = message.allocation
    return facts.Allocated(
        a.partitionName,
        a.applicationID,
        a.allocationKey,
        a.UUID,
        a.nodeID,
        RESOURCES[a.resourcePerAlloc],
        a.priority,
        TAGS[tuple(a.allocationTags[:])],
        a.taskGroupName,
        a.placeholder,
        message.execution_timeout_ms,
        message.originator,
        message.preemption_policy.allowPreemptSelf if message.HasField("preemption_policy") else None,
        message.question,
    )


def write_constraints(constraints: Iterable[facts.Constraint]) -> list[log_pb2.Constraint]:
    return [
        log_pb2.Constraint(
            constraint=c.constraint, where=c.where, reason=c.reason, resource=c.resource, need=clamp(c.need),
            have=clamp(c.have),
        )
        for c in constraints
    ]  # fmt: skip


def read_constraints(messages: Iterable[log_pb2.Constraint]) -> tuple[facts.Constraint, ...]:
    return tuple(facts.Constraint(m.constraint, m.where, m.reason, m.resource, m.need, m.have) for m in messages)


WRITERS: dict[type[facts.Fact], Callable[[Any, log_pb2.Fact], None]] = {
    facts.AskAccepted: lambda fact, message: write_ask(fact.ask, message.ask_accepted.ask),
    facts.AskChanged: lambda fact, message: write_ask(fact.ask, message.ask_changed.ask),
    facts.Allocated: lambda fact, message: write_allocated(fact, message.allocated),
    facts.AllocationRecovered: lambda fact, message: write_allocation(
        fact.allocation, message.allocation_recovered.allocation
    ),
}
FACT_READERS: dict[str, Callable[[Any], facts.Fact]] = {
    "ask_accepted": lambda message: facts.AskAccepted(read_logged_ask(message.ask)),
    "ask_changed": lambda message: facts.AskChanged(read_logged_ask(message.ask)),
    "allocated": read_allocated,
    "allocation_recovered": lambda message: facts.AllocationRecovered(read_logged_allocation(message.allocation)),
}

# By the type of a fact's field: how its value is written into a keyword of the message, and how it is read from it.
CONVERSIONS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "Resource": (write_resource, RESOURCES.__getitem__),
    "Tags": (lambda tags: tags, lambda entries: TAGS[tuple(entries[:])]),
    "tuple[str, ...]": (lambda names: names, tuple),
    "PartitionSettings": (write_partition, read_partition),
    "Timing": (write_timing, read_timing),
    "tuple[Constraint, ...]": (write_constraints, read_constraints),
    "Allocated": (written_allocated, read_allocated),
    "QueueSettings": (write_queue, read_queue),
}


def _by_field_names(kind: type[facts.Fact]) -> None:
    """The fields of a fact's message have the names of its own, so reading and writing it follow from its types."""
    field_name = snake(kind.__name__)
    message_type: Any = getattr(log_pb2, kind.__name__)
    fields: Mapping[str, str] = {name: kind.__annotations__[name] for name in kind.__struct_fields__}
    plain = [name for name, type_name in fields.items() if type_name not in CONVERSIONS]
    converted = [(name, *CONVERSIONS[type_name]) for name, type_name in fields.items() if type_name in CONVERSIONS]

    def write(fact: Any, message: log_pb2.Fact) -> None:
        values = {name: getattr(fact, name) for name in plain}
        values.update((name, to(getattr(fact, name))) for name, to, _ in converted)
        getattr(message, field_name).CopyFrom(message_type(**values))

    WRITERS[kind] = write
    FACT_READERS[field_name] = _reader(kind, fields)


def _reader(kind: type[facts.Fact], fields: Mapping[str, str]) -> Callable[[Any], facts.Fact]:
    """Compiled: a loop over the fields takes a third longer, and a restart reads millions of facts."""
    names: dict[str, Any] = {"kind": kind}
    values = []
    for name, type_name in fields.items():
        value = f"message.{name}"
        if type_name in CONVERSIONS:
            names[f"read_{name}"] = CONVERSIONS[type_name][1]
            value = f"read_{name}({value})"
        values.append(value)
    reader: Callable[[Any], facts.Fact] = eval(f"lambda message: kind({', '.join(values)})", names)  # noqa: S307
    return reader


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


for _kind in facts.kinds().values():
    if _kind not in WRITERS:
        _by_field_names(_kind)
