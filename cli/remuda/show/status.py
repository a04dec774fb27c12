"""`remuda status`: services, storage, cores, resource managers, halts, faults and dead letters of a running system."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Unanswered
from remuda_bus.nats.declare import changed_settings, described
from remuda_bus.nats.jetstream import JetStream
from remuda_operations.queries import NoAnswer, RequestRefused, records
from remuda_operations.queries import core as queries
from remuda_operations.queries.cores import Core, behind_s
from remuda_operations.queries.cores import cores as query_cores
from remuda_operations.queries.front_ends import FrontEnd
from remuda_operations.queries.front_ends import front_ends as query_front_ends
from remuda_operations.queries.rows import Queues
from remuda_operations.queries.services import services
from remuda_replication.rms.halts import FAULT, Halt

from .. import limits
from ..client.connections import bus_at, jetstream_at
from ..embedded.storage import Level, Storage
from ..errors import UserError
from ..local.services import REQUIRED
from ..terminal import event_loop
from ..terminal.output import Unbroken, console, table_of, unbroken
from ..terminal.units import duration, number, shares, time_of
from . import dead_letters, faults
from .queue_tree import applications

STORAGE_STYLES = {Level.ENOUGH: "dim", Level.LOW: "bold yellow", Level.FULL: "bold red"}
FRONT_ENDS: Final = ("grpc", "web", "resmgr")


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
        raise UserError(f"{url}: these RMs are halted: {', '.join(halted)}")
    missing = [service for service in REQUIRED if not found["services"].get(service)]
    if missing:
        services = f"these services do not answer: {', '.join(missing)}"
        raise UserError(f"{url}: {services}; if none runs, `remuda run {missing[0]} --nats {url}` starts one")


async def _status(url: str) -> dict[str, Any]:
    """All parts at once: each mostly waits for an answer."""
    async with bus_at(url) as bus:
        ran, stored, configuration = await asyncio.gather(_running(bus), _stored(url, bus), _configuration_file(bus))
        return {"nats": url, **ran, **stored, "configuration": configuration}


async def _running(bus: Bus) -> dict[str, Any]:
    answers = await services(bus, REQUIRED)
    kinds = await asyncio.gather(*(query_front_ends(bus, answers, kind) for kind in FRONT_ENDS))
    counted = dict(Counter(answer.service for answer in answers))
    return {"services": counted, **dict(zip(FRONT_ENDS, kinds, strict=True))}


async def _stored(url: str, bus: Bus) -> dict[str, Any]:
    found = await read_storage(bus)
    found |= {"cores": [], "rms": [], "halts": [], "faults": [], "dead_letters": {}, "changed_streams": {}}
    if not found["jetstream"]:
        async with jetstream_at(url) as jetstream:
            try:
                found |= await _read(bus, jetstream)
            except Unanswered as error:  # without a majority, some streams still answer for a while
                found["jetstream"] = _unanswered(str(error), found["storage"])
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
    known = await records.resource_managers(bus)
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
    for kind in FRONT_ENDS:
        if found[kind]:
            console.print(_front_ends(kind, found[kind]))
    for line in _storage(found):
        console.print(line)
    for line in configuration_lines(found["configuration"]):
        console.print(line)
    if found["jetstream"]:
        return
    if found["changed_streams"]:
        console.print(_changed(found["changed_streams"]), style="bold red")
    if found["dead_letters"]:
        console.print(_dead_letters(found["dead_letters"]))
    if found["cores"]:
        console.print(cores_table(found["cores"]))
    for halt in found["halts"]:
        console.print(_halt(halt))
    for line in faults.lines(found["faults"], {halt["rm_id"] for halt in found["halts"]}):
        console.print(line)
    if not found["rms"]:
        console.print("no resource manager is registered", style="dim")
        return
    table = table_of("rm", "state", "nodes", "apps", "waiting", "used", numbers=("nodes", "apps", "waiting"))
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


def _front_ends(kind: str, found: list[FrontEnd]) -> Text:
    return Text.assemble((f"{kind:8} ", "dim"), "   ".join(one.error or _address(one) for one in found))


def _address(one: FrontEnd) -> str:
    address = f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}"
    return f"{one.scheme}://{address}" if one.scheme else f"{address}, RMs {one.rms}"


async def read_storage(bus: Bus) -> dict[str, Any]:
    """`storage`: of the machine, or None; `jetstream`: what is wrong with it, or ""; `streams`: share of each."""
    machine, error = await asyncio.gather(_machine(bus), _jetstream(bus))
    wrong = _unanswered(error, machine) if error else ""
    streams: dict[str, float] = {}
    if not wrong:
        try:
            streams = await _fullness(bus)
        except Unanswered as error:
            wrong = _unanswered(str(error), machine)
    return {"storage": machine, "jetstream": wrong, "streams": streams}


async def _machine(bus: Bus) -> Storage | None:
    try:
        answer = await bus.request(subjects.STORAGE, timeout_s=limits.STORAGE_ANSWERS_WITHIN_S)
        return msgspec.json.decode(answer.payload, type=Storage)
    except (BusError, msgspec.MsgspecError):  # nothing but `remuda up` answers
        return None


async def _jetstream(bus: Bus) -> str:
    """The error of a read, or ""."""
    try:
        await bus.get(subjects.LEASES.name, "health")
    except Unanswered as error:
        return str(error) or type(error).__name__
    return ""


def _unanswered(error: str, machine: Storage | None) -> str:
    """The message when JetStream, or a stream, does not answer: it has no leader, or no space."""
    why = f". Storage: {machine.describe()}" if machine is not None and machine.level is not Level.ENOUGH else ""
    return f"JetStream does not answer; scheduling has stopped ({error}){why}"


async def _fullness(bus: Bus) -> dict[str, float]:
    shares = await asyncio.gather(*(bus.fullness(stream.name) for stream in subjects.STREAMS))
    return {stream.name: round(share, 4) for stream, share in zip(subjects.STREAMS, shares, strict=True)}


def _storage(found: Mapping[str, Any]) -> Iterator[Text]:
    """The machine always, streams from the threshold on."""
    machine: Storage | None = found["storage"]
    if machine is not None:
        yield Text.assemble(("storage  ", "dim"), (machine.describe(), STORAGE_STYLES[machine.level]))
    if found["jetstream"]:
        yield Text(found["jetstream"], style="bold red")
    for name, share in found["streams"].items():
        if share >= limits.STREAM_LOW_SHARE:
            does = "drops its oldest messages" if _drops(name) else "refuses messages"
            yield Text(f"stream {name} is {share:.0%} full; at 100% it {does}", style="bold yellow")


def _drops(name: str) -> bool:
    return any(stream.name == name and stream.discard == "old" for stream in subjects.STREAMS)


async def _configuration_file(bus: Bus) -> dict[str, Any] | None:
    """`path`, `checksum`, `revision` and `problems` of the file. None without a file or without a config service."""
    try:
        answer = await bus.request(subjects.CURRENT_CONFIGURATIONS, timeout_s=limits.CONFIGURATION_ANSWERS_WITHIN_S)
        found: dict[str, Any] | None = json.loads(answer.payload)["file"]
    except (BusError, ValueError, KeyError, TypeError):
        return None
    return found


def configuration_lines(found: Mapping[str, Any] | None) -> Iterator[Text]:
    if found:
        yield from _staged(found)
    if not found or not found["problems"]:
        return
    problems = found["problems"]
    keeps = f"revision {found['revision']} stays active" if found["revision"] else "no configuration is active"
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    yield Text(f"configuration {found['path']} is REFUSED ({count}); {keeps}", style="bold red")
    for problem in problems[: limits.PROBLEMS_SHOWN]:
        where = f"line {problem['line']}, " if problem["line"] else ""
        yield Text(f"  {where}{problem['path'] + ': ' if problem['path'] else ''}{problem['message']}", style="red")
    yield Text(f"  `remuda config check {found['path']}` lists all", style="red")


def _staged(found: Mapping[str, Any]) -> Iterator[Text]:
    version = found.get("version") or {}
    if not version.get("until_ms") or version.get("confirmed_at_ms"):
        return
    left_ms = max(0, version["until_ms"] - time.time_ns() // 1_000_000)
    by = f" by {version['by']}" if version.get("by") else ""
    back = f"rolled back to version {version['falls_back_to']} in {duration(left_ms)}"
    yield Text(f"configuration version {version['number']}{by} is staged: {back} unless confirmed", style="yellow")
    yield Text("  `remuda config confirm` keeps it", style="yellow")


def cores_table(cores: list[Core]) -> Table:
    result = table_of("core", "leads", "follows")
    late = behind_s(cores)
    for core in cores:
        if core.error:
            result.add_row(Text(core.instance), Text("does not answer", style="red"), "")
            continue
        follows = [_follows(one.rm, late.get((core.instance, one.rm), 0.0)) for one in core.rms if not one.leads]
        result.add_row(Text(core.instance), Text(", ".join(core.leads) or "-"), Text(", ".join(sorted(follows)) or "-"))
    return result


def _follows(rm: str, late_s: float) -> str:
    return f"{rm} ({late_s:.0f} s behind)" if late_s >= limits.BEHIND_WORTH_A_WORD_S else rm


def _halt(halt: dict[str, Any]) -> Text:
    is_fault = halt["cause"] == FAULT
    what = "After the cause is mended, run: " if is_fault else "To delete its log and let it report anew, run: "
    return Text.assemble(
        (
            f"{halt['rm_id']} is HALTED since {time_of(halt['at_ms'])}: {halt['reason']} (detected by {halt['by']})\n",
            "bold red",
        ),
        (f"  No core schedules for it. {what}", "red"),
        (Halt(**halt).command, "bold"),
    )
