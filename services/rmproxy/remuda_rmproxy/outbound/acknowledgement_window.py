"""Bounds the callbacks that an RM has not acknowledged. Further callbacks wait in the log of the RM, and not in the
stream CALLBACKS, where all RMs need room."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.metrics import rm_label
from remuda_bus.retry import Backoff
from remuda_rmproxy import limits, metrics

log = structlog.get_logger()


class AcknowledgementWindow:
    """Of one RM. While `is_unthrottled()`, nothing waits."""

    def __init__(self, bus: Bus, rm_id: str, is_unthrottled: Callable[[], bool]) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._is_unthrottled = is_unthrottled
        self._published_since_check = limits.ACKNOWLEDGED_CHECK_MESSAGES  # the first batch is checked
        # Batches that may not be acknowledged: the sequence of the last callback, and bytes.
        self._batches: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def record(self, callback_seq: int, size: int) -> None:
        """A batch of `size` bytes was published; its last callback has this sequence."""
        self._batches.append((callback_seq, size))
        self._bytes += size

    async def wait_for_room(self, messages: int) -> None:
        """Returns when so many more callbacks may be published. Raises BusError."""
        self._published_since_check += messages
        is_check_due = self._published_since_check >= limits.ACKNOWLEDGED_CHECK_MESSAGES
        if not is_check_due and self._bytes < limits.UNACKNOWLEDGED_BYTES:
            return
        backoff: Backoff | None = None
        began = asyncio.get_running_loop().time()
        while not self._is_unthrottled() and (unacknowledged := await self._excess()):
            if backoff is None:
                log.warning("callbacks wait until the RM acknowledges", rm=self._rm_id, unacknowledged=unacknowledged)
                backoff = Backoff(limits.ACKNOWLEDGED_CHECK)
            await backoff.pause()
        if backoff is not None:
            waited_s = asyncio.get_running_loop().time() - began
            metrics.THROTTLED_SECONDS.labels(rm_label(self._rm_id)).inc(waited_s)
        self._published_since_check = 0

    async def _excess(self) -> int:
        """The number of callbacks that the RM has not acknowledged; 0 while there is room."""
        state = await self._bus.consumer_state(subjects.CALLBACKS.name, subjects.callback_consumer(self._rm_id))
        while self._batches and (state is None or self._batches[0][0] <= state.acknowledged):
            self._bytes -= self._batches.popleft()[1]
        metrics.UNACKNOWLEDGED.labels(rm_label(self._rm_id)).set(0 if state is None else state.waiting)
        if state is None:
            return 0
        is_full = state.waiting > limits.UNACKNOWLEDGED_MESSAGES or self._bytes >= limits.UNACKNOWLEDGED_BYTES
        return state.waiting if is_full else 0
