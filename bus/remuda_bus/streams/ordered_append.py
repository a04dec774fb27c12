"""Appends many messages to one stream and keeps their order across refusals, lost answers and repetitions.

The messages are sent in atomic batches. A batch is stored as a whole or not at all, so no message overtakes a refused
one. A refused batch is retried. Every message carries a `Nats-Msg-Id`: after a lost answer the server drops the
messages that it has already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import structlog

from remuda_bus import limits
from remuda_bus.bus import Bus, Full, Outgoing, Refused, Unanswered
from remuda_bus.retry import retry
from remuda_bus.subjects import MSG_ID

log = structlog.get_logger()


async def append_in_order(bus: Bus, messages: Iterable[Outgoing], give_up_after_s: float | None = None) -> int:
    """Append the messages and return the stream sequence of the last one once all are durable (0: there were none).

    The iterable is consumed batch by batch, so a reader of the stream works on the first batch while the next one is
    made. `give_up_after_s`: raise Full or Unanswered when a batch was retried for so long; None: retry without
    end."""
    sequence = 0
    for batch in batches(messages):
        sequence = await _append_with_retry(bus, batch, give_up_after_s)
    return sequence


def batches(messages: Iterable[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    """Group messages into batches of at most `limits.BATCH_MESSAGES` messages and `limits.BATCH_BYTES` bytes (or one
    message that alone is larger)."""
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


async def _append_with_retry(bus: Bus, batch: Sequence[Outgoing], give_up_after_s: float | None) -> int:
    def report(error: Exception) -> None:
        log.warning("appending again", subject=batch[0].subject, messages=len(batch), error=str(error))

    policy = replace(limits.APPEND_RETRY, give_up_after_s=give_up_after_s)
    return await retry(partial(_append, bus, batch), policy, on=(Full, Unanswered), report=report)


async def _append(bus: Bus, batch: Sequence[Outgoing]) -> int:
    try:
        return await bus.append_all(batch, limits.APPEND_TIMEOUT_S)
    except Refused:
        # The stream holds part of the batch already: an answer was lost, or another process was faster.
        return await _one_by_one(bus, batch)


async def _one_by_one(bus: Bus, batch: Sequence[Outgoing]) -> int:
    sequence = 0
    for message in batch:
        headers = message.headers
        sequence = await bus.append(
            message.subject, message.payload, headers, msg_id=headers[MSG_ID], timeout_s=limits.APPEND_TIMEOUT_S
        )
    return sequence
