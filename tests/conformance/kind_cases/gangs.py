"""Kinds about places of gangs."""

from __future__ import annotations

from typing import Any

from ..builders import amount, app, ask, asks, node, release, scenario
from ..recording import Json
from .sided import GANG, Cases, Edit, Sided, partition


def real(vcore: int) -> Any:
    return asks(ask("app-1", "r", vcore, taskGroupName="t"))


def counts(given_up: int) -> Edit:
    def edit(steps: list[Json]) -> None:
        for application in partition(steps[-1])["applications"]:
            for group in application["placeholderData"]:
                group["timedout"] = given_up

    return edit


GANG_OF_ONE = (
    node("n1", 9),
    app("app-1", placeholderAsk=amount(2)),
    asks(ask("app-1", "p", 2, **GANG)),
    {"schedule": 1},
)
ON_DRAINING = scenario(*GANG_OF_ONE, node("n1", action="DRAIN_NODE"), real(2), {"schedule": 2})
LARGER = scenario(*GANG_OF_ONE, real(3), {"schedule": 3})
PENDING = scenario(
    node("n1", 2), app("app-1", placeholderAsk=amount(4), executionTimeoutMilliSeconds=5_000),
    asks(ask("app-1", "p1", 2, **GANG), ask("app-1", "p2", 2, **GANG)),
    {"schedule": 1},
    node("n1", action="DRAIN_NODE"), release("app-1", "$uuid:p1"), {"wait_ms": 6_000}, {"dump": True},
)  # fmt: skip
COUNTED = scenario(*GANG_OF_ONE, real(3), {"schedule": 3}, {"dump": True})

EXPLAINED: Cases = {
    "NoPlaceOnDrainingNodes": [Sided(ON_DRAINING, their_rule=True)],
    "LargerGoOn": [Sided(LARGER, their_rule=True)],
    "PendingPlacesTimeOut": [Sided(PENDING, their_rule=True)],
    "PlacesGivenUpAreCounted": [Sided(COUNTED, counts(0))],
}
NEAR_MISSES: Cases = {
    "NoPlaceOnDrainingNodes": [Sided(ON_DRAINING, our_rule=True)],
    "LargerGoOn": [Sided(LARGER, our_rule=True)],
    "PendingPlacesTimeOut": [Sided(PENDING, our_rule=True)],
    "PlacesGivenUpAreCounted": [Sided(COUNTED, counts(0), counts(2)), Sided(COUNTED, counts(3))],
}
