"""The parts of a case of a kind, and changes of answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from .. import in_process
from ..builders import app, node
from ..kinds import KINDS, Kind
from ..recording import Json, Recording, Scenario
from ..reference_rules import in_force
from ..verdict import Verdict, judge

Edit = Callable[[list[Json]], None]
PARTITION: Final = "[rm:123]default"
START: Final = (node("n1", 9), app("app-1"))
GANG: Final[dict[str, Any]] = {"placeholder": True, "taskGroupName": "t"}


def nothing(_: list[Json]) -> None:
    """Changes nothing."""


@dataclass(frozen=True)
class Sided:
    """A scenario with two answers. Both are ours, and then: `theirs` and `ours` change the steps of one of them;
    `their_rule` and `our_rule`: that one is played with the first reference rule of the kind."""

    played: Scenario
    theirs: Edit = nothing
    ours: Edit = nothing
    their_rule: bool = False
    our_rule: bool = False
    deterministic: bool = True


Cases = dict[str, list[Sided]]


def kind_named(name: str) -> Kind:
    return next(kind for kind in KINDS if type(kind).__name__ == name)


def trace_with(played: Scenario, rule: Kind | None, edit: Edit) -> Json:
    with in_force([rule.reference_rules[0]] if rule else []):
        trace = copy.deepcopy(in_process.play(played).as_trace())
    edit(trace["steps"])
    if played.steps[-1].action == "dump":
        trace["final"] = copy.deepcopy(trace["steps"][-1]["dump"])
    return trace


class _Answers:
    def __init__(self, trace: Json) -> None:
        self._trace = trace

    def as_trace(self) -> Json:
        return self._trace


def verdict_on(name: str, case: Sided) -> Verdict:
    kind = kind_named(name)

    def play(played: Scenario, _: str) -> Any:
        """Under the rule that the judge has put in force."""
        return _Answers(_ours(kind, case))

    theirs = trace_with(case.played, kind if case.their_rule else None, case.theirs)
    return judge(Recording(case.played, theirs, case.deterministic), play)


def _ours(kind: Kind, case: Sided) -> Json:
    with ExitStack() as stack:
        if case.our_rule:
            stack.enter_context(in_force([kind.reference_rules[0]]))
        return trace_with(case.played, None, case.ours)


# Changes


def callbacks(step: Json, kind: str, **message: Any) -> None:
    step["callbacks"].append({"cb": kind, "msg": message})


def event(step: Json, kind: str, change: str, detail: str, about: str, reference: str = "") -> None:
    step["events"].append({"type": kind, "eventChangeType": change, "eventChangeDetail": detail, "objectID": about,
                           "referenceID": reference})  # fmt: skip


def without_callbacks(step: Json, kind: str) -> None:
    step["callbacks"] = [callback for callback in step["callbacks"] if callback["cb"] != kind]


def without_events(step: Json, *details: str) -> None:
    step["events"] = [each for each in step["events"] if each.get("eventChangeDetail") not in details]


def new(step: Json, key: str, application: str = "app-1", node_id: str = "n1", vcore: int = 1) -> None:
    resource = {"resources": {"vcore": {"value": str(vcore)}}}
    callbacks(step, "allocation", new=[{"UUID": f"theirs-{key}", "allocationKey": key, "applicationID": application,
                                        "nodeID": node_id, "resourcePerAlloc": resource}])  # fmt: skip


def without_new(step: Json, key: str) -> None:
    step["callbacks"] = [
        callback for callback in step["callbacks"]
        if not any(each.get("allocationKey") == key for each in callback["msg"].get("new") or ())
    ]  # fmt: skip


def partition(step: Json) -> Json:
    return dict(step["dump"]["partitions"][PARTITION])


def queue(step: Json, path: str) -> Json:
    """As it is listed in the dump of this step."""
    found: Json = partition(step)["queues"]
    while found["queuename"] != path:
        found = next(each for each in found["children"] if f"{path}.".startswith(f"{each['queuename']}."))
    return found


def queues(*names: str, beside: str = "") -> str:
    """The text of a configuration."""
    listed = ", ".join(names)
    return f"partitions: [{{name: default, {beside} queues: [{{name: root, submitacl: '*', queues: [{listed}]}}]}}]"


Q, R = "{name: q}", "{name: r}"
