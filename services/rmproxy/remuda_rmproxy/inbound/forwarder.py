"""REQUESTS to INBOX: reads the requests of all RMs in order and starts a worker for each RM that has some.

One loop reads the stream and puts each request into the queue of its RM. It awaits nothing else, so no RM waits for
another. Requests are read, not consumed from a shared consumer: while two rmproxies work, each forwards everything, and
the core drops what it receives twice by its position in REQUESTS. A worker deletes nothing; `RequestTrimmer` deletes
requests whose commands are durable in the inbox (docs/adr/requests-and-inbox.md).
"""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Full, HistoryChanged, Message
from remuda_bus.retry import pause
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.inbound.forwarding_progress import ForwardingProgress
from remuda_rmproxy.inbound.request_queue import UNKNOWN_SENDERS, QueuedBytes, RequestQueue
from remuda_rmproxy.inbound.request_worker import RequestWorker
from remuda_rmproxy.records.registry import RmRegistry

log = structlog.get_logger()

ALL_REQUESTS = subjects.request("*", "*")


class Forwarder:
    def __init__(
        self,
        bus: Bus,
        registry: RmRegistry,
        halts: Halts,
        faults: Faults,
        worker: RequestWorker,
        progress: ForwardingProgress,
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._halts = halts
        self._faults = faults
        self._worker = worker
        self._progress = progress
        self._queued_bytes = QueuedBytes()
        self._group: asyncio.TaskGroup | None = None
        self._unknown_senders = _UnknownSenders()
        self._refusing: set[RequestQueue] = set()
        self._deferred_reads = asyncio.Semaphore(limits.DEFERRED_READS_AT_ONCE)

    async def run(self) -> None:
        """Runs until cancelled. When REQUESTS has lost requests, their RMs are unknown, so every RM is halted."""
        while True:
            try:
                await self._forward_all()
            except* HistoryChanged as errors:
                self._progress.reset()
                for record in self._registry.in_state("registered"):
                    await self._halts.halt(record.rm_id, f"requests have been lost: {errors.exceptions[0]}")

    async def _forward_all(self) -> None:
        reader = await self._bus.read(subjects.REQUESTS.name, ALL_REQUESTS)
        try:
            async with asyncio.TaskGroup() as self._group:
                while True:
                    for message in await reader.batch(limits.FORWARD_BATCH_MESSAGES):
                        self._dispatch(message)
                    await asyncio.sleep(0)  # lets the workers run where there is always more to read
        finally:
            self._group = None
            await reader.close()

    def _dispatch(self, message: Message) -> None:
        rm_id = subjects.rm_of(message.subject)
        queue = self._progress.queues.get(rm_id)
        if queue is None:
            if self._registry.get(rm_id) is None:
                queue = self._open_queue(UNKNOWN_SENDERS)
                self._progress.dispatch_to_unknown(rm_id)
                self._unknown_senders.add(rm_id, message.seq)
            else:
                queue = self._open_queue(rm_id)
        if not queue.offer(message):
            self._start_refusing(queue)
        self._progress.dispatched_seq = message.seq

    def _open_queue(self, rm_id: str) -> RequestQueue:
        """The queue of the RM; a new one gets a worker. Requests of an RM that had no record until now may be in the
        queue of unknown senders. The new queue begins with them."""
        queues = self._progress.queues
        if rm_id in queues:
            return queues[rm_id]
        assert self._group is not None, "called only while `run` runs"
        queue = queues[rm_id] = RequestQueue(rm_id, self._queued_bytes)
        unknown, first_seq = queues.get(UNKNOWN_SENDERS), self._unknown_senders.pop(rm_id)
        if first_seq and unknown is not None and unknown.oldest_seq:
            queue.defer_range(max(first_seq, unknown.oldest_seq), self._progress.dispatched_seq)
        self._group.create_task(self._run_worker(queue), name=f"requests of {rm_id or 'unknown senders'}")
        return queue

    async def _run_worker(self, queue: RequestQueue) -> None:
        """Returns when all requests of the queue are complete."""
        one_by_one = False
        try:
            while queue.oldest_seq:
                one_by_one = await self._work_once(queue, one_by_one)
                self._progress.record(queue.rm_id)
        finally:
            queue.clear()
            if self._progress.queues.get(queue.rm_id) is queue:
                del self._progress.queues[queue.rm_id]
            if queue.rm_id == UNKNOWN_SENDERS:
                self._unknown_senders.clear()
        self._progress.record(queue.rm_id)

    def _start_refusing(self, queue: RequestQueue) -> None:
        if queue not in self._refusing:
            assert self._group is not None, "called only while `run` runs"
            self._refusing.add(queue)
            self._group.create_task(self._refuse(queue), name=f"refuse requests of {queue.rm_id or 'unknown senders'}")

    async def _refuse(self, queue: RequestQueue) -> None:
        """Make dead letters of refused requests and delete them, although older requests of the RM wait. Returns when
        none is left."""
        try:
            while refused := queue.refused(limits.REFUSED_AT_ONCE):
                try:
                    await self._worker.refuse(refused)
                except BusError as error:
                    log.warning("refused requests wait for the bus", rm=queue.rm_id, error=str(error))
                    await pause(limits.FORWARD_RETRY)
                except Exception as fault:  # noqa: BLE001 - a fault at a request of this RM alone
                    rm_id = subjects.rm_of(refused[0].subject)
                    await self._faults.record(rm_id, subjects.REQUESTS.name, refused[0].seq, fault)
                    await pause(limits.FORWARD_RETRY)
                else:
                    queue.complete_refused(refused)
                    self._progress.record(queue.rm_id)
        finally:
            self._refusing.discard(queue)

    async def _work_once(self, queue: RequestQueue, one_by_one: bool) -> bool:
        """Forward some requests, or one. Returns whether to forward one by one from now on: after an exception, to find
        the request that raises it. Raises HistoryChanged."""
        try:
            if not queue.oldest_accepted_seq:
                await self._progress.change()  # until the refused ones are complete
            elif queue.first() is None:
                await self._read_deferred(queue)
            elif queue.rm_id == UNKNOWN_SENDERS:
                await self._work_on_unknown(queue)
            else:
                await self._worker.forward_some(queue, one=one_by_one)
        except Full as error:
            log.warning("the inbox has no room for this RM, its requests wait", rm=queue.rm_id, error=str(error))
            queue.defer_all()
            await pause(limits.FORWARD_RETRY)
        except BusError as error:
            log.warning("requests wait for the bus", rm=queue.rm_id, error=str(error))
            queue.requeue()
            await pause(limits.FORWARD_RETRY)
        except HistoryChanged:
            raise
        except Exception as fault:  # noqa: BLE001 - any exception here is a fault at a request of this RM alone
            queue.requeue()
            await self._handle_fault(queue, fault, one_by_one)
            return True
        return one_by_one

    async def _handle_fault(self, queue: RequestQueue, fault: Exception, one_by_one: bool) -> None:
        if not one_by_one:
            log.error("requests are forwarded one by one to find the fault", rm=queue.rm_id, exc_info=fault)
            return
        message = queue.first()
        if message is None:
            raise fault
        rm_id = subjects.rm_of(message.subject)
        is_repeated = await self._faults.record(rm_id, subjects.REQUESTS.name, message.seq, fault)
        if queue.rm_id == UNKNOWN_SENDERS and is_repeated:
            log.error("a request of an unknown sender is skipped", subject=message.subject, request_seq=message.seq)
            queue.start_first()
            queue.complete()
        await pause(limits.FORWARD_RETRY)

    async def _work_on_unknown(self, queue: RequestQueue) -> None:
        """Forward requests of senders without a record. A sender that has a record by now gets a queue of its own,
        which begins with its first request here."""
        message = queue.first()
        assert message is not None, "checked by the caller"
        rm_id = subjects.rm_of(message.subject)
        if await self._worker.has_record(rm_id):
            self._open_queue(rm_id)
            queue.start_first()
            queue.complete()
        else:
            await self._worker.forward_some(queue)

    async def _read_deferred(self, queue: RequestQueue) -> None:
        """Read deferred requests from REQUESTS, as many as the queue has room for."""
        newest_seq, refused = queue.newest_seq, queue.refused_seqs
        subject = ALL_REQUESTS if queue.rm_id == UNKNOWN_SENDERS else subjects.request(queue.rm_id, "*")
        async with self._deferred_reads:
            reader = await self._bus.read(subjects.REQUESTS.name, subject, queue.deferred_seq - 1)
            try:
                messages = await reader.batch(limits.QUEUE_MESSAGES, queue.room_bytes, limits.DEFERRED_READ_TIMEOUT_S)
            finally:
                await reader.close()
        if not messages:  # another process may have forwarded and deleted them
            newest = await self._bus.last_message(subjects.REQUESTS.name, subject)
            if newest is None or newest.seq < queue.deferred_seq:
                queue.add_deferred([], queue.newest_seq)
            return
        requests = [message for message in messages if message.seq <= newest_seq and message.seq not in refused]
        if queue.rm_id == UNKNOWN_SENDERS:
            requests = [message for message in requests if not self._leave_to_own_queue(message)]
        queue.add_deferred(requests, min(messages[-1].seq, newest_seq))

    def _leave_to_own_queue(self, message: Message) -> bool:
        """Open a queue of its own for the sender of the request, if it has a record by now. Return whether it has."""
        rm_id = subjects.rm_of(message.subject)
        if self._registry.get(rm_id) is None:
            return False
        self._open_queue(rm_id)
        return True

    async def wait_until_forwarded(self, rm_id: str) -> None:
        """Returns when every request that the RM has published until now is in the inbox and deleted from REQUESTS. A
        request that is forwarded again in the next registration, or without one, would be refused. Raises BusError."""
        subject = subjects.request(rm_id, "*")
        newest = await self._bus.last_message(subjects.REQUESTS.name, subject)
        if newest is None:
            return
        progress = self._progress
        while newest.seq > progress.dispatched_seq:
            await progress.change()
        if UNKNOWN_SENDERS in progress.queues:
            self._open_queue(rm_id)
        while (queue := progress.queues.get(rm_id)) is not None and 0 < queue.oldest_seq <= newest.seq:
            await progress.change()
        await self._bus.trim(subjects.REQUESTS.name, subject, newest.seq + 1)


class _UnknownSenders:
    """The senders without a record that have requests in their shared queue, with the sequence of the first request of
    each. A sender that gets a record has a queue of its own, into which its requests in the shared queue come first.
    Other RMs must not search the shared queue for theirs: the search reads REQUESTS."""

    def __init__(self) -> None:
        self._first_seq: dict[str, int] = {}
        self._first_untracked_seq = 0  # of the senders beyond the bound; 0: there is none

    def add(self, rm_id: str, seq: int) -> None:
        if rm_id in self._first_seq:
            return
        if len(self._first_seq) < limits.UNKNOWN_SENDERS_TRACKED:
            self._first_seq[rm_id] = seq
        else:
            self._first_untracked_seq = self._first_untracked_seq or seq

    def pop(self, rm_id: str) -> int:
        """Remove a sender that has got a record. Returns the sequence of its first request in the shared queue, 0 if it
        has none there."""
        return self._first_seq.pop(rm_id, self._first_untracked_seq)

    def clear(self) -> None:
        """Remove all senders, because the shared queue is empty."""
        self._first_seq.clear()
        self._first_untracked_seq = 0
