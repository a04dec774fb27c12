"""`remuda rebuild RM`: after a stream has lost or changed its past, begin anew with what the RM reports.

The RM stays halted until all is done, so whatever interrupts this, the same command goes on. What is taken away is kept
in a file first. Only the history of events stays where it is.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import typer

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.halts import Halt, Halts
from remuda_proto.si.v1 import si_pb2 as si

from . import limits, loop, saved
from .errors import UserError
from .look import bus_at
from .terminal import console

Say = Callable[[str], None]


def rebuild(url: str, rm: str, directory: Path, yes: bool) -> None:
    halt = loop.run(lambda: _known(url, rm))
    why = f"halted: {halt.reason} (noticed by {halt.by})" if halt else "NOT halted: nothing seems wrong with it"
    console.print(f"{rm}: {why}")
    console.print("All that remuda knows of it is saved into a file and removed; then the RM is asked to report.")
    if not yes and not typer.confirm("Go on?"):
        raise UserError("nothing was changed")
    loop.run(lambda: _rebuild(url, rm, directory, console.print))


async def _known(url: str, rm_id: str) -> Halt | None:
    async with bus_at(url) as bus:
        halt = await _halts(bus).look(rm_id)
        if halt is None and await bus.get(subjects.RMS.name, subjects.key_of(rm_id)) is None:
            raise UserError(f"no resource manager {rm_id!r} is registered or halted; `remuda status` lists them")
        return halt


async def _rebuild(url: str, rm_id: str, directory: Path, say: Say) -> None:
    async with bus_at(url) as bus:
        path = await begin_anew(bus, rm_id, directory)
        say(f"saved: {path}")
        say("asking the RM to register and to report")
        if not await _registers(bus, rm_id):
            within_s = limits.REPORTS_WITHIN_S
            raise UserError(f"{rm_id} has not registered within {within_s:g} s; it is asked until it does")
        say(f"{rm_id} is registered again")


async def begin_anew(bus: Bus, rm_id: str, directory: Path) -> Path:
    """Returns the file in which everything was saved. Every step may be done again."""
    halts, now_ms = _halts(bus), _now_ms()
    halt = await halts.look(rm_id)
    if halt is None:
        await halts.halt(rm_id, "an operator rebuilds it")
    await _until_nobody_leads(bus, rm_id)
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1_000))
    path = directory / f"{subjects.key_of(rm_id)}-{when}.saved.gz"
    with saved.writing(path, rm_id, now_ms, halt) as add:
        for stream, subject in _streams(rm_id):
            await _save(bus, stream, subject, add)
    for stream, subject in _streams(rm_id):
        await _purge(bus, stream, subject)
    for name in await bus.objects(subjects.SNAPSHOTS.name):
        if name.startswith(f"{subjects.key_of(rm_id)}."):
            await bus.delete_object(subjects.SNAPSHOTS.name, name)
    await _tell(bus, rm_id, path, now_ms)
    await _record(bus, rm_id, now_ms)
    await bus.delete(subjects.HALTS.name, subjects.key_of(rm_id))
    return path


def _streams(rm_id: str) -> tuple[tuple[str, str], ...]:
    return (
        (subjects.LOG.name, subjects.log(rm_id)),
        (subjects.INBOX.name, subjects.inbox(rm_id)),
        (subjects.CALLBACKS.name, subjects.callback(rm_id, "*")),
    )


async def _until_nobody_leads(bus: Bus, rm_id: str) -> None:
    try:
        async with asyncio.timeout(limits.CORE_STOPS_WITHIN_S):
            while await _is_led(bus, rm_id):  # noqa: ASYNC110 - the lease may expire
                await asyncio.sleep(limits.LOOK_EVERY_S)
    except TimeoutError:
        within_s = limits.CORE_STOPS_WITHIN_S
        raise UserError(f"a core still leads {rm_id} after {within_s:g} s, though it is halted") from None


async def _is_led(bus: Bus, rm_id: str) -> bool:
    return await bus.get(subjects.LEASES.name, subjects.core_lease(rm_id)) is not None


async def _save(bus: Bus, stream: str, subject: str, add: saved.Add) -> None:
    last = await bus.last(stream, subject)
    reader = await bus.read(stream, subject)
    seq = 0
    while last is not None and seq < last.seq:
        for message in await reader.batch():
            add(stream, message)
            seq = message.seq
    await reader.close()


async def _purge(bus: Bus, stream: str, subject: str) -> None:
    last = await bus.last(stream, subject)
    if last is not None:
        await bus.trim(stream, subject, last.seq + 1)


async def _tell(bus: Bus, rm_id: str, path: Path, now_ms: int) -> None:
    """The history of events goes on: at the beginning of the new log, as this record's position says."""
    await bus.delete(subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id))
    record = si.EventRecord(
        objectID=rm_id,
        message=f"rebuilt: all that was known of it was removed, and saved into {path.name}",
        timestampNano=now_ms * 1_000_000,
    )
    headers = {subjects.LOG_SEQ: "0", subjects.LOG_HASH: "", subjects.EVENT_INDEX: "0"}
    await bus.append(subjects.event(rm_id), record.SerializeToString(), headers)


async def _record(bus: Bus, rm_id: str, now_ms: int) -> None:
    """It has to register: rmproxy asks it to. `life`: allocations of now are none of before."""
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
