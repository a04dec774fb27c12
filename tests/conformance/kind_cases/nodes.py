"""Kinds about what is placed where, and for whom others are preempted."""

from __future__ import annotations

from typing import Any

from ..builders import amount, app, ask, asks, node, release, scenario
from ..recording import Json
from .sided import START, Cases, Edit, Sided, event, new, queues, without_new


def bound(node_id: str, **more: Any) -> dict[str, Any]:
    return {"tags": {"si/requiredNode": node_id}, **more}


def drops(step: int, key: str) -> Edit:
    return lambda steps: without_new(steps[step], key)


def both_there(steps: list[Json]) -> None:
    new(steps[3], "other")


def other_order(steps: list[Json]) -> None:
    allocated = [c for c in steps[3]["callbacks"] if c["cb"] == "allocation"]
    [one], [two] = (callback["msg"]["new"] for callback in allocated)
    one["allocationKey"], two["allocationKey"] = two["allocationKey"], one["allocationKey"]


def other_order_and_state(steps: list[Json]) -> None:
    other_order(steps)
    steps[4]["dump"]["partitions"]["[rm:123]default"]["applications"][0]["applicationState"] = "Failing"


def other_victim(steps: list[Json]) -> None:
    """One victim more, in another order."""
    other_order(steps)
    gone = {"UUID": "theirs", "allocationKey": "k1", "applicationID": "app-1",
            "terminationType": "PREEMPTED_BY_SCHEDULER"}  # fmt: skip
    steps[3]["callbacks"].append({"cb": "allocation", "msg": {"released": [gone]}})


def spares(key: str) -> Edit:
    """One victim less."""

    def edit(steps: list[Json]) -> None:
        for step in steps:
            step["callbacks"] = [
                callback for callback in step["callbacks"]
                if not any(each.get("allocationKey") == key for each in callback["msg"].get("released") or ())
            ]  # fmt: skip

    return edit


def reserves(step: int) -> Edit:
    return lambda steps: event(steps[step], "NODE", "ADD", "NODE_RESERVATION", "n1", "k")


NOT_READY = scenario(node("n1", 9, ready="false"), app("app-1"), asks(ask("app-1", "k", 1)), {"schedule": 1})
BOUND = scenario(
    *START, asks(ask("app-1", "bound", 1, priority=9, **bound("nowhere")), ask("app-1", "k", 1)), {"schedule": 1}
)
LACKS = scenario(
    node("n1", 4), app("app-1"), asks(ask("app-1", "k1", 2)), {"schedule": 1},
    node("n2", 8), asks(ask("app-1", "k2", 5)), {"schedule": 1},
    asks(ask("app-1", "k3", 4)), {"wait_ms": 50}, {"schedule": 3}, reservation_delay_ms=20,
)  # fmt: skip
MANY_KEPT = scenario(
    node("n1", 4), node("n2", 4), app("app-1"), asks(ask("app-1", "k1", 2, 2)), {"schedule": 2},
    asks(ask("app-1", "k2", 3, 2)), {"wait_ms": 50}, {"schedule": 3}, reservation_delay_ms=20,
)  # fmt: skip
SHRUNK = scenario(
    node("n1", 9), node("n2", 3), app("app-1"), asks(ask("app-1", "k1", 8, **bound("n1"))), {"schedule": 1},
    node("n1", 2, "UPDATE"), asks(ask("app-1", "k2", 1)), {"schedule": 1},
)  # fmt: skip
GREEDY = scenario(
    node("n1", 5), app("app-1"), asks(ask("app-1", "k1", 2), ask("app-1", "k2", 2)), {"schedule": 2},
    asks(ask("app-1", "b", 3, **bound("n1", priority=9))), {"schedule": 3},
)  # fmt: skip
ALL_OF_THEM = scenario(
    node("n1", 5), app("app-1"), asks(ask("app-1", "k1", 2), ask("app-1", "k2", 2)), {"schedule": 2},
    asks(ask("app-1", "b", 5, **bound("n1", priority=9))), {"schedule": 1},
)  # fmt: skip
TAKES_BACK = queues(
    "{name: q, resources: {guaranteed: {vcore: 4m}}, properties: {preemption.delay: 1s}}",
    "{name: r, resources: {guaranteed: {vcore: 1m}}}",
    beside="preemption: {enabled: true},",
)
PREEMPTS = scenario(
    node("n1", 4), app("app-r", "root.r"), asks(ask("app-r", "old", 2, 2, preemptionPolicy={"allowPreemptSelf": True})),
    {"schedule": 2}, app("app-q"),
    asks(ask("app-q", "k", 2, preemptionPolicy={"allowPreemptOther": True}), ask("app-r", "more", 1, 4, priority=9)),
    {"wait_ms": 1500}, {"schedule": 3}, config=TAKES_BACK, reservation_delay_ms=60_000,
)  # fmt: skip
TWO = scenario(*START, asks(ask("app-1", "k1", 1), ask("app-1", "k2", 1)), {"schedule": 2}, {"dump": True})

DRAINED = scenario(
    node("n1", 9), node("n2", 9), app("app-1"), asks(ask("app-1", "k1", 5), ask("app-1", "k2", 5)), {"schedule": -1},
    asks(ask("app-1", "k3", 5)), {"schedule": 2}, node("n1", action="DRAIN_NODE"), {"dump": True},
    release("app-1", "$uuid:k1"), {"schedule": 2}, {"dump": True}, reservation_delay_ms=1,
)  # fmt: skip


def reporting(node_id: str, vcore: int, reported: int) -> Json:
    written: Json = node(node_id, vcore)
    existing = {"allocationKey": "e", "UUID": "u-1", "applicationID": "app-1", "nodeID": node_id,
                "partitionName": "default", "resourcePerAlloc": amount(reported)}  # fmt: skip
    written["node"]["nodes"][0]["existingAllocations"] = [existing]
    return written


FULL = scenario(
    app("app-1"), reporting("n1", 4, 5), {"dump": True}, asks(ask("app-1", "k", 2)), {"schedule": 2}, {"dump": True},
    release("app-1", "u-1"), {"dump": True},
)  # fmt: skip
ROOM = scenario(app("app-1"), reporting("n1", 9, 5), {"dump": True})


def empty_node(steps: list[Json]) -> None:
    [listed] = steps[-1]["dump"]["partitions"]["[rm:123]default"]["nodes"]
    listed["allocations"] = []


EXPLAINED: Cases = {
    "DrainedIsKeptForNobody": [Sided(DRAINED, their_rule=True)],
    "ReportedIsOnItsNode": [Sided(FULL, their_rule=True)],
    "NotReadyTakesNothing": [Sided(NOT_READY, their_rule=True)],
    "BoundAskHoldsUpNobody": [Sided(BOUND, their_rule=True)],
    "LacksLeast": [Sided(LACKS, their_rule=True)],
    "ReservationsAreBounded": [Sided(MANY_KEPT, their_rule=True)],
    "ClusterIsNoQuota": [Sided(SHRUNK, their_rule=True)],
    "NoMoreThanNeeded": [Sided(GREEDY, their_rule=True)],
    "KeptForPreemptor": [Sided(PREEMPTS, their_rule=True)],
    "EqualCandidates": [Sided(TWO, other_order, deterministic=False)],
}
NEAR_MISSES: Cases = {
    "DrainedIsKeptForNobody": [
        Sided(DRAINED, our_rule=True),
        Sided(DRAINED, lambda steps: event(steps[7], "NODE", "REMOVE", "NODE_RESERVATION", "n2", "k3")),
    ],
    "ReportedIsOnItsNode": [Sided(FULL, our_rule=True), Sided(ROOM, empty_node)],
    "NotReadyTakesNothing": [
        Sided(NOT_READY, our_rule=True),
        # ours has placed something there itself
        Sided(NOT_READY, their_rule=True, ours=both_there),
    ],
    "BoundAskHoldsUpNobody": [
        Sided(BOUND, our_rule=True),
        # there is room for the bound ask
        Sided(scenario(*START, asks(ask("app-1", "bound", 1, priority=9, **bound("n1")), ask("app-1", "k", 1)),
                       {"schedule": 2}), drops(3, "k")),
    ],
    "LacksLeast": [Sided(LACKS, our_rule=True)],
    "ReservationsAreBounded": [Sided(MANY_KEPT, our_rule=True)],
    "ClusterIsNoQuota": [
        Sided(SHRUNK, our_rule=True),
        # enough is left
        Sided(scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}), drops(3, "k")),
    ],
    "NoMoreThanNeeded": [
        Sided(GREEDY, our_rule=True),
        # what goes in ours is not enough
        Sided(ALL_OF_THEM, ours=spares("k1")),
    ],
    "KeptForPreemptor": [
        Sided(PREEMPTS, our_rule=True),
        # no allocation was preempted there
        Sided(scenario(*START, asks(ask("app-1", "k", 1, preemptionPolicy={"allowPreemptOther": True}))),
              ours=reserves(2)),
    ],
    "EqualCandidates": [
        Sided(TWO, other_order),
        Sided(TWO, other_order_and_state, deterministic=False),
        Sided(TWO, other_victim, deterministic=False),
    ],
}  # fmt: skip
