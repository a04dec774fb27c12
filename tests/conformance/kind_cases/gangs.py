"""Kinds about places of gangs."""

from __future__ import annotations

from typing import Any

from ..builders import amount, app, ask, asks, node, release, scenario
from ..recording import Json
from .sided import GANG, Cases, Edit, Sided, callbacks, partition, without_callbacks


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

SOFT = scenario(
    node("n1", 2), app("app-1", placeholderAsk=amount(4), executionTimeoutMilliSeconds=5_000),
    asks(ask("app-1", "p1", 2, **GANG), ask("app-1", "p2", 2, **GANG), ask("app-1", "r", 1)), {"schedule": 1},
    {"wait_ms": 6_000}, {"dump": True}, {"schedule": 2}, {"dump": True},
)  # fmt: skip
LATE = scenario(
    node("n1", 9), app("app-1", executionTimeoutMilliSeconds=5_000), asks(ask("app-1", "r", 1)), {"schedule": 1},
    asks(ask("app-1", "p", 2, **GANG)), {"schedule": 1}, {"wait_ms": 6_000}, {"dump": True},
)  # fmt: skip
TWICE = scenario(
    node("n1", 9), app("app-1", placeholderAsk=amount(6), executionTimeoutMilliSeconds=5_000),
    asks(ask("app-1", "p1", 2, **GANG), ask("app-1", "p2", 2, **GANG)), {"schedule": 2}, real(2), {"schedule": 1},
    {"wait_ms": 6_000}, {"dump": True}, no_confirm=True,
)  # fmt: skip


def takes_back(step: int, key: str) -> Edit:
    """An ask that is taken back when time is over."""

    def edit(steps: list[Json]) -> None:
        gone = {"applicationID": "app-1", "allocationKey": key, "terminationType": "TIMEOUT"}
        callbacks(steps[step], "allocation", releasedAsks=[gone])

    return edit


EXPLAINED: Cases = {
    "RealAsksStay": [Sided(SOFT, their_rule=True)],
    "ClockInAnyState": [Sided(LATE, their_rule=True)],
    "NoPlaceOnDrainingNodes": [Sided(ON_DRAINING, their_rule=True)],
    "LargerGoOn": [Sided(LARGER, their_rule=True)],
    "PendingPlacesTimeOut": [Sided(PENDING, their_rule=True)],
    "PlacesGivenUpAreCounted": [Sided(COUNTED, counts(0)), Sided(TWICE, counts(2))],
}
NEAR_MISSES: Cases = {
    "RealAsksStay": [
        Sided(SOFT, our_rule=True),
        # before the time is over
        Sided(SOFT, takes_back(3, "r")),
    ],
    "ClockInAnyState": [
        Sided(LATE, our_rule=True),
        # of an application that was Accepted
        Sided(SOFT, lambda steps: without_callbacks(steps[4], "allocation")),
    ],
    "NoPlaceOnDrainingNodes": [Sided(ON_DRAINING, our_rule=True)],
    "LargerGoOn": [Sided(LARGER, our_rule=True)],
    "PendingPlacesTimeOut": [Sided(PENDING, our_rule=True)],
    "PlacesGivenUpAreCounted": [
        Sided(COUNTED, counts(0), counts(2)),
        Sided(COUNTED, counts(3)),
        Sided(TWICE, counts(3)),
        Sided(TWICE, ours=counts(2)),
    ],
}
