"""The state of an RM: queues, nodes, applications, allocations, usage, reservations, pending asks."""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

from remuda_bus.bus import Bus
from remuda_operations.operator_api.callers import Caller
from remuda_operations.operator_api.messages import filled
from remuda_operations.operator_api.pages import add_rows, ask, rm_of, set_head
from remuda_operations.queries import core
from remuda_proto.remuda.v1 import admin_pb2 as admin


class Headed(Protocol):
    @property
    def head(self) -> admin.StateHead: ...


R = TypeVar("R", bound=Headed)


async def list_queues(bus: Bus, _: Caller, request: admin.ListQueuesRequest) -> admin.ListQueuesResponse:
    answer = await ask(bus, "queues", request, draining=request.draining)
    response = admin.ListQueuesResponse()
    set_head(response.head, answer)
    await add_rows(response.partitions, answer["partitions"])
    await add_rows(response.queues, answer["queues"])
    return response


async def list_nodes(bus: Bus, _: Caller, request: admin.ListNodesRequest) -> admin.ListNodesResponse:
    return await _rows(admin.ListNodesResponse(), "nodes", bus, request)


async def list_applications(
    bus: Bus, _: Caller, request: admin.ListApplicationsRequest
) -> admin.ListApplicationsResponse:
    filters = {"application": request.application, "queue": request.queue}
    return await _rows(admin.ListApplicationsResponse(), "applications", bus, request, **filters)


async def list_rejections(bus: Bus, _: Caller, request: admin.ListRejectionsRequest) -> admin.ListRejectionsResponse:
    return await _rows(admin.ListRejectionsResponse(), "rejections", bus, request)


async def list_allocations(bus: Bus, _: Caller, request: admin.ListAllocationsRequest) -> admin.ListAllocationsResponse:
    filters = {"application": request.application, "node": request.node}
    return await _rows(admin.ListAllocationsResponse(), "allocations", bus, request, **filters)


async def list_usage(bus: Bus, _: Caller, request: admin.ListUsageRequest) -> admin.ListUsageResponse:
    return await _rows(admin.ListUsageResponse(), "usage", bus, request, user=request.user, group=request.group)


async def list_reservations(
    bus: Bus, _: Caller, request: admin.ListReservationsRequest
) -> admin.ListReservationsResponse:
    """Those of a page of nodes."""
    answer = await ask(bus, "nodes", request)
    response = admin.ListReservationsResponse()
    set_head(response.head, answer)
    reserved = (
        {"partition": row["partition"], "node": row["id"], **row["reserved_for"]}
        for row in answer["nodes"]
        if row.get("reserved_for")
    )
    await add_rows(response.reservations, reserved)
    return response


async def explain(bus: Bus, _: Caller, request: admin.ExplainRequest) -> admin.ExplainResponse:
    filters = {"application": request.application, "key": request.key, "queue": request.queue}
    return await _rows(admin.ExplainResponse(), "asks", bus, request, kind="explain", **filters)


async def what_if(bus: Bus, _: Caller, request: admin.WhatIfRequest) -> admin.WhatIfResponse:
    rm = rm_of(request)
    answer = json.loads(await core.answer_what_if(bus, rm, request.application, request.key, request.partition))
    response = filled(admin.WhatIfResponse(), answer)
    set_head(response.head, answer)
    return response


async def get_digest(bus: Bus, _: Caller, request: admin.GetDigestRequest) -> admin.GetDigestResponse:
    answer = await ask(bus, "digest", request)
    response = filled(admin.GetDigestResponse(), answer)
    set_head(response.head, answer)
    return response


async def _rows(response: R, rows: str, bus: Bus, request: Any, kind: str = "", **filters: Any) -> R:
    """The rows of a query into the field `rows`. `kind`: of the query, if it has another name."""
    answer = await ask(bus, kind or rows, request, **filters)
    set_head(response.head, answer)
    await add_rows(getattr(response, rows), answer[rows])
    return response
