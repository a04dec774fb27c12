"""A whole stream out of the server and back in, packed by the server itself: messages with their sequences and times,
and durable consumers with what they have acknowledged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from nats.errors import TimeoutError as NothingCame

from remuda_bus import limits
from remuda_bus.bus import Unanswered, Unreadable
from remuda_bus.nats.jetstream import JetStream, failure

About = dict[str, Any]
END_OF_FILE = "204"


async def save(jetstream: JetStream, stream: str, write: Callable[[bytes], object]) -> About:
    """Hands the packed stream to `write`, piece by piece. Returns its configuration and state."""
    client = jetstream.connection.client
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    try:
        wanted = {"deliver_subject": inbox, "chunk_size": limits.CHUNK_BYTES}
        about = await jetstream.api(f"STREAM.SNAPSHOT.{stream}", wanted, limits.BACKUP_BEGINS_WITHIN_S)
        while (piece := await subscription.next_msg(limits.CHUNK_WITHIN_S)).data:
            write(piece.data)
            if piece.reply:  # not the last one
                await piece.respond(b"")
    except NothingCame:
        raise Unanswered(f"{stream}: no more of it came within {limits.CHUNK_WITHIN_S} s") from None
    finally:
        await subscription.unsubscribe()
    said = piece.headers or {}
    if said.get("Status", END_OF_FILE) != END_OF_FILE:
        raise Unreadable(f"{stream}: the server has given up: {said['Status']} {said.get('Description', '')}")
    return {"config": about["config"], "state": about["state"]}


async def restore(jetstream: JetStream, about: About, pieces: Iterable[bytes]) -> None:
    """Makes the stream again that was saved. Raises Refused when there is one of that name."""
    stream = about["config"]["name"]
    into = (await jetstream.api(f"STREAM.RESTORE.{stream}", about))["deliver_subject"]
    for piece in pieces:
        refusal = (await jetstream.connection.ask(into, piece)).data
        if refusal:
            raise Unreadable(f"{stream}: {refusal.decode(errors='replace')}")
    end = await jetstream.connection.ask(into, b"", timeout_s=limits.RESTORED_WITHIN_S)
    answer = json.loads(end.data)
    if "error" in answer:
        raise failure(f"STREAM.RESTORE.{stream}", answer["error"])
