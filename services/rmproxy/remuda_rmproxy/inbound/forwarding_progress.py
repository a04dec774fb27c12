"""How far the requests of each RM are forwarded. Pure, but for the event that its waiters await."""

from __future__ import annotations

import asyncio
from itertools import islice

from remuda_rmproxy.inbound.request_queue import RequestQueue


class ForwardingProgress:
    """Knows which requests are complete, so that the stream can be trimmed.

    `queues`: one for each RM with requests that are not forwarded. `dispatched_seq`: each request up to this sequence
    is in a queue, is deferred by a queue, or is complete.
    """

    def __init__(self) -> None:
        self.queues: dict[str, RequestQueue] = {}
        self.dispatched_seq = 0
        self._untrimmed_rms: dict[str, None] = {}
        self._changed = asyncio.Event()

    def reset(self) -> None:
        for queue in self.queues.values():
            queue.clear()
        self.queues.clear()
        self._untrimmed_rms.clear()
        self.dispatched_seq = 0

    def record(self, rm_id: str) -> None:
        """Requests of this RM are complete."""
        self._untrimmed_rms[rm_id] = None
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def dispatch_to_unknown(self, rm_id: str) -> None:
        """Records that a request of this RM is in the queue of unknown senders.

        `forwarded_seq_of` does not know that request: the RM is not trimmed by itself until it has a queue of its own,
        which begins with that request.
        """
        self._untrimmed_rms.pop(rm_id, None)

    async def change(self) -> None:
        """Returns when requests of any RM have been completed."""
        await self._changed.wait()

    @property
    def forwarded_seq(self) -> int:
        """Returns the sequence up to which all requests of all RMs are complete."""
        oldest = (queue.oldest_seq for queue in self.queues.values())
        return min((seq - 1 for seq in oldest if seq), default=self.dispatched_seq)

    def forwarded_seq_of(self, rm_id: str) -> int:
        """Returns the sequence up to which all requests of this RM are complete, except for requests in the queue of
        unknown senders.
        """
        queue = self.queues.get(rm_id)
        return queue.oldest_seq - 1 if queue is not None and queue.oldest_seq else self.dispatched_seq

    def all_trimmed(self) -> None:
        self._untrimmed_rms.clear()

    def take_untrimmed(self, most: int) -> list[str]:
        """Takes at most `most` RMs that have complete requests which may not be trimmed yet."""
        rm_ids = list(islice(self._untrimmed_rms, most))
        for rm_id in rm_ids:
            del self._untrimmed_rms[rm_id]
        return rm_ids
