"""ApplyPools: all pools at once. It comes from operators and files, through the inbox like RPCs, and is no RPC itself.
The IDs of new pools follow from the random ID of the request and their paths."""

from __future__ import annotations

import itertools
import uuid
from typing import Any, Final

import msgspec

from remuda_proto.remuda.resmgr.v1 import pools_pb2 as pb

from .. import commands
from ..limits import ANSWER_BYTES
from ..rules.pools import InvalidPool
from .pools import config_of
from .rpcs import Rpc

NAME: Final = "ApplyPools"


def command_of(request: pb.ApplyPoolsRequest) -> commands.ApplyPools:
    return commands.ApplyPools(tuple(
        commands.DescribedPool(one.path, config_of("new", one.config)) for one in request.pools
    ))  # fmt: skip


def _applied(request: pb.ApplyPoolsRequest, answer: tuple[str, ...] | InvalidPool) -> pb.ApplyPoolsResponse:
    if isinstance(answer, InvalidPool):
        return problem_of(answer)
    return pb.ApplyPoolsResponse(changes=_some(answer))


def problem_of(problem: InvalidPool) -> pb.ApplyPoolsResponse:
    return pb.ApplyPoolsResponse(problem=str(problem), path=problem.details.get("at", ""))


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


RPCS: Final[dict[str, Rpc[Any, Any]]] = {NAME: Rpc(pb.ApplyPoolsRequest, command_of, _applied)}
