"""The RPCs of `remuda.v1.Admin` and `remuda.v1.Metrics`, from the methods of `remuda_operations.operator_api`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import DecodeError, Message

from remuda_bus.bus import Bus, BusError, HistoryChanged, Refused
from remuda_grpc import limits
from remuda_grpc.callers import Callers
from remuda_grpc.status import Failure, failure_of, invalid
from remuda_operations.operator_api.methods import Method
from remuda_operations.operators import certificate_names

Context = Any  # grpc.aio.ServicerContext; grpcio has no types

_CODES: Final = {
    400: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID"),
    403: (grpc.StatusCode.PERMISSION_DENIED, "FORBIDDEN"),
    404: (grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
    409: (grpc.StatusCode.ABORTED, "CONFLICT"),
    410: (grpc.StatusCode.OUT_OF_RANGE, "GONE"),
    413: (grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE"),
    422: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID"),
    429: (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY"),
    503: (grpc.StatusCode.UNAVAILABLE, "OUTAGE"),
}
# Refusals of a field begin with its name, or with that of the query: "rm is 'a b', expected ...", "message: expected
# ...", "uuid 'x': expected ...".
_FIELD: Final = re.compile(r"(?:\w+: )?([a-z]\w*)(?= is |: | ['\d])")


class OperatorRpcs:
    def __init__(self, bus: Bus, methods: Iterable[Method], callers: Callers) -> None:
        self._bus = bus
        self._callers = callers
        self._methods = list(methods)

    def handlers(self, service: str) -> dict[str, Any]:
        """Returns the handlers of a service by method, as `grpc.method_handlers_generic_handler` takes them."""
        return {method.name: self._handler(method) for method in self._methods if method.service == service}

    def _handler(self, method: Method) -> Any:
        if method.stream is not None:
            return grpc.unary_stream_rpc_method_handler(self._streaming(method), response_serializer=_serialized)
        return grpc.unary_unary_rpc_method_handler(self._unary(method), response_serializer=_serialized)

    def _unary(self, method: Method) -> Callable[[bytes, Context], Awaitable[Message]]:
        async def call(payload: bytes, context: Context) -> Message:
            try:
                caller = self._callers.of(certificate_names(context.auth_context()))
                return await method.call(self._bus, caller, _parsed(method, payload))
            except (Failure, BusError) as error:
                await _abort(context, error)

        return call

    def _streaming(self, method: Method) -> Callable[[bytes, Context], Awaitable[None]]:
        async def call(payload: bytes, context: Context) -> None:
            try:
                caller = self._callers.of(certificate_names(context.auth_context()))
                async with aclosing(method.follow(self._bus, caller, _parsed(method, payload))) as found:
                    async for response in found:
                        await _write(context, response)
            except (Failure, BusError, HistoryChanged) as error:
                await _abort(context, error)

        return call


def _parsed(method: Method, payload: bytes) -> Message:
    try:
        return method.request.FromString(payload)
    except DecodeError as error:
        raise invalid("", f"the request is no {method.request.DESCRIPTOR.name}: {error}") from error


async def _write(context: Context, response: Message) -> None:
    """Raises Failure when the client does not read."""
    try:
        async with asyncio.timeout(limits.READS_WITHIN_S):
            await context.write(response)
    except TimeoutError:
        reason = f"the client has read nothing for {limits.READS_WITHIN_S:g} s; resume behind the last response"
        raise Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "SLOW", reason) from None


async def _abort(context: Context, error: Failure | BusError | HistoryChanged) -> NoReturn:
    failure = _failure_of(error)
    await context.abort(failure.code, failure.message, failure.trailing_metadata())
    raise AssertionError


def _failure_of(error: Failure | BusError | HistoryChanged) -> Failure:
    if isinstance(error, Failure):
        return error
    if isinstance(error, HistoryChanged):
        return Failure(grpc.StatusCode.ABORTED, "HISTORY_CHANGED", f"the history has changed: {error}")
    if not isinstance(error, Refused):
        return failure_of(error)
    code, name = _CODES.get(error.code, (grpc.StatusCode.INTERNAL, "INTERNAL"))
    field = _FIELD.match(error.reason) if code is grpc.StatusCode.INVALID_ARGUMENT else None
    return Failure(code, name, error.reason, field[1] if field else "")


def _serialized(response: Message) -> bytes:
    return response.SerializeToString()
