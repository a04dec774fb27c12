"""The simulated resource managers of the demo, with their nodes, tenants and services. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

GIB = 1024**3
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tenant:
    """Submits an application of `tasks` short tasks whenever fewer than `backlog` of its asks wait, from `starts` on
    (part of the whole time, 0 to 1). A task runs `shortest_s` to `longest_s`."""

    name: str
    queue: str
    task: Amounts
    tasks: int
    backlog: int
    shortest_s: float
    longest_s: float
    starts: float = 0.0
    # Of each ask. And whether the tasks of an application end together, as those of a gang do.
    tags: Mapping[str, str] | None = None
    together: bool = False


@dataclass(frozen=True, slots=True)
class ServiceApp:
    """An application that is submitted once, at `starts`, and whose allocations run to the end."""

    name: str
    queue: str
    task: Amounts
    tasks: int
    starts: float = 0.0
    priority: int = 0
    tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """One resource manager. `config`: the text of its own queues.yaml; empty: the file of the configuration service.
    `attributes`: of nodes, by their names. `device`: how much of its scarcest resource is one device."""

    rm_id: str
    nodes: Mapping[str, Amounts]
    tenants: tuple[Tenant, ...]
    services: tuple[ServiceApp, ...] = ()
    config: str = ""
    attributes: Mapping[str, Mapping[str, str]] | None = None
    device: int = 1


def queues_file() -> str:
    return _text("queues.yaml")


def sites() -> tuple[Site, ...]:
    return (_yard(), _lab())


def _yard() -> Site:
    small = {"vcore": 1_000, "memory": 4 * GIB}
    wide = {"vcore": 2_000, "memory": 6 * GIB}
    return Site(
        rm_id="yard",
        nodes={f"yard-{number:02}": {"vcore": 32_000, "memory": 128 * GIB} for number in range(1, 41)},
        tenants=(
            Tenant("analytics", "root.tenants.analytics", small, tasks=250, backlog=250, shortest_s=0.5, longest_s=2.0),
            Tenant("research", "root.tenants.research", wide, 150, 150, shortest_s=0.8, longest_s=2.5, starts=0.3),
        ),
        services=(
            ServiceApp("web", "root.services", {"vcore": 2_000, "memory": 8 * GIB}, tasks=24, priority=5),
            ServiceApp(
                "search", "root.services", {"vcore": 4_000, "memory": 16 * GIB}, tasks=16, starts=0.1, priority=5
            ),
            # Never placed: more than the queue has left, more than any node has, no such queue.
            ServiceApp("shards", "root.services", {"vcore": 8_000, "memory": 32 * GIB}, tasks=12, starts=0.2),
            ServiceApp("giant", "root.tenants.research", {"vcore": 64_000, "memory": 32 * GIB}, tasks=1, starts=0.25),
            ServiceApp("lost", "root.nowhere", {"vcore": 1_000, "memory": GIB}, tasks=2, starts=0.35),
        ),
    )


def _lab() -> Site:
    return Site(
        rm_id="lab",
        nodes={f"lab-{number}": {"vcore": 64_000, "memory": 512 * GIB, "gpu": 8} for number in range(1, 7)},
        tenants=(
            Tenant(
                "training",
                "root.training",
                {"vcore": 4_000, "memory": 32 * GIB, "gpu": 1},
                tasks=30,
                backlog=12,
                shortest_s=1.0,
                longest_s=3.0,
            ),
            Tenant(
                "notebooks",
                "root.notebooks",
                {"vcore": 1_000, "memory": 8 * GIB, "gpu": 1},
                tasks=20,
                backlog=8,
                shortest_s=0.5,
                longest_s=1.5,
                starts=0.15,
            ),
        ),
        services=(ServiceApp("huge", "root.training", {"vcore": 8_000, "gpu": 12}, tasks=1, starts=0.4),),
        config=_text("lab.yaml"),
    )


IN_ONE_RACK = {"remuda/topology.required": "rack"}


def gpu_sites() -> tuple[Site, ...]:
    """A cluster of GPUs: two blocks of three racks, each with eight nodes of eight GPUs, one of which is ill."""
    places = {
        f"gpu-{rack}-{number}": {"remuda/block": f"b{1 + rack // 4}", "si/rackname": f"r{rack}"}
        for rack in range(1, 7)
        for number in range(1, 9)
    }
    places["gpu-2-3"]["remuda/devices.gpu.unfit"] = "5"
    node = {"vcore": 128_000, "memory": 1_024 * GIB, "gpu": 8_000}
    whole = {"vcore": 96_000, "memory": 768 * GIB, "gpu": 8_000}
    tenants = (
        Tenant("training", "root.training", whole, 4, 4, 2.0, 5.0, tags=IN_ONE_RACK, together=True),
        Tenant("large", "root.training", whole, 7, 7, 3.0, 6.0, starts=0.1, tags=IN_ONE_RACK, together=True),
        Tenant("tuning", "root.training", {"vcore": 12_000, "memory": 96 * GIB, "gpu": 1_000}, 20, 10, 1.0, 4.0),
        Tenant("notebooks", "root.notebooks", {"vcore": 2_000, "memory": 16 * GIB, "gpu": 300}, 15, 8, 1.0, 3.0),
    )
    services = (
        ServiceApp("serving", "root.services", {"vcore": 4_000, "memory": 32 * GIB, "gpu": 470}, tasks=24, priority=5),
        # Never placed: more nodes than a rack has.
        ServiceApp("ten-nodes", "root.training", whole, tasks=10, starts=0.2, tags=IN_ONE_RACK),
    )
    return (Site("gpu", dict.fromkeys(places, node), tenants, services, _text("gpu.yaml"), places, device=1_000),)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text()
