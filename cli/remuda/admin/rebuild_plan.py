"""Number and size of the messages that `remuda rebuild` deletes, for its confirmation."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats.jetstream import NO_MESSAGE_FOUND, JetStream, JetStreamError
from remuda_replication.snapshots import name_of

from ..client.stream_messages import messages_of
from ..terminal import arguments
from ..terminal.units import size


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
    """(stream, subject) of the messages that are deleted."""
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
    result = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("will be deleted", "messages", "bytes", "since"):
        result.add_column(name, justify="right" if name in ("messages", "bytes") else "left", overflow="fold")
    for share in found.shares:
        result.add_row(share.stream, f"{share.messages:,}", size(share.bytes), share.since or "-")
    result.add_row("snapshots", f"{len(found.snapshots):,}", "", Text(", ".join(found.snapshots) or "-"))
    return result
