"""The methods of `remuda.v1.Admin` and `Metrics` as routes, by the table in `paths`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from fastapi import APIRouter, Request
from google.protobuf.message import Message
from starlette.responses import Response

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged, Unanswered
from remuda_operations.operator_api.methods import Access, Method, methods
from remuda_proto.bounds import shown
from remuda_web.api_v1 import models, schemas
from remuda_web.api_v1.answers import tagged
from remuda_web.api_v1.fields import fields_of
from remuda_web.api_v1.paths import PATHS
from remuda_web.callers import caller_of, sender_of
from remuda_web.problems import Problem, refused
from remuda_web.streams import Streams, event

JSON: Final = "application/json"
_IN_PATH: Final = re.compile(r"{(\w+)}")
Handler = Callable[[Request], Awaitable[Response]]


def add_methods(router: APIRouter, bus: Bus, streams: Streams) -> None:
    known = {method.name: method for method in methods()}
    for path in PATHS:
        method = known[path.method]
        handler = _stream(bus, method, streams) if method.stream is not None else _answer(bus, method)
        router.add_api_route(
            path.path, handler, methods=[path.verb], name=path.method, response_class=Response,
            operation_id=f"{path.method}{'' if path.verb == 'GET' else 'Post'}",
            summary=" ".join(re.findall("[A-Z][a-z]*", path.method)), tags=[method.service],
            openapi_extra=schemas.of_method(method, path.verb, _IN_PATH.findall(path.path)),
        )  # fmt: skip


def _answer(bus: Bus, method: Method) -> Handler:
    async def handle(request: Request) -> Response:
        message = await _message(method, request)
        try:
            response: Any = await method.call(bus, caller_of(request), message)
        except BusError as error:
            raise await _problem(bus, message, error) from None
        answer = models.as_json(response)
        if method.access is Access.ACT:
            if answer.get("problems"):
                raise Problem(422, "the text has problems, nothing has changed", {"problems": answer["problems"]})
            return Response(json.dumps(answer), media_type=JSON, headers={"Cache-Control": "no-store"})
        return tagged(request, answer)

    return handle


async def _problem(bus: Bus, message: Any, error: BusError) -> Problem:
    """No core answers for an RM that is not there."""
    rm = getattr(message, "rm", "")
    if isinstance(error, Unanswered) and rm and await bus.get(subjects.RMS.name, subjects.key_of(rm)) is None:
        return Problem(404, f"rm is {shown(rm)}, expected a registered resource manager", {"field": "rm"})
    return refused(error)


def _stream(bus: Bus, method: Method, streams: Streams) -> Handler:
    async def handle(request: Request) -> Response:
        resumed = request.headers.get("last-event-id", "")
        message: Any = await _message(method, request)
        if resumed and "after" in method.request.DESCRIPTOR.fields_by_name:
            message.after = models.request_of(method.request, {"after": resumed}).after  # type: ignore[attr-defined]
            message.from_oldest = False
        try:
            found = method.follow(bus, caller_of(request), message)
        except BusError as error:
            raise refused(error) from None
        return streams.answer(_events(found), sender_of(request))

    return handle


async def _events(responses: AsyncGenerator[Message]) -> AsyncGenerator[bytes]:
    """An error ends the stream: its event is a problem."""
    async with aclosing(responses):
        try:
            async for response in responses:
                told = models.as_json(response)
                yield event(type(response).__name__, told, told.get("position"))
        except BusError as error:
            problem = refused(error)
            yield event("problem", {"status": problem.status, "detail": problem.detail, **problem.more})
        except HistoryChanged as error:
            yield event("problem", {"status": 409, "detail": f"the history has changed: {error}"})


async def _message(method: Method, request: Request) -> Message:
    """The request from path, query and body. Raises Problem."""
    values = {**_from_query(method, request), **await _from_body(method, request)}
    for name, value in request.path_params.items():
        if values.setdefault(name, value) != value:
            raise Problem(400, f"{name}: expected that of the path", {"field": name, "expected": value})
    return models.request_of(method.request, values)


def _from_query(method: Method, request: Request) -> dict[str, Any]:
    """Fields by name. Those of `page` are there without it."""
    fields: Mapping[str, Any] = method.request.DESCRIPTOR.fields_by_name
    values: dict[str, Any] = {}
    page: dict[str, Any] = {}
    for name in request.query_params:
        field = fields.get(name)
        given = request.query_params.getlist(name)
        value = given if field is not None and field.is_repeated else given[-1]
        if field is None and "page" in fields and name in fields["page"].message_type.fields_by_name:
            page[name] = value
        else:
            values[name] = value
    return {**values, "page": page} if page else values


async def _from_body(method: Method, request: Request) -> dict[str, Any]:
    has_text = "text" in method.request.DESCRIPTOR.fields_by_name
    return {} if request.method == "GET" else await fields_of(request, has_text=has_text)
