"""Kinds about what is refused, and what is answered."""

from __future__ import annotations

from ..builders import amount, app, ask, asks, node, release, scenario, withdraw
from ..recording import Json
from .sided import GANG, START, Cases, Edit, Sided, callbacks, event, new, queues, without_callbacks


def accepts_negative(steps: list[Json]) -> None:
    without_callbacks(steps[2], "allocation")
    callbacks(steps[2], "application", updated=[{"applicationID": "app-1", "state": "Accepted"}])


def silent(step: int, kind: str = "allocation") -> Edit:
    return lambda steps: without_callbacks(steps[step], kind)


def acknowledges_more(steps: list[Json]) -> None:
    released = {"UUID": "another", "applicationID": "app-1", "terminationType": "STOPPED_BY_RM"}
    callbacks(steps[0], "allocation", released=[released])


def corrupts_update(steps: list[Json]) -> None:
    new(steps[4], "k", vcore=2)


def cancels(step: int, key: str = "k") -> Edit:
    return lambda steps: event(steps[step], "APP", "REMOVE", "REQUEST_CANCEL", "app-1", key)


def accepts_ask(step: int) -> Edit:
    def edit(steps: list[Json]) -> None:
        without_callbacks(steps[step], "allocation")
        event(steps[step], "APP", "ADD", "APP_REQUEST", "app-1", "r")

    return edit


def rejects_ask(step: int) -> Edit:
    def edit(steps: list[Json]) -> None:
        callbacks(steps[step], "allocation", rejected=[{"applicationID": "app-1", "allocationKey": "r"}])
        steps[step]["events"] = []

    return edit


UPDATED = scenario(*START, asks(ask("app-1", "k", 2, 2)), asks(ask("app-1", "k", 1)), {"schedule": 1})
FAILS = scenario(
    node("n1", 2),
    app("app-1", placeholderAsk=amount(3), gangSchedulingStyle="Hard", executionTimeoutMilliSeconds=1000),
    asks(ask("app-1", "p", 1, 3, **GANG)), {"schedule": -1}, {"wait_ms": 1100}, asks(ask("app-1", "r", 1)),
    no_confirm=True,
)  # fmt: skip
RELEASED = scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}, release("app-1", "$uuid:k"))

AGED = scenario(
    *START, asks(ask("app-1", "k", 5)), asks(ask("app-1", "between", 6)), asks(ask("app-1", "k", 4)),
    asks(ask("app-1", "later", 4)), {"schedule": 1}, {"dump": True},
)  # fmt: skip
IN_TURN = scenario(
    *START, asks(ask("app-1", "k", 5)), asks(ask("app-1", "k", 4)), asks(ask("app-1", "later", 6)), {"schedule": 1}
)


def places_instead(step: int, key: str, vcore: int) -> Edit:
    def edit(steps: list[Json]) -> None:
        without_callbacks(steps[step], "allocation")
        new(steps[step], key, vcore=vcore)

    return edit


EXPLAINED: Cases = {
    "UpdatedAskKeepsItsAge": [Sided(AGED, their_rule=True)],
    "Nonsense": [Sided(scenario(*START, asks(ask("app-1", "k", -1))), accepts_negative)],
    "UnknownReleaseAnswered": [Sided(scenario(release("app-1", "nobody")), silent(0))],
    "UnknownNodeAnswered": [Sided(scenario(node("n9", action="DRAIN_NODE")), silent(0, "node"))],
    "AskUpdated": [Sided(UPDATED, corrupts_update)],
    "AskOver": [
        Sided(
            scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}, release("app-1", "$uuid:k"),
                     withdraw("app-1", "k")), cancels(5)
        ),
    ],
    "FailingTakesNoAsks": [Sided(FAILS, accepts_ask(5))],
}  # fmt: skip
NEAR_MISSES: Cases = {
    "UpdatedAskKeepsItsAge": [
        Sided(AGED, our_rule=True),
        # the other one came after the update
        Sided(IN_TURN, places_instead(5, "later", 6)),
        Sided(AGED, places_instead(6, "later", 4)),
    ],
    # nothing is wrong with the ask, but that its application is unknown
    "Nonsense": [Sided(scenario(*START, asks(ask("nobody", "k", 1))), silent(2))],
    "UnknownReleaseAnswered": [
        Sided(RELEASED, silent(4)),
        Sided(scenario(release("app-1", "nobody")), ours=acknowledges_more),
    ],
    "UnknownNodeAnswered": [Sided(scenario(node("n1", 1), node("n1", 1)), silent(1, "node"))],
    "AskUpdated": [
        Sided(UPDATED, lambda steps: event(steps[4], "NODE", "SET", "NODE_SCHEDULABLE", "n1")),
        Sided(UPDATED, ours=corrupts_update),
    ],
    "AskOver": [
        Sided(scenario(*START, asks(ask("app-1", "k", 1)), node("n2", 1)), cancels(3)),
        Sided(scenario(*START, asks(ask("app-1", "k", 1)), withdraw("app-1", "k")), ours=cancels(3, "other")),
    ],
    "FailingTakesNoAsks": [Sided(scenario(*START, asks(ask("app-1", "r", 1)), config=queues("{name: q}")),
                                 ours=rejects_ask(2))],
}  # fmt: skip
