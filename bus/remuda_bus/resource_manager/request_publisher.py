"""Publishes the requests of an RM: durable when the call returns, in order, and stored once however often they are
sent."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Iterable
from contextlib import ExitStack

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, Outgoing
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.streams.ordered_append import append_in_order


class RequestPublisher:
    """Publishes to the stream REQUESTS. `lock`: keeps calls that run at the same time whole and in order.
    `registration`: the number of the registration that the requests belong to; 0: none. `limit`: the largest payload,
    in bytes."""

    def __init__(self, bus: Bus, rm_id: str, retry_for_s: float) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._retry_for_s = retry_for_s
        self.lock = asyncio.Lock()
        self.registration = 0
        self._numbers = itertools.count(1)
        self._nonce = secrets.token_hex(6)  # keeps message IDs unique: numbers start at 1 in every process
        self.limit = bus.max_payload - HEADER_ROOM_BYTES

    async def publish(self, kind: str, payloads: Iterable[bytes]) -> int:
        """Publish the payloads. Returns the stream sequence of the last message; 0: there was none. Raises Full,
        Unanswered."""
        subject = subjects.request(self._rm_id, kind)
        async with self.lock:
            with ExitStack() as spans:
                messages = (self._message(subject, kind, payload, spans) for payload in payloads)
                return await append_in_order(self._bus, messages, self._retry_for_s)

    def _message(self, subject: str, kind: str, payload: bytes, spans: ExitStack) -> Outgoing:
        span = spans.enter_context(tracing.span("rm.publish", rm=self._rm_id, kind=kind))
        msg_id = f"{self._rm_id}.{self._nonce}.{next(self._numbers)}"
        return Outgoing(subject, payload, {subjects.MSG_ID: msg_id, **self.registration_header(), **span.headers()})

    def registration_header(self) -> dict[str, str]:
        """The header that names the registration."""
        return {subjects.REGISTRATION: str(self.registration)} if self.registration else {}
