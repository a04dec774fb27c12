"""`remuda dead-letters`: list requests that could not be processed, show one with its content, delete them."""

from __future__ import annotations

import base64
import json
import sys
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

import typer
from google.protobuf.message import DecodeError, Message
from rich.table import Table
from rich.text import Text

from remuda_bus import bus as bus_module
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats.jetstream import NO_MESSAGE_FOUND, JetStream, JetStreamError, stored
from remuda_proto.secret_fields import redacted
from remuda_proto.si.v1 import si_pb2 as si

from .. import limits
from ..client.connections import bus_at, jetstream_at
from ..client.known_rms import check_rm
from ..client.stream_messages import messages_of
from ..errors import UserError
from ..terminal import arguments, event_loop
from ..terminal.output import console, is_wide

STREAM = subjects.DEAD_LETTERS.name
REQUESTS: dict[str, type[Message]] = {
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "node": si.NodeRequest,
    "configuration": si.UpdateConfigurationRequest,
    "register": si.RegisterResourceManagerRequest,
}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`number`: its sequence here; `subject` and `request_seq`: where the request was sent, and its sequence there."""

    number: int
    rm: str
    at: str
    reason: str
    subject: str
    request_seq: int
    bytes: int


def dead_letters(url: str, rm: str | None, number: int | None, forget: bool, yes: bool, as_json: bool) -> None:
    if number is not None and rm is None:
        raise UserError(f"dead letter {number}: the RM is missing, as in `remuda dead-letters RM {number}`")
    if forget:
        _forget(url, rm, number, yes)
    elif number is not None:
        letter, content = event_loop.run(lambda: _one(url, str(rm), number))
        _show_one(letter, content, as_json)
    else:
        _show_all(event_loop.run(lambda: _newest(url, rm)), as_json)


async def counts(jetstream: JetStream) -> dict[str, int]:
    """Number of dead letters by RM."""
    wanted = {"subjects_filter": subjects.dead_letter("*")}
    found = await jetstream.api(f"STREAM.INFO.{STREAM}", wanted)
    return {subjects.rm_of(subject): count for subject, count in (found["state"].get("subjects") or {}).items()}


async def _newest(url: str, rm: str | None) -> list[DeadLetter]:
    async with bus_at(url) as bus, jetstream_at(url) as jetstream:
        subject = subjects.dead_letter(rm if rm is not None else "*")
        newest = deque(
            [message.seq async for message in messages_of(bus, STREAM, subject)], maxlen=limits.DEAD_LETTERS_SHOWN
        )
        found = [await _get(jetstream, seq) for seq in newest]
        if rm is not None and not found:
            await check_rm(bus, rm)
    return [letter for one in found if one is not None for letter in (one[0],)]


async def _one(url: str, rm: str, number: int) -> tuple[DeadLetter, bus_module.Message]:
    async with jetstream_at(url) as jetstream:
        return await _of(jetstream, rm, number)


async def _of(jetstream: JetStream, rm: str, number: int) -> tuple[DeadLetter, bus_module.Message]:
    found = await _get(jetstream, number)
    if found is None or found[0].rm != rm:
        raise UserError(f"{rm} has no dead letter {number}; `remuda dead-letters {rm}` lists them")
    return found


async def _get(jetstream: JetStream, number: int) -> tuple[DeadLetter, bus_module.Message] | None:
    try:
        answer = await jetstream.api(f"STREAM.MSG.GET.{STREAM}", {"seq": number})
    except JetStreamError as error:
        if error.err_code == NO_MESSAGE_FOUND:
            return None
        raise
    message = stored(answer, STREAM)
    headers = message.headers
    sequence = headers.get(subjects.ORIGIN_SEQ, "")
    letter = DeadLetter(
        number,
        subjects.rm_of(message.subject),
        f"{str(answer['message'].get('time', ''))[:19]}Z",
        headers.get(subjects.REASON, ""),
        headers.get(subjects.ORIGIN_SUBJECT, ""),
        int(sequence) if sequence.isdecimal() and len(sequence) < 20 else 0,
        len(message.payload),
    )
    return letter, message


def decoded(letter: DeadLetter, payload: bytes) -> dict[str, Any]:
    """`request`: the content as JSON. `base64`: the raw payload if it cannot be decoded."""
    # `remuda status` counts letters, and starts sooner without it.
    from google.protobuf.json_format import MessageToDict

    kind = REQUESTS.get(letter.subject.rpartition(".")[2])
    if kind is not None and payload:
        try:
            request = kind.FromString(payload)
            return {"request": MessageToDict(redacted(request), preserving_proto_field_name=True)}
        except (DecodeError, ValueError):
            pass
    return {"base64": base64.b64encode(payload).decode()}


def _show_one(letter: DeadLetter, message: bus_module.Message, as_json: bool) -> None:
    content = decoded(letter, message.payload)
    if as_json:
        print(json.dumps({**asdict(letter), "headers": dict(message.headers), **content}))
        return
    for name, value in asdict(letter).items():
        console.print(Text.assemble((f"{name:<12} ", "dim"), str(value)), soft_wrap=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    more = len(text) - limits.DEAD_LETTER_CHARACTERS
    console.print(Text(text[: limits.DEAD_LETTER_CHARACTERS]), soft_wrap=True)
    if more > 0:
        console.print(f"... {more:,} more characters; --json prints all", style="dim")


def _show_all(found: list[DeadLetter], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(letter) for letter in found]))
        return
    if not found:
        console.print("none", style="dim")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("number", justify="right", no_wrap=True)
    for name in ("rm", "at", "kind"):
        table.add_column(name, overflow="fold", no_wrap=name == "at")
    table.add_column("reason", overflow="fold", ratio=1)
    if is_wide():
        for name in ("subject", "request", "bytes"):
            table.add_column(name)
    for letter in found:
        kind = letter.subject.rpartition(".")[2]
        more = (letter.subject, str(letter.request_seq), f"{letter.bytes:,}") if is_wide() else ()
        table.add_row(str(letter.number), *map(Text, (letter.rm, letter.at, kind, letter.reason, *more)))
    console.print(table)
    console.print("`remuda dead-letters RM NUMBER` shows one with its content", style="dim")


def _forget(url: str, rm: str | None, number: int | None, yes: bool) -> None:
    if rm is None:
        raise UserError("--forget needs an RM")
    arguments.rm_id(rm)
    if not yes and not sys.stdin.isatty():
        raise UserError("--forget deletes messages and needs a confirmation: run it on a terminal or add --yes")
    what = f"dead letter {number} of {rm}" if number is not None else f"all dead letters of {rm}"
    if not yes and not typer.confirm(f"Delete {what}?"):
        raise UserError("cancelled; nothing was changed")
    count = event_loop.run(lambda: _delete(url, rm, number))
    console.print(f"deleted: {count:,} dead letter{'' if count == 1 else 's'} of {rm}", markup=False)


async def _delete(url: str, rm: str, number: int | None) -> int:
    async with bus_at(url) as bus, jetstream_at(url) as jetstream:
        if number is not None:
            await _of(jetstream, rm, number)
            await jetstream.api(f"STREAM.MSG.DELETE.{STREAM}", {"seq": number, "no_erase": True})
            return 1
        count = (await counts(jetstream)).get(rm, 0)
        await _trim(bus, rm)
        return count


async def _trim(bus: Bus, rm: str) -> None:
    last = await bus.last_message(STREAM, subjects.dead_letter(rm))
    if last is not None:
        await bus.trim(STREAM, subjects.dead_letter(rm), last.seq + 1)
