"""`remuda status`, `queues`, `explain`: one look at a running system, as a table or as JSON."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus, BusError, Unanswered
from remuda_bus.nats import connect

from . import cores, halted, limits, loop, queries
from .entries import registered
from .errors import UserError
from .queries import Explanation, Partition, Queues
from .ready import Pinger
from .reasons import of_ask, place, waited
from .run import SERVICES
from .screens.queues import applications, tree
from .terminal import amount, console, number, ordered


def status(url: str, as_json: bool) -> None:
    """Exit code 1 when a service is missing."""
    found = loop.run(lambda: _status(url))
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        _show_status(url, found)
    missing = [service for service in SERVICES if not found["services"].get(service)]
    if missing:
        raise UserError(f"{url}: not running: {', '.join(missing)}. `remuda run {missing[0]} --nats {url}` starts one")


def queues(url: str, rm: str, as_json: bool) -> None:
    found = loop.run(lambda: _with_bus(url, lambda bus: queries.queues(bus, rm)))
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for partition in found.partitions:
        console.print(_heading(partition))
        console.print(tree(partition, console.width))


def explain(url: str, rm: str, application: str | None, key: str | None, as_json: bool) -> None:
    found = loop.run(lambda: _with_bus(url, lambda bus: queries.explain(bus, rm, application, key)))
    if as_json:
        print(msgspec.json.encode(found).decode())
    elif application is None:
        _show_waiting(rm, found)
    else:
        _show_explanation(application, key, found)


async def _with_bus(url: str, question: Callable[[Bus], Awaitable[Any]]) -> Any:
    async with bus_at(url) as bus:
        return await question(bus)


@contextlib.asynccontextmanager
async def bus_at(url: str) -> AsyncIterator[Bus]:
    """A connection to a system that should be there; UserError when it is not."""
    try:
        bus = await connect(url, "remuda-cli", timeout_s=limits.CONNECT_WITHIN_S)
    except (Unanswered, OSError) as error:
        raise UserError(
            f"{error}. `remuda up` starts one, --nats names another; one that is guarded wants REMUDA_NATS_CA and "
            "REMUDA_NATS_SEED"
        ) from None
    try:
        yield bus
    except BusError as error:
        raise UserError(f"{url}: {error}") from None
    finally:
        await bus.close()


async def _status(url: str) -> dict[str, Any]:
    async with bus_at(url) as bus:
        async with Pinger(url) as pinger:
            answers = await pinger.ping()
        counts = Counter(answer.service for answer in answers)
        rms = [await _rm(bus, json.loads(entry.value)) for entry in await registered(bus) if entry.value]
        running = await cores.cores(bus)
        halts = await halted.halts(bus)
    return {"nats": url, "services": dict(counts), "cores": running, "rms": rms, "halts": halts}


async def _rm(bus: Bus, registered: dict[str, Any]) -> dict[str, Any]:
    """What the registry says of an RM, with its totals if a core answers for it."""
    try:
        found: Queues = await queries.queues(bus, registered["rm_id"])
    except UserError as error:
        return {**registered, "error": str(error)}
    roots = [partition.queues for partition in found.partitions]
    return {
        **registered,
        "state": found.state,
        "nodes": sum(partition.nodes for partition in found.partitions),
        "applications": sum(applications(root) for root in roots),
        "total": _sum(partition.total for partition in found.partitions),
        "allocated": _sum(partition.allocated for partition in found.partitions),
        "pending": _sum(root.pending for root in roots),
    }


def _sum(amounts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in amounts:
        total.update(one)
    return dict(total)


def _show_status(url: str, found: dict[str, Any]) -> None:
    services = found["services"]
    parts: list[Any] = [("services ", "dim")]
    for service in SERVICES:
        count = services.get(service, 0)
        parts += [(f"{service} ", "green" if count else "red"), f"{count}   "]
    console.print(Text.assemble(("nats     ", "dim"), url))
    console.print(Text.assemble(*parts))
    if found["cores"]:
        console.print(cores.table(found["cores"]))
    for halt in found["halts"]:
        console.print(halted.alarm(halt))
    if not found["rms"]:
        console.print("no resource manager is registered", style="dim")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("rm")
    table.add_column("state")
    for name in ("nodes", "apps", "vcore used", "memory used", "pending"):
        table.add_column(name, justify="right")
    for rm in found["rms"]:
        table.add_row(*_status_row(rm))
    console.print(table)


def _state(state: str) -> Text:
    return Text(state, style={"Running": "green", "Paused": "yellow", "Stopped": "red"}.get(state, ""))


def _status_row(rm: dict[str, Any]) -> list[RenderableType]:
    if "error" in rm:
        return [rm["rm_id"], f"{rm.get('state', '')}: no core answers", "-", "-", "-", "-", "-"]
    used, total = rm["allocated"], rm["total"]
    shares = [
        f"{amount(name, used.get(name, 0))} of {amount(name, total.get(name, 0))}" for name in ("vcore", "memory")
    ]
    return [
        rm["rm_id"], _state(rm["state"]), number(rm["nodes"]), number(rm["applications"]), *shares,
        f"{amount('vcore', rm['pending'].get('vcore', 0))} vcore",
    ]  # fmt: skip


def _heading(partition: Partition) -> Text:
    used = [
        f"{name} {amount(name, partition.allocated.get(name, 0))} of {amount(name, partition.total[name])}"
        for name in ordered(partition.total)
    ]
    nodes = f"{number(partition.nodes)} node{'s' if partition.nodes != 1 else ''}"
    return Text.assemble((f"partition {partition.name}", "bold"), f"   {', '.join([nodes, *used])}")


def _show_waiting(rm: str, found: Explanation) -> None:
    """One line for each application and reason."""
    if not found.asks:
        console.print(f"{rm}: nothing waits", markup=False)
        return
    pieces: Counter[tuple[str, str, str]] = Counter()
    for ask in found.asks:
        pieces[ask.queue, ask.application, of_ask(ask)[0]] += max(1, ask.pending)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("queue", "application"):
        table.add_column(name, overflow="fold")
    table.add_column("waiting", justify="right")
    table.add_column("first reason", overflow="fold")
    for (queue, application, reason), count in sorted(pieces.items()):
        table.add_row(Text(queue), Text(application), number(count), Text(reason))
    console.print(table)


def _show_explanation(application: str, key: str | None, found: Explanation) -> None:
    waiting = [ask for ask in found.asks if ask.pending]
    if not waiting:
        console.print(f"{application}{f' {key}' if key else ''}: nothing waits", markup=False)
    for ask in waiting:
        more = f" ({ask.pending} pending)" if ask.pending > 1 else ""
        console.print(Text.assemble((f"{ask.key}{more}", "bold")))
        for reason in of_ask(ask):
            console.print(Text.assemble("  ", reason))
        for line in (waited(ask, time.time() * 1_000), place(ask)):
            console.print(Text.assemble("  ", (line, "dim")))
