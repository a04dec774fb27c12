"""Forwards the first requests of an RM's queue: turns them into commands and appends these to its inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, BusError, Message, Outgoing
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.metrics import rm_label
from remuda_bus.streams.ordered_append import append_in_order
from remuda_proto.bounds import shown
from remuda_proto.names import RM_ID
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits, metrics
from remuda_rmproxy.groups.group_resolver import FROM_REQUEST, Groups
from remuda_rmproxy.inbound import translate
from remuda_rmproxy.inbound.configuration_resolver import ConfigurationResolver
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.inbound.inbox_backlog import InboxBacklog
from remuda_rmproxy.inbound.request_queue import RequestQueue
from remuda_rmproxy.inbound.translate import InvalidRequest
from remuda_rmproxy.records.correlation import Correlation
from remuda_rmproxy.records.record_store import read_record
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.request_times import RequestTimes
from remuda_rmproxy.records.rm_record import RmRecord, config_source, stated_registration

log = structlog.get_logger()

TOO_MUCH_WAITS = (
    f"more than {limits.WAITING_BYTES} bytes of requests of this RM wait: publish further ones when those are handled"
)


class RequestWorker:
    def __init__(
        self, bus: Bus, registry: RmRegistry, dead_letters: DeadLetters, halts: Halts, resolver: ConfigurationResolver,
        groups: Groups = FROM_REQUEST, times: RequestTimes | None = None,
    ) -> None:  # fmt: skip
        self._bus = bus
        self._registry = registry
        self._dead_letters = dead_letters
        self._halts = halts
        self._resolver = resolver
        self._groups = groups
        self._times = times or RequestTimes()
        self._backlog = InboxBacklog()
        # Of each RM the requests whose append has failed, and their commands: some of them may be in the inbox.
        self._attempts: dict[str, tuple[list[int], list[Outgoing]]] = {}
        self._payload_limit = bus.max_payload - HEADER_ROOM_BYTES

    def untrack(self, rm_id: str) -> None:
        """Forgets the RM, which has no record any more."""
        self._backlog.drop(rm_id)
        self._attempts.pop(rm_id, None)
        self._times.drop(rm_id)

    async def has_record(self, rm_id: str) -> bool:
        """Reads the record, because the registry may not know it yet. Raises BusError."""
        return bool(RM_ID.matches(rm_id)) and (await read_record(self._bus, rm_id))[0] is not None

    async def refuse(self, messages: Sequence[Message]) -> None:
        """Makes dead letters of these requests and deletes them. Raises BusError."""
        await self._dead_letters.write_all(messages, TOO_MUCH_WAITS)
        await self._bus.delete_messages(subjects.REQUESTS.name, [message.seq for message in messages])

    async def forward_some(self, queue: RequestQueue, *, one: bool = False) -> None:
        """Forwards the first requests of a queue that holds some, or only the first one.

        Returns when they are durable in the inbox, or are dead letters. Raises Full when the inbox has no room for this
        RM, and other BusErrors in an outage; the requests in progress are not forwarded then.
        """
        message = queue.first()
        assert message is not None, "checked by the caller"
        rm_id = subjects.rm_of(message.subject)
        await self._wait_for_backlog(queue, rm_id)
        message = queue.first()
        if message is None:
            return
        seqs, attempted = self._attempts.pop(rm_id, ([], []))
        with ExitStack() as spans:
            if seqs and seqs[0] == message.seq:
                batch = self._start_again(queue, seqs, attempted)
            else:
                seqs, batch = await self._start_some(queue, rm_id, spans, one=one)
            try:
                inbox_seq = await append_in_order(self._bus, batch, limits.INBOX_APPEND_TIMEOUT_S)
            except BusError:
                self._attempts[rm_id] = (seqs, batch)
                raise
        if batch:
            self._times.appended(rm_id, seqs[-1], inbox_seq)
            metrics.REQUESTS.labels(rm_label(rm_id)).inc(len(seqs))
            self._backlog.record_forwarded(rm_id, inbox_seq, len(batch), sum(len(one.payload) for one in batch))
        queue.complete()

    @staticmethod
    def _start_again(queue: RequestQueue, seqs: list[int], batch: list[Outgoing]) -> list[Outgoing]:
        """The commands of an attempt whose fate is unknown are appended unchanged: the sender may have registered again
        since, and a request that is in the inbox must not become a dead letter."""
        for seq in seqs:
            message = queue.first()
            if message is None or message.seq != seq:
                break  # still deferred; their commands are dropped by the server or the core when they come again
            queue.start_first()
        return batch

    async def _start_some(
        self, queue: RequestQueue, rm_id: str, spans: ExitStack, *, one: bool
    ) -> tuple[list[int], list[Outgoing]]:
        """Start the first requests of the queue. Returns their sequences and their commands."""
        seqs: list[int] = []
        batch: list[Outgoing] = []
        size = 0
        while (message := queue.first()) is not None and len(batch) < limits.FORWARD_BATCH_MESSAGES:
            if subjects.rm_of(message.subject) != rm_id:
                break  # a request of another unknown sender
            if batch and (size > limits.FORWARD_BATCH_BYTES or self._waits_for_others(message)):
                break  # earlier requests do not wait
            commands = await self._commands_of(message, rm_id, spans)
            queue.start_first()
            seqs.append(message.seq)
            if commands:
                self._times.forwarded(rm_id, message.seq, message.stored_ns)
            batch += commands
            size += sum(len(command.payload) for command in commands)
            if one:
                break
        return seqs, batch

    def _waits_for_others(self, message: Message) -> bool:
        """Whether the request waits for the configuration service, or for a directory of groups."""
        return translate.kind_of(message) == "configuration" or self._groups.must_wait(self._users_of(message))

    def _users_of(self, message: Message) -> list[str]:
        """The users whose groups are to be resolved."""
        if not self._groups.is_used or translate.kind_of(message) != "application":
            return []
        try:
            return translate.users_without_groups(translate.read_request(message, subjects.rm_of(message.subject)))
        except InvalidRequest:
            return []  # a dead letter

    async def _wait_for_backlog(self, queue: RequestQueue, rm_id: str) -> None:
        """While the core is far behind with this RM, its requests wait in REQUESTS and not in memory."""
        is_logged = False
        while self._backlog.is_full(rm_id) and self._halts.get(rm_id) is None:
            await self._update_backlog(rm_id)
            if self._backlog.is_full(rm_id):
                if not is_logged:
                    log.warning("requests wait in REQUESTS until the core has handled some", rm=rm_id)
                    is_logged = True
                queue.defer_all()
                await asyncio.sleep(limits.BACKLOG_CHECK_INTERVAL_S)

    async def _update_backlog(self, rm_id: str) -> None:
        """The newest commit has the position up to which the core has handled the inbox."""
        if await self._bus.last_message(subjects.INBOX.name, subjects.inbox(rm_id)) is None:
            self._backlog.drop(rm_id)
            return
        newest = await self._bus.last_message(subjects.LOG.name, subjects.log(rm_id))
        if newest is not None:
            try:
                self._backlog.record_handled(rm_id, log_pb2.Commit.FromString(newest.payload).inbox_seq)
            except DecodeError:
                return  # void; the next commit has it

    async def _commands_of(self, message: Message, rm_id: str, spans: ExitStack) -> list[Outgoing]:
        """The commands of a request. There are none when it is a dead letter, or when another process has forwarded
        it."""
        span = spans.enter_context(tracing.span("rmproxy.forward", message.headers, rm=rm_id, request_seq=message.seq))
        try:
            record = await self._accepted_sender(message, rm_id)
            payloads = await self._translate(message, record)
        except InvalidRequest as problem:
            if not await self._is_deleted(message):
                span.set(dead_letter=str(problem))
                await self._dead_letters.write(message, rm_id, str(problem), span.headers())
            return []
        # In a new life, sequences of REQUESTS may repeat after a loss of the stream.
        msg_id = f"{rm_id}.{record.life}.{message.seq}"
        return [
            Outgoing(subjects.inbox(rm_id), payload, {subjects.MSG_ID: f"{msg_id}.{part}", **span.headers()})
            for part, payload in enumerate(payloads)
        ]

    async def _is_deleted(self, message: Message) -> bool:
        """Another process, which holds the lease by now, has forwarded the request and deleted it. The sender may have
        deregistered since."""
        return await self._bus.message_at(subjects.REQUESTS.name, message.seq) is None

    async def _accepted_sender(self, message: Message, rm_id: str) -> RmRecord:
        """The record of an RM whose requests are accepted: it is registered, not halted, and the message is not one of
        a superseded registration. Raises InvalidRequest."""
        translate.check_rm_id(rm_id)
        if halt := self._halts.get(rm_id):
            raise InvalidRequest(halt.explanation())
        record = self._registry.get(rm_id)
        if record is None or record.state != "registered":  # the registry may be behind
            record, _ = await read_record(self._bus, rm_id)
        if record is None or record.state != "registered":
            raise InvalidRequest(f"rmID {shown(rm_id)} is not registered: request {subjects.register(rm_id)} first")
        check_registration(message, record)
        return record

    async def _translate(self, message: Message, record: RmRecord) -> list[bytes]:
        """The serialised commands. Raises InvalidRequest."""
        if translate.kind_of(message) != "configuration":
            if not self._groups.is_used:
                return translate.commands_of(message, record.rm_id, self._payload_limit)
            command = translate.read_request(message, record.rm_id)
            users = translate.users_without_groups(command)
            groups = await self._groups.resolve(record.rm_id, users) if users else translate.NO_GROUPS
            return translate.completed(command, record.rm_id, self._payload_limit, groups)
        update = translate.configuration_update(message, record.rm_id)
        configuration = await self._resolver.resolve_update(record, update)
        group = update.policyGroup or record.policy_group
        correlation = Correlation("configure", str(message.seq), config_source(update.config, configuration), group)
        return translate.configure(record.rm_id, message.seq, correlation.encode(), configuration, self._payload_limit)


def check_registration(message: Message, record: RmRecord) -> None:
    """Raises InvalidRequest when the message states a superseded registration, or none that can be read."""
    try:
        stated = stated_registration(message, record)
    except ValueError as problem:
        raise InvalidRequest(str(problem)) from None
    if stated < record.registration:
        raise InvalidRequest(
            f"registration {stated} of {shown(record.rm_id)} is superseded by registration {record.registration}"
        )
