"""Storage in `remuda status`: free space of the machine, if `remuda up` runs, and the use of each stream's limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Unanswered

from .. import limits
from ..embedded.storage import Level, Storage

STYLES = {Level.ENOUGH: "dim", Level.LOW: "bold yellow", Level.FULL: "bold red"}


async def read(bus: Bus) -> dict[str, Any]:
    """`storage`: of the machine, or None; `jetstream`: what is wrong with it, or ""; `streams`: share of each."""
    machine, error = await asyncio.gather(_machine(bus), _jetstream(bus))
    wrong = unanswered(error, machine) if error else ""
    streams: dict[str, float] = {}
    if not wrong:
        try:
            streams = await _streams(bus)
        except Unanswered as error:
            wrong = unanswered(str(error), machine)
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


def unanswered(error: str, machine: Storage | None) -> str:
    """The message when JetStream, or a stream, does not answer: it has no leader, or no space."""
    why = f". Storage: {machine.describe()}" if machine is not None and machine.level is not Level.ENOUGH else ""
    return f"JetStream does not answer; scheduling has stopped ({error}){why}"


async def _streams(bus: Bus) -> dict[str, float]:
    shares = await asyncio.gather(*(bus.fullness(stream.name) for stream in subjects.STREAMS))
    return {stream.name: round(share, 4) for stream, share in zip(subjects.STREAMS, shares, strict=True)}


def lines(found: Mapping[str, Any]) -> Iterator[Text]:
    """The machine always, streams from the threshold on."""
    machine: Storage | None = found["storage"]
    if machine is not None:
        yield Text.assemble(("storage  ", "dim"), (machine.describe(), STYLES[machine.level]))
    if found["jetstream"]:
        yield Text(found["jetstream"], style="bold red")
    for name, share in found["streams"].items():
        if share >= limits.STREAM_LOW_SHARE:
            does = "drops its oldest messages" if _drops(name) else "refuses messages"
            yield Text(f"stream {name} is {share:.0%} full; at 100% it {does}", style="bold yellow")


def _drops(name: str) -> bool:
    return any(stream.name == name and stream.discard == "old" for stream in subjects.STREAMS)
