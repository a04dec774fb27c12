"""The numbers of streams, as JetStream tells them, for Prometheus. NATS servers show theirs as JSON only, where only
their health checks reach them. Every event process measures them, because any of them may be away."""

from __future__ import annotations

import asyncio

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, StreamState, Unanswered
from remuda_events import metrics

# Between two measurements of the numbers of streams.
STREAM_METRICS_S = 15.0


async def measure_streams(bus: Bus) -> None:
    """Runs until cancelled."""
    while True:
        for stream in subjects.STREAMS:
            try:
                show(stream.name, await bus.stream_state(stream.name))
            except Unanswered:
                metrics.STREAM_LEADERLESS.labels(stream.name).set(1)  # the leader would have answered
            except BusError:
                pass  # measured again soon; an outage has alerts of its own
        await asyncio.sleep(STREAM_METRICS_S)


def show(stream: str, state: StreamState) -> None:
    for metric, value in (
        (metrics.STREAM_MESSAGES, state.messages),
        (metrics.STREAM_BYTES, state.bytes),
        (metrics.STREAM_MAX_BYTES, state.max_bytes),
        (metrics.STREAM_LAST_SEQ, state.last_seq),
        (metrics.STREAM_CONSUMERS, state.consumers),
        (metrics.STREAM_LEADERLESS, not state.leader),
        (metrics.STREAM_BEHIND, state.behind),
        (metrics.STREAM_LAG, state.lag),
    ):
        metric.labels(stream).set(value)
