"""The requests of one RM on their way from REQUESTS into its inbox, in order. Pure.

A queue holds a bounded number of requests in memory. Requests beyond that are *deferred*: they stay in the stream
REQUESTS, and the queue remembers their range. Its worker reads them again when there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from remuda_bus.bus import Message
from remuda_rmproxy import limits

UNKNOWN_SENDERS = ""  # the queue, and the bounds, of all senders without a record


class QueuedBytes:
    """Counts the bytes of the requests that all queues of this process hold."""

    def __init__(self) -> None:
        self.total = 0


class RequestQueue:
    """The requests of one RM that are not in the inbox yet.

    `rm_id`: the RM, or UNKNOWN_SENDERS. `newest_seq`: the sequence of the newest request that was offered. A request is
    waiting, then in progress, then complete. A request is refused when too many bytes of the RM wait.
    """

    def __init__(self, rm_id: str, queued_bytes: QueuedBytes) -> None:
        self.rm_id = rm_id
        self.newest_seq = 0
        self._queued_bytes = queued_bytes
        self._waiting: deque[Message] = deque()
        self._in_progress: list[Message] = []
        self._deferred_seq = 0  # of the oldest deferred request; 0: none is deferred
        self._deferred_bytes = 0
        self._bytes = 0
        self._refused: dict[int, Message] = {}  # by sequence, in order; without content

    @property
    def oldest_seq(self) -> int:
        """Returns the sequence of the oldest request that is not complete; 0: all are complete."""
        accepted, refused = self.oldest_accepted_seq, next(iter(self._refused), 0)
        return min(accepted, refused) if accepted and refused else accepted or refused

    @property
    def oldest_accepted_seq(self) -> int:
        """Returns the sequence of the oldest request that is neither complete nor refused; 0: there is none."""
        if self._in_progress:
            return self._in_progress[0].seq
        return self._waiting[0].seq if self._waiting else self._deferred_seq

    @property
    def deferred_seq(self) -> int:
        return self._deferred_seq

    def offer(self, message: Message) -> bool:
        """Takes the next request of the RM, and defers it where there is no room, or where an earlier request is
        deferred.

        Returns False where the request is refused.
        """
        size = message_size(message)
        if self._bytes + self._deferred_bytes + size > limits.WAITING_BYTES:
            self._refused[message.seq] = Message(message.subject, b"", seq=message.seq)
            return False
        self.newest_seq = message.seq
        if self._deferred_seq:
            self._deferred_bytes += size
        elif self.has_room(message):
            self._append(message)
        else:
            self._deferred_seq, self._deferred_bytes = message.seq, size
        return True

    def refused(self, most: int) -> list[Message]:
        """Returns the first refused requests, at most `most` and without their content."""
        return list(islice(self._refused.values(), most))

    @property
    def refused_seqs(self) -> frozenset[int]:
        return frozenset(self._refused)

    def complete_refused(self, messages: Iterable[Message]) -> None:
        """Records that these refused requests are dead letters and deleted from REQUESTS."""
        for message in messages:
            self._refused.pop(message.seq, None)

    def defer_range(self, first_seq: int, newest_seq: int) -> None:
        """Defers the requests of the RM from `first_seq` to `newest_seq`, which are in REQUESTS."""
        self._deferred_seq, self.newest_seq = first_seq, newest_seq

    def has_room(self, message: Message) -> bool:
        """Returns whether the request may be held. Each RM has room for one small request, whatever the queues of other
        RMs hold.
        """
        size = message_size(message)
        if not self._bytes and size <= limits.SMALL_REQUEST_BYTES:
            return True
        return (
            len(self._waiting) + len(self._in_progress) < limits.QUEUE_MESSAGES
            and self._bytes + size <= limits.QUEUE_BYTES
            and self._queued_bytes.total + size <= limits.ALL_QUEUES_BYTES
        )

    @property
    def room_bytes(self) -> int:
        """Returns how many bytes of deferred requests the worker may read."""
        all_queues = limits.ALL_QUEUES_BYTES - self._queued_bytes.total
        return max(limits.SMALL_REQUEST_BYTES, min(limits.QUEUE_BYTES, all_queues))

    def add_deferred(self, messages: Sequence[Message], read_seq: int) -> None:
        """Takes deferred requests. The worker has read all of them up to `read_seq`."""
        for message in messages:
            self._append(message)
            self._deferred_bytes -= message_size(message)
        self._deferred_seq = 0 if read_seq >= self.newest_seq else read_seq + 1
        if not self._deferred_seq or self._deferred_bytes < 0:  # the sizes in a deferred range are not known
            self._deferred_bytes = 0

    def first(self) -> Message | None:
        """Returns the first waiting request."""
        return self._waiting[0] if self._waiting else None

    def start_first(self) -> None:
        self._in_progress.append(self._waiting.popleft())

    def complete(self) -> None:
        """Records that the requests in progress are durable in the inbox, or are dead letters."""
        self._subtract(self._in_progress)
        self._in_progress = []

    def requeue(self) -> None:
        """Puts the requests in progress back, which were not forwarded."""
        self._waiting.extendleft(reversed(self._in_progress))
        self._in_progress = []

    def defer_all(self) -> None:
        """Defers everything that is not complete, and holds nothing in memory."""
        self._deferred_seq = self.oldest_accepted_seq
        self._deferred_bytes += self._bytes
        self._subtract(self._in_progress)
        self._subtract(self._waiting)
        self._in_progress = []
        self._waiting.clear()

    def clear(self) -> None:
        """Drops everything."""
        self.defer_all()
        self._deferred_seq = self._deferred_bytes = 0
        self._refused.clear()

    def _append(self, message: Message) -> None:
        size = message_size(message)
        self._waiting.append(message)
        self._bytes += size
        self._queued_bytes.total += size

    def _subtract(self, messages: Iterable[Message]) -> None:
        size = sum(map(message_size, messages))
        self._bytes -= size
        self._queued_bytes.total -= size


def message_size(message: Message) -> int:
    return len(message.payload) + limits.REQUEST_OVERHEAD_BYTES
