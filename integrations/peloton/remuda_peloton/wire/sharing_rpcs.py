"""The RPCs of the service Hosts for engines of hosts that are shared with a resource manager of si.v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from remuda_proto.remuda.resmgr.v1 import hosts_pb2 as pb

from .. import commands, queries
from ..limits import AMOUNT, NAME_CHARACTERS
from ..rules.hosts import Host, SharedHosts
from ..rules.pools import path_of
from ..rules.resources import KINDS, as_vector
from ..state import State
from .host_rpcs import check_host, host_of
from .messages import codec
from .rpcs import INVALID_ARGUMENT, Rpc, RpcError
from .tasks import placement_message, placement_of


def _check(request: pb.ShareHostsRequest) -> None:
    name = request.name
    if not name or not name.isprintable() or len(name) > NAME_CHARACTERS:
        raise RpcError(INVALID_ARGUMENT, f"name is {name[:64]!r}, expected 1 to {NAME_CHARACTERS} printable characters")
    if len(request.capacity) != len(KINDS) or not all(0 <= one <= AMOUNT for one in request.capacity):
        expected = f"expected {', '.join(KINDS)}, each from 0 to {AMOUNT:g}"
        raise RpcError(INVALID_ARGUMENT, f"capacity is {list(request.capacity)[:8]}, {expected}")
    if not 0 <= request.slack_cpu <= AMOUNT:
        raise RpcError(INVALID_ARGUMENT, f"slack_cpu is {request.slack_cpu}, expected from 0 to {AMOUNT:g}")
    for one in request.hosts:
        check_host(one)


def _share(request: pb.ShareHostsRequest) -> commands.Command:
    engine = commands.SharedEngine(request.name, request.epoch)
    return commands.ShareHosts(
        engine, as_vector(request.capacity), request.slack_cpu, tuple(map(host_of, request.hosts)),
        tuple(request.removed_hostnames), request.takes_over,
    )  # fmt: skip


def _place(request: pb.PlaceSharedRequest) -> commands.Command:
    failed = tuple(commands.FailedPlacement(_pairs(one.tasks), one.reason) for one in request.failed)
    by = commands.SharedEngine(request.name, request.epoch, request.number)
    return commands.SetPlacements(tuple(map(placement_of, request.placements)), failed, by)


def _placed(_: Any, answer: tuple[tuple[Any, str], ...]) -> pb.PlaceSharedResponse:
    rows = [pb.RefusedPlacement(placement=placement_message(one), message=message) for one, message in answer]
    return pb.PlaceSharedResponse(refused=rows)


def _list(state: State, request: pb.ListSharedRequest) -> pb.ListSharedResponse:
    response = pb.ListSharedResponse(now_ms=state.now_ms)
    if (shared := state.shared.get(request.name)) is not None:
        response.shared.CopyFrom(_write_shared(shared))
    response.count = sum(host.shared_with == request.name for host in state.known_hosts.values())
    hosts = queries.shared_hosts_changed(state, request.name, request.since_ms)
    response.hosts.extend(map(_write_host, hosts))
    for run in queries.runs_of_engine(state, [host.hostname for host in hosts]):
        task = run.task
        response.runs.add(
            task_id=task.id, run_id=task.mesos_id, pool_id=run.pool_id, state=run.state, hostname=run.hostname,
            resource=task.resource, revocable=task.revocable, preemptible=task.preemptible, priority=task.priority,
            ports=run.ports,
        )  # fmt: skip
    response.has_pools = state.pools_changed_ms >= request.since_ms
    if response.has_pools:
        response.pools.extend(_leaves(state))
    return response


def _leaves(state: State) -> Iterator[pb.SharedPool]:
    configs = state.configs()
    for pool_id, pool in state.pools.items():
        if pool.is_leaf:
            yield pb.SharedPool(
                pool_id=pool_id, path=path_of(pool_id, configs), reservation=pool.config.amounts("reservation"),
                limit=pool.config.amounts("limit"),
            )  # fmt: skip


def _pairs(tasks: Any) -> tuple[tuple[str, str], ...]:
    return tuple((one.task_id, one.run_id) for one in tasks)


_write_host, _ = codec(Host)
_write_shared, _ = codec(SharedHosts)

RPCS: Final[dict[str, Rpc[Any, Any]]] = {
    "ShareHosts": Rpc(
        pb.ShareHostsRequest,
        _share,
        lambda _, answer: pb.ShareHostsResponse(refused=answer.refused, foreign_hostnames=answer.foreign),
        check=_check,
    ),
    "PlaceShared": Rpc(pb.PlaceSharedRequest, _place, _placed),
    "PreemptRuns": Rpc(
        pb.PreemptRunsRequest,
        lambda request: commands.PreemptRuns(_pairs(request.runs), request.maintenance),
        lambda _, __: pb.PreemptRunsResponse(),
    ),
    "ListShared": Rpc(pb.ListSharedRequest, question=_list),
}
