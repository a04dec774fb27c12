"""Clients of `remuda.v1.Admin` and `Metrics`: over gRPC, and over NATS in protobuf or JSON. All of them take and give
messages."""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import MessageToJson, Parse
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_operations.operator_api.endpoints import CONTENT_TYPE, JSON
from remuda_operations.operator_api.methods import ACTING, SERVICES
from remuda_operations.operators import Operator

DESCRIPTORS = {method.name: method for service in SERVICES for method in service.methods}


def request_of(method: str, **fields: Any) -> Message:
    return GetMessageClass(DESCRIPTORS[method].input_type)(**fields)


def response_class(method: str) -> type[Message]:
    return GetMessageClass(DESCRIPTORS[method].output_type)


class GrpcOperator:
    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def call(self, method: str, **fields: Any) -> Any:
        """The call of a unary method, or of one that streams its responses."""
        descriptor = DESCRIPTORS[method]
        kind = self._channel.unary_stream if descriptor.server_streaming else self._channel.unary_unary
        rpc = kind(
            f"/{descriptor.containing_service.full_name}/{method}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=response_class(method).FromString,
        )
        return rpc(request_of(method, **fields))


class NatsOperator:
    """`operator`: stated by the client, where no keys are in use."""

    def __init__(self, bus: Bus, operator: Operator | None = None, as_json: bool = False) -> None:
        self._bus = bus
        self._operator = operator
        self._as_json = as_json

    async def call(self, method: str, **fields: Any) -> Any:
        subject = subjects.operator_method(DESCRIPTORS[method].containing_service.name.lower(), method)
        if method in ACTING and self._operator is not None:
            subject = subjects.operator_change(self._operator.token, self._operator.groups_token, method)
        request, response = request_of(method, **fields), response_class(method)
        if not self._as_json:
            reply = await self._bus.request(subject, request.SerializeToString(), timeout_s=60)
            return response.FromString(reply.payload)
        reply = await self._bus.request(subject, MessageToJson(request).encode(), {CONTENT_TYPE: JSON}, timeout_s=60)
        return Parse(reply.payload, response())
