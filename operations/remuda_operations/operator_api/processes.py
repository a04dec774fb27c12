"""Resource managers on record, and the processes of the system."""

from __future__ import annotations

from remuda_bus.bus import Bus
from remuda_operations.operator_api.callers import Caller
from remuda_operations.operator_api.messages import filled
from remuda_operations.operator_api.pages import add_rows
from remuda_operations.queries import cores, front_ends, records
from remuda_proto.remuda.v1 import admin_pb2 as admin


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
    for core in found:
        process = response.cores.add(instance=core.instance, error=core.error)
        for one in core.rms:
            behind_ms = round(1_000 * behind_s.get((core.instance, one.rm), 0))
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
