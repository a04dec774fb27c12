"""Appending many messages to one stream so that their order survives refusals, lost answers and repetitions.

What goes together is one atomic batch: all of it or nothing, so nothing can overtake a message that was refused. It is
then tried again. Every message must carry a `Nats-Msg-Id`: where an answer was lost, the server drops what it has
already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import structlog

from remuda_bus import limits
from remuda_bus.bus import Bus, Full, Outgoing, Refused, Unanswered
from remuda_bus.subjects import MSG_ID

log = structlog.get_logger()


async def append_in_order(bus: Bus, messages: Iterable[Outgoing], give_up_after_s: float | None = None) -> int:
    """Returns once all are durable, with the stream sequence of the last (0: there were none). They are taken one batch
    after the other, so that a reader works on the first while the next are still being made. `give_up_after_s` None:
    tries for ever; otherwise raises Full or Unanswered when the stream has taken nothing for so long."""
    sequence = 0
    for batch in batches(messages):
        sequence = await _persistently(bus, batch, give_up_after_s)
    return sequence


def batches(messages: Iterable[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    """Cuts into batches of at most 1,000 messages and, unless one alone is larger, limits.BATCH_BYTES."""
    batch: list[Outgoing] = []
    size = 0
    for message in messages:
        if batch and (len(batch) >= limits.BATCH_MESSAGES or size + len(message.payload) > limits.BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.payload)
    if batch:
        yield batch


async def _persistently(bus: Bus, batch: Sequence[Outgoing], give_up_after_s: float | None) -> int:
    now = asyncio.get_running_loop().time
    started, pause_s = now(), limits.FIRST_PAUSE_S
    while True:
        try:
            try:
                return await bus.append_all(batch, limits.ANSWER_WITHIN_S)
            except Refused:
                # Some of it is there already: the answer to it was lost, or another process was faster.
                return await _one_by_one(bus, batch)
        except (Full, Unanswered) as error:
            if give_up_after_s is not None and now() - started >= give_up_after_s:
                raise
            log.warning("appending again", subject=batch[0].subject, messages=len(batch), error=str(error))
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, limits.LONGEST_PAUSE_S)


async def _one_by_one(bus: Bus, batch: Sequence[Outgoing]) -> int:
    sequence = 0
    for message in batch:
        headers = message.headers
        sequence = await bus.append(
            message.subject, message.payload, headers, msg_id=headers[MSG_ID], timeout_s=limits.ANSWER_WITHIN_S
        )
    return sequence
