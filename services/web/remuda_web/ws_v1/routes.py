"""The routes of `/ws/v1`. Paths, statuses and headers are those of the reference, also for errors."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from remuda_bus.status_codes import FORBIDDEN
from remuda_web import problems
from remuda_web.bodies import NoText, TooLarge, body_of
from remuda_web.callers import sender_of
from remuda_web.seen import source_for
from remuda_web.source import Event, Source, Unreadable
from remuda_web.streams import Streams
from remuda_web.ws_v1 import configuration, events, metrics
from remuda_web.ws_v1.answers import Answers, Failure
from remuda_web.ws_v1.go_json import encode
from remuda_web.ws_v1.history import History
from remuda_web.ws_v1.names import EncodedSlashes, name_in, path_of
from remuda_web.ws_v1.usage import GROUP, USER

log = structlog.get_logger()
PREFIX: Final = "/ws/v1"
JSON_TYPE: Final = "application/json; charset=UTF-8"
YAML_TYPE: Final = "application/x-yaml; charset=UTF-8"
CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Credentials": "true",
    "Access-Control-Allow-Methods": "GET,POST,HEAD,OPTIONS",
    "Access-Control-Allow-Headers": "X-Requested-With,Content-Type,Accept,Origin",
}
PARTITION: Final = "/partition/{partition}"
# Paths of versions up to 0.12, which know the default partition alone, and what has taken their place.
MOVED: Final = {
    "/queues": "/partition/default/queues",
    "/nodes": "/partition/default/nodes",
    "/apps": "/partition/default/applications/active",
    "/apps/completed": "/partition/default/applications/completed",
    "/nodes/utilization": "/scheduler/node-utilization",
}


def _documented(*kinds: str, status: int = 200) -> dict[int | str, Any]:
    """Answers of a path for the OpenAPI document. Errors are those of the reference, as JSON or text."""
    content: dict[str, Any] = {kind.partition(";")[0]: {} for kind in (*kinds, "application/json", "text/plain")}
    return {
        status: {"description": "The answer", "content": content},
        "default": {"description": "An error", "content": content},
    }


def answer(content: bytes, status: int = 200, content_type: str = JSON_TYPE) -> Response:
    return Response(content, status, {**CORS, "Content-Type": content_type})


def failure(status: int, message: str) -> Response:
    return answer(encode({"status_code": status, "message": message, "description": message}), status)


def parameters_of(path: str) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    found = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    return {"parameters": found} if found else {}


def add_routes(
    app: FastAPI, answers: Answers, history: History, source: Source, streams: Streams, log_level: str
) -> None:
    router = APIRouter(prefix=PREFIX, tags=["ws/v1"])

    def get(path: str, summary: str, found: Callable[..., Awaitable[object]], *queried: str) -> None:
        """`found`: of the names in the path, and of the parameters of the query that are `queried`."""
        names = re.findall(r"{(\w+)}", path)

        async def handler(request: Request) -> Response:
            given = (*(name_in(request, one) for one in names), *map(request.query_params.get, queried))
            return answer(encode(await found(_for(request), *given)))

        handler.__name__ = re.sub(r"\W+", "_", path).strip("_")
        router.add_api_route(
            path, handler, methods=["GET"], summary=summary, response_class=Response, responses=_documented(),
            openapi_extra=parameters_of(path),
        )  # fmt: skip

    def _for(request: Request) -> Answers:
        return answers.from_source(source_for(request, source))

    async def kept(value: object) -> object:
        return value

    get("/clusters", "Clusters, one for each partition", Answers.clusters)
    get("/partitions", "Partitions of all RMs", Answers.partitions)
    get(f"{PARTITION}/queues", "The tree of queues", Answers.queues)
    get(f"{PARTITION}/queue/{{queue}}", "One queue; with `?subtree`, those below it, too", _queue, "subtree")
    get(f"{PARTITION}/nodes", "Nodes", Answers.nodes)
    get(f"{PARTITION}/node/{{node}}", "One node", Answers.node)
    get(f"{PARTITION}/queue/{{queue}}/applications", "Applications of a queue", Answers.applications)
    get(
        f"{PARTITION}/queue/{{queue}}/applications/{{state}}", "Applications of a queue that are active or completed",
        Answers.applications_of_queue, "status",
    )  # fmt: skip
    get(
        f"{PARTITION}/queue/{{queue}}/application/{{application}}", "One application of a queue",
        lambda found, partition, queue, name: found.application(partition, name, queue),
    )  # fmt: skip
    get(
        f"{PARTITION}/applications/{{state}}", "Applications that are active, completed or rejected",
        Answers.applications_by_state, "status",
    )  # fmt: skip
    get(f"{PARTITION}/application/{{application}}", "One application, also an ended one", Answers.application)
    get(f"{PARTITION}/placementrules", "Placement rules", Answers.placement_rules)
    for kind in (USER, GROUP):
        every, one = partial(_usage, kind), partial(_usage_of, kind)
        get(f"{PARTITION}/usage/{kind}s", f"Usage of every {kind}", every)
        get(f"{PARTITION}/usage/{kind}/{{name}}", f"Usage of one {kind}", one)
    get("/history/apps", "Running applications in the last day", lambda _: kept(history.applications()))
    get("/history/containers", "Allocations in the last day", lambda _: kept(history.containers()))
    get("/scheduler/healthcheck", "Checks of the data", lambda _: answers.health())
    get("/scheduler/node-utilization", "Nodes by use of the dominant resource", Answers.utilization)
    get("/scheduler/node-utilizations", "Nodes by use of each resource", Answers.utilizations)
    get("/events/batch", "Event records", Answers.events, "count", "start")

    @router.get("/fullstatedump", summary="Everything there is", responses=_documented())
    async def full_state(request: Request) -> Response:
        return answer(
            encode(await _for(request).full_state(time.time_ns(), log_level, request.query_params.get("rm")), indent=2)
        )

    @router.get(
        "/config",
        summary="The configuration, as YAML, or as JSON for `Accept: application/json`",
        responses=_documented(YAML_TYPE),
    )
    async def configured(request: Request) -> Response:
        text = await _for(request).configuration_text(request.query_params.get("rm"))
        if configuration.wants_json(request.headers):
            return answer(encode(configuration.as_json(text)).rstrip(b"\n"))
        return answer(configuration.as_yaml(text), content_type=YAML_TYPE)

    @router.get("/metrics", summary="Metrics for Prometheus", responses=_documented(metrics.CONTENT_TYPE))
    async def measured(request: Request) -> Response:
        return Response(await _for(request).metrics(), headers={"Content-Type": metrics.CONTENT_TYPE})

    @router.post("/validate-conf", summary="Check a queues.yaml", responses=_documented())
    async def validate(request: Request) -> Response:
        try:
            text = await body_of(request)
        except TooLarge as error:
            raise Failure(413, str(error)) from None
        except NoText as error:
            return answer(encode({"allowed": False, "reason": str(error)}))
        return answer(encode(await answers.validate(text)))

    # Its path since 1.5.
    app.add_api_route("/debug/fullstatedump", full_state, methods=["GET"], include_in_schema=False)

    def moved(to: str) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            query = f"?{request.url.query}" if request.url.query else ""
            return Response(b"", 301, {**CORS, "Location": f"{PREFIX}{to}{query}"})

        return handler

    for old, new in MOVED.items():
        router.add_api_route(old, moved(new), methods=["GET"], include_in_schema=False)

    # Accepted without effect: the log holds every state.
    @router.put("/periodicstatedump/{switch:path}", include_in_schema=False)
    async def periodic_dump(switch: str) -> Response:
        return answer(b"")

    followers = _EventStream(source, streams)
    router.add_api_route(
        "/events/stream", followers.answer, methods=["GET"], summary="Event records as they come, one JSON a line",
        response_class=Response,
    )  # fmt: skip
    app.include_router(router)
    app.add_middleware(EncodedSlashes, prefix=PREFIX)
    app.add_exception_handler(Failure, _failed)
    app.add_exception_handler(Unreadable, _unreadable)
    app.add_exception_handler(KeyError, _of_another_version)
    app.add_exception_handler(
        HTTPException, _Unrouted([route for route in router.routes if isinstance(route, APIRoute)])
    )


async def _queue(answers: Answers, partition: str, queue: str, subtree: str | None) -> object:
    return await answers.queue(partition, queue, subtree is not None)


async def _usage(kind: str, answers: Answers, partition: str) -> object:
    return await answers.usage(partition, kind)


async def _usage_of(kind: str, answers: Answers, partition: str, name: str) -> object:
    return await answers.usage_of(partition, kind, name)


class _EventStream:
    """Followers of the event history."""

    def __init__(self, source: Source, streams: Streams) -> None:
        self._source = source
        self._streams = streams

    async def answer(self, request: Request) -> Response:
        try:
            count = request.query_params.get("count")
            most, _ = events.asked_for(count, None)
        except events.IllegalNumber as error:
            raise Failure(400, str(error)) from None
        # A named encoding keeps the compression away: it would hold lines back.
        headers = {**CORS, "Content-Type": JSON_TYPE, "Content-Encoding": "identity"}
        lines = self._lines(source_for(request, self._source), most if count else 0)
        full = Failure(503, "Too many streaming connections")
        return self._streams.plain(lines, sender_of(request), full, headers)

    async def _lines(self, source: Source, count: int) -> AsyncGenerator[bytes]:
        async with aclosing(source.new_events(count)) as groups:
            async for group in groups:
                yield group.encoded(_line)


def _line(event: Event) -> bytes:
    return encode(events.record(event.record))


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, Failure)
    return failure(error.status, error.message)


async def _unreadable(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unreadable)
    if not request.url.path.startswith(PREFIX):
        return problems.answer(error.code, str(error))
    return failure(error.code if error.code == FORBIDDEN else 503, str(error))


async def _of_another_version(request: Request, error: Exception) -> Response:
    """A row lacks a field: the core that answers is older than this web service, or has another fault."""
    log.warning("an answer lacks a field", path=request.url.path, field=str(error))
    reason = f"the answer of a core has no {error}: is it older than this web service?"
    if request.url.path.startswith(PREFIX):
        return failure(503, reason)
    return problems.answer(503, reason)


class _Unrouted:
    """Answers requests that no route takes as the router of the reference does."""

    def __init__(self, routes: Sequence[APIRoute]) -> None:
        self._routes = routes

    async def __call__(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if not request.url.path.lower().startswith(PREFIX) and request.url.path != "/":
            return problems.answer(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
        plain = {"X-Content-Type-Options": "nosniff"}
        if error.status_code == 405:
            allowed = ", ".join(sorted({*(error.headers or {}).get("Allow", "").split(", "), "OPTIONS"}))
            if request.method == "OPTIONS":
                return Response(b"", 200, {"Allow": allowed})
            return PlainTextResponse("Method Not Allowed\n", 405, {**plain, "Allow": allowed})
        if error.status_code == 404:
            known = self._known_path(request.scope["path"])
            if known is not None and request.method == "GET":
                page = f'<a href="{known}">Moved Permanently</a>.\n\n'
                return Response(page, 301, {"Location": known, "Content-Type": "text/html; charset=utf-8"})
            return PlainTextResponse("404 page not found\n", 404, plain)
        return PlainTextResponse(f"{error.detail}\n", error.status_code)

    def _known_path(self, path: str) -> str | None:
        """The path of a route that was meant, escaped: other case, doubled slashes, a slash at the end."""
        parts = [part for part in path.split("/") if part]
        for route in self._routes:
            wanted = route.path.strip("/").split("/")
            ends_early = path.endswith("/") and len(parts) == len(wanted) - 1 and wanted[-1].startswith("{")
            if not ends_early and len(parts) != len(wanted):
                continue
            pairs = list(zip(parts, wanted, strict=False))
            if all(there.startswith("{") or given.lower() == there for given, there in pairs):
                meant = "/" + "/".join(given if there.startswith("{") else there for given, there in pairs)
                return path_of(meant) if meant != path else None
        return None
