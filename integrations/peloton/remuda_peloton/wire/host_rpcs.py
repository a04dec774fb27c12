"""The RPCs of the service Hosts: those of a host manager, and those of an engine of hosts that are shared with a
resource manager of si.v1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from remuda_proto.remuda.resmgr.v1 import hosts_pb2 as pb

from .. import commands, queries
from ..limits import AMOUNT, NAME_CHARACTERS, PORTS_END
from ..rules.hosts import Host, SharedHosts
from ..rules.pools import path_of
from ..rules.ranges import Range, is_in, overlap
from ..rules.resources import KINDS, as_vector
from ..state import State
from .messages import codec
from .rpcs import INVALID_ARGUMENT, Rpc, RpcError
from .tasks import placement_message, placement_of, task_of


def _check_capacity(request: pb.SetCapacityRequest) -> None:
    for name in ("cpu", "gpu", "memory", "disk", "slack_cpu"):
        amount = getattr(request, name)
        if not 0 <= amount <= AMOUNT:
            raise RpcError(INVALID_ARGUMENT, f"{name} is {amount}, expected a number from 0 to {AMOUNT:g}")


def _set_capacity(request: pb.SetCapacityRequest) -> commands.Command:
    return commands.SetCapacity((request.cpu, request.gpu, request.memory, request.disk), request.slack_cpu)


def _check_hosts(request: pb.PutHostsRequest) -> None:
    for one in request.hosts:
        check_host(one)


def _put_hosts(request: pb.PutHostsRequest) -> commands.Command:
    return commands.PutHosts(tuple(map(host_of, request.hosts)))


def host_of(message: Any) -> Host:
    host: Host = _read_host(message)
    return host


def check_host(message: Any) -> None:
    """Check the description of a host. Raises RpcError."""
    if message.shared_with:
        raise RpcError(
            INVALID_ARGUMENT, f"shared_with is {message.shared_with[:64]!r}, expected nothing: see ShareHosts"
        )
    name = message.hostname
    if not name or not name.isprintable() or len(name) > NAME_CHARACTERS:
        expected = f"expected 1 to {NAME_CHARACTERS} printable characters"
        raise RpcError(INVALID_ARGUMENT, f"hostname is {name[:64]!r}, {expected}")
    if len(message.capacity) != len(KINDS):
        raise RpcError(
            INVALID_ARGUMENT, f"{name}: capacity has {len(message.capacity)} amounts, expected {', '.join(KINDS)}"
        )
    for amount in (*message.capacity, message.slack_cpu):
        if not 0 <= amount <= AMOUNT:
            raise RpcError(INVALID_ARGUMENT, f"{name}: an amount is {amount}, expected from 0 to {AMOUNT:g}")
    if not 0 <= message.first_port <= message.last_port < PORTS_END:
        raise RpcError(
            INVALID_ARGUMENT, f"{name}: ports are {message.first_port} to {message.last_port}, expected 0 to 65535"
        )


def _list_hosts(state: State, request: pb.ListHostsRequest) -> pb.ListHostsResponse:
    response = pb.ListHostsResponse(now_ms=state.now_ms, count=len(state.known_hosts))
    for host, room, runs in queries.hosts_changed(state, request.since_ms):
        use = response.hosts.add(host=_write_host(host), room=room[:4], slack_cpu_room=room[4])
        if (reserved := state.reserved.get(host.hostname)) is not None:
            use.reserved_for = reserved.task.mesos_id
        for run in runs:
            use.used_ports.extend(run.ports)
            if request.with_tasks:
                use.tasks.add(job_id=run.task.job_id, labels=run.task.labels)
    return response


def _recover(request: pb.RecoverRunsRequest) -> commands.Command:
    return commands.RecoverRuns(tuple(
        commands.RecoveredRun(task_of(one.task), one.pool_id, one.state, one.started_ms) for one in request.runs
    ))  # fmt: skip


def _reserve(request: pb.ReserveHostsRequest) -> commands.Command:
    return commands.ReserveHosts(tuple(
        commands.Reservation(one.hostname, one.task_id, one.run_id) for one in request.reservations
    ))  # fmt: skip


def _reserved(_: Any, answer: tuple[tuple[commands.Reservation, str], ...]) -> pb.ReserveHostsResponse:
    response = pb.ReserveHostsResponse()
    for one, message in answer:
        refused = response.refused.add(message=message).reservation
        refused.hostname, refused.task_id, refused.run_id = one.hostname, one.task_id, one.run_id
    return response


def _reconcile_hosts(request: pb.ReconcileHostsRequest) -> commands.Command:
    reports = tuple(commands.Report(one.hostname, tuple(one.run_ids)) for one in request.hosts)
    return commands.ReconcileHosts(request.as_of_ms, reports)


def _reconcile_pools(request: pb.ReconcilePoolsRequest) -> commands.Command:
    reports = tuple(commands.Report(one.pool_id, tuple(one.run_ids), _range_of(one)) for one in request.pools)
    return commands.ReconcilePools(request.as_of_ms, reports)


def _check_reports_of_hosts(request: pb.ReconcileHostsRequest) -> None:
    counted = Counter(one.hostname for one in request.hosts)
    for name, count in counted.items():
        if count > 1:
            raise RpcError(INVALID_ARGUMENT, f"{name[:100]!r} is there {count} times, expected once, with all its runs")


def _check_reports_of_pools(request: pb.ReconcilePoolsRequest) -> None:
    ranges: dict[str, list[Range]] = {}
    for place, one in enumerate(request.pools):
        first, below = within = _range_of(one)
        if below and below <= first:
            raise RpcError(INVALID_ARGUMENT, f"pools[{place}] ends at {below[:100]!r}, expected above {first[:100]!r}")
        if outside := next((run_id for run_id in one.run_ids if not is_in(run_id, within)), ""):
            expected = f"expected IDs from {first[:100]!r} on and below {below[:100]!r}"
            raise RpcError(INVALID_ARGUMENT, f"pools[{place}].run_ids has {outside[:100]!r}, {expected}")
        ranges.setdefault(one.pool_id, []).append(within)
    for pool_id, of_pool in ranges.items():
        if overlap(of_pool):
            expected = "expected once, with all its runs, or in ranges that do not overlap"
            raise RpcError(INVALID_ARGUMENT, f"{pool_id[:100]!r} is there {len(of_pool)} times, {expected}")


def _range_of(report: pb.RunsOfPool) -> Range:
    return report.from_run_id, report.below_run_id


def _hosts_reconciled(_: Any, answer: commands.Reconciled) -> pb.ReconcileHostsResponse:
    return pb.ReconcileHostsResponse(now_ms=answer.now_ms, unknown_run_ids=answer.unknown, lost_run_ids=answer.ended)


def _pools_reconciled(_: Any, answer: commands.Reconciled) -> pb.ReconcilePoolsResponse:
    return pb.ReconcilePoolsResponse(now_ms=answer.now_ms, unknown_run_ids=answer.unknown, killed_run_ids=answer.ended)


def _check_sharing(request: pb.ShareHostsRequest) -> None:
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


def _place_shared(request: pb.PlaceSharedRequest) -> commands.Command:
    failed = tuple(commands.FailedPlacement(_runs_of(one.tasks), one.reason) for one in request.failed)
    by = commands.SharedEngine(request.name, request.epoch, request.number)
    return commands.SetPlacements(tuple(map(placement_of, request.placements)), failed, by)


def _placed_shared(_: Any, answer: tuple[tuple[Any, str], ...]) -> pb.PlaceSharedResponse:
    rows = [pb.RefusedPlacement(placement=placement_message(one), message=message) for one, message in answer]
    return pb.PlaceSharedResponse(refused=rows)


def _list_shared(state: State, request: pb.ListSharedRequest) -> pb.ListSharedResponse:
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
        response.pools.extend(_shared_pools(state))
    return response


def _shared_pools(state: State) -> Iterator[pb.SharedPool]:
    configs = state.configs()
    for pool_id, pool in state.pools.items():
        if pool.is_leaf:
            yield pb.SharedPool(
                pool_id=pool_id, path=path_of(pool_id, configs), reservation=pool.config.amounts("reservation"),
                limit=pool.config.amounts("limit"),
            )  # fmt: skip


def _runs_of(tasks: Any) -> tuple[tuple[str, str], ...]:
    return tuple((one.task_id, one.run_id) for one in tasks)


_write_host, _read_host = codec(Host)
_write_shared, _ = codec(SharedHosts)

RPCS: Final[dict[str, Rpc[Any, Any]]] = {
    "SetCapacity": Rpc(
        pb.SetCapacityRequest, _set_capacity, lambda _, __: pb.SetCapacityResponse(), check=_check_capacity
    ),
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
    "PutHosts": Rpc(pb.PutHostsRequest, _put_hosts, lambda _, __: pb.PutHostsResponse(), check=_check_hosts),
    "RemoveHosts": Rpc(
        pb.RemoveHostsRequest,
        lambda request: commands.RemoveHosts(tuple(request.hostnames)),
        lambda _, __: pb.RemoveHostsResponse(),
    ),
    "ListHosts": Rpc(pb.ListHostsRequest, question=_list_hosts),
    "ReserveHosts": Rpc(pb.ReserveHostsRequest, _reserve, _reserved),
    "ReconcileHosts": Rpc(pb.ReconcileHostsRequest, _reconcile_hosts, _hosts_reconciled, check=_check_reports_of_hosts),
    "ReconcilePools": Rpc(pb.ReconcilePoolsRequest, _reconcile_pools, _pools_reconciled, check=_check_reports_of_pools),
    "RecoverRuns": Rpc(pb.RecoverRunsRequest, _recover, lambda _, __: pb.RecoverRunsResponse()),
    "ShareHosts": Rpc(
        pb.ShareHostsRequest,
        _share,
        lambda _, answer: pb.ShareHostsResponse(refused=answer.refused, foreign_hostnames=answer.foreign),
        check=_check_sharing,
    ),
    "PlaceShared": Rpc(pb.PlaceSharedRequest, _place_shared, _placed_shared),
    "PreemptRuns": Rpc(
        pb.PreemptRunsRequest,
        lambda request: commands.PreemptRuns(_runs_of(request.runs), request.maintenance),
        lambda _, __: pb.PreemptRunsResponse(),
    ),
    "ListShared": Rpc(pb.ListSharedRequest, question=_list_shared),
}
