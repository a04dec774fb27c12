"""One of the three streams of an RM over gRPC: opened again whenever it ends, and without losing a request."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc

from remuda_bus.bus import Unanswered
from remuda_bus.retry import pause
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api import limits
from remuda_sdk.api.grpc_status import TRANSIENT, RpcError, error_of

SERVICE: Final = "/si.v1.Scheduler"
METHODS: Final[Mapping[str, tuple[str, Any]]] = {
    "application": ("UpdateApplication", si.ApplicationResponse),
    "allocation": ("UpdateAllocation", si.AllocationResponse),
    "node": ("UpdateNode", si.NodeResponse),
}


class GrpcStream:
    """`open_channel`: the channel of the RM, after `failed`, the one that a stream has failed on, was given up.
    `metadata`: of the RM. `receive`: takes a callback; it waits while the RM is behind."""

    def __init__(
        self,
        kind: str,
        open_channel: Callable[[Any], Awaitable[Any]],
        metadata: Callable[[], Mapping[str, str]],
        receive: Callable[[str, Any], Awaitable[None]],
    ) -> None:
        self._kind = kind
        self._open_channel = open_channel
        self._metadata = metadata
        self._receive = receive
        self._token = secrets.token_hex(8)
        self._first = 1  # the number of the first request that is not acknowledged
        self._requests: list[bytes] = []  # those that are not acknowledged
        self._written = 0  # of those, on this call
        self._changed = asyncio.Condition()
        self._refusal: Exception | None = None
        self._call: Any = None

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

    async def run(self) -> None:
        """Exchange requests and callbacks until an error that opening it again does not mend."""
        failed: Any = None
        while True:
            channel = await self._open_channel(failed)
            try:
                await self._exchange(channel)
                failed = None
            except grpc.aio.AioRpcError as error:
                await self._check(error)
                failed = channel if error.code() in TRANSIENT else None
            await pause(limits.RECONNECT)

    async def _check(self, error: RpcError) -> None:
        """Raise the error unless the stream may be opened again."""
        opened = bool(await self._initial_metadata())
        if error.code() in TRANSIENT or (error.code() is grpc.StatusCode.ABORTED and opened):
            return
        if error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED) and self._requests:
            self._refusal = error_of(error)
            await self._notify()
            return
        raise error_of(error)

    async def _initial_metadata(self) -> Any:
        try:
            return await self._call.initial_metadata()
        except grpc.aio.AioRpcError:
            return None

    async def _exchange(self, channel: Any) -> None:
        name, response = METHODS[self._kind]
        numbers = f"{self._token}:{self._first}"
        metadata = {**self._metadata(), "remuda-acknowledge": numbers}
        self._written = 0
        call = self._call = channel.stream_stream(f"{SERVICE}/{name}")(metadata=tuple(metadata.items()))
        writing = asyncio.get_running_loop().create_task(self._write(call))
        try:
            while (payload := await call.read()) is not grpc.aio.EOF:
                if payload:
                    await self._receive(self._kind, response.FromString(payload))
                else:
                    await self._acknowledged()
            await _raise_status(call)
        except asyncio.CancelledError:
            if not call.cancelled():
                raise
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
        finally:
            call.cancel()
            writing.cancel()
            await asyncio.wait([writing])

    async def _write(self, call: Any) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: len(self._requests) > self._written)
                payload = self._requests[self._written]
                self._written += 1
            try:
                await call.write(payload)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the reader gets the status

    async def _acknowledged(self) -> None:
        if self._requests:
            self._requests.pop(0)
            self._first += 1
            self._written -= 1
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _raise_status(call: Any) -> None:
    """Raise the error with which a call has ended, if it has."""
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        raise grpc.aio.AioRpcError(
            code, await call.initial_metadata(), await call.trailing_metadata(), await call.details()
        )
