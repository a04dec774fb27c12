"""One of the three streams of an RM over gRPC: opened again whenever it ends, and without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

import grpc

from remuda_bus.bus import Unanswered
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api.grpc_reopening import Metadata, OpenChannel, Receive, ReopenedStream, Report
from remuda_sdk.api.grpc_status import RpcError, error_of

SERVICE: Final = "/si.v1.Scheduler"
METHODS: Final[Mapping[str, tuple[str, Any]]] = {
    "application": ("UpdateApplication", si.ApplicationResponse),
    "allocation": ("UpdateAllocation", si.AllocationResponse),
    "node": ("UpdateNode", si.NodeResponse),
}
_OF_REQUESTS: Final = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)


class GrpcStream(ReopenedStream):
    """Requests are numbered, so that the front end acknowledges them (docs/grpc.md, Acknowledgements)."""

    def __init__(
        self, kind: str, open_channel: OpenChannel, metadata: Metadata, receive: Receive, report: Report
    ) -> None:
        method, self._response = METHODS[kind]
        super().__init__(f"{SERVICE}/{method}", open_channel, metadata, receive, report)
        self._kind = kind
        self._token = secrets.token_hex(8)
        self._first = 1  # the number of the first request that is not acknowledged
        self._requests: list[bytes] = []  # those that are not acknowledged
        self._written = 0  # of those, on this call
        self._changed = asyncio.Condition()
        self._refusal: Exception | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a request is under way."""
        return bool(self._requests)

    async def send(self, payloads: list[bytes], within_s: float) -> None:
        """Return when the scheduler has stored the requests. One call at a time. Raises ValueError when it refuses one,
        Full, Unanswered."""
        self._refusal = None
        self._requests = list(payloads)
        await self._notify()
        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: not self._requests or self._refusal is not None)
        except TimeoutError:
            raise Unanswered(f"no front end has stored the request within {within_s} s") from None
        finally:
            if self._requests:  # refused or given up: the next one has another number, and another call
                self._first += len(self._requests)
                self._requests = []
                if self._call is not None:
                    self._call.cancel()
        if self._refusal is not None:
            raise self._refusal

    def _more_metadata(self) -> Mapping[str, str]:
        self._written = 0
        return {"remuda-acknowledge": f"{self._token}:{self._first}"}

    async def _is_mended(self, error: RpcError) -> bool:
        if error.code() in _OF_REQUESTS and self._requests:
            self._refusal = error_of(error)
            await self._notify()
            return True
        return await super()._is_mended(error)

    async def _exchange(self, call: Any) -> None:
        writing = asyncio.get_running_loop().create_task(self._write(call))
        try:
            while (payload := await call.read()) is not grpc.aio.EOF:
                if payload:
                    await self._receive(self._kind, self._response.FromString(payload))
                else:
                    await self._acknowledged()
        finally:
            writing.cancel()
            await asyncio.wait([writing])

    async def _write(self, call: Any) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the reader gets the status
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: len(self._requests) > self._written)
                    payload = self._requests[self._written]
                    self._written += 1
                await call.write(payload)

    async def _acknowledged(self) -> None:
        if self._requests:
            self._requests.pop(0)
            self._first += 1
            self._written -= 1
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
