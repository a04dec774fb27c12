"""Facts, both ways.

Most facts have the fields of their message, by name, so their types determine how they are read and written. The facts
that embed a message of si.v1 have functions of their own. Facts are read from the messages of `schema`, in which
resources and tags are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from remuda_proto.remuda.v1 import log_pb2

from .. import facts
from ..rules.resource import clamp
from .allocations import read_logged_allocation, read_logged_ask, write_allocation, write_ask
from .configuration import read_partition, read_queue, read_timing, write_partition, write_queue, write_timing
from .resources import RESOURCES, TAGS, write_resource


def read_fact(message: log_pb2.Fact) -> facts.Fact:
    name = message.WhichOneof("fact")
    if name is None:
        raise ValueError("a fact of a kind this version does not know: the log was written by a newer one")
    return FACT_READERS[name](getattr(message, name))


def write_accepted(fact: facts.AskAccepted | facts.AskChanged, message: Any) -> None:
    write_ask(fact.ask, message.ask)
    if fact.ignored:
        message.ignored = fact.ignored


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
    if fact.devices:
        message.devices.update(fact.devices)


def written_allocated(fact: facts.Allocated) -> log_pb2.Allocated:
    message = log_pb2.Allocated()
    write_allocated(fact, message)
    return message


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
        TAGS[tuple(message.devices[:])],
    )


def write_recovered(fact: facts.AllocationRecovered, message: log_pb2.AllocationRecovered) -> None:
    write_allocation(fact.allocation, message.allocation)
    message.devices.update(fact.allocation.devices)
    if fact.allocation.execution_timeout_ms:
        message.execution_timeout_ms = fact.allocation.execution_timeout_ms


def read_recovered(message: Any) -> facts.AllocationRecovered:
    allocation = read_logged_allocation(message.allocation)
    devices = TAGS[tuple(message.devices[:])]
    if devices or message.execution_timeout_ms:
        allocation = replace(allocation, devices=devices, execution_timeout_ms=message.execution_timeout_ms)
    return facts.AllocationRecovered(allocation)


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


def write_action(action: facts.Action) -> log_pb2.Action:
    values = {name: getattr(action, name) for name in ACTION_FIELDS}
    return log_pb2.Action(**{**values, "amounts": write_resource(action.amounts) if action.amounts else None})


def read_action(message: Any) -> facts.Action:
    values = {name: getattr(message, name) for name in ACTION_FIELDS}
    return facts.Action(**{**values, "amounts": RESOURCES[message.amounts]})


ACTION_FIELDS: Final = facts.Action.__struct_fields__

WRITERS: dict[type[facts.Fact], Callable[[Any, log_pb2.Fact], None]] = {
    facts.AskAccepted: lambda fact, message: write_accepted(fact, message.ask_accepted),
    facts.AskChanged: lambda fact, message: write_accepted(fact, message.ask_changed),
    facts.Allocated: lambda fact, message: write_allocated(fact, message.allocated),
    facts.AllocationRecovered: lambda fact, message: write_recovered(fact, message.allocation_recovered),
}

FACT_READERS: dict[str, Callable[[Any], facts.Fact]] = {
    "ask_accepted": lambda message: facts.AskAccepted(read_logged_ask(message.ask), message.ignored),
    "ask_changed": lambda message: facts.AskChanged(read_logged_ask(message.ask), message.ignored),
    "allocated": read_allocated,
    "allocation_recovered": read_recovered,
}

# By the type of a field of a fact: (to a value of the message, from a value of the message).
CONVERSIONS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "Resource": (write_resource, RESOURCES.__getitem__),
    "Tags": (lambda tags: tags, lambda entries: TAGS[tuple(entries[:])]),
    "tuple[str, ...]": (lambda names: names, tuple),
    "tuple[int, ...]": (lambda numbers: numbers, tuple),
    "PartitionSettings": (write_partition, read_partition),
    "Timing": (write_timing, read_timing),
    "tuple[Constraint, ...]": (write_constraints, read_constraints),
    "Allocated": (written_allocated, read_allocated),
    "Action": (write_action, read_action),
    "QueueSettings": (write_queue, read_queue),
}


def _by_field_names(kind: type[facts.Fact]) -> None:
    """Make the reader and the writer of a fact whose message has fields of the same names."""
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
    """A compiled reader. A loop over the fields takes a third longer, and a restart reads millions of facts."""
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
