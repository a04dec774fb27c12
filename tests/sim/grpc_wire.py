"""gRPC between processes of the simulation: calls of clients run the real RPC handlers of a front end.

A message takes time, and keeps its place behind those sent before it. When either process ends, its calls end: the
other side notices a little later, and what was on its way is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Protocol

import grpc

from .network import Network
from .process import Process

Metadata = tuple[tuple[str, str], ...]
Handler = Callable[[Any, Any], Awaitable[Any]]
NOTICED_S = 0.5  # at the latest: by the end of the connection, or a ping


class FrontEnd(Protocol):
    """What serves calls: `rpcs` by their paths, in this process."""

    process: Process
    rpcs: Mapping[str, Handler]


class Wire:
    """`listening`: front ends by address."""

    def __init__(self, network: Network, random: Random) -> None:
        self.listening: dict[str, FrontEnd] = {}
        self._network = network
        self._random = random

    def channel(self, address: str, _: object = None) -> Channel:
        """In place of `grpc.aio.insecure_channel`."""
        return Channel(self, address)

    def delay_s(self) -> float:
        return self._random.uniform(0.0002, 0.01)

    def later(self, delay_s: float, work: Callable[..., None], *args: Any) -> None:
        self._network.later(delay_s, work, *args)


class Channel:
    def __init__(self, wire: Wire, address: str) -> None:
        self._wire = wire
        self._address = address
        self._calls: list[Call] = []

    def unary_unary(self, path: str) -> Callable[..., Call]:
        def call(payload: bytes, metadata: Metadata = (), timeout: float = 0.0) -> Call:
            return self._call(path, metadata, payload, timeout)

        return call

    def stream_stream(self, path: str) -> Callable[..., Call]:
        def call(metadata: Metadata = ()) -> Call:
            return self._call(path, metadata)

        return call

    def _call(self, path: str, metadata: Metadata, payload: bytes | None = None, timeout_s: float = 0.0) -> Call:
        self._calls = [one for one in self._calls if not one.done]
        call = Call(self._wire, self._wire.listening.get(self._address), path, metadata, payload, timeout_s)
        self._calls.append(call)
        return call

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()


class Lane:
    """Messages in one direction, in order."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._free_at = 0.0
        self.arrived: asyncio.Queue[Any] = asyncio.Queue()
        self.cut = False

    def send(self, message: Any) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(now + self._wire.delay_s(), self._free_at + 1e-6)
        self._wire.later(self._free_at - now, self._arrive, message)

    def _arrive(self, message: Any) -> None:
        if not self.cut:
            self.take(message)

    def take(self, message: Any) -> None:
        self.arrived.put_nowait(message)


class Responses(Lane):
    """`began`: takes the initial metadata, which comes before all else."""

    def __init__(self, wire: Wire, began: Callable[[Metadata], None]) -> None:
        super().__init__(wire)
        self._began = began

    def take(self, message: Any) -> None:
        kind, given = message
        if kind == "initial":
            self._began(given)
        else:
            super().take(message)


class Call:
    """A call as its client sees it. Awaited, it is that of a unary RPC."""

    def __init__(
        self,
        wire: Wire,
        server: FrontEnd | None,
        path: str,
        metadata: Metadata,
        payload: bytes | None,
        timeout_s: float,
    ) -> None:
        self._wire = wire
        self._requests, self._responses = Lane(wire), Responses(wire, self._began)
        self._initial: asyncio.Future[Metadata] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[tuple[Any, str, Any]] = asyncio.get_running_loop().create_future()
        self._handling: asyncio.Task[Any] | None = None
        self._was_cancelled = False
        if server is None:
            wire.later(wire.delay_s(), self._end, grpc.StatusCode.UNAVAILABLE, "nothing listens there", ())
            return
        context = Context(self, metadata)
        self._handling = server.process.work(self._handle(server.rpcs[path], payload, context))
        self._handling.add_done_callback(lambda _: self._server_ended())
        if timeout_s:
            wire.later(timeout_s, self._end, grpc.StatusCode.DEADLINE_EXCEEDED, "too late", ())

    # The side of the server

    async def _handle(self, handler: Handler, payload: bytes | None, context: Context) -> None:
        await asyncio.sleep(self._wire.delay_s())
        try:
            response = await handler(payload, context)
        except Aborted as aborted:
            self._responses.send(("end", aborted.args))
            return
        if payload is not None:
            self._responses.send(("message", response))
        self._responses.send(("end", (grpc.StatusCode.OK, "", ())))

    def _server_ended(self) -> None:
        """Also when its process is killed."""
        end = (grpc.StatusCode.UNAVAILABLE, "the connection is gone", ())
        self._wire.later(NOTICED_S, self._end, *end)

    # The side of the client

    @property
    def done(self) -> bool:
        return self._ended.done()

    async def write(self, payload: bytes) -> None:
        if self.done:
            raise asyncio.InvalidStateError("the call has ended")
        self._requests.send(payload)

    async def read(self) -> Any:
        while True:
            if self._responses.arrived.empty() and self.done:
                code, details, trailing = self._ended.result()
                if code is grpc.StatusCode.OK:
                    return grpc.aio.EOF
                raise grpc.aio.AioRpcError(code, (), trailing, details)
            getting = asyncio.ensure_future(self._responses.arrived.get())
            try:
                await asyncio.wait((getting, self._ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not getting.done():
                    getting.cancel()
            if getting.done() and not getting.cancelled():
                kind, given = getting.result()
                if kind == "message":
                    return given
                self._end(*given)

    def _began(self, metadata: Metadata) -> None:
        if not self._initial.done():
            self._initial.set_result(metadata)

    async def initial_metadata(self) -> Metadata:
        await asyncio.wait((self._initial, self._ended), return_when=asyncio.FIRST_COMPLETED)
        if self._initial.done():
            return self._initial.result()
        code, details, trailing = self._ended.result()
        if code is grpc.StatusCode.OK:
            return ()
        raise grpc.aio.AioRpcError(code, (), trailing, details)

    def __await__(self) -> Any:
        return self._answer().__await__()

    async def _answer(self) -> Any:
        answer = await self.read()
        await self.read()
        return answer

    async def code(self) -> Any:
        return (await self._ended)[0]

    async def details(self) -> str:
        return (await self._ended)[1]

    async def trailing_metadata(self) -> Any:
        return (await self._ended)[2]

    def cancelled(self) -> bool:
        return self._was_cancelled

    def cancel(self) -> bool:
        """Also when the process of the client is killed: the kernel closes its connection."""
        if self.done:
            return False
        self._was_cancelled = True
        self._end(grpc.StatusCode.CANCELLED, "cancelled here", ())
        return True

    def _end(self, code: Any, details: str, trailing: Any) -> None:
        if self.done:
            return
        self._ended.set_result((code, details, trailing))
        self._responses.cut = self._was_cancelled
        if self._handling is not None and not self._handling.done():
            self._wire.later(self._wire.delay_s(), self._hang_up)

    def _hang_up(self) -> None:
        self._requests.cut = True
        if self._handling is not None:
            self._handling.cancel()


class Aborted(Exception):
    """`args`: code, details, trailing metadata."""


class Context:
    """`grpc.aio.ServicerContext` of a handler."""

    def __init__(self, call: Call, metadata: Metadata) -> None:
        self._call = call
        self._metadata = metadata

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def peer(self) -> str:
        return f"channel of {id(self._call)}"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def read(self) -> Any:
        return await self._call._requests.arrived.get()

    async def write(self, payload: bytes) -> None:
        self._call._responses.send(("message", payload))

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        self._call._responses.send(("initial", metadata))

    async def abort(self, code: Any, details: str = "", trailing: Any = ()) -> None:
        raise Aborted(code, details, trailing)
