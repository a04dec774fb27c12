"""Kinds about preemption, places and templates: scenarios in which the reference's rule leads to something else."""

from __future__ import annotations

from typing import Any, Final

from ..builders import amount, app, ask, asks, node, scenario
from ..recording import Json, Scenario
from .sided import GANG, Cases, Sided, queues

PREEMPTS: dict[str, Any] = {"preemptionPolicy": {"allowPreemptOther": True}}
WILLING: dict[str, Any] = {"preemptionPolicy": {"allowPreemptSelf": True}}
ON = "preemption: {enabled: true},"
NAMESPACES = (
    "placementrules: [{name: tag, value: namespace, create: true,"
    " parent: {name: user, create: true, parent: {name: fixed, value: root.base}}}],"
)
OTHERWISE = ", {name: provided, create: true}, {name: user, create: true}]"
BLUE: dict[str, Any] = {"tags": {"namespace": "blue"}}
GREEN: dict[str, Any] = {"tags": {"namespace": "green"}}


def bound(node_id: str, **more: Any) -> dict[str, Any]:
    return {"tags": {"si/requiredNode": node_id}, **more}


def guaranteed(name: str, vcore: int, more: str = "properties: {'preemption.delay': 1ms}") -> str:
    return f"{{name: {name}, {more}, resources: {{guaranteed: {{vcore: {vcore}m}}}}}}"


def base(vcore: int) -> str:
    return f"{{name: base, parent: true, childtemplate: {{resources: {{max: {{vcore: {vcore}m}}}}}}}}"


FORCED: dict[str, str] = {"application.create.force": "true"}


def runs_there(application: str, key: str) -> Json:
    return {"applicationID": application, "allocationKey": key, "UUID": f"u-{key}", "partitionName": "default",
            "resourcePerAlloc": amount(1)}  # fmt: skip


def runs(node_id: str, *allocations: Json) -> Json:
    """A node with what runs there."""
    created = node(node_id, 4)
    created["node"]["nodes"][0]["existingAllocations"] = list(allocations)
    return created


REAL: dict[str, Any] = {"taskGroupName": "t"}

RULED: Final[dict[str, Scenario]] = {
    "WillingGoFirst": scenario(
        node("n1", 7), app("app-1"), asks(ask("app-1", "willing", 3, **WILLING), ask("app-1", "younger", 3)),
        {"schedule": 2}, app("app-2"), asks(ask("app-2", "b", 3, **bound("n1"))), {"schedule": 3},
    ),
    "ComparedWhereTheyMeet": scenario(
        node("n1", 4), app("app-1", "root.p.a"), asks(ask("app-1", "k", 4, **WILLING)), {"schedule": 1},
        app("app-2", "root.p.b"), asks(ask("app-2", "b", 4, **PREEMPTS)), {"wait_ms": 20}, {"schedule": 3},
        config=queues(
            "{name: p, properties: {'priority.offset': '3'}, resources: {guaranteed: {vcore: 5m}}, queues: ["
            + guaranteed("a", 0, "properties: {'priority.offset': '2'}") + ", " + guaranteed("b", 4) + "]}", beside=ON
        ),
    ),
    "PlacedBeforePreempted": scenario(
        node("n1", 6), node("n2", 6), app("app-1"),
        asks(ask("app-1", "k1", 4, **WILLING), ask("app-1", "k2", 4, **WILLING)), {"schedule": 2},
        app("app-2", "root.b"), asks(ask("app-2", "large", 5, **PREEMPTS), ask("app-2", "small", 2)),
        {"wait_ms": 20}, {"schedule": 3},
        config=queues(guaranteed("q", 1), guaranteed("b", 6), beside=ON),
    ),
    "NoMoreThanNeeded": scenario(
        node("n1", 6), app("app-1"), asks(ask("app-1", "large", 4, **WILLING), ask("app-1", "small", 2, **WILLING)),
        {"schedule": 2}, app("app-2", "root.b"), asks(ask("app-2", "b", 4, **PREEMPTS)), {"wait_ms": 20},
        {"schedule": 3},
        config=queues(guaranteed("q", 0), guaranteed("b", 6), beside=ON),
    ),
    "PreemptsForEach": scenario(
        node("n1", 3), app("app-1"), asks(ask("app-1", "k", 1, 3, **WILLING)), {"schedule": 3}, app("app-2", "root.b"),
        asks(ask("app-2", "b", 1, 3, **PREEMPTS)), {"wait_ms": 20}, {"schedule": 3}, {"schedule": 3}, {"schedule": 3},
        config=queues(guaranteed("q", 0), guaranteed("b", 3), beside=ON),
    ),
    "BadAllocationsAreOccupied": scenario(
        app("app-1"), runs("n1", runs_there("app-1", "k1"), runs_there("nobody", "k2")), node("n2", 2),
        asks(ask("app-1", "k", 1, 4)), {"schedule": 9},
    ),
    "RunningWorkIsAccepted": scenario(
        app("app-1", placeholderAsk=amount(9), tags=FORCED), runs("n1", runs_there("app-1", "k1")), node("n2", 2),
        config=queues("{name: q, resources: {max: {vcore: 4m}}}"),
    ),
    "BoundAskHoldsUpNobody": scenario(
        node("n1", 4), node("n2", 4), app("app-1"), asks(ask("app-1", "k1", 4), ask("app-1", "k2", 3)), {"schedule": 2},
        asks(ask("app-1", "b1", 4, **bound("n1", priority=9)), ask("app-1", "b2", 3, **bound("n2", priority=5))),
        {"schedule": 3},
    ),
    "TemplateInForce": scenario(
        app("app-1", "", **BLUE), {"config": queues(base(2), beside=NAMESPACES)}, app("app-2", "", **GREEN),
        {"dump": True}, config=queues(base(4), beside=NAMESPACES),
    ),
    "BadNameNextRule": scenario(
        app("app-1", "root.base.alice"), app("app-2", "", **BLUE),
        config=queues(base(4), beside=NAMESPACES.replace("]", OTHERWISE)),
    ),
    "LargerGoOn": scenario(
        node("n1", 9), app("app-1", placeholderAsk=amount(9), executionTimeoutMilliSeconds=5_000),
        asks(ask("app-1", "p1", 2, **GANG), ask("app-1", "p2", 2, **GANG)), {"schedule": 2},
        asks(ask("app-1", "r1", 3, **REAL)), {"schedule": 1}, {"wait_ms": 6_000},
        asks(ask("app-1", "r2", 3, **REAL)), {"schedule": 3},
    ),
    "NoPlaceOnDrainingNodes": scenario(
        node("n1", 4), node("n2", 4, "CREATE_DRAIN"), app("app-1", placeholderAsk=amount(2)),
        asks(ask("app-1", "p", 2, **GANG)), {"schedule": 1}, node("n2", action="DRAIN_TO_SCHEDULABLE"),
        node("n1", action="DRAIN_NODE"), asks(ask("app-1", "r", 2, **REAL)), {"schedule": 2},
    ),
}  # fmt: skip

# On n1 all three are taken, or the oldest alone; on n2 two have to go.
ELSEWHERE = scenario(
    node("n1", 6), app("app-1"),
    asks(ask("app-1", "large", 4, **WILLING), ask("app-1", "k1", 1, **WILLING), ask("app-1", "k2", 1, **WILLING)),
    {"schedule": 3}, node("n2", 4), asks(ask("app-1", "k3", 2, **WILLING), ask("app-1", "k4", 2, **WILLING)),
    {"schedule": 2}, app("app-2", "root.b"), asks(ask("app-2", "b", 4, **PREEMPTS)), {"wait_ms": 20}, {"schedule": 3},
    config=queues(guaranteed("q", 0), guaranteed("b", 4), beside=ON),
)  # fmt: skip
# Of two asks that are bound to n1 the second finds no room, in one step with the others.
SECOND_BOUND = scenario(
    node("n1", 5), node("n2", 9), app("app-1"),
    asks(ask("app-1", "b1", 4, **bound("n1", priority=9)), ask("app-1", "b2", 4, **bound("n1", priority=8)),
         ask("app-1", "k", 1)), mode="auto",
)  # fmt: skip

EXPLAINED: Final[Cases] = {name: [Sided(played, their_rule=True)] for name, played in RULED.items()}
# The other way round: ours does what the reference's rule leads to.
NEAR_MISSES: Final[Cases] = {name: [Sided(played, our_rule=True)] for name, played in RULED.items()}

for name, played in (("NoMoreThanNeeded", ELSEWHERE), ("BoundAskHoldsUpNobody", SECOND_BOUND)):
    EXPLAINED[name].append(Sided(played, their_rule=True))
    NEAR_MISSES[name].append(Sided(played, our_rule=True))
