"""Kinds about where applications go, what they count as, and how they end."""

from __future__ import annotations

from typing import Any

from ..builders import amount, app, ask, asks, node, release, scenario, withdraw
from ..recording import Json
from .sided import GANG, START, Cases, Edit, Q, R, Sided, callbacks, partition, queue, queues, without_callbacks

RULES = "placementrules: [{name: tag, value: namespace, create: true}, {name: user, create: true}],"
BELOW = (
    "placementrules: [{name: tag, value: namespace, create: true, parent: {name: user, create: true}}, "
    "{name: fixed, value: root.q}],"
)


def rejects(step: int, name: str) -> Edit:
    def edit(steps: list[Json]) -> None:
        without_callbacks(steps[step], "application")
        callbacks(steps[step], "application", rejected=[{"applicationID": name}])

    return edit


def refuses(step: int) -> Edit:
    return lambda steps: steps[step].update(error="refused")


def listed_application(step: Json, name: str = "app-1", where: str = "applications") -> Json:
    return dict(next(each for each in partition(step)[where] if each["applicationID"] == name))


def keeps_record(steps: list[Json]) -> None:
    again = {"applicationID": "app-1", "applicationState": "Completed", "queueName": "root.q"}
    partition(steps[-1])["completedApplications"].append(again)


def counts(step: int, user: str = "alice") -> Edit:
    """app-1 counts as running for its user."""

    def edit(steps: list[Json]) -> None:
        running = {"queuePath": "root", "resourceUsage": {"Resources": {}}, "runningApplications": ["app-1"]}
        steps[step]["dump"]["users"] = [{"userName": user, "queues": running}]

    return edit


def counts_nobody(steps: list[Json]) -> None:
    def clear(tree: Json) -> None:
        tree["runningApplications"] = []
        for child in tree.get("children") or ():
            clear(child)

    for user in steps[-1]["dump"]["users"]:
        clear(user["queues"])


def in_groups(*names: str) -> Edit:
    def edit(steps: list[Json]) -> None:
        for each in partition(steps[-1])["applications"]:
            each["groups"] = list(names)

    return edit


def without_groups(name: str) -> Json:
    submitted: dict[str, Any] = app(name)
    submitted["application"]["new"][0]["ugi"] = {"user": "alice"}
    return submitted


DRAINED = scenario(app("app-1", "root.r"), {"config": queues(Q)}, app("late", "root.r"), config=queues(Q, R))
BAD_NAME = scenario(app("app-1", "", tags={"namespace": "no name!"}), config=queues(Q, beside=RULES))
LEAF = scenario(app("app-1", "", tags={"namespace": "red"}), config=queues(Q, "{name: alice}", beside=BELOW))
GAVE_BACK = scenario(
    *START, asks(ask("app-1", "k", 1)), {"schedule": 1}, release("app-1", ""), {"wait_ms": 100},
    completing_timeout_ms=40, quiet_ms=120,
)  # fmt: skip
RAN = scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}, release("app-1", "$uuid:k"), {"dump": True})
RUNS = scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}, {"dump": True})

UNPLACED = scenario(app("app-1", "root.nowhere"), config=queues(Q, "{name: default}"))
UNNAMED = scenario(app("app-1", ""), config=queues(Q, "{name: default}", beside=RULES.replace("create: true", "")))
LATER_USER = scenario(app("app-1", user="ldap/carol"))
LATER_QUEUE = scenario(app("app-1", "root.team@corp"), config=queues(Q, "{name: team@corp}"))
LATER_RULE = scenario(app("app-1", "", tags={"namespace": "eu/west"}), config=queues(Q, beside=RULES))
LATER_UPDATE = scenario(app("app-1"), {"config": queues(Q, "{name: a:b}")}, app("app-2"))
LATER_LIMIT = scenario({"config": queues("{name: q, limits: [{users: [ldap/carol], maxapplications: 1}]}")})

AGAIN = (
    *START, asks(ask("app-1", "k", 1)), {"schedule": 1}, release("app-1", "$uuid:k"),
)  # fmt: skip
BY_PLACE = scenario(*AGAIN, asks(ask("app-1", "p", 1, **GANG)), {"schedule": 1}, {"dump": True})
REPORTED: Any = node("n1", 9)
REPORTED["node"]["nodes"][0]["existingAllocations"] = [
    {"allocationKey": "p", "UUID": "u-1", "applicationID": "app-1", "nodeID": "n1", "partitionName": "default",
     "resourcePerAlloc": amount(1), **GANG}
]  # fmt: skip
BY_REPORTED_PLACE = scenario(app("app-1", placeholderAsk=amount(2)), REPORTED, {"dump": True})


def no_slots(steps: list[Json]) -> None:
    for path in ("root", "root.q"):
        queue(steps[-1], path)["allocatingAcceptedApps"] = []


BY_REAL = scenario(*AGAIN, asks(ask("app-1", "r", 1)), {"schedule": 1}, {"dump": True})

EXPLAINED: Cases = {
    "LaterNames": [
        Sided(each, their_rule=True) for each in (LATER_USER, LATER_QUEUE, LATER_RULE, LATER_UPDATE, LATER_LIMIT)
    ],
    "PlacedByDefault": [Sided(UNPLACED, their_rule=True), Sided(UNNAMED, their_rule=True)],
    "BadNameNextRule": [
        Sided(each, their_rule=True) for each in (BAD_NAME, LEAF)
    ],
    "DrainingQueueTakesNothing": [Sided(DRAINED, their_rule=True)],
    "EverythingGivenBackCompletes": [Sided(GAVE_BACK, their_rule=True)],
    "RecordReplaced": [
        Sided(
            scenario(*START, asks(ask("app-1", "k", 1)), withdraw("app-1"), app("app-1"), {"dump": True},
                     completing_timeout_ms=40), keeps_record
        ),
    ],
    "WhoCountsAsRunning": [Sided(RAN, counts(5)), Sided(BY_PLACE, counts_nobody), Sided(BY_REPORTED_PLACE, no_slots)],
    "GroupsOfTheRequest": [Sided(scenario(without_groups("app-1"), {"dump": True}), in_groups("staff"))],
}  # fmt: skip
NEAR_MISSES: Cases = {
    "LaterNames": [
        Sided(LATER_USER, our_rule=True),
        Sided(scenario(app("app-1")), rejects(0, "app-1")),
        Sided(scenario(app("app-1"), {"config": queues(Q, R)}), refuses(1)),
    ],
    "PlacedByDefault": [
        Sided(UNPLACED, our_rule=True),
        # a queue that is asked for
        Sided(scenario(app("app-1", "root.default"), config=queues(Q, "{name: default}")), rejects(0, "app-1")),
    ],
    "BadNameNextRule": [
        Sided(BAD_NAME, our_rule=True),
        # a tag that no rule looks at
        Sided(scenario(app("app-1", "", tags={"other": "no name!"}), config=queues(Q, beside=RULES)),
              rejects(0, "app-1")),
        # a leaf of the user's name, below which no rule hangs anything
        Sided(scenario(app("app-1", "", tags={}), config=queues(Q, "{name: alice}", beside=BELOW)),
              rejects(0, "app-1")),
    ],
    "DrainingQueueTakesNothing": [
        Sided(DRAINED, our_rule=True),
        Sided(scenario(app("app-1", "root.r"), {"config": queues(Q, R)}, app("late", "root.r"), config=queues(Q, R)),
              ours=rejects(2, "late")),
    ],
    "EverythingGivenBackCompletes": [Sided(GAVE_BACK, our_rule=True)],
    "RecordReplaced": [Sided(scenario(*START, {"dump": True}), keeps_record)],
    "WhoCountsAsRunning": [
        Sided(RUNS, ours=counts_nobody),
        # by a real allocation
        Sided(BY_REAL, counts_nobody),
        Sided(BY_PLACE, ours=counts_nobody),
        Sided(BY_REPORTED_PLACE, ours=no_slots),
        # what an application belongs to is not what counts
        Sided(RUNS, in_groups("dev", "ops")),
    ],
    "GroupsOfTheRequest": [
        Sided(scenario(app("app-1"), {"dump": True}), in_groups("dev", "staff")),
        Sided(scenario(app("app-1"), {"dump": True}), ours=in_groups()),
    ],
}  # fmt: skip
