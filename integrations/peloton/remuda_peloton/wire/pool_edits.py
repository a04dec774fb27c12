"""Requests of operators to change one pool, as requests of the respool service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from remuda_proto.peloton.api.v0 import peloton_pb2
from remuda_proto.peloton.api.v0.respool import respool_pb2 as pb

from .. import queries
from ..rules.pools import ROOT, find_by_path
from ..state import State
from .pool_fields import in_keys, set_field
from .pools import info_message

CREATE, UPDATE, DELETE = "CreateResourcePool", "UpdateResourcePool", "DeleteResourcePool"
RESPONSES: Final[dict[str, Any]] = {CREATE: pb.CreateResponse, UPDATE: pb.UpdateResponse, DELETE: pb.DeleteResponse}


def set_fields(state: State, path: str, values: Mapping[str, str]) -> tuple[str, Any]:
    """The RPC and the request that create the pool, or change it. `values`: by key, of `pool_fields.set_field`. Raises
    ValueError."""
    configs = state.configs()
    above, slash, name = path.rpartition("/")
    if not slash or not name or (above and not above.startswith("/")):
        raise ValueError(f"path is {path[:64]!r}, expected one such as /a/b")
    pool_id = find_by_path(path, configs)
    if pool_id is not None:
        config = info_message(queries.pool_info(state, state.pools[pool_id], configs)).config
    else:
        parent = find_by_path(above, configs) if above else ROOT
        if parent is None:
            raise ValueError(f"there is no pool {above[:64]!r}, expected the parent of {name[:64]!r}")
        config = pb.ResourcePoolConfig(name=name, parent=_id(parent))
    for key, value in values.items():
        set_field(config, key, value)
    if pool_id is None:
        return CREATE, pb.CreateRequest(config=config)
    return UPDATE, pb.UpdateRequest(id=_id(pool_id), config=config)


def delete(path: str) -> tuple[str, Any]:
    return DELETE, pb.DeleteRequest(path=pb.ResourcePoolPath(value=path))


def problem_of(name: str, encoded: bytes) -> str:
    """What the response of the RPC says is wrong, with keys as operators write them; empty: nothing."""
    response = RESPONSES[name].FromString(encoded)
    if not response.HasField("error"):
        return ""
    return in_keys(next((value.message for _, value in response.error.ListFields()), "refused"))


def _id(pool_id: str) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=pool_id)
