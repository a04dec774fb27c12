"""Do the books of an RM agree with what the scheduler says, and that with what its log says?"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from typing import Any

import msgspec

from remuda_bus.bus import Bus
from remuda_core.check import check, digest
from remuda_core.core import Core
from remuda_core.shell import replay
from remuda_core.shell.machine import CoreMachine
from remuda_core.state import State
from remuda_core.wire import schema
from remuda_operations.queries import NoAnswer, RequestRefused
from remuda_operations.queries.core import ask_core, nodes, pages_of, queues
from remuda_operations.queries.rows import PageToken
from remuda_replication.log import START, LogReader, Position
from remuda_replication.snapshots import restore
from tests.accounting.books import MEMORY, Books


class Stats(msgspec.Struct):
    allocations: int


class Digest(msgspec.Struct):
    log_seq: int
    digest: str


class Allocations(msgspec.Struct):
    allocations: list[dict[str, Any]]
    next: PageToken | None = None


async def verify(bus: Bus, rm_id: str, books: Books, within_s: float = 20.0) -> list[str]:
    """The inconsistencies, as text; empty if there are none. Call it once the books are settled; the core has
    `within_s` to catch up with them."""
    await caught_up(bus, rm_id, len(books.running), within_s)
    live = [row async for page in pages_of(bus, "allocations", Allocations, rm=rm_id) for row in page.allocations]
    core, started = Core(rm_id), Core(rm_id)
    snapshot = await restore(bus, CoreMachine(started))
    there = await ask_core(bus, "digest", Digest, rm=rm_id)
    await catch_up(bus, core, START, there.log_seq)
    await catch_up(bus, started, snapshot, there.log_seq)
    return [
        *books.problems(),
        *differences("the RM", views_of_rm(books), "the core", {a["uuid"]: (a["key"], a["node"]) for a in live}),
        *differences("the RM", views_of_rm(books), "the log", views_of_log(core.state)),
        *await sums(bus, rm_id, books),
        *([] if digest(core.state) == there.digest else ["the live state is not the one replayed from the log"]),
        *([] if digest(started.state) == there.digest else [f"the snapshot at {snapshot.seq} leads to another state"]),
        *checked(core.state),
    ]


async def caught_up(bus: Bus, rm_id: str, running: int, within_s: float) -> None:
    """Confirmations are not answered: the core may not have read the last of them yet. Or it was killed a moment ago,
    and no core leads. Otherwise the differences are reported."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while await allocations_of(bus, rm_id) != running:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def allocations_of(bus: Bus, rm_id: str) -> int | None:
    """The number that the core has; None while no core answers."""
    try:
        return (await ask_core(bus, "stats", Stats, rm=rm_id)).allocations
    except (RequestRefused, NoAnswer):
        return None


def views_of_rm(books: Books) -> dict[str, tuple[str, str]]:
    return {uuid: (placed.key, placed.node) for uuid, placed in books.running.items()}


def views_of_log(state: State) -> dict[str, tuple[str, str]]:
    return {
        uuid: (allocation.fact.allocation_key, allocation.fact.node_id)
        for partition in state.partitions.values()
        for uuid, allocation in partition.allocations.items()
    }


def differences(
    one: str, of_one: dict[str, tuple[str, str]], other: str, of_other: dict[str, tuple[str, str]]
) -> list[str]:
    """At most a few of each kind: one mistake may concern thousands."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for uuid in of_one.keys() | of_other.keys():
        if uuid not in of_other:
            found[f"{one} has allocations that {other} has not"].append((uuid, *of_one[uuid]))
        elif uuid not in of_one:
            found[f"{other} has allocations that {one} has not"].append((uuid, *of_other[uuid]))
        elif of_one[uuid] != of_other[uuid]:
            found[f"{one} and {other} have them differently"].append((uuid, *of_one[uuid], *of_other[uuid]))
    return [f"{what}: {len(which)}, such as {sorted(which)[:3]}" for what, which in found.items()]


async def sums(bus: Bus, rm_id: str, books: Books) -> list[str]:
    """Node by node, and over all queues."""
    found = []
    on_node = Counter(placed.node for placed in books.running.values())
    for partition in (await nodes(bus, rm_id)).partitions:
        for one in partition.nodes:
            count = on_node.pop(one.id, 0)
            if (one.allocations, one.allocated) != (count, amounts(count)):
                found.append(f"node {one.id}: the RM has {count} there, the core {one.allocations}, {one.allocated}")
    found += [f"{count} allocations on {node}, which the core does not know" for node, count in on_node.items()]
    for tree in (await queues(bus, rm_id)).partitions:
        if tree.queues.allocated != amounts(len(books.running)):
            found.append(f"queues hold {tree.queues.allocated}, the RM {amounts(len(books.running))}")
        if any(tree.queues.pending.values()):
            found.append(f"still pending: {tree.queues.pending}")
    return found


def amounts(count: int) -> dict[str, int]:
    return {"vcore": count, "memory": MEMORY * count} if count else {}


async def catch_up(bus: Bus, core: Core, after: Position, log_seq: int) -> None:
    """From behind the commit `after` up to that one."""
    reader = await LogReader.open(bus, core.state.rm_id, after, commit_class=schema.Commit)
    try:
        async for entries in reader.read_to_end():
            for entry in entries:
                if entry.seq <= log_seq:
                    replay.apply(core, entry.commit)
    finally:
        await reader.close()


def checked(state: State) -> list[str]:
    try:
        check(state)
    except AssertionError as broken:
        return [f"the replayed state does not hold together: {broken}"]
    return []
