"""Which RPCs a client may call: by the names in its certificate, or by that of its NATS key.

The setting `resmgr.clients` has entries `NAME=ROLE`, or `NAME=ROLE:/PATH` for a role that is restricted to pools.
Without entries, each client with a certificate may call everything. Every client that has a role may ask questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from .pools import Pools, path_of

JOBS, PLACEMENT, HOSTS, POOLS, READ = "jobs", "placement", "hosts", "pools", "read"
# RPCs that change something, by role.
ROLES: Final[dict[str, frozenset[str]]] = {
    JOBS: frozenset({
        "EnqueueGangs", "GetPlacements", "GetPreemptibleTasks", "KillTasks", "UpdateTasksState", "NotifyTaskUpdates",
        "ReconcilePools",
    }),
    PLACEMENT: frozenset({"DequeueGangs", "SetPlacements", "ReserveHosts", "ShareHosts", "PlaceShared", "PreemptRuns"}),
    HOSTS: frozenset({
        "NotifyTaskUpdates", "SetCapacity", "PutHosts", "RemoveHosts", "DrainHosts", "RankHosts", "RecoverRuns",
        "ReconcileHosts",
    }),
    POOLS: frozenset({"CreateResourcePool", "UpdateResourcePool", "DeleteResourcePool"}),
    READ: frozenset(),
}  # fmt: skip
CHANGING: Final = frozenset[str]().union(*ROLES.values())
# RPCs about pools. The other ones of a role are not restricted to pools.
RECONCILE: Final = "ReconcilePools"
ENQUEUE, CREATE, UPDATE, DELETE = "EnqueueGangs", "CreateResourcePool", "UpdateResourcePool", "DeleteResourcePool"


class Grant(NamedTuple):
    """A role of a client. `path`: the path of the pool at or below which gangs may be enqueued, and below which pools
    may be changed; empty: all."""

    role: str
    path: str = ""


class Forbidden(Exception):
    """The client may not call the RPC, or not for this pool."""


def read_grants(entries: Iterable[str]) -> dict[str, tuple[Grant, ...]]:
    """The grants of each name. Raises ValueError."""
    grants: dict[str, tuple[Grant, ...]] = {}
    for entry in entries:
        name, _, grant = entry.partition("=")
        role, colon, path = grant.partition(":")
        if not name or role not in ROLES:
            raise ValueError(
                f"expected NAME=ROLE or NAME=ROLE:/PATH with a role of {', '.join(ROLES)}, found {entry!r}"
            )
        if colon and role not in (JOBS, POOLS):
            raise ValueError(f"{entry!r}: only {JOBS} and {POOLS} can be restricted to a pool")
        if colon and (not path.startswith("/") or (path != "/" and path.endswith("/"))):
            raise ValueError(f"{entry!r}: expected the path of a pool, such as /team/batch")
        grants[name] = (*grants.get(name, ()), Grant(role, "" if path == "/" else path))
    return grants


class Clients:
    """The clients that the setting `resmgr.clients` names. `entries`: the entries of the setting."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._grants = read_grants(entries)

    def paths(self, names: Iterable[str], rpc: str, *, listed: bool = False) -> tuple[str, ...]:
        """The paths of the pools for which a client with these names may call the RPC; an empty one is any pool.
        `listed`: the client needs a role, also where no client has one. Raises Forbidden."""
        if not self._grants and not listed:
            return ("",)
        names = sorted(names)
        granted = [grant for name in names for grant in self._grants.get(name, ())]
        paths = tuple(one.path for one in granted if rpc not in CHANGING or rpc in ROLES[one.role])
        if not paths:
            known = f"has the roles {', '.join(sorted({one.role for one in granted}))}" if granted else "has no role"
            raise Forbidden(f"{rpc}: the client {', '.join(names)[:200] or 'without a name'} {known}")
        return paths if rpc in CHANGING else ("",)


def check_pool_access(paths: Iterable[str], rpc: str, pool_id: str, pools: Callable[[], Pools]) -> None:
    """Check that a client may call the RPC for the pool. `paths`: the answer of `Clients.paths`. `pool_id`: the ID of
    the pool that the RPC is about; for a new pool, the ID of its parent. Raises Forbidden."""
    if "" in paths:
        return
    known = pools()
    path = path_of(pool_id, known) if pool_id in known else ""
    for granted in paths:
        is_it = path == granted and rpc in (ENQUEUE, CREATE, RECONCILE)
        if is_it or path.startswith(f"{granted}/"):
            return
    raise Forbidden(f"{rpc}: the client may use pools of {', '.join(paths)}, not {(path or pool_id)[:200]!r}")
