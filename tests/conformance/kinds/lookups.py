"""Look-ups of several kinds in a scenario and its answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..case import Case, in_step, queues_of, received
from ..compare import FINAL, amounts
from ..recording import Json

REQUIRED_NODE: Final = ("yunikorn.apache.org/requiredNode", "si/requiredNode")


def names_application(elements: list[Json], application: str) -> bool:
    return any(element.get("applicationID", "") == application for element in elements)


def victims_of(step: Json) -> set[str]:
    released = in_step(step, "allocation", "released")
    return {e["UUID"] for e in released if e.get("terminationType") == "PREEMPTED_BY_SCHEDULER"}


def by_node(uuids: set[str], where: dict[str, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for uuid in uuids:
        found.setdefault(where.get(uuid, ""), set()).add(uuid)
    return found


def bound_asks(case: Case, step: int) -> list[Json]:
    """Those that have to be on a certain node, made up to this step: a scheduler that runs by itself places them in
    it."""
    return [ask for at, ask in case.asks() if at.number <= step and bound_to(ask)]


def bound_to(ask: Json) -> str:
    tags = ask.get("tags") or {}
    return str(next((tags[tag] for tag in REQUIRED_NODE if tag in tags), ""))


def is_draining(case: Case, before: int, node_id: str) -> bool:
    draining = False
    for step, node in case.nodes():
        if step.number < before and node.get("nodeID") == node_id:
            action = node.get("action", "")
            draining = action in ("CREATE_DRAIN", "DRAIN_NODE") or (draining and action != "DRAIN_TO_SCHEDULABLE")
    return draining


def withdrawn(case: Case, name: tuple[str, str], since: int, until: int) -> bool:
    """The ask was released, or its application removed."""
    for step, release in case.elements("allocation", "releases", "allocationAsksToRelease"):
        meant = release.get("applicationID") == name[0] and release.get("allocationKey", "") in ("", name[1])
        if meant and since <= step.number < until:
            return True
    removed = case.elements("application", "remove")
    return any(since <= step.number < until and each.get("applicationID") == name[0] for step, each in removed)


def applications_in(dump: Json | None) -> dict[str, Json]:
    """Those that have not ended, by ID."""
    return {
        application["applicationID"]: application
        for partition in ((dump or {}).get("partitions") or {}).values()
        for application in partition.get("applications") or ()
    }


def sums(dump: Json | None) -> dict[str, Json]:
    """By queue: what is allocated and pending."""
    return {
        path: {name: amounts(queue.get(name)) for name in ("allocatedResource", "pendingResource")}
        for path, queue in queues_of(dump).items()
    }


def nodes_at(case: Case, steps: list[Json]) -> set[str]:
    """Nodes that the scheduler has accepted in these steps, and that the RM has not removed since."""
    there: set[str] = set()
    for at, node in case.nodes():
        if at.number < len(steps):
            name = node.get("nodeID", "")
            accepted = any(each.get("nodeID", "") == name for each in in_step(steps[at.number], "node", "accepted"))
            if node.get("action", "").startswith("CREATE") and accepted:
                there.add(name)
            elif node.get("action", "") == "DECOMISSION":
                there.discard(name)
    return there


def held(steps: list[Json]) -> dict[str, Json]:
    """The allocations, by UUID, that are there after these steps."""
    found: dict[str, Json] = {}
    for _, what, element in received(steps, "allocation", "new", "released"):
        if what == "new":
            found[element["UUID"]] = element
        else:
            found.pop(element.get("UUID", ""), None)
    return found


def state_of(steps: list[Json], application: str) -> str:
    """The last state of the application that these steps name; empty for none."""
    states = [e["state"] for _, _, e in received(steps, "application", "updated") if e["applicationID"] == application]
    return str(states[-1]) if states else ""


def ask_of(element: Json) -> tuple[str, str]:
    """(application, key) of an ask, an allocation or a release. Empty ones are left out of messages."""
    return element.get("applicationID", ""), element.get("allocationKey", "")


def is_same_ask(element: Json, ask: tuple[str, str]) -> bool:
    """`ask`: (application, key)."""
    return ask_of(element) == ask


def last_step(case: Case, step: int) -> int:
    """The number of the step; for the dump at the end, the number of steps."""
    return len(case.scenario.steps) if step == FINAL else step


def dump_in(trace: Json, step: int) -> Json:
    return dict(trace["final"] if step == FINAL else trace["steps"][step].get("dump") or {})


def taken_alone(case: Case, by_ours: bool) -> Iterator[tuple[int, str]]:
    """(step, text) of the configurations that one takes and the other refuses; step 0: also that of the
    registration."""
    wanted = [not by_ours, by_ours]
    if ["error" in trace["registration"] for trace in (case.ours, case.theirs)] == wanted:
        yield 0, case.scenario.config
    for step in case.scenario.steps:
        errors = [bool(steps[step.number].get("error")) for steps in (case.our_steps, case.their_steps)]
        if step.action == "config" and errors == wanted:
            yield step.number, str(step.argument)
