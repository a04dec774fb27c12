"""Saves a whole stream to a file and restores it, in the server's own format: messages with their sequences and times,
and durable consumers with their acknowledged positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nats.errors import TimeoutError as NothingCame

from remuda_bus import limits
from remuda_bus.bus import Unanswered, Unreadable
from remuda_bus.nats.jetstream import JetStream, failure
from remuda_bus.untrusted import json_object

About = dict[str, Any]
END_OF_FILE = "204"


async def save(jetstream: JetStream, stream: str, write: Callable[[bytes], object]) -> About:
    """Pass the packed stream to `write`, piece by piece. Returns its configuration and state. Raises Unanswered,
    Unreadable."""
    client = jetstream.connection.client
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    try:
        wanted = {"deliver_subject": inbox, "chunk_size": limits.CHUNK_BYTES}
        about = await jetstream.api(f"STREAM.SNAPSHOT.{stream}", wanted, limits.BACKUP_START_TIMEOUT_S)
        while (piece := await subscription.next_msg(limits.CHUNK_TIMEOUT_S)).data:
            write(piece.data)
            if piece.reply:  # not the last one
                await piece.respond(b"")
    except NothingCame:
        raise Unanswered(f"{stream}: no further piece came within {limits.CHUNK_TIMEOUT_S} s") from None
    finally:
        await subscription.unsubscribe()
    said = piece.headers or {}
    if said.get("Status", END_OF_FILE) != END_OF_FILE:
        raise Unreadable(f"{stream}: the server aborted the snapshot: {said['Status']} {said.get('Description', '')}")
    return {"config": about["config"], "state": about["state"]}


async def restore(
    jetstream: JetStream, about: About, pieces: Iterable[bytes], taken: Callable[[int], object] = lambda size: None
) -> None:
    """Restore a saved stream from its configuration and state (`about`) and its pieces. `taken`: called with the size
    of each piece in bytes once the server has stored it. Raises Refused when a stream of that name exists."""
    stream = about["config"]["name"]
    into = (await jetstream.api(f"STREAM.RESTORE.{stream}", about))["deliver_subject"]
    for piece in pieces:
        # The server stores and syncs each message of a piece before it accepts the next piece.
        refusal = (await jetstream.connection.ask(into, piece, timeout_s=limits.RESTORE_TIMEOUT_S)).data
        if refusal:
            raise Unreadable(f"{stream}: {refusal.decode(errors='replace')}")
        taken(len(piece))
    end = await jetstream.connection.ask(into, b"", timeout_s=limits.RESTORE_TIMEOUT_S)
    answer = json_object(end.data, f"the end of {stream}")
    if "error" in answer:
        raise failure(f"STREAM.RESTORE.{stream}", answer["error"])
