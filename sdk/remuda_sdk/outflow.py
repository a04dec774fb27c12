"""Requests as they go out: durable when the call returns, in order, each once however often it had to be tried."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Iterable
from contextlib import ExitStack

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, Outgoing
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.ordered import append_in_order


class Outflow:
    def __init__(self, bus: Bus, rm_id: str, retry_for_s: float) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._retry_for_s = retry_for_s
        self.lane = asyncio.Lock()  # calls made at the same time stay in order and whole
        self.registration = 0  # the one that what goes out belongs to; 0: none is named
        self._numbers = itertools.count(1)
        self._nonce = secrets.token_hex(6)  # numbers start anew with every process, message IDs must not
        self.limit = bus.max_payload - HEADER_ROOM_BYTES

    async def publish(self, kind: str, payloads: Iterable[bytes]) -> int:
        """The stream sequence of the last message; 0 when there was none. Raises Full, Unanswered."""
        subject = subjects.request(self._rm_id, kind)
        async with self.lane:
            with ExitStack() as spans:
                messages = (self._message(subject, kind, payload, spans) for payload in payloads)
                return await append_in_order(self._bus, messages, self._retry_for_s)

    def _message(self, subject: str, kind: str, payload: bytes, spans: ExitStack) -> Outgoing:
        span = spans.enter_context(telemetry.span("rm.publish", rm=self._rm_id, kind=kind))
        msg_id = f"{self._rm_id}.{self._nonce}.{next(self._numbers)}"
        return Outgoing(subject, payload, {subjects.MSG_ID: msg_id, **self.belonging(), **span.headers()})

    def belonging(self) -> dict[str, str]:
        """The header that names the registration."""
        return {subjects.REGISTRATION: str(self.registration)} if self.registration else {}
