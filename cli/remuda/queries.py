"""Questions to the core, answered out of its state: queues, nodes, applications, why something waits.

Requests and replies are JSON on `remuda.api.core.<rm>.<kind>`. The structs say what the command line reads of them;
what a newer core adds is ignored.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused, Unanswered

from .errors import UserError

Amounts = dict[str, int]
T = TypeVar("T")


class Queue(msgspec.Struct):
    path: str
    leaf: bool = False
    status: str = ""
    allocated: Amounts = {}
    pending: Amounts = {}
    guaranteed: Amounts = {}
    max: Amounts = {}
    applications: int = 0
    children: list[Queue] = []

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


class Partition(msgspec.Struct):
    """`queues` is the root queue with everything below it."""

    name: str
    queues: Queue
    total: Amounts = {}
    allocated: Amounts = {}
    nodes: int = 0


class Queues(msgspec.Struct):
    rm: str = ""
    partitions: list[Partition] = []


class Node(msgspec.Struct):
    id: str
    capacity: Amounts = {}
    occupied: Amounts = {}
    allocated: Amounts = {}
    available: Amounts = {}
    status: str = ""
    allocations: int = 0


class NodePartition(msgspec.Struct):
    name: str
    nodes: list[Node] = []


class Nodes(msgspec.Struct):
    partitions: list[NodePartition] = []


class Constraint(msgspec.Struct):
    """What is in the way, at `where` (a queue path, a node); `reason` says it in words. Of `resource`, if it is one, it
    needs `need` and finds `have`."""

    constraint: str = ""
    where: str = ""
    resource: str = ""
    need: int = 0
    have: int = 0
    reason: str = ""


class Ask(msgspec.Struct):
    application: str
    key: str
    pending: int = 0
    constraints: list[Constraint] = []
    reason: str = ""


class Explanation(msgspec.Struct):
    asks: list[Ask] = []


async def queues(bus: Bus, rm: str) -> Queues:
    return await ask_core(bus, "queues", Queues, rm=rm)


async def nodes(bus: Bus, rm: str) -> Nodes:
    return await ask_core(bus, "nodes", Nodes, rm=rm)


async def explain(bus: Bus, rm: str, application: str, key: str | None = None) -> Explanation:
    more = {"key": key} if key is not None else {}
    return await ask_core(bus, "explain", Explanation, rm=rm, application=application, **more)


async def ask_core(bus: Bus, kind: str, shape: type[T], *, rm: str, **arguments: Any) -> T:
    """Raises UserError when no core answers, or when it refuses (no such RM, application ...)."""
    subject = subjects.core_query(rm, kind)
    try:
        reply = await bus.request(subject, json.dumps({"rm": rm, **arguments}).encode())
    except Unanswered:
        raise UserError(await _why_nobody_answers(bus, rm)) from None
    except Refused as refused:
        raise UserError(f"{kind}: {refused.reason}") from None
    return msgspec.json.decode(reply.payload, type=shape)


async def _why_nobody_answers(bus: Bus, rm: str) -> str:
    if await bus.get(subjects.RMS.name, subjects.key_of(rm)) is None:
        return f"no resource manager {rm!r} is registered; `remuda status` lists them"
    return f"no core answers for {rm!r}: is one running? `remuda status` tells"
