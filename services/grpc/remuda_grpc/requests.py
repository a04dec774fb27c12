"""Stores the requests of one stream in REQUESTS, in the order in which the client sent them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from remuda_bus.bus import Bus, BusError, Headers
from remuda_bus.streams.ordered_append import append_in_order
from remuda_bus.streams.split import split
from remuda_grpc import limits, metrics
from remuda_grpc.session import CallbackStream
from remuda_grpc.status import failure_of, invalid
from remuda_proto.bounds import shown
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.requests import RequestMessages

Request = si.ApplicationRequest | si.AllocationRequest | si.NodeRequest
REQUESTS: dict[str, type[Request]] = {
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "node": si.NodeRequest,
}


def parse(kind: str, payload: bytes) -> Request:
    """Reads the request of this kind. Raises Failure INVALID_ARGUMENT."""
    request: Request = message_in(REQUESTS[kind], payload)
    return request


def message_in(kind: type[Any], payload: bytes) -> Any:
    """Reads the message of this type. Raises Failure INVALID_ARGUMENT."""
    try:
        return kind.FromString(payload)
    except DecodeError:
        raise invalid("", f"{kind.DESCRIPTOR.name}: the {len(payload)} bytes are not one") from None


@dataclass(frozen=True, slots=True)
class AcknowledgedRequests:
    """The numbers that a client gives its requests.

    `first` is the number of the first request in this stream, and `token` makes the numbers those of one client. A
    request that the client sends again on another stream is stored once. `acknowledge` tells it that so many more are
    durable.
    """

    token: str
    first: int
    acknowledge: Callable[[int], Awaitable[None]]


class RequestWriter:
    """Writes the requests of one stream into REQUESTS. `stored`: how many of them are durable."""

    def __init__(
        self,
        bus: Bus,
        rm_id: str,
        kind: str,
        callbacks: CallbackStream,
        trace: Headers,
        acknowledged: AcknowledgedRequests | None = None,
    ) -> None:
        """`callbacks`: names the registration that the requests belong to. `trace`: headers of the trace that they
        belong to. `acknowledged`: the client numbers its requests, and hears of each that is durable."""
        self._bus = bus
        self._kind = kind
        self._rm_id = rm_id
        self._callbacks = callbacks
        self._trace = trace
        self._acknowledged = acknowledged
        self._messages = RequestMessages(bus, rm_id, "grpc.forward")
        self._waiting: deque[list[bytes]] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()
        self._ended = False
        self.stored = 0

    async def add(self, payload: bytes) -> None:
        """Takes a request of the client. Waits while too many are not stored yet. Raises Failure INVALID_ARGUMENT."""
        parts = self._parts(payload)
        async with self._changed:
            await self._changed.wait_for(self._has_room)
            self._waiting.append(parts)
            self._bytes += sum(map(len, parts))
            self._changed.notify_all()

    async def end(self) -> None:
        """Says that no more requests will come: `run` returns when all are stored."""
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def run(self) -> None:
        """Stores what `add` takes. Raises Failure when the bus takes nothing for STORE_FOR_S."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    return
                taken = list(self._waiting)
            await self._store(taken)
            async with self._changed:
                for parts in taken:
                    self._waiting.popleft()
                    self._bytes -= sum(map(len, parts))
                self.stored += len(taken)
                metrics.STORED.labels(self._kind).inc(len(taken))
                self._changed.notify_all()
            if self._acknowledged is not None:
                await self._acknowledged.acknowledge(len(taken))

    async def _store(self, requests: list[list[bytes]]) -> None:
        with ExitStack() as spans:
            registration = self._callbacks.registration
            messages = [
                self._messages.message(self._kind, part, registration, spans, self._trace, self._number(index, place))
                for index, parts in enumerate(requests, self.stored)
                for place, part in enumerate(parts)
            ]
            try:
                await append_in_order(self._bus, messages, limits.STORE_FOR_S)
            except BusError as error:
                raise failure_of(error) from error

    def _parts(self, payload: bytes) -> list[bytes]:
        request = parse(self._kind, payload)
        if not request.rmID:
            request.rmID = self._rm_id
        elif request.rmID != self._rm_id:
            raise invalid("rmID", f"rmID {shown(request.rmID)}: this stream belongs to {self._rm_id!r}")
        elif len(payload) <= self._messages.limit:
            return [payload]
        try:
            return [part.SerializeToString() for part in split(request, self._messages.limit)]
        except ValueError as error:
            raise invalid("", str(error)) from None

    def _number(self, index: int, place: int) -> str:
        """`index`: of the request in this stream. `place`: of the message in its request."""
        numbers = self._acknowledged
        return "" if numbers is None else f"{self._kind}.{numbers.token}.{numbers.first + index}.{place}"

    def _has_room(self) -> bool:
        return len(self._waiting) < limits.UNSTORED_REQUESTS and self._bytes < limits.UNSTORED_BYTES
