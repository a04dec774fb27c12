"""Kinds about settings of queues, configurations, limits and events."""

from __future__ import annotations

from typing import Any

from ..builders import app, ask, asks, node, release, scenario
from ..recording import Json
from .sided import START, Cases, Edit, Q, R, Sided, event, new, queue, queues, without_events, without_new

LIMITED = "{name: q, limits: [{limit: one, users: [alice], maxresources: {vcore: 1m}}]}"
TEMPLATE = "{name: dyn, parent: true, childtemplate: {maxapplications: 2}}"
TEMPLATE_MAX = "{name: dyn, parent: true, childtemplate: {resources: {max: {vcore: 7m}}}}"
PLACED = "placementrules: [{name: provided, create: true}],"


def adds(path: str, step: int = 1) -> Edit:
    return lambda steps: event(steps[step], "QUEUE", "ADD", "", path)


def configures(path: str, step: int = 1) -> Edit:
    return lambda steps: event(steps[step], "QUEUE", "SET", "QUEUE_CONFIG", path)


def leaks(steps: list[Json]) -> None:
    new(steps[3], "k2")
    steps[3]["productiveCycles"] = 2


def holds_back(steps: list[Json]) -> None:
    without_new(steps[3], "k2")
    steps[3]["productiveCycles"] = 1


def lists(path: str, **settings: Any) -> Edit:
    """A queue is listed like that in the last dump."""
    return lambda steps: queue(steps[-1], path).update(settings)


def lists_not(path: str, name: str) -> Edit:
    return lambda steps: queue(steps[-1], path).pop(name, None)


def no_limits(steps: list[Json]) -> None:
    def clear(tree: Json) -> None:
        tree.pop("maxResources", None)
        tree.pop("maxApplications", None)
        for child in tree.get("children") or ():
            clear(child)

    for user in steps[-1]["dump"]["users"]:
        clear(user["queues"])


def other_limits(steps: list[Json]) -> None:
    def change(tree: Json) -> None:
        if "maxResources" in tree:
            tree["maxResources"] = {"Resources": {"vcore": 5}}
        for child in tree.get("children") or ():
            change(child)

    for user in steps[-1]["dump"]["users"]:
        change(user["queues"])


def uses(vcore: int) -> Edit:
    """A user's usage in the last dump."""

    def edit(steps: list[Json]) -> None:
        def change(tree: Json) -> None:
            tree["resourceUsage"] = {"Resources": {"vcore": vcore}}
            for child in tree.get("children") or ():
                change(child)

        for user in steps[-1]["dump"]["users"]:
            change(user["queues"])

    return edit


def silent_about(*details: str) -> Edit:
    def edit(steps: list[Json]) -> None:
        for step in steps:
            without_events(step, *details)

    return edit


def changes_max(steps: list[Json]) -> None:
    event(steps[0], "QUEUE", "SET", "QUEUE_MAX", "root.q")


CHANGED = scenario({"config": queues("{name: q, resources: {max: {vcore: 2m}}}")}, config=queues(Q))
BY_TAG = scenario(
    app("app-1", "root.dyn.x", tags={"namespace.resourcequota": '{"resources":{"vcore":{"value":2}}}'}),
    app("app-2", "root.dyn.x", tags={"namespace.resourcequota": '{"resources":{"vcore":{"value":3}}}'}),
    config=queues("{name: dyn, parent: true}", beside=PLACED),
)
REMOVED = scenario({"config": queues(Q)}, config=queues(Q, R))
KEPT = scenario(node("n1", 9), {"config": queues(Q, R)})
TWO = scenario(*START, asks(ask("app-1", "k", 1), ask("app-1", "k2", 1)), {"schedule": 2}, config=queues(LIMITED))
ROOMY = scenario(*START, asks(ask("app-1", "k", 1), ask("app-1", "k2", 1)), {"schedule": 2},
                 config=queues(LIMITED.replace("1m", "2m")))  # fmt: skip
MADE = scenario(app("app-1", "root.dyn.x"), {"dump": True}, config=queues(TEMPLATE, beside=PLACED))
ON_THE_WAY = scenario(app("app-1", "root.dyn.x.y"), {"dump": True}, config=queues(TEMPLATE_MAX, beside=PLACED))
PROPERTY = "{name: q, properties: {priority.offset: '5'}}"
WITHOUT_PROPERTY = scenario({"config": queues(Q)}, {"dump": True}, config=queues(PROPERTY))
WITHOUT_MAX = scenario({"config": queues(Q)}, {"dump": True}, config=queues("{name: q, resources: {max: {vcore: 1}}}"))
RESTORED = scenario(
    app("app-1", "root.r"), {"config": queues(Q)}, {"config": queues(Q, R)}, {"dump": True}, config=queues(Q, R)
)
NEVER_GONE = scenario(app("app-1", "root.r"), {"config": queues(Q, R)}, {"dump": True}, config=queues(Q, R))
DRAINS = scenario(*START, {"config": queues(R)}, {"dump": True}, config=queues(LIMITED, R))
REFUSED = scenario(
    app("app-1"), {"config": queues("{name: q, queues: [{name: a}]}", "{name: r, resources: {max: {vcore: 3m}}}")},
    {"dump": True}, config=queues(Q, R),
)  # fmt: skip
GAVE_BACK = scenario(
    *START, asks(ask("app-1", "k", 1), ask("app-1", "k2", 99)), {"schedule": 1}, release("app-1", ""), {"dump": True},
    config=queues("{name: q, limits: [{limit: one, users: [alice], maxresources: {vcore: 9m}}]}"),
)  # fmt: skip
KEEPS = scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}, {"dump": True})

BECOMES_PARENT = scenario(
    *START, asks(ask("app-1", "k", 1)), {"schedule": 1}, {"config": queues("{name: q, queues: [{name: below}]}")},
    asks(ask("app-1", "k2", 1)), {"schedule": 1}, {"dump": True},
)  # fmt: skip
EMPTY_LEAF = scenario({"config": queues("{name: q, queues: [{name: below}]}")}, {"dump": True})
TO_BIG = "placementrules: [{name: fixed, value: root.big}],"
UPPER_CASE = scenario(app("app-1", ""), config=queues("{name: Big}", beside=TO_BIG))
UPPER_CASE_LATER = scenario({"config": queues(Q, "{name: Big}", beside=TO_BIG)}, app("app-1"))
HANGS_BELOW = "placementrules: [{name: user, create: true, parent: {name: fixed, value: root.n}}],"
HANGS = scenario({"config": queues(Q, "{name: n, queues: [{name: x}]}", beside=HANGS_BELOW)}, app("app-1"))
MADE_ABOVE = "placementrules: [{name: user, parent: {name: fixed, value: root.made, create: true}}],"
CREATED = scenario({"config": queues(Q, beside=MADE_ABOVE)}, app("app-1"))
TO_N = "placementrules: [{name: fixed, value: root.n}, {name: provided}],"
TO_PARENT = scenario({"config": queues(Q, "{name: n, queues: [{name: x}]}", beside=TO_N)}, app("app-1"))
TO_NOTHING = scenario({"config": queues(Q, beside=TO_N.replace("fixed", "FIXED"))}, app("app-1"))
MORE_WRONG = scenario({"config": queues(Q, Q, beside=TO_N)}, app("app-1"))
LOWER_CASE = scenario({"config": queues(Q, "{name: big}", beside=TO_BIG)})
BY_COUNT = (
    "{name: q, limits: [{users: [alice], maxapplications: 5}, {users: ['*'], maxresources: {vcore: 2m}, "
    "maxapplications: 5}]}"
)
NAMED = scenario(*START, asks(ask("app-1", "k1", 2), ask("app-1", "k2", 2)), {"schedule": 2}, {"dump": True},
                 config=queues(BY_COUNT))  # fmt: skip
UNNAMED = scenario(*START, asks(ask("app-1", "k1", 2), ask("app-1", "k2", 2)), {"schedule": 2}, {"dump": True})


def uses_less(steps: list[Json]) -> None:
    for user in steps[-1]["dump"]["users"]:
        for listed in (user["queues"], *user["queues"]["children"]):
            listed["resourceUsage"] = {"Resources": {"vcore": 2}}


def accepts(step: int) -> Edit:
    return lambda steps: steps[step].pop("error")


def becomes_parent(steps: list[Json]) -> None:
    """Its applications get nothing more."""
    accepts(4)(steps)
    without_new(steps[6], "k2")
    lists("root.q", isLeaf=False)(steps)


def gets_less(steps: list[Json]) -> None:
    without_new(steps[3], "k2")


def uses_nothing(steps: list[Json]) -> None:
    for user in steps[-1]["dump"]["users"]:
        for listed in (user["queues"], *user["queues"]["children"]):
            listed |= {"resourceUsage": {"Resources": {}}, "runningApplications": []}


def refuses(step: int) -> Edit:
    return lambda steps: steps[step].update(error="refused")


EXPLAINED: Cases = {
    "LeafStaysLeaf": [Sided(BECOMES_PARENT, becomes_parent)],
    "RulesFindTheirQueue": [Sided(each, their_rule=True) for each in (UPPER_CASE, UPPER_CASE_LATER, HANGS, CREATED)],
    "RulesLeadToLeaves": [Sided(each, their_rule=True) for each in (TO_PARENT, TO_NOTHING)],
    "NamedIsNotAnyone": [Sided(NAMED, gets_less), Sided(NAMED, uses_less), Sided(NAMED, uses_nothing)],
    "OnlyChangesAreEvents": [Sided(KEPT, adds("root.q")), Sided(REMOVED, silent_about("QUEUE_CONFIG"))],
    "LimitsHold": [Sided(TWO, leaks)],
    "TemplateMaxApplications": [Sided(MADE, lists_not("root.dyn.x", "maxRunningApps"))],
    "TemplateStandsOnce": [Sided(ON_THE_WAY, lists("root.dyn.x", template={"maxResource": {"vcore": 7}}))],
    "UpdatesMeanWhatTheySay": [Sided(WITHOUT_PROPERTY, lists("root.q", properties={"priority.offset": "5"}))],
    "QuotasCanBeRemoved": [Sided(WITHOUT_MAX, their_rule=True)],
    "QuotasAreEvents": [Sided(CHANGED, silent_about("QUEUE_MAX")), Sided(BY_TAG, silent_about("QUEUE_MAX"))],
    "RestoredQueueIsActive": [Sided(RESTORED, lists("root.r", status="Draining"))],
    "DrainingQueueIsLimited": [Sided(DRAINS, no_limits)],
    "RefusedChangesNothing": [Sided(REFUSED, lists("root.r", maxResource={"vcore": 3}))],
    "UsageIsWhatIsUsed": [Sided(GAVE_BACK, uses(1))],
}
NEAR_MISSES: Cases = {
    "LeafStaysLeaf": [
        # ours does so
        Sided(BECOMES_PARENT, ours=becomes_parent),
        # nothing is in the leaf
        Sided(EMPTY_LEAF, ours=refuses(0)),
        # something else of the text is wrong
        Sided(scenario(*START, {"config": queues("{name: r}", "{name: r}")}), accepts(2)),
    ],
    "RulesFindTheirQueue": [Sided(UPPER_CASE_LATER, our_rule=True), Sided(LOWER_CASE, refuses(0))],
    "RulesLeadToLeaves": [
        Sided(TO_PARENT, our_rule=True),
        # something else is wrong, too
        Sided(MORE_WRONG, accepts(0)),
    ],
    "NamedIsNotAnyone": [
        Sided(NAMED, our_rule=True),
        Sided(NAMED, ours=uses_less),
        Sided(UNNAMED, uses_less),
        Sided(UNNAMED, gets_less),
    ],
    "OnlyChangesAreEvents": [
        Sided(KEPT, adds("root.other")),
        # nothing of it is changed
        Sided(KEPT, ours=configures("root.q")),
    ],
    "LimitsHold": [
        # within the limit
        Sided(ROOMY, ours=holds_back),
        # both go beyond it
        Sided(TWO, leaks, lambda steps: new(steps[3], "k2", vcore=5)),
    ],
    "TemplateMaxApplications": [
        Sided(MADE, lists_not("root.dyn.x", "maxRunningApps"), lists("root.dyn.x", maxRunningApps=3)),
        Sided(MADE, lists("root.dyn.x", maxRunningApps=1)),
    ],
    "TemplateStandsOnce": [Sided(ON_THE_WAY, lists("root.dyn.x", template={"maxResource": {"vcore": 8}}))],
    "UpdatesMeanWhatTheySay": [
        Sided(WITHOUT_PROPERTY, lists("root.q", properties={"priority.offset": "7"})),
        Sided(WITHOUT_PROPERTY, ours=lists("root.q", properties={"priority.offset": "5"})),
    ],
    "QuotasCanBeRemoved": [
        Sided(WITHOUT_MAX, our_rule=True),
        Sided(WITHOUT_MAX, lists("root.q", maxResource={"vcore": 9})),
    ],
    "QuotasAreEvents": [
        # the quota is what it was
        Sided(scenario({"config": queues(Q)}, config=queues(Q)), ours=changes_max),
        Sided(CHANGED, ours=silent_about("QUEUE_MAX")),
    ],
    "RestoredQueueIsActive": [
        Sided(NEVER_GONE, lists("root.r", status="Draining")),
        Sided(RESTORED, ours=lists("root.r", status="Draining")),
    ],
    "DrainingQueueIsLimited": [Sided(DRAINS, no_limits, other_limits)],
    "RefusedChangesNothing": [
        Sided(REFUSED, lists("root.r", maxResource={"vcore": 4})),
        Sided(REFUSED, ours=lists("root.r", maxResource={"vcore": 3})),
    ],
    "UsageIsWhatIsUsed": [
        # nothing was given back
        Sided(KEEPS, uses(7)),
        Sided(GAVE_BACK, ours=uses(1)),
        # a limit is no usage
        Sided(GAVE_BACK, other_limits),
    ],
}
