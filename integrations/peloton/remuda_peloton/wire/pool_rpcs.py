"""The 6 RPCs of the respool service, and ApplyPools: all pools at once.

ApplyPools comes from operators and files, through the inbox like RPCs, and is no RPC itself. The ID of a new pool is
random, so it is chosen before the inbox (`with_id`); IDs of new pools of ApplyPools follow from the random ID of the
request and their paths.
"""

from __future__ import annotations

import itertools
import uuid
from typing import Any, Final

import msgspec

from remuda_proto.peloton.api.v0.respool import respool_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import pools_pb2

from .. import commands, queries
from ..limits import ANSWER_BYTES
from ..queries import PoolInfo
from ..rules.pools import ROOT, UNKNOWN_TYPE, ChangeLog, InvalidPool, KindConfig, PoolConfig, check_path, find_by_path
from ..state import State
from .rpcs import Rpc


def _created(request: pb.CreateRequest, answer: str | InvalidPool) -> pb.CreateResponse:
    response = pb.CreateResponse()
    if isinstance(answer, str):
        response.result.value = answer
    elif answer.code == "already_exists":
        response.error.alreadyExists.message = str(answer)
    else:
        response.error.invalidResourcePoolConfig.message = str(answer)
    return response


def _updated(request: pb.UpdateRequest, problem: InvalidPool | None) -> pb.UpdateResponse:
    response = pb.UpdateResponse()
    if problem is not None:
        error = response.error
        one = error.notFound if problem.code == "not_found" else error.invalidResourcePoolConfig
        one.message, one.id.value = str(problem), request.id.value
    return response


def _deleted(request: pb.DeleteRequest, problem: InvalidPool | None) -> pb.DeleteResponse:
    response = pb.DeleteResponse()
    if problem is None:
        return response
    error = response.error
    if problem.code == "not_found":
        error.notFound.path.value, error.notFound.message = request.path.value, str(problem)
        return response
    one = error.isNotLeaf if problem.code == "not_leaf" else error.isBusy
    one.message, one.id.value = str(problem), problem.details["id"]
    return response


def _get(state: State, request: pb.GetRequest) -> pb.GetResponse:
    response = pb.GetResponse()
    pool = state.pools.get(request.id.value or ROOT)
    if pool is None:
        response.error.notFound.id.value = request.id.value
        response.error.notFound.message = f"there is no pool {request.id.value[:64]!r}"
        return response
    response.poolinfo.CopyFrom(info_message(queries.pool_info(state, pool)))
    if request.includeChildPools:
        children = (state.pools[child] for child in pool.children)
        response.childPools.extend(info_message(queries.pool_info(state, child)) for child in children)
    return response


def _look_up(state: State, request: pb.LookupRequest) -> pb.LookupResponse:
    response, path = pb.LookupResponse(), request.path.value
    try:
        check_path(path)
    except InvalidPool as problem:
        response.error.invalidPath.path.value, response.error.invalidPath.message = path, str(problem)
        return response
    pool_id = find_by_path(path, state.configs())
    if pool_id is None:
        response.error.notFound.path.value = path
        response.error.notFound.message = f"there is no pool {path[:64]!r}"
    else:
        response.id.value = pool_id
    return response


def _query(state: State, request: pb.QueryRequest) -> pb.QueryResponse:
    configs = state.configs()
    infos = (queries.pool_info(state, pool, configs) for pool in state.pools.values())
    return pb.QueryResponse(resourcePools=[info_message(info) for info in infos])


def with_id(command: commands.Command, new_id: str) -> commands.Command:
    """The command, with the IDs of the pools that it creates."""
    if isinstance(command, commands.ApplyPools):
        return with_ids(command, new_id)
    if not isinstance(command, commands.CreatePool):
        return command
    return commands.CreatePool(msgspec.structs.replace(command.pool, id=new_id))


RPCS: Final[dict[str, Rpc[Any, Any]]] = {
    "CreateResourcePool": Rpc(
        pb.CreateRequest, lambda request: commands.CreatePool(config_of("", request.config)), _created
    ),
    "GetResourcePool": Rpc(pb.GetRequest, question=_get),
    "UpdateResourcePool": Rpc(
        pb.UpdateRequest,
        lambda request: commands.UpdatePool(config_of(request.id.value, request.config), request.Force),
        _updated,
    ),
    "DeleteResourcePool": Rpc(pb.DeleteRequest, lambda request: commands.DeletePool(request.path.value), _deleted),
    "LookupResourcePoolID": Rpc(pb.LookupRequest, question=_look_up),
    "Query": Rpc(pb.QueryRequest, question=_query),
}


APPLY: Final = "ApplyPools"


def command_of(request: pools_pb2.ApplyPoolsRequest) -> commands.ApplyPools:
    return commands.ApplyPools(tuple(
        commands.DescribedPool(one.path, config_of("new", one.config)) for one in request.pools
    ))  # fmt: skip


def _applied(
    request: pools_pb2.ApplyPoolsRequest, answer: tuple[str, ...] | InvalidPool
) -> pools_pb2.ApplyPoolsResponse:
    if isinstance(answer, InvalidPool):
        return problem_of(answer)
    return pools_pb2.ApplyPoolsResponse(changes=_some(answer))


def problem_of(problem: InvalidPool) -> pools_pb2.ApplyPoolsResponse:
    return pools_pb2.ApplyPoolsResponse(problem=str(problem), path=problem.details.get("at", ""))


def _some(changes: tuple[str, ...]) -> list[str]:
    """As many as ANSWER_BYTES hold, and how many more there are."""
    sizes = itertools.accumulate(len(change.encode()) for change in changes)
    shown = sum(1 for _ in itertools.takewhile(lambda size: size <= ANSWER_BYTES, sizes))
    return [*changes[:shown], *([f"and {len(changes) - shown} more changes"] if shown < len(changes) else [])]


def with_ids(command: commands.ApplyPools, new_id: str) -> commands.ApplyPools:
    space = uuid.UUID(new_id)
    return commands.ApplyPools(tuple(
        commands.DescribedPool(one.path, msgspec.structs.replace(one.config, id=str(uuid.uuid5(space, one.path))))
        for one in command.pools
    ))  # fmt: skip


APPLY_POOLS: Final[Rpc[Any, Any]] = Rpc(pools_pb2.ApplyPoolsRequest, command_of, _applied)


def config_of(pool_id: str, message: pb.ResourcePoolConfig) -> PoolConfig:
    """The configuration in a message. Never raises: numbers of enumerations that have no name become texts that
    validation refuses."""
    log = message.changeLog
    return PoolConfig(
        id=pool_id,
        name=message.name,
        parent=message.parent.value,
        resources=tuple(
            KindConfig(one.kind, one.reservation, one.limit, one.share, _type(one.type)) for one in message.resources
        ),
        policy=_policy(message.policy),
        controller_limit_percent=message.controllerLimit.maxPercent if message.HasField("controllerLimit") else None,
        slack_limit_percent=message.slackLimit.maxPercent if message.HasField("slackLimit") else None,
        owning_team=message.owningTeam,
        ldap_groups=tuple(message.ldapGroups),
        description=message.description,
        change_log=ChangeLog(log.version, log.createdAt, log.updatedAt, log.updatedBy)
        if message.HasField("changeLog")
        else None,
    )


def config_message(config: PoolConfig) -> pb.ResourcePoolConfig:
    message = pb.ResourcePoolConfig(
        name=config.name,
        owningTeam=config.owning_team,
        ldapGroups=config.ldap_groups,
        description=config.description,
        policy=pb.SchedulingPolicy.Value(config.policy),
        resources=[
            pb.ResourceConfig(
                kind=one.kind, reservation=one.reservation, limit=one.limit, share=one.share,
                type=pb.ReservationType.Value(one.type),
            )
            for one in config.resources
        ],
    )  # fmt: skip
    if config.parent:
        message.parent.value = config.parent
    if config.controller_limit_percent is not None:
        message.controllerLimit.maxPercent = config.controller_limit_percent
    if config.slack_limit_percent is not None:
        message.slackLimit.maxPercent = config.slack_limit_percent
    if (log := config.change_log) is not None:
        message.changeLog.version, message.changeLog.updatedBy = log.version, log.updated_by
        message.changeLog.createdAt, message.changeLog.updatedAt = log.created_at, log.updated_at
    return message


def info_message(info: PoolInfo) -> pb.ResourcePoolInfo:
    message = pb.ResourcePoolInfo(config=config_message(info.config))
    message.id.value = info.config.id
    if info.config.id != ROOT:
        message.parent.value = info.config.parent
    for child in info.children:
        message.children.add().value = child
    for kind, allocation, slack in info.usage:
        message.usage.add(kind=kind, allocation=allocation, slack=slack)
    message.path.value = info.path
    return message


def _type(number: int) -> str:
    return pb.ReservationType.Name(number) if number in pb.ReservationType.values() else UNKNOWN_TYPE  # type: ignore[arg-type]


def _policy(number: int) -> str:
    known = number in pb.SchedulingPolicy.values()
    return pb.SchedulingPolicy.Name(number) if known else str(number)  # type: ignore[arg-type]
