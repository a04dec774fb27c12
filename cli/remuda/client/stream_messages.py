"""Read the messages that a stream holds now."""

from __future__ import annotations

from collections.abc import AsyncIterator

from remuda_bus.bus import Bus, Message


async def messages_of(bus: Bus, stream: str, subject: str) -> AsyncIterator[Message]:
    """Yields all messages on the subject up to the last one at the time of the call."""
    last = await bus.last_message(stream, subject)
    if last is None:
        return
    reader = await bus.read(stream, subject)
    try:
        seq = 0
        while seq < last.seq:
            for message in await reader.batch():
                seq = message.seq
                yield message
    finally:
        await reader.close()
