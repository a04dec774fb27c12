"""Requests of operators to change one pool, with its fields as people write them, in a file or on a command line:
`cpu.limit`, `slack_limit`, `description`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from remuda_proto.peloton.api.v0 import peloton_pb2
from remuda_proto.peloton.api.v0.respool import respool_pb2 as pb

from .. import limits, queries
from ..rules.pools import AMOUNTS, ELASTIC, ROOT, STATIC, find_by_path
from ..rules.resources import KINDS
from ..state import State
from .pool_rpcs import info_message

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
    """The problem in the response of the RPC, with keys as operators write them; empty: nothing."""
    response = RESPONSES[name].FromString(encoded)
    if not response.HasField("error"):
        return ""
    return in_keys(next((value.message for _, value in response.error.ListFields()), "refused"))


def _id(pool_id: str) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=pool_id)


TEXTS: Final = {"owning_team": "owningTeam", "description": "description"}
PERCENTS: Final = {"controller_limit": "controllerLimit", "slack_limit": "slackLimit"}
OF_KIND: Final = (*AMOUNTS, "type")
TYPES: Final = (ELASTIC, STATIC)
_AMOUNT: Final = re.compile(rf"^(?P<field>{'|'.join(AMOUNTS)}) of (?P<kind>{'|'.join(KINDS)}) ")
_SUM: Final = re.compile(rf"^reservations of (?P<kind>{'|'.join(KINDS)}) in \S+ would be (?P<sum>[^,]+)")


def set_field(config: pb.ResourcePoolConfig, key: str, value: str) -> None:
    """Set a field of a configuration. `key`: a key of a kind, such as cpu.limit; one of PERCENTS, of which an empty
    value is none; or one of TEXTS. Raises ValueError."""
    kind, _, field = key.partition(".")
    if key in TEXTS:
        setattr(config, TEXTS[key], text_of(key, value))
    elif key in PERCENTS and not value:
        config.ClearField(PERCENTS[key])  # type: ignore[arg-type]
    elif key in PERCENTS:
        getattr(config, PERCENTS[key]).maxPercent = _number(key, value)
    elif kind in KINDS and field in AMOUNTS:
        setattr(_of_kind(config, kind), field, _number(key, value))
    elif kind in KINDS and field == "type":
        if value not in TYPES:
            raise ValueError(f"{key} is {value[:64]!r}, expected {' or '.join(TYPES)}")
        _of_kind(config, kind).type = pb.ReservationType.Value(value)
    else:
        expected = f"one of {', '.join(KINDS)} with one of .{', .'.join(OF_KIND)}, or {', '.join((*PERCENTS, *TEXTS))}"
        raise ValueError(f"there is no key {key[:64]!r}, expected {expected}")


def in_keys(problem: str) -> str:
    """The problem that a rule has found, with the key of the field in place of its name where the text begins with the
    field."""
    found = _AMOUNT.sub(lambda match: f"{match['kind']}.{match['field']} ", problem)
    found = _SUM.sub(
        lambda match: f"{match['kind']}.reservation is too high: with those of its siblings, {match['sum']}", found
    )
    for key, field in PERCENTS.items():
        found = found.replace(f"{field}.maxPercent ", f"{key} ") if found.startswith(f"{field}.") else found
    return found


def text_of(key: str, value: str) -> str:
    """The value, if it is short enough. Raises ValueError."""
    if len(value) > limits.POOL_TEXT:
        raise ValueError(f"{key} has {len(value)} characters, expected at most {limits.POOL_TEXT}")
    return value


def _of_kind(config: pb.ResourcePoolConfig, kind: str) -> pb.ResourceConfig:
    found = next((one for one in config.resources if one.kind == kind), None)
    return found if found is not None else config.resources.add(kind=kind, share=1.0)


def _number(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{key} is {value[:64]!r}, expected a number")
    return number
