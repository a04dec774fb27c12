"""The 6 RPCs of the respool service. The ID of a new pool is random, so it is chosen before the inbox (`with_id`)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from remuda_proto.peloton.api.v0.respool import respool_pb2 as pb

from .. import commands, queries
from ..rules.pools import ROOT, InvalidPool, check_path, find_by_path
from ..state import State
from .pools import config_of, info_message
from .pools_rpc import with_ids
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
