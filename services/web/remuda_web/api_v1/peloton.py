"""Pools, tasks and gangs of Peloton's resource managers, below `/api/v1/peloton/{cluster}`: the queries of
`remuda_operations.queries.peloton`. They concern all pools, so a caller must be one who reads everything. Changes of
pools are made in the name of an operator."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from remuda_bus.bus import Bus, BusError
from remuda_bus.subjects import peloton_log
from remuda_operations.queries import peloton
from remuda_web import limits
from remuda_web.api_v1 import schemas
from remuda_web.api_v1.answers import tagged
from remuda_web.api_v1.fields import fields_of
from remuda_web.api_v1.parameters import only
from remuda_web.callers import caller_of
from remuda_web.problems import Problem, refused

Text = Annotated[str | None, Query(max_length=limits.FILTER_CHARACTERS)]
Id = Annotated[str, Query(alias="id", min_length=1, max_length=limits.FILTER_CHARACTERS)]
Place = Annotated[str | None, Query(pattern=r"^\d{1,18},\d{1,9}$", description="`next` of the page before: 12,3")]


def check_cluster(cluster: str) -> None:
    """Raises Problem."""
    try:
        peloton_log(cluster)
    except ValueError as error:
        raise Problem(400, str(error), {"field": "cluster"}) from None


def add_peloton(router: APIRouter, bus: Bus) -> None:
    async def asked(request: Request, cluster: str, kind: str, **given: Any) -> Response:
        if not caller_of(request).reads_all:
            raise Problem(403, "pools of Peloton are for callers that read everything")
        check_cluster(cluster)
        try:
            named = {name: one for name, one in given.items() if one is not None}
            return tagged(request, await peloton.ask(bus, cluster, kind, **named))
        except BusError as error:
            raise refused(error) from None

    async def pools(request: Request, cluster: str, path: Text = None, after: Text = None) -> Response:
        return await asked(request, cluster, "pools", path=path, after=after)

    async def explain(request: Request, cluster: str, sought: Id) -> Response:
        return await asked(request, cluster, "explain", id=sought)

    async def story(request: Request, cluster: str, sought: Id, after: Place = None) -> Response:
        place = None if after is None else [int(one) for one in after.split(",")]
        return await asked(request, cluster, "story", id=sought, after=place)

    async def preview(request: Request, cluster: str) -> Response:
        fields = await fields_of(request, has_text=True)
        return await asked(request, cluster, "preview", text=fields.get("text", ""))

    async def change(request: Request, cluster: str) -> Response:
        check_cluster(cluster)
        operator = caller_of(request).operator
        if operator is None:
            raise Problem(403, "this client is no operator with a name, which may change pools")
        try:
            answer = await peloton.change_pools(bus, cluster, await fields_of(request, has_text=True), operator)
        except BusError as error:
            raise refused(error) from None
        return Response(json.dumps(answer), media_type="application/json", headers={"Cache-Control": "no-store"})

    router.add_api_route(
        "/peloton/{cluster}/pools", change, methods=["POST"], response_class=Response, name="peloton-change-pools",
        summary="Change a pool, or apply a text that describes all pools", openapi_extra=schemas.of_pools_change(),
    )  # fmt: skip
    router.add_api_route(
        "/peloton/{cluster}/pools/preview", preview, methods=["POST"], response_class=Response,
        name="peloton-preview-pools", summary="What a text that describes all pools would change, and its effects",
        openapi_extra=schemas.of_pools_preview(),
    )  # fmt: skip
    for kind, handler, parameters, summary in (
        ("pools", pools, ("path", "after"),
         "Pools of a resource manager of Peloton, and those below `path`: a page by path"),
        ("explain", explain, ("id",), "Why a task or a gang waits, and the steps of its pool's entitlement"),
        ("story", story, ("id", "after"), "What the log says about a task, a run, a gang or a pool: a page of lines"),
    ):  # fmt: skip
        router.add_api_route(
            f"/peloton/{{cluster}}/{kind}", handler, methods=["GET"], summary=summary, response_class=Response,
            name=f"peloton-{kind}", openapi_extra={"responses": schemas.answers(schemas.OBJECT)},
            dependencies=only(parameters),
        )  # fmt: skip
