"""Queries to the core: queues, nodes, applications, reasons why asks are pending.

Requests and replies are JSON on `remuda.api.core.<rm>.<kind>`. The structs have the fields that the command line reads;
further fields of a newer core are ignored.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeVar

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused, Unanswered

from .. import limits
from ..errors import NotFound, UserError

Amounts = dict[str, int]
T = TypeVar("T")
NOT_FOUND = 404


PageToken = list[Any]  # opaque


class Queue(msgspec.Struct):
    path: str
    partition: str = ""
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
    """`state`: init, Running, Paused or Stopped."""

    rm: str = ""
    partitions: list[Partition] = []
    state: str = ""


class PartitionRow(msgspec.Struct):
    name: str
    total: Amounts = {}
    allocated: Amounts = {}
    nodes: int = 0


class QueuesPage(msgspec.Struct):
    state: str = ""
    partitions: list[PartitionRow] = []
    queues: list[Queue] = []
    next: PageToken | None = None


class Node(msgspec.Struct):
    id: str
    partition: str = ""
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


class NodesPage(msgspec.Struct):
    nodes: list[Node] = []
    next: PageToken | None = None


class Constraint(msgspec.Struct):
    """A constraint that blocks an ask, at `where` (a queue path, a node); `reason` is text for people. If it concerns a
    `resource`, the ask needs `need` and `have` is left. `since_ms`: 0 if unknown."""

    constraint: str = ""
    where: str = ""
    resource: str = ""
    need: int = 0
    have: int = 0
    reason: str = ""
    since_ms: int = 0


class Turn(msgspec.Struct):
    """The queue is the `place`-th, from 1, of `among` that have something pending; 0: not known."""

    queue: str
    place: int = 0
    among: int = 0


class Position(msgspec.Struct):
    """`ahead` of `waiting` pieces in its queue go first; `turns` of the queues on the way down."""

    ahead: int = 0
    waiting: int = 0
    turns: list[Turn] = []


class Ask(msgspec.Struct):
    application: str
    key: str
    partition: str = ""
    queue: str = ""
    pending: int = 0
    since_ms: int = 0
    constraints: list[Constraint] = []
    reason: str = ""
    position: Position | None = None


class Explanation(msgspec.Struct):
    asks: list[Ask] = []
    next: PageToken | None = None


class Rows(msgspec.Struct):
    """A page of any of these queries."""

    applications: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    asks: list[dict[str, Any]] = []
    allocations: list[dict[str, Any]] = []
    next: list[Any] | None = None


async def queues(bus: Bus, rm: str) -> Queues:
    pages = [page async for page in pages_of(bus, "queues", QueuesPage, rm=rm)]
    found = {
        row.name: Partition(row.name, Queue("root"), row.total, row.allocated, row.nodes)
        for page in pages
        for row in page.partitions
    }
    known: dict[tuple[str, str], Queue] = {}
    for queue in (queue for page in pages for queue in page.queues):
        known[queue.partition, queue.path] = queue
        above = known.get((queue.partition, queue.path.rpartition(".")[0]))
        if above is not None:
            above.children.append(queue)
        elif queue.path == "root" and queue.partition in found:
            found[queue.partition].queues = queue
    return Queues(rm, list(found.values()), pages[-1].state)


async def nodes(bus: Bus, rm: str) -> Nodes:
    partitions: dict[str, NodePartition] = {}
    async for page in pages_of(bus, "nodes", NodesPage, rm=rm):
        for node in page.nodes:
            partitions.setdefault(node.partition, NodePartition(node.partition, [])).nodes.append(node)
    return Nodes(list(partitions.values()))


async def explain(bus: Bus, rm: str, application: str | None = None, key: str | None = None) -> Explanation:
    """Explain all pending asks, those of an application, or one."""
    which = {name: value for name, value in (("application", application), ("key", key)) if value is not None}
    pages = [page async for page in pages_of(bus, "explain", Explanation, rm=rm, **which)]
    return Explanation([ask for page in pages for ask in page.asks])


class Page(Protocol):
    @property
    def next(self) -> PageToken | None: ...


P = TypeVar("P", bound=Page)


async def pages_of(bus: Bus, kind: str, shape: type[P], *, rm: str, **arguments: Any) -> AsyncIterator[P]:
    """All pages of a query. Each reflects the state at its own time."""
    page = await ask_core(bus, kind, shape, rm=rm, **arguments)
    yield page
    while page.next is not None:
        page = await ask_core(bus, kind, shape, rm=rm, after=page.next, **arguments)
        yield page


async def ask_core(bus: Bus, kind: str, shape: type[T], *, rm: str, **arguments: Any) -> T:
    """Raises UserError if no core answers or if the core refuses the query (no such RM, application ...)."""
    try:
        answer = await answer_of_core(bus, kind, rm, json.dumps({"rm": rm, **arguments}).encode())
    except Refused as refused:
        raise (NotFound if refused.code == NOT_FOUND else UserError)(f"{kind}: {refused.reason}") from None
    return msgspec.json.decode(answer, type=shape)


async def answer_of_core(
    bus: Bus, kind: str, rm: str, payload: bytes, within_s: float = limits.ANSWER_WITHIN_S
) -> bytes:
    """Raises Refused; UserError if no core answers."""
    try:
        return (await bus.request(subjects.core_query(rm, kind), payload, timeout_s=within_s)).payload
    except Unanswered:
        raise UserError(await _reason_for_no_answer(bus, rm)) from None


async def _reason_for_no_answer(bus: Bus, rm: str) -> str:
    if await bus.get(subjects.RMS.name, subjects.key_of(rm)) is None:
        return f"no resource manager {rm!r} is registered; `remuda status` lists them"
    return f"no core answers for {rm!r}; `remuda status` shows which cores are running"
