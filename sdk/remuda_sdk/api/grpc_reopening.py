"""A stream of an RM over gRPC that is opened again whenever it ends."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc

from remuda_bus.retry import pause
from remuda_sdk.api import limits
from remuda_sdk.api.grpc_status import TRANSIENT, RpcError, error_of, is_report_requested

OpenChannel = Callable[[Any], Awaitable[Any]]
Metadata = Callable[[], Mapping[str, str]]
Receive = Callable[[str, Any], Awaitable[None]]
Report = Callable[[Mapping[str, str]], Awaitable[None]]


class ReopenedStream:
    """`open_channel`: the channel of the RM; its argument is the one on which the stream has failed, if any.
    `metadata`: of the RM. `receive`: takes a callback of a kind; it waits while the RM is behind. `report`: registers
    the RM again, whose state the scheduler has lost; its argument is the metadata of the stream that has ended."""

    def __init__(
        self, method: str, open_channel: OpenChannel, metadata: Metadata, receive: Receive, report: Report
    ) -> None:
        self._method = method
        self._report = report
        self._open_channel = open_channel
        self._metadata = metadata
        self._receive = receive
        self._call: Any = None
        self._sent: Mapping[str, str] = {}

    async def run(self) -> None:
        """Exchange messages until an error that opening the stream again does not mend."""
        failed: Any = None
        while True:
            channel = await self._open_channel(failed)
            failed = None
            try:
                async with self._opened(channel) as call:
                    await self._exchange(call)
                    await _raise_status(call)
            except grpc.aio.AioRpcError as error:
                if not await self._is_mended(error):
                    raise error_of(error) from None
                failed = channel if error.code() in TRANSIENT else None
            await pause(limits.RECONNECT)

    @abstractmethod
    async def _exchange(self, call: Any) -> None:
        """Read until the stream ends."""

    def _more_metadata(self) -> Mapping[str, str]:
        return {}

    async def _is_mended(self, error: RpcError) -> bool:
        """Whether the stream may be opened again."""
        if error.code() in TRANSIENT:
            return True
        if is_report_requested(error):
            await self._report(self._sent)
            return True
        return error.code() is grpc.StatusCode.ABORTED and await self._was_open()

    async def _was_open(self) -> bool:
        try:
            return bool(await self._call.initial_metadata())
        except grpc.aio.AioRpcError:
            return False

    @asynccontextmanager
    async def _opened(self, channel: Any) -> AsyncIterator[Any]:
        metadata = self._sent = {**self._metadata(), **self._more_metadata()}
        call = self._call = channel.stream_stream(self._method)(metadata=tuple(metadata.items()))
        try:
            yield call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not call.cancelled() or (task is not None and task.cancelling()):
                raise  # not the call alone was cancelled
        finally:
            call.cancel()


async def _raise_status(call: Any) -> None:
    """Raise the error with which a call has ended, if it has."""
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        raise grpc.aio.AioRpcError(
            code, await call.initial_metadata(), await call.trailing_metadata(), await call.details()
        )
