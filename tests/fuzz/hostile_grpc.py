"""A hostile client of the gRPC front end: it calls every RPC of every service there, out of its seed."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

import remuda_proto.remuda.v1
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from remuda_proto.si.v1 import si_pb2 as si

from .messages import Maker

ANSWER_WITHIN_S = 15.0
READ_WITHIN_S = 0.3
POLLS_FOR_S = 2.0
LIBRARIES = ("grpc.",)  # packages of services whose handlers are gRPC's own
# Details of a call that the client itself could not send.
OWN_FAILURE = "Internal error from Core"
# An exception in a handler, or a request that a handler could not read.
DEFECTS = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS)
KEYS = (
    "remuda-rm",
    "remuda-registration",
    "remuda-log-seq",
    "remuda-log-fact",
    "remuda-log-hash",
    "traceparent",
    "odd",
)
ODD_VALUES = ("", "0", "1", "-1", "x", "9" * 400, "1.5", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "~" * 5_000)
CONFIGURATION = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}, {name: b}]}]}]"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def methods() -> list[MethodDescriptor]:
    """Every method of the services of this repository, of health and of reflection."""
    files = [si.DESCRIPTOR, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR]
    ours = pkgutil.iter_modules(remuda_proto.remuda.v1.__path__, "remuda_proto.remuda.v1.")
    files += [importlib.import_module(module.name).DESCRIPTOR for module in ours if module.name.endswith("_pb2")]
    return [
        method
        for file in files
        for _, service in sorted(file.services_by_name.items())
        for _, method in sorted(service.methods_by_name.items())
    ]


def peloton_methods() -> list[MethodDescriptor]:
    """Every RPC of Peloton's resource manager."""
    files = (resmgrsvc_pb2.DESCRIPTOR, respool_pb2.DESCRIPTOR, hosts_pb2.DESCRIPTOR)
    return [
        method
        for file in files
        for _, service in sorted(file.services_by_name.items())
        for _, method in sorted(service.methods_by_name.items())
    ]


class FuzzingClient:
    """`sent`: how often it called what. `told`: the status of each call. `defects`: statuses that no client may cause.
    `unanswered`: calls that did not end."""

    def __init__(self, port: int, rm_id: str, seed: str, pace_s: float) -> None:
        self.rm_id = rm_id
        self.random = Random(seed)
        self.maker = Maker(self.random, rm_id)
        self.sent: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.accepted: list[int] = []  # gRPC acknowledges no single request
        self.defects: list[str] = []
        self.unanswered: list[str] = []
        self._port = port
        self._pace_s = pace_s
        self._ends_within_s: float | None = None  # a client may give up, and the server may not

    async def run(self) -> None:
        """Call one method after the other, on a new connection now and then."""
        while True:
            if self.random.random() < 0.2:
                await self._send_no_http()
            options = (("grpc.use_local_subchannel_pool", 1),)  # a connection of its own
            async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}", options) as channel:
                await self._register(channel)
                called = self._methods()
                self.random.shuffle(called)
                for method in called:
                    await self._call(channel, method)
                    await asyncio.sleep(self.random.expovariate(1 / self._pace_s))

    def _methods(self) -> list[MethodDescriptor]:
        return methods()

    async def _register(self, channel: Any) -> None:
        """Sensibly, so that the streams are of an RM that is registered."""
        request = si.RegisterResourceManagerRequest(rmID=self.rm_id, config=CONFIGURATION)
        call = channel.unary_unary("/si.v1.Scheduler/RegisterResourceManager")
        await self._judge("si.v1.Scheduler/RegisterResourceManager", call(request.SerializeToString()))

    async def _call(self, channel: Any, method: MethodDescriptor) -> None:
        name = f"{method.containing_service.full_name}/{method.name}"
        self.sent[f"gRPC {method.name}"] += 1
        metadata = tuple(self._metadata())
        if method.client_streaming:
            kind = channel.stream_stream if method.server_streaming else channel.stream_unary
            call = kind(f"/{name}")(metadata=metadata)
            await self._write(call, method)
        else:
            kind = channel.unary_stream if method.server_streaming else channel.unary_unary
            call = kind(f"/{name}")(self._payload(method), metadata=metadata, timeout=self._ends_within_s)
        if method.server_streaming:
            await self._read(name, call)
        else:
            await self._judge(name, call)

    async def _write(self, call: Any, method: MethodDescriptor) -> None:
        """Some requests, and perhaps an end after them. The call may be over before."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                for _ in range(self.random.choice((0, 1, 1, 3, 20))):
                    await call.write(self._payload(method))
                if self.random.random() < 0.5:
                    await call.done_writing()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            pass
        except TimeoutError:
            self.unanswered.append(f"{method.full_name} reads no requests")

    async def _read(self, name: str, call: Any) -> None:
        """Some responses; then the client is gone, or has enough."""
        try:
            async with asyncio.timeout(READ_WITHIN_S * self.random.choice((0, 1, 1, 3))):
                while await call.read() is not grpc.aio.EOF:
                    pass
        except (TimeoutError, asyncio.CancelledError):
            if not call.cancel() and not call.done():
                self.unanswered.append(f"{name} cannot be cancelled")
            _raise_own_cancellation()
        except grpc.aio.AioRpcError:
            pass
        if call.done() and not call.cancelled():
            self._note(name, await call.code(), await call.details())

    async def _judge(self, name: str, call: Any) -> None:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                self._note(name, await call.code(), await call.details())
        except TimeoutError:
            call.cancel()
            self.unanswered.append(f"{name} did not end within {ANSWER_WITHIN_S:g} s")

    def _note(self, name: str, code: grpc.StatusCode, details: str | None) -> None:
        self.told[f"gRPC {code.name}"] += 1
        if code in DEFECTS and details != OWN_FAILURE and not name.startswith(LIBRARIES):
            self.defects.append(f"{name}: {code.name} {details}")

    def _payload(self, method: MethodDescriptor) -> bytes:
        message = GetMessageClass(method.input_type)()
        match self.random.randrange(5):
            case 0 | 1:
                return self.maker.sensible(message).SerializePartialToString()
            case 2:
                if not method.input_type.fields:
                    return b""
                return self.maker.wrong(
                    self.maker.sensible(message), self.random.randint(1, 3)
                ).SerializePartialToString()
            case 3:
                return self.maker.scrambled(self.maker.sensible(message).SerializePartialToString())
            case _:
                return self.random.randbytes(self.random.choice((0, 1, 10, 1_000, 100_000)))

    def _metadata(self) -> Iterator[tuple[str, str]]:
        if self.random.random() < 0.6:
            yield "remuda-rm", self.rm_id
        if self.random.random() < 0.3:
            yield self.random.choice(KEYS), self.random.choice(ODD_VALUES)

    async def _send_no_http(self) -> None:
        """Bytes that are no HTTP/2, or the beginning of it and then nothing."""
        self.sent["gRPC no HTTP"] += 1
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return
        try:
            writer.write(self.random.choice((b"", PREFACE)) + self.random.randbytes(self.random.choice((0, 30, 3_000))))
            async with asyncio.timeout(READ_WITHIN_S):
                await reader.read(100)
        except (TimeoutError, OSError):
            pass
        finally:
            writer.close()


class FuzzingPelotonClient(FuzzingClient):
    """A hostile client of Peloton's resource manager: any role, in protobuf and in JSON."""

    def __init__(self, port: int, name: str, seed: str, pace_s: float) -> None:
        super().__init__(port, name, seed, pace_s)
        self._ends_within_s = POLLS_FOR_S

    def _methods(self) -> list[MethodDescriptor]:
        return peloton_methods()

    async def _register(self, channel: Any) -> None:
        """Peloton's clients do not register."""

    def _metadata(self) -> Iterator[tuple[str, str]]:
        yield "rpc-service", "peloton-resmgr"
        if self.random.random() < 0.2:
            yield "rpc-encoding", "json"


def _raise_own_cancellation() -> None:
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
