"""Creates and deletes durable consumers."""

from __future__ import annotations

from typing import Any

from remuda_bus import limits
from remuda_bus.bus import Headers
from remuda_bus.nats.jetstream import CONSUMER_NOT_FOUND, JetStream, JetStreamError
from remuda_bus.nats.ordered_consumer import NANOSECOND


def consumer_config(durable: str, subject: str, ack_wait_s: float) -> dict[str, Any]:
    return {
        "name": durable,
        "durable_name": durable,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait_s * NANOSECOND),
        "max_ack_pending": limits.MAX_ACK_PENDING_MESSAGES,
        "filter_subject": subject,
    }


async def delete_consumer(jetstream: JetStream, stream: str, durable: str) -> None:
    """Delete a durable consumer. Does nothing where there is none."""
    try:
        await jetstream.api(f"CONSUMER.DELETE.{stream}.{durable}")
    except JetStreamError as error:
        if error.err_code != CONSUMER_NOT_FOUND:
            raise


async def create_consumer(
    jetstream: JetStream, stream: str, subject: str, durable: str, after: int, metadata: Headers
) -> None:
    """Create a durable consumer behind the stream sequence `after`; one of the same name is deleted first. Raises
    Refused when another process creates it at the same time."""
    await delete_consumer(jetstream, stream, durable)
    config = {
        **consumer_config(durable, subject, limits.ACK_WAIT_S),
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "metadata": dict(metadata),
    }
    await jetstream.api(
        f"CONSUMER.CREATE.{stream}.{durable}.{subject}", {"stream_name": stream, "config": config, "action": "create"}
    )
