"""The methods that read: the state of an RM (queues, nodes, applications, allocations, usage, reservations, pending
asks), its story, the RMs on record and the processes of the system."""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Unanswered
from remuda_operations.operator_api.messages import Caller, add_rows, ask, decoded, encoded, filled, rm_of, set_head
from remuda_operations.queries import NoAnswer, core, cores, front_ends, records
from remuda_proto.remuda.v1 import admin_pb2 as admin


class Headed(Protocol):
    """A response with the commit that it shows, and the token of the next page."""

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


async def list_topology(bus: Bus, _: Caller, request: admin.ListTopologyRequest) -> admin.ListTopologyResponse:
    answer = await ask(bus, "topology", request)
    response = admin.ListTopologyResponse()
    set_head(response.head, answer)
    await add_rows(response.partitions, answer["partitions"])
    await add_rows(response.domains, answer["domains"])
    return response


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


async def list_windows(bus: Bus, _: Caller, request: admin.ListWindowsRequest) -> admin.ListWindowsResponse:
    return await _rows(admin.ListWindowsResponse(), "windows", bus, request)


async def list_reservations(
    bus: Bus, _: Caller, request: admin.ListReservationsRequest
) -> admin.ListReservationsResponse:
    """The reservations of a page of nodes, with what is promised."""
    answer = await ask(bus, "nodes", request)
    response = admin.ListReservationsResponse()
    set_head(response.head, answer)
    reserved = (
        {"partition": row["partition"], "node": row["id"], **row["reserved_for"], "promise": row.get("promise")}
        for row in answer["nodes"]
        if row.get("reserved_for")
    )
    await add_rows(response.reservations, reserved)
    return response


async def explain(bus: Bus, _: Caller, request: admin.ExplainRequest) -> admin.ExplainResponse:
    filters = {"application": request.application, "key": request.key, "queue": request.queue}
    return await _rows(admin.ExplainResponse(), "asks", bus, request, kind="explain", **filters)


async def list_forecasts(bus: Bus, _: Caller, request: admin.ListForecastsRequest) -> admin.ListForecastsResponse:
    filters = {"application": request.application, "key": request.key}
    return await _rows(admin.ListForecastsResponse(), "forecasts", bus, request, **filters)


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
    """Fill the field `rows` with the rows of a query. `kind`: the kind of the query, if its name is not that of the
    field."""
    answer = await ask(bus, kind or rows, request, **filters)
    set_head(response.head, answer)
    await add_rows(getattr(response, rows), answer[rows])
    return response


async def list_resource_managers(
    bus: Bus, _: Caller, __: admin.ListResourceManagersRequest
) -> admin.ListResourceManagersResponse:
    response = admin.ListResourceManagersResponse()
    halts = {halt["rm_id"]: halt for halt in await records.halts(bus)}
    rows = [{**row, "halt": halts.pop(row["rm_id"], None)} for row in await records.resource_managers(bus)]
    rows += [{"rm_id": rm_id, "halt": halt} for rm_id, halt in halts.items()]
    await add_rows(response.resource_managers, rows)
    return response


async def list_cores(bus: Bus, _: Caller, __: admin.ListCoresRequest) -> admin.ListCoresResponse:
    found = await cores.cores(bus)
    behind_s = cores.behind_s(found)
    response = admin.ListCoresResponse()
    for member in found:
        process = response.cores.add(instance=member.instance, error=member.error)
        for one in member.rms:
            behind_ms = round(1_000 * behind_s.get((member.instance, one.rm), 0))
            process.rms.add(rm=one.rm, leads=one.leads, log_seq=one.log_seq, at_ms=one.at_ms, behind_ms=behind_ms)
    return response


async def list_front_ends(bus: Bus, _: Caller, __: admin.ListFrontEndsRequest) -> admin.ListFrontEndsResponse:
    response = admin.ListFrontEndsResponse()
    for one in await front_ends.front_ends(bus):
        response.front_ends.add(instance=one.instance, host=one.host, port=one.port, rms=one.rms, error=one.error)
    return response


async def list_faults(bus: Bus, _: Caller, __: admin.ListFaultsRequest) -> admin.ListFaultsResponse:
    response = admin.ListFaultsResponse()
    for fault in await records.faults(bus):
        filled(response.faults.add(), fault)
    return response


async def get_story(bus: Bus, _: Caller, request: admin.GetStoryRequest) -> admin.GetStoryResponse:
    asked = {"id": request.id, "limit": request.limit}
    if request.page_token:
        asked["after"] = decoded(request.page_token)
    if request.since_ms:
        asked["since_ms"] = request.since_ms
    subject = subjects.story(rm_of(request))
    try:
        reply = await bus.request(subject, json.dumps(asked).encode(), timeout_s=limits.STORY_TIMEOUT_S)
    except Unanswered as error:
        raise NoAnswer(f"no event service answers ({error}); `remuda status` shows which services run") from error
    answer = json.loads(reply.payload)
    response = filled(admin.GetStoryResponse(), answer)
    if answer.get("next") is not None:
        response.next_page_token = encoded(answer["next"])
    if answer.get("resume") is not None:
        response.resume_token = encoded(answer["resume"])
    return response
