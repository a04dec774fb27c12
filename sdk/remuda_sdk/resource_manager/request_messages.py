"""Messages of an RM for the stream REQUESTS. Each has an ID of its own, so one that is sent again is stored once."""

from __future__ import annotations

import itertools
import secrets
from contextlib import ExitStack

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, Headers, Outgoing
from remuda_bus.limits import HEADER_ROOM_BYTES


class RequestMessages:
    """`limit`: the largest payload, in bytes. `span_name`: that of the spans of requests."""

    def __init__(self, bus: Bus, rm_id: str, span_name: str) -> None:
        self._rm_id = rm_id
        self._span_name = span_name
        self._numbers = itertools.count(1)
        self._nonce = secrets.token_hex(6)  # keeps message IDs unique: numbers start at 1 in every process
        self.limit = bus.max_payload - HEADER_ROOM_BYTES

    def message(
        self,
        kind: str,
        payload: bytes,
        registration: int,
        spans: ExitStack,
        trace: Headers | None = None,
        number: str = "",
    ) -> Outgoing:
        """A request of `kind`. `registration`: the number of the one that it belongs to; 0: none. `spans`: ends its
        span. `trace`: headers of the trace that it belongs to; None: the current one. `number`: identifies the request
        among all of its RM, for a sender that may send it again in another life; empty: it is a new one."""
        span = spans.enter_context(tracing.span(self._span_name, trace, rm=self._rm_id, kind=kind))
        headers = {
            **(trace or {}),
            **span.headers(),
            subjects.MSG_ID: f"{self._rm_id}.{number or f'{self._nonce}.{next(self._numbers)}'}",
        }
        if registration:
            headers[subjects.REGISTRATION] = str(registration)
        return Outgoing(subjects.request(self._rm_id, kind), payload, headers)
