"""Each kind of difference on a scenario of its own: what 1.4 answers there is put into our answer, and recognised; put
in where its cause is not, it is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from . import in_process
from .kinds import KINDS
from .recording import Json, Recording, Scenario
from .telling import app, ask, asks, node, release, remove, scenario, trace_of, withdraw
from .verdict import DIFFERENT, EXPLAINED, judge

Edit = Callable[[list[Json]], None]
PARTITION = "[rm:123]default"


def callbacks(step: Json, kind: str, **message: Any) -> None:
    step["callbacks"].append({"cb": kind, "msg": message})


def event(step: Json, kind: str, change: str, detail: str, about: str, reference: str = "") -> None:
    step["events"].append({"type": kind, "eventChangeType": change, "eventChangeDetail": detail, "objectID": about,
                           "referenceID": reference})  # fmt: skip


def without_callbacks(step: Json, kind: str) -> None:
    step["callbacks"] = [callback for callback in step["callbacks"] if callback["cb"] != kind]


def new(step: Json, key: str, application: str = "app-1", node_id: str = "n1", vcore: int = 1) -> None:
    resource = {"resources": {"vcore": {"value": str(vcore)}}}
    callbacks(step, "allocation", new=[{"UUID": f"theirs-{key}", "allocationKey": key, "applicationID": application,
                                        "nodeID": node_id, "resourcePerAlloc": resource}])  # fmt: skip


def accepts_negative(steps: list[Json]) -> None:
    without_callbacks(steps[2], "allocation")
    callbacks(steps[2], "application", updated=[{"applicationID": "app-1", "state": "Accepted"}])


def places_on_not_ready(steps: list[Json]) -> None:
    new(steps[3], "k")


def accepts_in_draining(steps: list[Json]) -> None:
    without_callbacks(steps[2], "application")
    callbacks(steps[2], "application", accepted=[{"applicationID": "late"}])


def rejects_for_bad_name(steps: list[Json]) -> None:
    without_callbacks(steps[0], "application")
    callbacks(steps[0], "application", rejected=[{"applicationID": "app-1"}])


def holds_up(steps: list[Json]) -> None:
    without_callbacks(steps[3], "allocation")
    without_callbacks(steps[3], "application")


def corrupts_update(steps: list[Json]) -> None:
    new(steps[4], "k", vcore=2)


def cancels(steps: list[Json]) -> None:
    event(steps[5], "APP", "REMOVE", "REQUEST_CANCEL", "app-1", "k")


def adds_again(steps: list[Json]) -> None:
    event(steps[1], "QUEUE", "ADD", "", "root.q")


def leaks(steps: list[Json]) -> None:
    new(steps[3], "k2")
    steps[3]["productiveCycles"] = 2


def keeps_record(steps: list[Json]) -> None:
    partition = steps[-1]["dump"]["partitions"][PARTITION]
    partition["completedApplications"].append({"applicationID": "app-1", "applicationState": "Completed",
                                               "queueName": "root.q"})  # fmt: skip


def silent(steps: list[Json]) -> None:
    without_callbacks(steps[0], "allocation")


def forgets_template_limit(steps: list[Json]) -> None:
    for queue in steps[1]["dump"]["partitions"][PARTITION]["queues"]["children"]:
        for child in queue["children"]:
            child.pop("maxRunningApps")


def keeps_properties(steps: list[Json]) -> None:
    [queue] = steps[1]["dump"]["partitions"][PARTITION]["queues"]["children"]
    queue["properties"] = {"priority.offset": "5"}


def other_order(steps: list[Json]) -> None:
    told = [c for c in steps[3]["callbacks"] if c["cb"] == "allocation"]
    [one], [two] = (callback["msg"]["new"] for callback in told)
    one["allocationKey"], two["allocationKey"] = two["allocationKey"], one["allocationKey"]


def queues(*names: str, beside: str = "") -> str:
    listed = ", ".join(names)
    return f"partitions: [{{name: default, {beside} queues: [{{name: root, submitacl: '*', queues: [{listed}]}}]}}]"


Q, R = "{name: q}", "{name: r}"
LIMITED = "{name: q, limits: [{limit: one, users: [alice], maxresources: {vcore: 1m}}]}"
RULES = "placementrules: [{name: tag, value: namespace, create: true}, {name: user, create: true}],"
TEMPLATE = "{name: dyn, parent: true, childtemplate: {maxapplications: 2}}"
PLACED = "placementrules: [{name: provided, create: true}],"
BOUND: dict[str, Any] = {"tags": {"yunikorn.apache.org/requiredNode": "nowhere"}}
START = (node("n1", 9), app("app-1"))

# Kind -> a scenario that has its cause, and what 1.4 makes of it.
CASES: dict[str, tuple[Scenario, Edit]] = {
    "Nonsense": (scenario(*START, asks(ask("app-1", "k", -1))), accepts_negative),
    "UnknownReleaseAnswered": (scenario(release("app-1", "nobody")), silent),
    "BadNameNextRule": (
        scenario(app("app-1", "", tags={"namespace": "no name!"}), config=queues(Q, beside=RULES)), rejects_for_bad_name
    ),
    "NotReadyTakesNothing": (
        scenario(node("n1", 9, ready="false"), app("app-1"), asks(ask("app-1", "k", 1)), {"schedule": 1}),
        places_on_not_ready,
    ),
    "DrainingQueueTakesNothing": (
        scenario(app("app-1", "root.r"), {"config": queues(Q)}, app("late", "root.r"), config=queues(Q, R)),
        accepts_in_draining,
    ),
    "UnknownRequiredNode": (
        scenario(*START, asks(ask("app-1", "bound", 1, priority=9, **BOUND), ask("app-1", "k", 1)), {"schedule": 1}),
        holds_up,
    ),
    "AskUpdated": (
        scenario(*START, asks(ask("app-1", "k", 2, 2)), asks(ask("app-1", "k", 1)), {"schedule": 1}), corrupts_update
    ),
    "AskOver": (
        scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}, release("app-1", "$uuid:k"),
                 withdraw("app-1", "k")), cancels
    ),
    "OnlyChangesAreEvents": (scenario(node("n1", 9), {"config": queues(Q, R)}), adds_again),
    "LimitsHold": (
        scenario(*START, asks(ask("app-1", "k", 1), ask("app-1", "k2", 1)), {"schedule": 2}, config=queues(LIMITED)),
        leaks,
    ),
    "RecordReplaced": (
        scenario(*START, asks(ask("app-1", "k", 1)), withdraw("app-1"), app("app-1"), {"dump": True},
                 completing_timeout_ms=40), keeps_record
    ),
    "TemplateMaxApplications": (
        scenario(app("app-1", "root.dyn.x"), {"dump": True}, config=queues(TEMPLATE, beside=PLACED)),
        forgets_template_limit,
    ),
    "UpdatesMeanWhatTheySay": (
        scenario({"config": queues(Q)}, {"dump": True}, config=queues("{name: q, properties: {priority.offset: '5'}}")),
        keeps_properties,
    ),
}  # fmt: skip
BY_NAME = {type(kind).__name__: kind for kind in KINDS}


@pytest.mark.parametrize("name", CASES)
def test_recognised_where_its_cause_is(name):
    played, edit = CASES[name]
    trace = copy.deepcopy(trace_of(played))
    edit(trace["steps"])
    trace["final"] = copy.deepcopy(trace["steps"][-1].get("dump", trace["final"]))
    verdict = judge(Recording(played, trace), in_process.play)
    assert verdict.word == EXPLAINED, [str(each) for each in verdict.unexplained] or verdict.error
    assert BY_NAME[name].name in verdict.kinds


@pytest.mark.parametrize("name", CASES)
def test_not_recognised_without_its_cause(name):
    """The same odd answer to a scenario in which nothing of the kind is done."""
    played = scenario(*START, asks(ask("app-1", "k", 1)), {"schedule": 1}, release("app-1", "$uuid:k"), {"dump": True},
                      remove("other"), {"dump": True}, node("n2", 1))  # fmt: skip
    trace = copy.deepcopy(trace_of(played))
    steps = trace["steps"]
    event(steps[4], "APP", "REMOVE", "REQUEST_CANCEL", "app-1", "other")
    event(steps[7], "NODE", "SET", "NODE_SCHEDULABLE", "n1")
    new(steps[3], "other")
    verdict = judge(Recording(played, trace), in_process.play)
    assert verdict.word == DIFFERENT
    assert BY_NAME[name].name not in verdict.kinds


def test_equal_candidates_only_where_the_reference_varies():
    played = scenario(*START, asks(ask("app-1", "k1", 1), ask("app-1", "k2", 1)), {"schedule": 2})
    trace = copy.deepcopy(trace_of(played))
    other_order(trace["steps"])
    varied, fixed = (judge(Recording(played, trace, sure), in_process.play) for sure in (False, True))
    assert (varied.word, list(varied.kinds)) == (EXPLAINED, [BY_NAME["EqualCandidates"].name])
    assert fixed.word == DIFFERENT
