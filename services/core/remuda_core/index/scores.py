"""Scores of nodes under the node sort policies (001, Partitions; semantics section 10).

A score is a pure function of a node's capacity, its available amounts and the resource weights. The node with the
lowest score is the best one. To add a policy, add its function, its line in SCORES, and its name to the verifier
(`remuda_config.verify`). O(weights) for each score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..rules.prices import FRAGMENTATION
from .ordered import Vector

# (place in a vector, weight) of each resource that counts; weights are above 0.
Weights = tuple[tuple[int, float], ...]
Score = Callable[[Vector, Vector, Weights], float]


def mean_used_share(capacity: Vector, available: Vector, weights: Weights) -> float:
    """The weighted mean of the shares of the capacity that are used: 0 of an empty node, 1 of a full one. A resource
    that the node does not have does not count."""
    used = total = 0.0
    for place, weight in weights:
        if capacity[place]:
            used += weight * (1.0 - available[place] / capacity[place])
            total += weight
    return used / total if total else 0.0


def fair(capacity: Vector, available: Vector, weights: Weights) -> float:
    """The least used node is the best."""
    return mean_used_share(capacity, available, weights)


def binpacking(capacity: Vector, available: Vector, weights: Weights) -> float:
    """The most used node is the best."""
    return -mean_used_share(capacity, available, weights)


def by_price(capacity: Vector, available: Vector, weights: Weights) -> float:
    """All are the same: which node is the best depends on the ask (`rules.prices`)."""
    return 0.0


SCORES: Final[Mapping[str, Score]] = {
    "fair": fair,
    "binpacking": binpacking,
    FRAGMENTATION: by_price,
}


# Added to the score of a node in a domain that is avoided: scores are from -1 to 1.
AVOIDED: Final = 4.0


def score_of(policy: str) -> Score:
    """ValueError if there is no such policy; `configure` has refused such a configuration before."""
    if policy not in SCORES:
        raise ValueError(f"node sort policy {policy!r}, expected one of {', '.join(SCORES)}")
    return SCORES[policy]
