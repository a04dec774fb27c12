"""REQUESTS -> INBOX: takes what RMs ask in the order it was asked, and hands it to the core as commands.

A request is deleted once its commands are durable in the inbox, and nothing overtakes a command that was refused. What
is forwarded twice, the core drops by its position in REQUESTS. That is why requests are read in order, not consumed:
two processes at work at once both forward everything, where a consumer would give each of them a part.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import structlog

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, BusError, ChangedPast, Message, Outgoing
from remuda_bus.halts import Halts
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.ordered import append_in_order
from remuda_rmproxy import limits, translate
from remuda_rmproxy.dead_letters import DeadLetters
from remuda_rmproxy.resolve import resolve_update
from remuda_rmproxy.session import Correlation, Rm, Sessions, config_source, registration_said
from remuda_rmproxy.translate import Unacceptable

log = structlog.get_logger()


class Forwarder:
    def __init__(self, bus: Bus, sessions: Sessions, dead_letters: DeadLetters, halts: Halts) -> None:
        self._bus = bus
        self._sessions = sessions
        self._dead_letters = dead_letters
        self._halts = halts
        self._limit = bus.max_payload - HEADER_ROOM_BYTES
        self._taken_seq = 0  # all requests up to here are in the inbox, in the batch, or are dead letters
        self._done_seq = 0  # and of these none is in the batch
        self._progress = asyncio.Event()
        self._batch: list[Outgoing] = []
        self._bytes = 0
        self._spans = ExitStack()

    async def run(self) -> None:
        """For ever. Where requests have been lost, nobody knows whose: every RM is halted."""
        while True:
            try:
                await self._forward_all()
            except ChangedPast as error:
                self._batch, self._bytes, self._taken_seq, self._done_seq = [], 0, 0, 0
                for rm in self._sessions.in_state("registered"):
                    await self._halts.halt(rm.rm_id, f"what RMs ask has been lost: {error}")

    async def _forward_all(self) -> None:
        reader = await self._bus.read(subjects.REQUESTS.name, "si.v1.rm.*.*")
        try:
            while True:
                for message in await reader.batch(limits.TAKE_MESSAGES):
                    await self._forward(message)
                    self._taken_seq = message.seq
                    if self._bytes > limits.HOLD_BYTES:
                        await self._flush()
                await self._flush()
        finally:
            self._spans.close()
            await reader.close()

    async def trim(self) -> None:
        """For ever: delete what has been forwarded."""
        trimmed_seq = 0
        while True:
            await asyncio.sleep(limits.TRIM_REQUESTS_EVERY_S)
            done_seq = self._done_seq
            if done_seq != trimmed_seq:
                try:
                    await self._bus.trim(subjects.REQUESTS.name, ">", done_seq + 1)
                    trimmed_seq = done_seq
                except BusError as error:
                    log.info("requests not trimmed this time", error=str(error))

    async def until_taken_over(self, rm_id: str) -> None:
        """Returns once everything that the RM has asked until now is in the inbox, and in REQUESTS no more: forwarded
        again in its next registration, or without one, it would not be accepted. Raises BusError."""
        newest = await self._bus.last(subjects.REQUESTS.name, subjects.request(rm_id, "*"))
        if newest is None:
            return
        while newest.seq > self._done_seq:
            await self._progress.wait()
        await self._bus.trim(subjects.REQUESTS.name, subjects.request(rm_id, "*"), newest.seq + 1)

    async def _forward(self, message: Message) -> None:
        rm_id = subjects.rm_of(message.subject)
        if translate.kind_of(message) == "configuration":
            await self._flush()  # what came before does not wait for the configuration service
        span = self._spans.enter_context(
            telemetry.span("rmproxy.forward", message.headers, rm=rm_id, request_seq=message.seq)
        )
        try:
            commands = await self._commands(message, rm_id)
        except Unacceptable as problem:
            if await self._is_taken_over(message):
                return
            span.set(dead_letter=str(problem))
            await self._dead_letters.write(message, rm_id, str(problem), span.headers())
            return
        rm = self._sessions.get(rm_id)
        # In another life, sequences may come again whose requests were lost.
        message_id = f"{rm_id}.{rm.life if rm is not None else 0}.{message.seq}"
        for part, command in enumerate(commands):
            headers = {subjects.MSG_ID: f"{message_id}.{part}", **span.headers()}
            self._batch.append(Outgoing(subjects.inbox(rm_id), command, headers))
            self._bytes += len(command)

    async def _is_taken_over(self, message: Message) -> bool:
        """By another process, which holds the lease by now. The registration it was asked in may have ended since."""
        return await self._bus.message(subjects.REQUESTS.name, message.seq) is None

    async def _commands(self, message: Message, rm_id: str) -> list[bytes]:
        translate.check_rm_id(rm_id)
        if halt := self._halts.get(rm_id):
            raise Unacceptable(halt.told())
        rm = await self._registered(rm_id)
        check_registration(message, rm)
        if translate.kind_of(message) != "configuration":
            return translate.commands_of(message, rm_id, self._limit)
        update = translate.configuration_update(message, rm_id)
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
        """Returns once the commands are durable, however long that takes: RMs were promised that they will be
        handled."""
        batch, self._batch, self._bytes = self._batch, [], 0
        await append_in_order(self._bus, batch)
        self._done_seq = self._taken_seq
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()
        self._spans.close()


def check_registration(message: Message, rm: Rm) -> None:
    """An instance of the RM that was superseded asks nothing any more. Raises Unacceptable."""
    try:
        said = registration_said(message, rm)
    except ValueError as problem:
        raise Unacceptable(str(problem)) from None
    if said < rm.registration:
        raise Unacceptable(f"registration {said} of {rm.rm_id!r} is superseded by registration {rm.registration}")
