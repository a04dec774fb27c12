"""Queries to the core: queues, nodes, applications, reasons why asks are pending.

Requests and replies are JSON on `remuda.api.core.<rm>.<kind>` (docs/queries.md).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeVar

import msgspec

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Refused, Unanswered
from remuda_bus.status_codes import BUSY
from remuda_operations.queries.errors import NoAnswer, RequestRefused
from remuda_operations.queries.rows import (
    Action,
    ActionsPage,
    Explanation,
    Forecasts,
    NodePartition,
    Nodes,
    NodesPage,
    PageToken,
    Queues,
    QueuesPage,
    QueueTree,
    WhatIf,
)

# A core gives up a preview after a minute. A core that plays another preview, or rests from a preview, is
# asked again.
PREVIEW_TIMEOUT_S = 70.0
PREVIEW_RETRIES_S = 60.0
PREVIEW_RETRY_S = 0.5
# A state is restored from the commits of an hour, and others may be restored before.
PAST_TIMEOUT_S = 60.0

T = TypeVar("T")


async def queues(bus: Bus, rm: str) -> Queues:
    pages = [page async for page in pages_of(bus, "queues", QueuesPage, rm=rm)]
    found = {row.name: row for page in pages for row in page.partitions}
    known: dict[tuple[str, str], QueueTree] = {}
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


async def what_if(bus: Bus, rm: str, application: str, key: str, partition: str = "") -> WhatIf:
    """The smallest changes that would let a pending ask run. Takes seconds."""
    return msgspec.json.decode(await answer_what_if(bus, rm, application, key, partition), type=WhatIf)


async def eta(bus: Bus, rm: str, application: str = "", key: str = "") -> Forecasts:
    """When waiting asks will start: all, those of an application, or one. Takes seconds."""
    payload = json.dumps({"application": application, "key": key}).encode()
    return msgspec.json.decode(await answer_of_player(bus, subjects.ETA, rm, payload), type=Forecasts)


async def answer_what_if(bus: Bus, rm: str, application: str, key: str, partition: str = "") -> bytes:
    """The answer of the core as JSON. Raises RequestRefused, NoAnswer."""
    payload = json.dumps({"application": application, "key": key, "partition": partition}).encode()
    return await answer_of_player(bus, subjects.WHAT_IF, rm, payload)


async def outcomes(bus: Bus, rm: str, action: str | None = None) -> list[Action]:
    """The outcomes of operators' actions that the core remembers; of one `action`, by its ID with or without the
    operator's name."""
    which = {"action": action} if action is not None else {}
    pages = [page async for page in pages_of(bus, "actions", ActionsPage, rm=rm, **which)]
    return [one for page in pages for one in page.actions]


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
    """Raises NoAnswer; RequestRefused with the code of the core's refusal (NOT_FOUND: no such RM, application ...)."""
    try:
        answer = await answer_of_core(bus, kind, rm, json.dumps({"rm": rm, **arguments}).encode())
    except Refused as refused:
        raise RequestRefused(f"{kind}: {refused.reason}", refused.code) from None
    return msgspec.json.decode(answer, type=shape)


async def answer_of_core(
    bus: Bus, kind: str, rm: str, payload: bytes, within_s: float = limits.QUERY_TIMEOUT_S
) -> bytes:
    """Raises Refused; NoAnswer if no core answers."""
    try:
        return (await bus.request(subjects.core_query(rm, kind), payload, timeout_s=within_s)).payload
    except Unanswered:
        raise NoAnswer(await _reason_for_no_answer(bus, rm)) from None


async def ask_past(bus: Bus, kind: str, shape: type[T], *, rm: str, **arguments: Any) -> T:
    """A query about the past; of a state with `at`: a time, or the sequence of a commit. Raises as `ask_core`."""
    payload = json.dumps({"rm": rm, **arguments}).encode()
    try:
        answer = await bus.request(subjects.past_query(rm, kind), payload, timeout_s=PAST_TIMEOUT_S)
    except Refused as refused:
        raise RequestRefused(f"{kind}: {refused.reason}", refused.code) from None
    except Unanswered:
        raise NoAnswer("no service answers about the past; `remuda run history` starts it") from None
    return msgspec.json.decode(answer.payload, type=shape)


async def answer_of_player(bus: Bus, kind: str, rm: str, payload: bytes) -> bytes:
    """The answer to a query of PLAYED_QUERIES. Waits PREVIEW_RETRIES_S for a core that plays another one. Raises
    RequestRefused, NoAnswer."""
    give_up = asyncio.get_running_loop().time() + PREVIEW_RETRIES_S
    while True:
        try:
            return await answer_of_core(bus, kind, rm, payload, PREVIEW_TIMEOUT_S)
        except Refused as refused:
            if refused.code != BUSY or asyncio.get_running_loop().time() >= give_up:
                raise RequestRefused(f"{kind}: {refused.reason}", refused.code) from None
            await asyncio.sleep(PREVIEW_RETRY_S)


async def _reason_for_no_answer(bus: Bus, rm: str) -> str:
    if await bus.get(subjects.RMS.name, subjects.key_of(rm)) is None:
        return f"no resource manager {rm!r} is registered; `remuda status` lists them"
    return f"no core answers for {rm!r}; `remuda status` shows which cores are running"
