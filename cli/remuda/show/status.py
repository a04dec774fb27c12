"""`remuda status`: services, storage, cores, resource managers, halts, faults and dead letters of a running system."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus, Unanswered
from remuda_bus.nats.declare import changed_settings, described
from remuda_bus.nats.jetstream import JetStream
from remuda_operations.queries import NoAnswer, RequestRefused, records
from remuda_operations.queries import core as queries
from remuda_operations.queries.bucket_entries import registered_rms
from remuda_operations.queries.cores import cores as query_cores
from remuda_operations.queries.front_ends import front_ends as query_front_ends
from remuda_operations.queries.rows import Queues
from remuda_operations.queries.services import services

from .. import limits
from ..client.connections import bus_at, jetstream_at
from ..errors import UserError
from ..local.services import REQUIRED
from ..terminal import event_loop
from ..terminal.output import Unbroken, console, unbroken
from ..terminal.units import number, shares
from . import configuration_status, cores, dead_letters, faults, front_ends, halts, storage_status
from .queue_tree import applications


def status(url: str, as_json: bool) -> None:
    """Exit code 1 when JetStream does not answer, an RM is halted, or a service is missing."""
    found = event_loop.run(lambda: _status(url))
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        _show_status(url, found)
    if found["jetstream"]:
        raise UserError(f"{url}: {found['jetstream']}")
    if found["changed_streams"]:
        raise UserError(f"{url}: {_changed(found['changed_streams'])}")
    if halted := [halt["rm_id"] for halt in found["halts"]]:
        raise UserError(f"{url}: halted: {', '.join(halted)}")
    missing = [service for service in REQUIRED if not found["services"].get(service)]
    if missing:
        raise UserError(f"{url}: not running: {', '.join(missing)}; `remuda run {missing[0]} --nats {url}` starts one")


async def _status(url: str) -> dict[str, Any]:
    """All parts at once: each mostly waits for an answer."""
    async with bus_at(url) as bus:
        ran, stored, configuration = await asyncio.gather(
            _running(bus), _stored(url, bus), configuration_status.read(bus)
        )
        return {"nats": url, **ran, **stored, "configuration": configuration}


async def _running(bus: Bus) -> dict[str, Any]:
    answers = await services(bus, REQUIRED)
    kinds = await asyncio.gather(*(query_front_ends(bus, answers, kind) for kind in front_ends.KINDS))
    counted = dict(Counter(answer.service for answer in answers))
    return {"services": counted, **dict(zip(front_ends.KINDS, kinds, strict=True))}


async def _stored(url: str, bus: Bus) -> dict[str, Any]:
    found = await storage_status.read(bus)
    found |= {"cores": [], "rms": [], "halts": [], "faults": [], "dead_letters": {}, "changed_streams": {}}
    if not found["jetstream"]:
        async with jetstream_at(url) as jetstream:
            try:
                found |= await _read(bus, jetstream)
            except Unanswered as error:  # without a majority, some streams still answer for a while
                found["jetstream"] = storage_status.unanswered(str(error), found["storage"])
    return found


async def _read(bus: Bus, jetstream: JetStream) -> dict[str, Any]:
    """The entries that JetStream has stored. Raises Unanswered rather than show an unread bucket as empty."""
    rms, cores_, halts_, faults_, letters, changed = await asyncio.gather(
        _rms(bus), query_cores(bus), records.halts(bus), records.faults(bus), dead_letters.counts(jetstream),
        changed_settings(jetstream),
    )  # fmt: skip
    return {
        "rms": rms,
        "cores": cores_,
        "halts": halts_,
        "faults": faults_,
        "dead_letters": letters,
        "changed_streams": {name: described(settings) for name, settings in changed.items()},
    }


def _changed(streams: Mapping[str, str]) -> str:
    said = "; ".join(f"{name} must have {settings}" for name, settings in streams.items())
    return f"somebody has changed streams, which may lose messages: {said}; `remuda declare` puts that back"


async def _rms(bus: Bus) -> list[dict[str, Any]]:
    known = [json.loads(entry.value) for entry in await registered_rms(bus) if entry.value]
    found: list[dict[str, Any]] = []
    for start in range(0, len(known), limits.ASKED_AT_ONCE):
        found += await asyncio.gather(*(_rm(bus, rm) for rm in known[start : start + limits.ASKED_AT_ONCE]))
    return found


async def _rm(bus: Bus, registered: dict[str, Any]) -> dict[str, Any]:
    """The registration of an RM, with totals if a core answers."""
    try:
        found: Queues = await queries.queues(bus, registered["rm_id"])
    except (RequestRefused, NoAnswer) as error:
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
        "waiting": sum(root.waiting for root in roots),
    }


def _sum(amounts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in amounts:
        total.update(one)
    return dict(total)


def _show_status(url: str, found: dict[str, Any]) -> None:
    services = found["services"]
    parts: list[Any] = [("services ", "dim")]
    for service in REQUIRED:
        count = services.get(service, 0)
        parts += [(f"{service} ", "green" if count else "red"), f"{count}   "]
    console.print(Text.assemble(("nats     ", "dim"), url))
    console.print(Text.assemble(*parts))
    for kind in front_ends.KINDS:
        if found[kind]:
            console.print(front_ends.line(kind, found[kind]))
    for line in storage_status.lines(found):
        console.print(line)
    for line in configuration_status.lines(found["configuration"]):
        console.print(line)
    if found["jetstream"]:
        return
    if found["changed_streams"]:
        console.print(_changed(found["changed_streams"]), style="bold red")
    if found["dead_letters"]:
        console.print(_dead_letters(found["dead_letters"]))
    if found["cores"]:
        console.print(cores.table(found["cores"]))
    for halt in found["halts"]:
        console.print(halts.describe(halt))
    for line in faults.lines(found["faults"], {halt["rm_id"] for halt in found["halts"]}):
        console.print(line)
    if not found["rms"]:
        console.print("no resource manager is registered", style="dim")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("rm")
    table.add_column("state")
    for name in ("nodes", "apps", "waiting"):
        table.add_column(name, justify="right")
    table.add_column("used")
    for rm in found["rms"]:
        table.add_row(*_status_row(rm))
    console.print(Unbroken(table))


def _dead_letters(counts: dict[str, int]) -> Text:
    worst = sorted(counts, key=lambda rm: (-counts[rm], rm))
    some = ", ".join(f"{rm} {number(counts[rm])}" for rm in worst[:3])
    more = f", {len(worst) - 3} more RMs" if len(worst) > 3 else ""
    total = number(sum(counts.values()))
    return Text.assemble(
        (f"dead letters {total} ({some}{more})", "yellow"), (": `remuda dead-letters` shows them", "dim")
    )


def _state(state: str) -> Text:
    return Text(state, style={"Running": "green", "Paused": "yellow", "Stopped": "red"}.get(state, ""))


def _status_row(rm: dict[str, Any]) -> list[RenderableType]:
    if "error" in rm:
        return [rm["rm_id"], f"{rm.get('state', '')}: no core answers", "-", "-", "-", "-"]
    used = ", ".join(shares(rm["allocated"], rm["total"])) or "-"
    return [
        rm["rm_id"], _state(rm["state"]), number(rm["nodes"]), number(rm["applications"]), number(rm["waiting"]),
        unbroken(used),
    ]  # fmt: skip
