"""The methods as endpoints of a NATS micro service.

A request is a message in protobuf, or in JSON with the header `Content-Type: application/json`; the answer has the same
form. The subject of an acting method names the operator, as the NATS server or, without keys, the client states it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from remuda_bus import subjects
from remuda_bus.bus import Bus, Handler, Message, Refused, Reply, Unanswered, Unreadable
from remuda_bus.status_codes import FORBIDDEN, UNAVAILABLE
from remuda_operations.operator_api.messages import READER, Caller
from remuda_operations.operator_api.methods import Access, Method
from remuda_operations.operators import operator_of

CONTENT_TYPE: Final = "Content-Type"
JSON: Final = "application/json"


async def serve(bus: Bus, methods: Iterable[Method]) -> None:
    """Serve the unary methods, until the connection ends."""
    for method in methods:
        if method.stream is not None:
            continue
        subject = subjects.operator_method(method.room, method.name)
        if method.access is Access.ACT:
            acting = subjects.operator_change("*", "*", method.name)
            await bus.serve(acting, _answering(bus, method), method.name)
            await bus.serve(subject, _refuse, f"{method.name}-unnamed")
        else:
            await bus.serve(subject, _answering(bus, method), method.name)


def _answering(bus: Bus, method: Method) -> Handler:
    async def answer(message: Message) -> Reply:
        caller = _caller(message.subject) if method.access is Access.ACT else READER
        is_json = message.headers.get(CONTENT_TYPE, "").partition(";")[0].strip().lower() == JSON
        request = _parsed(method, message.payload, is_json)
        try:
            response = await method.call(bus, caller, request)
        except (Unanswered, Unreadable) as error:
            raise Refused(str(error), UNAVAILABLE) from error
        if is_json:
            text = MessageToJson(response, preserving_proto_field_name=True, indent=None)
            return Reply(text.encode(), {CONTENT_TYPE: JSON})
        return Reply(response.SerializeToString(), {})

    return answer


async def _refuse(message: Message) -> bytes:
    method = message.subject.rpartition(".")[2]
    named = subjects.operator_change("<operator>", "<groups>", method)
    raise Refused(f"{method} needs an operator: the key of one, or without keys the subject {named}", FORBIDDEN)


def _caller(subject: str) -> Caller:
    _, _, name, groups, _ = subject.split(".")
    try:
        return Caller(operator_of(name, groups), reads_all=True)
    except ValueError as error:
        raise Refused(str(error)) from error


def _parsed(method: Method, payload: bytes, is_json: bool) -> Proto:
    """Raises Refused."""
    name = method.request.DESCRIPTOR.name
    try:
        if is_json:
            return Parse(payload or b"{}", method.request())
        return method.request.FromString(payload)
    except (ParseError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the request is no {name}: {error}") from error
