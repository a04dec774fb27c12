"""The RPCs of the service Hosts: what a host manager tells."""

from __future__ import annotations

from typing import Any, Final

from remuda_proto.remuda.resmgr.v1 import hosts_pb2 as pb

from .. import commands
from ..limits import AMOUNT
from .rpcs import INVALID_ARGUMENT, Rpc, RpcError
from .tasks import task_of


def _set_capacity(request: pb.SetCapacityRequest) -> commands.Command:
    amounts = {name: getattr(request, name) for name in ("cpu", "gpu", "memory", "disk", "slack_cpu")}
    for name, amount in amounts.items():
        if not 0 <= amount <= AMOUNT:
            raise RpcError(INVALID_ARGUMENT, f"{name} is {amount}, expected a number from 0 to {AMOUNT:g}")
    slack_cpu = amounts.pop("slack_cpu")
    return commands.SetCapacity((request.cpu, request.gpu, request.memory, request.disk), slack_cpu)


def _recover(request: pb.RecoverRunsRequest) -> commands.Command:
    return commands.RecoverRuns(tuple(
        commands.RecoveredRun(task_of(one.task), one.pool_id, one.state, one.started_ms) for one in request.runs
    ))  # fmt: skip


RPCS: Final[dict[str, Rpc[Any, Any]]] = {
    "SetCapacity": Rpc(pb.SetCapacityRequest, _set_capacity, lambda _, __: pb.SetCapacityResponse()),
    "DrainHosts": Rpc(
        pb.DrainHostsRequest,
        lambda request: commands.DrainHosts(tuple(request.hostnames)),
        lambda _, answer: pb.DrainHostsResponse(empty_hostnames=answer),
    ),
    "RankHosts": Rpc(
        pb.RankHostsRequest,
        lambda request: commands.RankHosts(tuple(request.hostnames)),
        lambda _, __: pb.RankHostsResponse(),
    ),
    "RecoverRuns": Rpc(pb.RecoverRunsRequest, _recover, lambda _, __: pb.RecoverRunsResponse()),
}
