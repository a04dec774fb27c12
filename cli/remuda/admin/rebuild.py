"""`remuda rebuild RM`: delete the log, inbox, callbacks and snapshots of an RM and let it report anew.

For an RM whose stream has lost or changed messages. The RM stays halted until the end, so the command can be repeated
after an interruption. The event history is kept.

The deleted messages are saved to a file first: gzip, one JSON object per line. The first line is the header
`{"format": "remuda-saved-1", "rm": ..., "at_ms": ..., "halt": {...} or null}`. Each further line is a message
`{"stream", "subject", "seq", "headers", "payload"}`, the payload in base64, stream by stream, in order.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_bus.nats.jetstream import NO_MESSAGE_FOUND, JetStream, JetStreamError
from remuda_operations.ledger.bookmark import note_rebuilt
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.lease import leader_of
from remuda_replication.rms import faults
from remuda_replication.rms.halts import OPERATOR, Halt, Halts
from remuda_replication.snapshots import name_of

from .. import limits
from ..client.connections import bus_at, jetstream_at
from ..client.stream_messages import messages_of
from ..errors import UserError
from ..terminal import arguments, event_loop
from ..terminal.output import console, table_of
from ..terminal.units import size
from .asking import check_that_it_can_ask, have_typed


def rebuild(url: str, rm: str, directory: Path, yes: bool) -> None:
    arguments.log_id(rm)
    check_that_it_can_ask(yes, f"rebuild {rm} deletes data of {rm} and needs a confirmation")
    if not directory.is_dir():
        raise UserError(f"--directory {directory}: no such directory")
    halt, found = event_loop.run(lambda: _inspect(url, rm))
    why = f"halted: {halt.reason} (detected by {halt.by})" if halt else "NOT halted"
    console.print(f"{rm}: {why}", markup=False)
    console.print(table(found))
    then = (
        "It begins anew, without pools and tasks."
        if subjects.is_peloton(rm)
        else "Then rmproxy requests the RM to register and report."
    )
    console.print(f"The messages are saved to a file first. {then}")
    have_typed(rm, yes)
    event_loop.run(lambda: _rebuild(url, rm, directory, console.print))


async def _inspect(url: str, rm_id: str) -> tuple[Halt | None, Plan]:
    async with bus_at(url) as bus, jetstream_at(url) as jetstream:
        halt = await _halts(bus).refresh(rm_id)
        if halt is None and not await _is_known(bus, rm_id):
            raise UserError(f"no resource manager {rm_id!r} is registered or halted; `remuda status` lists them")
        with console.status(f"counting messages of {rm_id}"):
            return halt, await plan(bus, jetstream, rm_id)


async def _is_known(bus: Bus, rm_id: str) -> bool:
    if subjects.is_peloton(rm_id):
        return await bus.last_message(subjects.log_stream(rm_id), subjects.log(rm_id)) is not None
    return await bus.get(subjects.RMS.name, subjects.key_of(rm_id)) is not None


async def _rebuild(url: str, rm_id: str, directory: Path, report: Callable[[str], None]) -> None:
    async with bus_at(url) as bus:
        path = await delete_and_request_report(bus, rm_id, directory)
        report(f"the messages are saved in {path}")
        if subjects.is_peloton(rm_id):
            return
        report("waiting for the RM to register and report")
        if not await _registers(bus, rm_id):
            within_s = limits.REPORTS_WITHIN_S
            raise UserError(
                f"{rm_id} has not registered within {within_s:g} s; rmproxy repeats the request until it does"
            )
        report(f"{rm_id} is registered again")


async def delete_and_request_report(bus: Bus, rm_id: str, directory: Path) -> Path:
    """Returns the file with the saved messages. Every step can be repeated."""
    arguments.log_id(rm_id)
    halts, now_ms = _halts(bus), _now_ms()
    halt = await halts.refresh(rm_id)
    if halt is None:
        await halts.halt(rm_id, "an operator rebuilds it", OPERATOR)
    await _until_nobody_leads(bus, rm_id)
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1_000))
    path = directory / f"{subjects.key_of(rm_id)}-{when}.saved.gz"
    with saving(path, rm_id, now_ms, halt) as add:
        for stream, subject in streams_of(rm_id):
            async for message in messages_of(bus, stream, subject):
                add(stream, message)
    for stream, subject in streams_of(rm_id):
        await _purge(bus, stream, subject)
    for name in await snapshots_of(bus, rm_id):
        await bus.delete_object(subjects.snapshots_of(rm_id), name)
    for stream in faults.STREAMS:
        key = subjects.fault_key(rm_id, stream)
        if stream != subjects.REQUESTS.name and await bus.get(subjects.FAULTS.name, key) is not None:
            await bus.delete(subjects.FAULTS.name, key)  # REQUESTS keeps its messages
    if not subjects.is_peloton(rm_id):
        await note_rebuilt(bus, rm_id)
        await _publish_event(bus, rm_id, path, now_ms)
        await _require_registration(bus, rm_id, now_ms)
    await bus.delete(subjects.HALTS.name, subjects.key_of(rm_id))
    return path


async def _until_nobody_leads(bus: Bus, rm_id: str) -> None:
    try:
        async with asyncio.timeout(limits.CORE_STOPS_WITHIN_S):
            while await leader_of(bus, rm_id) is not None:  # noqa: ASYNC110 - the lease may expire
                await asyncio.sleep(limits.LOOK_EVERY_S)
    except TimeoutError:
        within_s = limits.CORE_STOPS_WITHIN_S
        raise UserError(f"a core still leads {rm_id} after {within_s:g} s, though it is halted") from None


async def _purge(bus: Bus, stream: str, subject: str) -> None:
    last = await bus.last_message(stream, subject)
    if last is not None:
        await bus.trim(stream, subject, last.seq + 1)


async def _publish_event(bus: Bus, rm_id: str, path: Path, now_ms: int) -> None:
    """Append an event with position 0, so that the event service continues at the beginning of the new log."""
    await bus.delete(subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id))
    record = si.EventRecord(
        objectID=rm_id,
        message=f"rebuilt: all that was known of it was removed, and saved into {path.name}",
        timestampNano=now_ms * 1_000_000,
    )
    headers = {subjects.LOG_SEQ: "0", subjects.LOG_HASH: "", subjects.EVENT_INDEX: "0"}
    await bus.append(subjects.event(rm_id), record.SerializeToString(), headers)


async def _require_registration(bus: Bus, rm_id: str, now_ms: int) -> None:
    """Set the state for which rmproxy requests a registration. A new `life` makes UUIDs differ from old ones."""
    entry = await bus.get(subjects.RMS.name, subjects.key_of(rm_id))
    known = json.loads(entry.value) if entry is not None and entry.value is not None else {"rm_id": rm_id}
    made = {**known, "state": "report_wanted", "life": now_ms}
    await bus.put(subjects.RMS.name, subjects.key_of(rm_id), json.dumps(made).encode())


async def _registers(bus: Bus, rm_id: str) -> bool:
    try:
        async with asyncio.timeout(limits.REPORTS_WITHIN_S):
            async for entry in bus.watch(subjects.RMS.name):
                mine = entry.key == subjects.key_of(rm_id) and entry.value is not None
                if mine and json.loads(entry.value or b"{}").get("state") == "registered":
                    return True
    except TimeoutError:
        pass
    return False


def _halts(bus: Bus) -> Halts:
    return Halts(bus, "remuda rebuild", _now_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Share:
    """Messages of one RM in a stream. `since`: time of the oldest, as the server formats it."""

    stream: str
    messages: int
    bytes: int
    since: str


@dataclass(frozen=True, slots=True)
class Plan:
    shares: list[Share]
    snapshots: list[str]


def streams_of(rm_id: str) -> tuple[tuple[str, str], ...]:
    """Returns (stream, subject) of the messages that are deleted."""
    arguments.log_id(rm_id)
    own = (
        (subjects.log_stream(rm_id), subjects.log(rm_id)),
        (subjects.inbox_stream(rm_id), subjects.inbox(rm_id)),
    )
    return own if subjects.is_peloton(rm_id) else (*own, (subjects.CALLBACKS.name, subjects.callback(rm_id, "*")))


async def snapshots_of(bus: Bus, rm_id: str) -> list[str]:
    prefix = name_of(arguments.log_id(rm_id), "")
    return [name for name in await bus.object_names(subjects.snapshots_of(rm_id)) if name.startswith(prefix)]


async def plan(bus: Bus, jetstream: JetStream, rm_id: str) -> Plan:
    """Reads all messages: JetStream does not report the size per subject."""
    shares = []
    for stream, subject in streams_of(rm_id):
        sizes = [len(message.payload) async for message in messages_of(bus, stream, subject)]
        shares.append(Share(stream, len(sizes), sum(sizes), await _since(jetstream, stream, subject)))
    return Plan(shares, await snapshots_of(bus, rm_id))


async def _since(jetstream: JetStream, stream: str, subject: str) -> str:
    try:
        answer = await jetstream.api(f"STREAM.MSG.GET.{stream}", {"seq": 1, "next_by_subj": subject})
    except JetStreamError as error:
        if error.err_code == NO_MESSAGE_FOUND:
            return ""
        raise
    return str(answer["message"]["time"])[:19] + "Z"


def table(found: Plan) -> Table:
    result = table_of("will be deleted", "messages", "bytes", "since", numbers=("messages", "bytes"))
    for share in found.shares:
        result.add_row(share.stream, f"{share.messages:,}", size(share.bytes), share.since or "-")
    result.add_row("snapshots", f"{len(found.snapshots):,}", "", Text(", ".join(found.snapshots) or "-"))
    return result


FORMAT = "remuda-saved-1"

Add = Callable[[str, Message], None]


@contextmanager
def saving(path: Path, rm_id: str, at_ms: int, halt: Halt | None) -> Iterator[Add]:
    """Yields `add(stream, message)`, which writes a message. Raises FileExistsError: nothing is overwritten."""
    with gzip.open(path, "xt") as file:

        def line(value: dict[str, Any]) -> None:
            file.write(json.dumps(value) + "\n")

        def add(stream: str, message: Message) -> None:
            payload = base64.b64encode(message.payload).decode()
            said = {"subject": message.subject, "seq": message.seq, "headers": dict(message.headers)}
            line({"stream": stream, **said, "payload": payload})

        line({"format": FORMAT, "rm": rm_id, "at_ms": at_ms, "halt": asdict(halt) if halt else None})
        yield add


def read_saved(path: Path) -> Iterator[tuple[str, Message]]:
    """Yields (stream, message) of the file. Raises ValueError when the file has another format."""
    with gzip.open(path, "rt") as file:
        found = json.loads(next(file)).get("format")
        if found != FORMAT:
            raise ValueError(f"{path}: format {found!r}, expected {FORMAT!r}")
        for line in file:
            said = json.loads(line)
            payload = base64.b64decode(said["payload"])
            yield said["stream"], Message(said["subject"], payload, said["headers"], said["seq"])
