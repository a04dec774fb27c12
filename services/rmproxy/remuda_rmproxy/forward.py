"""REQUESTS -> INBOX: takes what RMs ask in the order it was asked, and hands it to the core as commands.

A request is acknowledged once its commands are durable in the inbox. What is appended together is one atomic batch: a
message that is refused takes along all that follow it, so nothing overtakes and nothing is lost in the middle; the
batch is then tried again. Commands the core has already seen it drops by their position in REQUESTS, so twice does no
harm.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import structlog

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, Full, Message, Outgoing, Refused, Unanswered
from remuda_bus.log import HEADER_ROOM_BYTES
from remuda_rmproxy import translate
from remuda_rmproxy.dead_letters import DeadLetters
from remuda_rmproxy.resolve import resolve_update
from remuda_rmproxy.session import Correlation, Rm, Sessions, config_source
from remuda_rmproxy.translate import Unacceptable

log = structlog.get_logger()

BATCH_MESSAGES = 1_000  # the server's limit for an atomic batch
BATCH_BYTES = 4_000_000
APPEND_WITHIN_S = 10.0
RETRY_S = (0.05, 2.0)  # first pause, longest pause


class Forwarder:
    def __init__(self, bus: Bus, sessions: Sessions, dead_letters: DeadLetters) -> None:
        self._bus = bus
        self._sessions = sessions
        self._dead_letters = dead_letters
        self._limit = bus.max_payload - HEADER_ROOM_BYTES
        self._done_seq = 0  # all requests up to here are in the inbox or are dead letters
        self._batch: list[Outgoing] = []
        self._bytes = 0
        self._spans = ExitStack()

    async def run(self) -> None:
        consumer = await self._bus.consumer(subjects.REQUESTS.name, "si.v1.rm.*.*", subjects.RMPROXY_CONSUMER)
        try:
            while True:
                messages = await consumer.batch(BATCH_MESSAGES)
                for message in messages:
                    if message.seq > self._done_seq:  # else it was delivered again
                        await self._forward(message)
                        self._done_seq = message.seq
                await self._flush()
                await consumer.ack(messages)
        finally:
            self._spans.close()
            await consumer.close()

    async def _forward(self, message: Message) -> None:
        rm_id = subjects.rm_of(message.subject)
        span = self._spans.enter_context(
            telemetry.span("rmproxy.forward", message.headers, rm=rm_id, request_seq=message.seq)
        )
        try:
            commands = await self._commands(message, rm_id)
        except Unacceptable as problem:
            span.set(dead_letter=str(problem))
            await self._dead_letters.write(message, rm_id, str(problem), span.headers())
            return
        for part, command in enumerate(commands):
            if len(self._batch) >= BATCH_MESSAGES or self._bytes + len(command) > BATCH_BYTES:
                await self._append()
            headers = {subjects.MSG_ID: f"{rm_id}.{message.seq}.{part}", **span.headers()}
            self._batch.append(Outgoing(subjects.inbox(rm_id), command, headers))
            self._bytes += len(command)

    async def _commands(self, message: Message, rm_id: str) -> list[bytes]:
        translate.check_rm_id(rm_id)
        rm = await self._registered(rm_id)
        if translate.kind_of(message) != "configuration":
            return translate.commands_of(message, rm_id, self._limit)
        update = translate.configuration_update(message, rm_id)
        await self._flush()  # what came before does not wait for the configuration service
        configuration = await resolve_update(self._bus, rm, update)
        group = update.policyGroup or rm.policy_group
        correlation = Correlation("configure", str(message.seq), config_source(update.config, configuration), group)
        return translate.configure(rm_id, message.seq, correlation.encode(), configuration, self._limit)

    async def _registered(self, rm_id: str) -> Rm:
        """The record may be younger than what the watch has told: look before calling an RM unknown."""
        if not self._sessions.is_registered(rm_id):
            entry = await self._bus.get(subjects.RMS.name, subjects.key_of(rm_id))
            self._sessions.tell(rm_id, None if entry is None else entry.value)
        rm = self._sessions.get(rm_id)
        if rm is None or not self._sessions.is_registered(rm_id):
            raise Unacceptable(f"rmID {rm_id!r} is not registered: request {subjects.register(rm_id)} first")
        return rm

    async def _flush(self) -> None:
        if self._batch:
            await self._append()
        self._spans.close()

    async def _append(self) -> None:
        """Returns once the batch is durable, however long that takes: RMs were promised that it will be handled."""
        pause_s = RETRY_S[0]
        while True:
            try:
                await self._bus.append_all(self._batch, APPEND_WITHIN_S)
                break
            except Refused:
                # Some of it is there already: an append whose answer was lost, or another process before this one.
                await self._append_one_by_one()
                break
            except (Full, Unanswered) as error:
                log.warning(
                    "the inbox does not take requests, trying again", error=str(error), messages=len(self._batch)
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S[1])
        self._batch, self._bytes = [], 0

    async def _append_one_by_one(self) -> None:
        """The server drops what it has by the message ID."""
        while self._batch:
            first = self._batch[0]
            try:
                await self._bus.append(first.subject, first.payload, first.headers, timeout_s=APPEND_WITHIN_S)
            except (Full, Unanswered) as error:
                log.warning(
                    "the inbox does not take requests, trying again", error=str(error), messages=len(self._batch)
                )
                await asyncio.sleep(RETRY_S[1])
            else:
                del self._batch[0]
