"""What is a pool, a task or a host to Peloton, as a queue, an ask or a node of si.v1, and back.

Amounts of Peloton are cores, devices, MB and MB; those of si.v1 are thousandths of a core, devices, bytes and bytes.
What a task needs is rounded up, what a node has is rounded down.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from remuda_proto.bounds import ID_BYTES, QUEUE_LEVELS, exceeds
from remuda_proto.constants import APP_TAG_NAMESPACE_RESOURCE_GUARANTEED, APP_TAG_NAMESPACE_RESOURCE_QUOTA
from remuda_proto.guests import prefix_of

from ..limits import AMOUNT, EPSILON, GUEST_AMOUNT, GUEST_QUEUE_CHARACTERS
from ..rules.hosts import Host, HostLabel
from ..rules.resources import Vector

NAMES: Final = ("vcore", "gpu", "memory", "disk")  # in the order of KINDS
UNITS: Final = (1_000, 1, 2**20, 2**20)
SLACK: Final = "slack.vcore"
Amounts = Mapping[str, int]


class Unmappable(ValueError):
    """The pool or the task has no counterpart. The reason says why."""


def queue_of(root: str, path: str) -> str:
    """The queue of a pool, below the queue `root`. Raises Unmappable."""
    names = [_queue_name(name) for name in path.split("/") if name]
    queue = ".".join([root, *names])
    if queue.count(".") >= QUEUE_LEVELS:
        raise Unmappable(f"pool {path[:200]}: queue {queue[:200]} has more than {QUEUE_LEVELS} levels")
    if long := next((name for name in names if len(name) > GUEST_QUEUE_CHARACTERS), None):
        raise Unmappable(
            f"pool {path[:200]}: queue name {long[:80]}… has more than {GUEST_QUEUE_CHARACTERS} characters"
        )
    return queue


def _queue_name(name: str) -> str:
    """Names of queues have no capitals: each other character is `_` and its bytes in hexadecimal digits."""
    return "".join(c if c in _PLAIN else "".join(f"_{byte:02x}" for byte in c.encode()) for c in name)


_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


def application_of(cluster: str, pool_id: str) -> str:
    return prefix_of(cluster) + pool_id


def key_of(cluster: str, run_id: str) -> str:
    return prefix_of(cluster) + run_id


def problem_of_key(key: str) -> str:
    """Why the run cannot be an ask; empty: it can."""
    return f"the ID of the run has more than {ID_BYTES} bytes" if exceeds(key, ID_BYTES) else ""


def ask_amounts(resource: Vector, revocable: bool) -> dict[str, int]:
    """What the task asks for. A revocable one uses slack cpu in place of cpu."""
    found = {
        name: min(GUEST_AMOUNT, math.ceil(amount * unit - EPSILON))
        for name, unit, amount in zip(NAMES, UNITS, resource, strict=True)
    }
    if revocable:
        found[SLACK] = found.pop("vcore")
    return {name: amount for name, amount in found.items() if amount > 0}


def quota_tags(reservation: Vector, limit: Vector) -> dict[str, str]:
    """The quota of the pool's queue. Each kind has a maximum: si.v1 takes one that is not named for unlimited."""
    most = [min(GUEST_AMOUNT, math.floor(one * unit + EPSILON)) for one, unit in zip(limit, UNITS, strict=True)]
    least = [
        min(top, math.floor(one * unit + EPSILON)) for one, unit, top in zip(reservation, UNITS, most, strict=True)
    ]
    tags = {APP_TAG_NAMESPACE_RESOURCE_QUOTA: _resource(dict(zip(NAMES, most, strict=True)))}
    if guaranteed := {name: amount for name, amount in zip(NAMES, least, strict=True) if amount}:
        tags[APP_TAG_NAMESPACE_RESOURCE_GUARANTEED] = _resource(guaranteed)
    return tags


def _resource(amounts: Amounts) -> str:
    return json.dumps({"resources": {name: {"value": amount} for name, amount in amounts.items()}})


def vector_of(amounts: Amounts) -> Vector:
    """A resource that is not named is not there. More than AMOUNT is AMOUNT."""
    cpu, gpu, memory, disk = (
        min(AMOUNT, max(0, amounts.get(name, 0)) / unit) for name, unit in zip(NAMES, UNITS, strict=True)
    )
    return cpu, gpu, memory, disk


def host_of_node(node: Mapping[str, Any], ports: tuple[int, int]) -> Host:
    """`node`: a row of the query `nodes`. What its RM uses itself is no room."""
    occupied = node["occupied"]
    amounts = {name: amount - occupied.get(name, 0) for name, amount in node["capacity"].items()}
    labels = tuple(HostLabel(key, str(value)) for key, value in sorted(node["attributes"].items()))
    first, last = ports
    return Host(
        node["id"], vector_of(amounts), max(0, amounts.get(SLACK, 0)) / 1_000, draining=node["status"] != "Schedulable",
        labels=labels, first_port=first, last_port=last,
    )  # fmt: skip
