"""Facts, both ways.

Most facts have the fields of their message, by name (`by_name`). Those that embed an allocation of si.v1 have functions
of their own. Facts are read from the messages of `schema`, in which resources and tags are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si

from .. import facts
from ..rules.resource import clamp
from . import configuration
from .allocations import read_logged_allocation, read_logged_ask, write_allocation, write_ask
from .by_name import ByName, Conversion, same
from .resources import RESOURCES, TAGS, write_resource


def read_fact(message: log_pb2.Fact) -> facts.Fact:
    name = message.WhichOneof("fact")
    if name is None:
        raise ValueError("a fact of a kind this version does not know: the log was written by a newer one")
    return FACT_READERS[name](getattr(message, name))


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


def write_accepted(fact: facts.AskAccepted | facts.AskChanged, message: Any) -> None:
    """Writes the ask in place: copies of asks would take half of the time."""
    write_ask(fact.ask, message.ask)
    if fact.ignored:
        message.ignored = fact.ignored


def written_ask(ask: facts.Ask) -> si.AllocationAsk:
    message = si.AllocationAsk()
    write_ask(ask, message)
    return message


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


# Exceptions from `by_name`, by the full name of the message or of the field.
SPECIAL: Final = {
    **configuration.SPECIAL,
    "si.v1.AllocationAsk": Conversion(written_ask, read_logged_ask),
    "remuda.v1.Action.amounts": Conversion(
        lambda amounts: write_resource(amounts) if amounts else None, RESOURCES.__getitem__
    ),
    "remuda.v1.Allocated": Conversion(written_allocated, read_allocated),
    "remuda.v1.Constraint.need": Conversion(clamp, same),
    "remuda.v1.Constraint.have": Conversion(clamp, same),
}

WRITERS: dict[type[facts.Fact], Callable[[Any, log_pb2.Fact], None]] = {
    facts.AskAccepted: lambda fact, message: write_accepted(fact, message.ask_accepted),
    facts.AskChanged: lambda fact, message: write_accepted(fact, message.ask_changed),
    facts.Allocated: lambda fact, message: write_allocated(fact, message.allocated),
    facts.AllocationRecovered: lambda fact, message: write_recovered(fact, message.allocation_recovered),
}

FACT_READERS: dict[str, Callable[[Any], facts.Fact]] = {
    "allocated": read_allocated,
    "allocation_recovered": read_recovered,
}


def _by_field_names(kind: type[facts.Fact]) -> None:
    """Make the reader and the writer of a fact whose message has fields of the same names."""
    name = snake(kind.__name__)
    to_message, from_message = CONVERT.of(kind, getattr(log_pb2, kind.__name__))
    FACT_READERS.setdefault(name, from_message)
    WRITERS.setdefault(kind, lambda fact, message: getattr(message, name).CopyFrom(to_message(fact)))


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


CONVERT: Final = ByName(SPECIAL)
for _kind in facts.kinds().values():
    if _kind not in (facts.Allocated, facts.AllocationRecovered):
        _by_field_names(_kind)
