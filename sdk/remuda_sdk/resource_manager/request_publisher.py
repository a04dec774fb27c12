"""Publishes the requests of an RM: durable when the call returns, in order, and stored once however often they are
sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack

from remuda_bus import subjects
from remuda_bus.bus import Bus, Headers, Outgoing
from remuda_bus.streams.ordered_append import append_in_order
from remuda_sdk.resource_manager.request_messages import RequestMessages

Traced = tuple[bytes, Headers]  # a payload, and the headers of the trace that it belongs to


class RequestPublisher:
    """Publishes to the stream REQUESTS. `lock`: keeps calls that run at the same time whole and in order.
    `registration`: the number of the registration that the requests belong to; 0: none. `limit`: the largest payload,
    in bytes."""

    def __init__(self, bus: Bus, rm_id: str, retry_for_s: float) -> None:
        self._bus = bus
        self._retry_for_s = retry_for_s
        self.lock = asyncio.Lock()
        self.registration = 0
        self._messages = RequestMessages(bus, rm_id, "rm.publish")
        self.limit = self._messages.limit

    async def publish(self, kind: str, payloads: Iterable[bytes | Traced]) -> int:
        """Publish the payloads; one without a trace begins its own. Returns the stream sequence of the last message;
        0: there was none. Raises Full, Unanswered."""
        async with self.lock:
            with ExitStack() as spans:
                messages = (self._message(kind, payload, spans) for payload in payloads)
                return await append_in_order(self._bus, messages, self._retry_for_s)

    def _message(self, kind: str, payload: bytes | Traced, spans: ExitStack) -> Outgoing:
        content, trace = (payload, None) if isinstance(payload, bytes) else payload
        return self._messages.message(kind, content, self.registration, spans, trace)

    def registration_header(self) -> dict[str, str]:
        """The header that names the registration."""
        return {subjects.REGISTRATION: str(self.registration)} if self.registration else {}
