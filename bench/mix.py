"""Mixes of nodes and asks that benchmarks place: the "openb" trace of a production cluster where it is at hand, a
generated mix with the same distribution elsewhere, and nodes and asks of which no two are alike.

Amounts: `vcore` and `gpu_milli` in thousandths, `memory` in MiB or bytes. Every mix follows from a seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from remuda.simulated_rm.load.openb import read_nodes, read_pods

Amounts = dict[str, int]

DATA = "REMUDA_DATA"  # names the directory that holds `openb/`
DEFAULT_DATA = Path(__file__).parents[1] / ".." / "shared" / "data"
WEIGHTS = {"gpu_milli": 1.0, "memory": 1.0, "vcore": 1.0}


@dataclass(frozen=True)
class Mix:
    source: str  # what it was made of
    nodes: list[Amounts]  # capacities
    asks: list[Amounts]


def production(times: int) -> Mix:
    """The trace so many times: nodes in its order, and the asks in an order of their own. OSError if REMUDA_DATA names
    a directory without the trace."""
    trace = Path(os.environ.get(DATA, DEFAULT_DATA)) / "openb"
    if DATA not in os.environ and not trace.exists():
        return _repeated("generated", *_like_production(), times)
    nodes = [node.capacity for node in read_nodes(trace / "openb_node_list_all_node.csv")]
    asks = [pod.resource for pod in read_pods(trace / "openb_pod_list_default.csv")]
    return _repeated("openb", nodes, asks, times)


def _repeated(source: str, nodes: list[Amounts], asks: list[Amounts], times: int) -> Mix:
    """Equal needs are one object, as they come from the wire (`remuda_core.wire.resources`)."""
    shared: dict[tuple[tuple[str, int], ...], Amounts] = {}
    repeated = [shared.setdefault(tuple(need.items()), need) for need in asks] * times
    Random(times).shuffle(repeated)
    return Mix(source, nodes * times, repeated)


def _like_production() -> tuple[list[Amounts], list[Amounts]]:
    """Half of the nodes have eight GPUs and a quarter two, one in five has none; nine asks of ten want a GPU, half of
    these a whole one. Together the asks want nearly all GPUs, two thirds of the cores and half of the memory."""
    random = Random(1)
    nodes = [_node(random) for _ in range(1_500)]
    shapes = [_shape(random) for _ in range(150)]
    weights = [1 / (place + 1) for place in range(len(shapes))]  # few shapes make up most of the asks
    asks = []
    left = 0.98 * sum(node.get("gpu_milli", 0) for node in nodes)
    while left > 0:
        asks.append(random.choices(shapes, weights)[0])
        left -= asks[-1].get("gpu_milli", 0)
    return nodes, asks


def _node(random: Random) -> Amounts:
    gpus = random.choices((8, 4, 2, 1, 0), (40, 3, 34, 2, 21))[0]
    cores = random.choice((96, 128)) if gpus == 8 else random.choice((16, 32, 64, 96, 104))
    return _without_zeros(
        {"vcore": 1_000 * cores, "memory": 1_024 * cores * random.choice((4, 4, 5, 8)), "gpu_milli": 1_000 * gpus}
    )


def _shape(random: Random) -> Amounts:
    gpu = random.choices((0, random.randrange(50, 950, 10), 1_000, 2_000, 8_000), (13, 36, 48, 1, 1))[0]
    cores = random.choice((1, 2, 4, 6, 8, 8, 10, 12, 12, 16)) * max(1, gpu // 2_000)
    return _without_zeros(
        {"vcore": 1_000 * cores, "memory": 1_024 * cores * random.choice((2, 3, 4, 4)), "gpu_milli": gpu}
    )


def _without_zeros(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def all_different(nodes: int, kinds: int, asks: int) -> Mix:
    """Nodes of so many random kinds, and asks of which no two are alike, for four fifths of the vcores."""
    random = Random(nodes + asks)
    shapes = [
        {
            "vcore": 1_000 * random.choice((16, 32, 48, 64, 96, 128)),
            "memory": 1_024 * random.randint(64, 768),
            "gpu_milli": 1_000 * random.choice((0, 0, 1, 2, 4, 8)),
        }
        for _ in range(kinds)
    ]
    capacities = [_without_zeros(random.choice(shapes)) for _ in range(nodes)]
    mean = 0.8 * sum(node["vcore"] for node in capacities) / asks
    wanted: dict[tuple[int, int, int], None] = {}
    while len(wanted) < asks:
        vcore = random.uniform(0.1, 1.9) * mean
        gpu = random.choice((0, 0, 0, random.randint(50, 1_000)))
        wanted[int(vcore), int(vcore * random.uniform(1.0, 5.0)), gpu] = None
    return Mix("random", capacities, [_without_zeros({"vcore": v, "memory": m, "gpu_milli": g}) for v, m, g in wanted])


MIXES: dict[str, Callable[[], Mix]] = {
    "production": lambda: production(1),
    "production x4": lambda: production(4),
    "production x8": lambda: production(8),
    "5000 nodes of 60 kinds, 20000 shapes": lambda: all_different(5_000, 60, 20_000),
    "1000 nodes of 20 kinds, 10000 shapes": lambda: all_different(1_000, 20, 10_000),
}
