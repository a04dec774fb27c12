"""The kinds of difference from the reference that are meant: each with its reason, and a predicate that recognises it
from the data alone. docs/differences.md is written from this table.

A kind may explain single differences (`explains`), or say from which step on the two answers have to part
(`taints_from`). Predicates are narrow: they look for the very thing in scenario, trace and answer.
"""

from __future__ import annotations

import re
from inspect import getdoc
from typing import Any, Final

from .case import Case, available, event_in, in_step, quantities, queue_configs, queues_of, told
from .compare import FINAL, Difference, amounts
from .limited import broken
from .recording import Json, Step

QUEUE_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ENDING: Final = ("Failing", "Failed", "Resuming")
REQUIRED_NODE: Final = ("yunikorn.apache.org/requiredNode", "si/requiredNode")


class Kind:
    """Its docstring: a short sentence, and a paragraph that says why ours is better. `golden`: file and title of the
    golden scenario that shows ours."""

    golden: str

    @property
    def name(self) -> str:
        return (getdoc(self) or "").partition("\n")[0]

    @property
    def why(self) -> str:
        return " ".join((getdoc(self) or "").partition("\n")[2].split())

    def explains(self, case: Case, difference: Difference) -> bool:
        return False

    def taints_from(self, case: Case) -> int | None:
        """The first step from which on the rest cannot be compared any more."""
        return None


# What is refused


class Nonsense(Kind):
    """What makes no sense is refused

    The reference accepts empty IDs and keys and negative amounts and counts, and its sums are wrong from then
    on: a negative ask adds room to a queue, an ask without a key can never be released. Here every element of a
    request is looked at, and refused with the field and the value.
    """

    golden = "asks.txt: Every ask refused"

    def taints_from(self, case: Case) -> int | None:
        for step, what, element in _elements(case):
            if is_nonsense(what, element) and _refused(case.our_steps[step.number], what, element) and not _refused(
                case.their_steps[step.number], what, element
            ):  # fmt: skip
                return step.number
        return None


def _elements(case: Case) -> list[tuple[Step, str, Json]]:
    found = [(step, "node", node) for step, node in case.nodes()]
    found += [(step, "application", application) for step, application in case.applications()]
    found += [(step, "ask", ask) for step, ask in case.asks()]
    return sorted(found, key=lambda each: each[0].number)


def is_nonsense(what: str, element: Json) -> bool:
    if what == "ask":
        amounts = quantities(element.get("resourceAsk")).values()
        return (
            not element.get("allocationKey")
            or not element.get("applicationID")
            or min(amounts, default=0) < 0
            or int(element.get("maxAllocations", 0)) < 0
        )
    if what == "node":
        resources = [quantities(element.get(name)) for name in ("schedulableResource", "occupiedResource")]
        return not element.get("nodeID") or any(amount < 0 for each in resources for amount in each.values())
    return not element.get("applicationID") or min(quantities(element.get("placeholderAsk")).values(), default=0) < 0


def _refused(step: Json, what: str, element: Json) -> bool:
    kind = "allocation" if what == "ask" else what
    identity = {"ask": "allocationKey", "node": "nodeID", "application": "applicationID"}[what]
    return any(each.get(identity, "") == element.get(identity, "") for each in in_step(step, kind, "rejected"))


class UnknownReleaseAnswered(Kind):
    """A release of something unknown is acknowledged

    An RM that releases what the scheduler does not know (any more) waits for an answer: the reference says
    nothing, and the RM waits for ever. Here the same release comes back, as for everything that is released.
    """

    golden = "releases.txt: What is not there is acknowledged and changes nothing"

    def explains(self, case: Case, difference: Difference) -> bool:
        ours = difference.ours
        if difference.path[0] != "allocation callback" or difference.theirs is not None or ours["what"] != "released":
            return False
        uuid, application = ours["UUID"], ours["applicationID"]
        if ours["terminationType"] != "STOPPED_BY_RM" or case.step(difference.step).action != "allocation":
            return False
        return not _is_held(case.our_steps[: difference.step], uuid, application)


def _is_held(steps: list[Json], uuid: str, application: str) -> bool:
    """Whether the application has this allocation after these steps."""
    held = False
    for _, name, element in told(steps, "allocation", "new", "released"):
        if element.get("UUID") == uuid and element.get("applicationID") == application:
            held = name == "new"
    return held


class BadNameNextRule(Kind):
    """A rule whose queue cannot be is passed over

    A placement rule that makes an impossible queue name (a tag with a blank in it) ends the placement in the
    reference: the application is rejected, although a later rule would have placed it. Here such a rule does
    not match, like any other whose queue cannot be, and the next one is tried.
    """

    golden = "differences.txt: A rule whose queue cannot be is passed over"

    def taints_from(self, case: Case) -> int | None:
        for step, application in case.applications():
            name = application.get("applicationID", "")
            accepted = any(
                e["applicationID"] == name for e in in_step(case.our_steps[step.number], "application", "accepted")
            )
            rejected = [
                e
                for e in in_step(case.their_steps[step.number], "application", "rejected")
                if e["applicationID"] == name
            ]
            values = [str(value) for value in (application.get("tags") or {}).values()]
            if accepted and rejected and any(not QUEUE_NAME.fullmatch(value.replace(".", "_dot_")) for value in values):
                return step.number
        return None


# What is placed where


class NotReadyTakesNothing(Kind):
    """A node that is not ready takes nothing

    An RM says `ready: false` of a node that cannot start anything. The reference only counts such nodes and
    goes on placing on them.
    """

    golden = "nodes.txt: Not ready: nothing new"

    def taints_from(self, case: Case) -> int | None:
        not_ready = _not_ready(case)
        for number, _, new in told(case.their_steps, "allocation", "new"):
            if any(new.get("nodeID") == node_id and first <= number < last for node_id, (first, last) in not_ready):
                return number
        return None


def _not_ready(case: Case) -> list[tuple[str, tuple[int, int]]]:
    """(node, from which step, until which) it was not ready."""
    found: list[tuple[str, tuple[int, int]]] = []
    since: dict[str, int] = {}
    for step, node in case.nodes():
        ready = (node.get("attributes") or {}).get("ready")
        if ready is None:
            continue
        if str(ready).lower() == "false":
            since.setdefault(node["nodeID"], step.number)
        elif node["nodeID"] in since:
            found.append((node["nodeID"], (since.pop(node["nodeID"]), step.number)))
    return found + [(node_id, (first, len(case.scenario.steps))) for node_id, first in since.items()]


class DrainingQueueTakesNothing(Kind):
    """A queue that drains takes no applications

    A queue that is gone from the configuration drains, so that it can go when it is empty. The reference goes
    on accepting applications in it, so it never is.
    """

    golden = "configurations.txt: A queue more, a queue less, and back again"

    def taints_from(self, case: Case) -> int | None:
        for step, application in case.applications():
            name = application.get("applicationID", "")
            path = str(application.get("queueName", "")).lower()
            known = [(number, queue_configs(found)) for number, found in case.configurations() if number < step.number]
            gone = len(known) > 1 and path not in known[-1][1] and any(path in queues for _, queues in known[:-1])
            ours = in_step(case.our_steps[step.number], "application", "rejected")
            theirs = in_step(case.their_steps[step.number], "application", "accepted")
            if gone and _names(ours, name) and _names(theirs, name):
                return step.number
        return None


def _names(elements: list[Json], application: str) -> bool:
    return any(element.get("applicationID", "") == application for element in elements)


class UnknownRequiredNode(Kind):
    """An ask for a node that is not there holds up nobody else

    An ask bound to a node that does not exist waits, and says why. In the reference nothing else of its
    application is placed as long as it waits.
    """

    golden = "nodes.txt: A required node that is not there yet, or takes nothing"

    def taints_from(self, case: Case) -> int | None:
        for step, ask in case.asks():
            tags = ask.get("tags") or {}
            wanted = next((tags[tag] for tag in REQUIRED_NODE if tag in tags), "")
            if not wanted or wanted in _nodes_at(case, step.number):
                continue
            for number in range(step.number, len(case.scenario.steps)):
                mine = in_step(case.our_steps[number], "allocation", "new")
                other = in_step(case.their_steps[number], "allocation", "new")
                held_up = {e["UUID"] for e in mine if e["applicationID"] == ask["applicationID"]}
                if held_up - {e["UUID"] for e in other}:
                    return number
        return None


def _nodes_at(case: Case, step: int) -> set[str]:
    there: set[str] = set()
    for at, node in case.nodes():
        if at.number <= step:
            action = node.get("action", "")
            if action.startswith("CREATE"):
                there.add(node.get("nodeID", ""))
            elif action == "DECOMISSION":
                there.discard(node.get("nodeID", ""))
    return there


# Asks


class AskUpdated(Kind):
    """An ask can be updated

    The same allocation key again means an update: resource, priority and count are replaced. The reference
    keeps the old ask in its order beside the new one, allocates both, and its pending sums are wrong from then
    on.
    """

    golden = "asks.txt: The same key again replaces the ask; what was allocated stays"

    def taints_from(self, case: Case) -> int | None:
        known: dict[tuple[str, str], tuple[int, int]] = {}
        for step, ask in case.asks():
            name = (ask.get("applicationID", ""), ask.get("allocationKey", ""))
            count = int(ask.get("maxAllocations", 0))
            if name in known:
                since, wanted = known[name]
                made = [
                    new
                    for number, _, new in told(case.their_steps[since : step.number], "allocation", "new")
                    if (new.get("applicationID"), new.get("allocationKey")) == name
                ]
                if len(made) < wanted and not _withdrawn(case, name, since, step.number):
                    return step.number
            known[name] = (step.number, count)
        return None


def _withdrawn(case: Case, name: tuple[str, str], since: int, until: int) -> bool:
    """The ask was released, or its application removed."""
    for step, release in case.elements("allocation", "releases", "allocationAsksToRelease"):
        meant = release.get("applicationID") == name[0] and release.get("allocationKey", "") in ("", name[1])
        if meant and since <= step.number < until:
            return True
    removed = case.elements("application", "remove")
    return any(since <= step.number < until and each.get("applicationID") == name[0] for step, each in removed)


class AskOver(Kind):
    """That an ask is over is said of allocations that are there

    Asks of which nothing is pending are not kept. When they are withdrawn, or their application goes or its gang gives
    up, the asks of the allocations that are still there are said to be over. The reference keeps the asks themselves
    until then: it says so also of asks whose allocations have gone, and not again of asks that had been withdrawn.
    """

    golden = "releases.txt: A removed application gives back all it holds"

    def explains(self, case: Case, difference: Difference) -> bool:
        name = self._ask(difference.path[0], difference.ours or difference.theirs)
        if name is None:
            return False
        if difference.theirs is None:
            return _withdrawn(case, name, 0, difference.step)
        wanted, since = 0, 0
        for step, ask in case.asks():
            if step.number <= difference.step and (ask.get("applicationID"), ask.get("allocationKey")) == name:
                wanted, since = int(ask.get("maxAllocations", 0)), step.number
        made = [
            new
            for _, _, new in told(case.our_steps[since : difference.step + 1], "allocation", "new")
            if (new["applicationID"], new["allocationKey"]) == name
        ]
        return wanted > 0 and len(made) >= wanted

    def _ask(self, where: str, told_of: Any) -> tuple[str, str] | None:
        """Of the event or callback, (application, key)."""
        if where == "event":
            over = told_of[:3] in (["APP", "REMOVE", "REQUEST_CANCEL"], ["APP", "REMOVE", "REQUEST_TIMEOUT"])
            return (told_of[3], told_of[4]) if over else None
        if where == "allocation callback" and told_of["what"] == "releasedAsks":
            return told_of["applicationID"], told_of["allocationKey"]
        return None


# Queues and configurations


class WhoCountsAsRunning(Kind):
    """An application counts as long as it runs

    An application holds a slot of its queues, and of its user, from its first allocation (or, being Accepted, what was
    reserved for it) until it has ended. In the reference one that has lost all it was given keeps the slot, also
    for a user who holds nothing, and one that runs again after it was Completing does not count until it is given
    something.
    """

    golden = "differences.txt: A reserved slot goes with its application"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or not {"allocatingAcceptedApps", "users", "groups"} & set(path):
            return False
        ours, theirs = (self._names(value) for value in (difference.ours, difference.theirs))
        if ours is None or theirs is None or ours == theirs:
            return False
        mine, other = (_applications(case, steps, difference.step) for steps in (case.ours, case.theirs))
        return all(self._over(other.get(name)) for name in theirs - ours) and all(
            self._again(mine.get(name)) for name in ours - theirs
        )

    def _names(self, value: Any) -> set[str] | None:
        """Of a list of applications, or of trees of users that have nothing but such lists."""
        if value is None or isinstance(value, list):
            return set(value or ())
        found: set[str] = set()
        if not isinstance(value, dict):
            return None
        for name, item in value.items():
            if not isinstance(item, list | dict) or name in ("resourceUsage", "maxResources"):
                return None
            below = self._names(item)
            if below is None:
                return None
            found |= below
        return found

    def _over(self, application: Json | None) -> bool:
        """It has nothing, or is on its way out."""
        return self._idle(application) or application is None or application["applicationState"] in ENDING

    def _idle(self, application: Json | None) -> bool:
        return not application or not (application.get("allocations") or application.get("reservations"))

    def _again(self, application: Json | None) -> bool:
        states = [entry["applicationState"] for entry in (application or {}).get("stateLog") or ()]
        return not (application or {}).get("allocations") and states[-2:] == ["Completing", "Running"]


def _applications(case: Case, trace: Json, step: int) -> dict[str, Json]:
    dump = trace["final"] if step == FINAL else trace["steps"][step].get("dump")
    return {
        application["applicationID"]: application
        for partition in ((dump or {}).get("partitions") or {}).values()
        for application in partition.get("applications") or ()
    }


class DrainingQueueIsLimited(Kind):
    """A queue that drains keeps its limits

    What still runs in a queue that is gone from the configuration stays under the limits it had. The reference drops
    them at once.
    """

    golden = "differences.txt: A queue that drains keeps its limits"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or path[1] not in ("users", "groups") or difference.theirs is not None or len(path) < 4:
            return False
        dumps = [
            t["final"] if difference.step == FINAL else t["steps"][difference.step]["dump"]
            for t in (case.ours, case.theirs)
        ]
        return all(queues_of(dump).get(path[3], {}).get("status") == "Draining" for dump in dumps)


class TemplateMaxApplications(Kind):
    """maxapplications of a child template counts

    A child template may limit how many applications run in each queue made from it. The reference reads the
    value, checks it, and forgets it.
    """

    golden = "differences.txt: maxapplications of a template limits each queue made from it"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or path[-1] != "maxRunningApps" or difference.theirs is not None or len(path) < 5:
            return False
        return _template_limit(case, difference.step, path[-2]) == difference.ours

    def taints_from(self, case: Case) -> int | None:
        """Where theirs has more applications running in a queue than its template allows."""
        previous = 0
        for number, step in enumerate(case.their_steps):
            for path, queue in queues_of(step.get("dump")).items():
                most = _template_limit(case, number, path)
                if (
                    not queue.get("isManaged")
                    and 0 < most <= queue.get("runningApps", 0)
                    and _waits(case, number, path)
                ):
                    return previous
            if step.get("dump"):
                previous = number
        return None


def _waits(case: Case, step: int, path: str) -> bool:
    """Ours has an application that waits for its turn in this queue, and theirs runs."""
    ours, theirs = (_states(steps[step].get("dump"), path) for steps in (case.our_steps, case.their_steps))
    return any(state == "Accepted" and theirs.get(name) not in (None, "Accepted") for name, state in ours.items())


def _states(dump: Json | None, path: str) -> dict[str, str]:
    found = {}
    for partition in ((dump or {}).get("partitions") or {}).values():
        for application in partition.get("applications") or ():
            if application.get("queueName") == path:
                found[application["applicationID"]] = application["applicationState"]
    return found


def _template_limit(case: Case, step: int, path: str) -> int:
    """What the nearest template above a queue that is not configured says; 0: nothing."""
    configured = queue_configs(case.configuration_at(len(case.scenario.steps) if step == FINAL else step))
    if path in configured:
        return 0
    while "." in path:
        path = path.rpartition(".")[0]
        if path in configured and configured[path].HasField("child_template"):
            return configured[path].child_template.max_applications
    return 0


# Events and records


class OnlyChangesAreEvents(Kind):
    """An event says what has changed

    The reference sends events for what did not happen or was so before: a node whose CREATE it then rejects is
    added, a draining node becomes unschedulable once more when it is decommissioned, queues that a new
    configuration keeps are added again. Here there is an event for each fact, and none without; what a new
    configuration changes in a queue, and that a queue drains, is told as QUEUE_CONFIG.
    """

    golden = "nodes.txt: Draining keeps what runs and takes nothing new"

    def explains(self, case: Case, difference: Difference) -> bool:
        if "maxUsedResource" in difference.path:  # what was on a rejected node counts in the reference
            last = len(case.scenario.steps) if difference.step == FINAL else difference.step
            steps = [step for step in case.scenario.steps[:last] if step.action == "node"]
            return any(_of_rejected_node(case, step, name) for step in steps for name in difference.path)
        if difference.path[0] != "event":
            return False
        step = case.step(difference.step) if difference.step != FINAL else None
        if step is None:
            return False
        if difference.theirs is not None:
            return self._theirs(case, step, *difference.theirs)
        return self._ours(case, step, *difference.ours)

    def _theirs(self, case: Case, step: Step, kind: str, change: str, detail: str, about: str, reference: str) -> bool:
        if step.action == "application" and kind in ("APP", "QUEUE"):
            name = about if kind == "APP" else reference
            return all(
                _names(in_step(s[step.number], "application", "rejected"), name)
                for s in (case.our_steps, case.their_steps)
            )
        if step.action == "node" and kind == "APP" and detail in ("APP_ALLOC", "ALLOC_NODEREMOVED"):
            return _of_rejected_node(case, step, about)
        if kind == "NODE" and step.action == "node":
            rejected = any(
                e.get("nodeID", "") == about for e in in_step(case.our_steps[step.number], "node", "rejected")
            )
            created = (change, detail) in (("ADD", ""), ("SET", "NODE_SCHEDULABLE"), ("ADD", "NODE_ALLOC"))
            was_draining = (change, detail) == ("SET", "NODE_SCHEDULABLE") and _drains(case, step.number, about)
            return (rejected and created) or was_draining
        if kind == "QUEUE" and step.action == "config":
            there = any(event_in(each, "QUEUE", "ADD", "", about) for each in case.our_steps[: step.number])
            return there and (change, detail) == ("ADD", "")
        return False

    def _ours(self, case: Case, step: Step, kind: str, change: str, detail: str, about: str, reference: str) -> bool:
        if kind == "APP" and step.action == "application" and (change, detail) in (("ADD", ""), ("SET", "APP_REJECT")):
            ours, theirs = (
                in_step(s[step.number], "application", "rejected") for s in (case.our_steps, case.their_steps)
            )
            return _names(ours, about) and _names(theirs, about)
        return kind == "QUEUE" and step.action == "config" and (change, detail) == ("SET", "QUEUE_CONFIG")


def _of_rejected_node(case: Case, step: Step, application: str) -> bool:
    """It has an allocation on a node that both reject in this step."""
    rejected = [
        {e.get("nodeID", "") for e in in_step(steps[step.number], "node", "rejected")}
        for steps in (case.our_steps, case.their_steps)
    ]
    return any(
        existing.get("applicationID") == application
        for node in step.argument["nodes"]
        if node.get("nodeID", "") in rejected[0] & rejected[1]
        for existing in node.get("existingAllocations") or ()
    )


class FailingTakesNoAsks(Kind):
    """An application that is failing takes no asks

    What is asked for an application that is on its way to Failed can never be allocated. The reference accepts it and
    says no more of it; here it is rejected, with the reason.
    """

    golden = "differences.txt: What is asked for an application that fails is refused"

    def explains(self, case: Case, difference: Difference) -> bool:
        callback, event = difference.ours, difference.theirs
        if difference.path[0] == "allocation callback" and event is None and callback["what"] == "rejected":
            return _fails(case, difference.step, callback["applicationID"])
        if difference.path[0] == "event" and callback is None and event[:3] == ["APP", "ADD", "APP_REQUEST"]:
            rejected = in_step(case.our_steps[difference.step], "allocation", "rejected")
            return _names(rejected, event[3]) and _fails(case, difference.step, event[3])
        return False

    def taints_from(self, case: Case) -> int | None:
        for step, ask in case.asks():
            name = ask.get("applicationID", "")
            rejected = [
                _names(in_step(s[step.number], "allocation", "rejected"), name)
                for s in (case.our_steps, case.their_steps)
            ]
            if rejected == [True, False] and _fails(case, step.number, name):
                return step.number + 1
        return None


def _fails(case: Case, step: int, application: str) -> bool:
    states = [
        element["state"]
        for _, _, element in told(case.our_steps[:step], "application", "updated")
        if element["applicationID"] == application
    ]
    return states[-1:] == ["Failing"]


def _drains(case: Case, before: int, node_id: str) -> bool:
    draining = False
    for step, node in case.nodes():
        if step.number < before and node.get("nodeID") == node_id:
            action = node.get("action", "")
            draining = action in ("CREATE_DRAIN", "DRAIN_NODE") or (draining and action != "DRAIN_TO_SCHEDULABLE")
    return draining


class RecordReplaced(Kind):
    """One application has one record

    The ID of an application that has ended may be used again. The reference then lists both under one ID; here
    the record of the old one makes room. (The event history has both.)
    """

    golden = "lives_of_applications.txt: The ID of an ended application may be used again, of a living one not"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        listed = ("completedApplications", "rejectedApplications")
        if path[0] != "dump" or difference.ours is not None or not set(path) & set(listed):
            return False
        last = len(case.scenario.steps) if difference.step == FINAL else difference.step
        submitted = [each.get("applicationID") for step, each in case.applications() if step.number <= last]
        ids = [path[-1]] if path[-1] not in listed else list(difference.theirs)
        return all(submitted.count(name) > 1 for name in ids)


class LimitsHold(Kind):
    """A limit holds exactly

    A user or a group never holds more of a queue than its limit says, resource by resource, in every queue up to root.
    The reference lets several combinations pass: limits that do not name every resource, limits on several levels,
    wildcards beside named users; and what it has let pass corrupts the sums that later decisions look at.
    """

    golden = "limits.txt: A limit names what it limits, and limits that exactly"

    def taints_from(self, case: Case) -> int | None:
        ours = set(broken(case, case.our_steps))
        return next((step for step, limit in broken(case, case.their_steps) if (step, limit) not in ours), None)


class KeptForPreemptor(Kind):
    """What is freed by preemption goes to whom it was freed for

    The node is reserved for the ask that others were preempted for, until it is placed. In the reference the next cycle
    gives the room to whoever comes first, which may be the very application that was preempted, or a smaller ask.
    """

    golden = "preemption.txt: A queue takes back what is guaranteed to it, the youngest go first"

    def explains(self, case: Case, difference: Difference) -> bool:
        event = difference.ours
        if difference.path[0] != "event" or difference.theirs is not None or event[2] != "NODE_RESERVATION":
            return False
        before = [case.our_steps[: difference.step + 1], case.their_steps[: difference.step + 1]]
        return all(_preempted(steps) for steps in before)

    def taints_from(self, case: Case) -> int | None:
        """Where both preempt the same, and then place something else in its place."""
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            victims = [_victims(step) for step in (ours, theirs)]
            placed = [{e["UUID"] for e in in_step(step, "allocation", "new")} for step in (ours, theirs)]
            alike = victims[0] == victims[1] or (not case.deterministic and len(victims[0]) == len(victims[1]))
            if victims[0] and alike and placed[0] - placed[1] and placed[1] - placed[0]:
                return number
        return None


def _victims(step: Json) -> set[str]:
    released = in_step(step, "allocation", "released")
    return {e["UUID"] for e in released if e.get("terminationType") == "PREEMPTED_BY_SCHEDULER"}


def _preempted(steps: list[Json]) -> bool:
    return any(_victims(step) for step in steps)


class NoMoreThanNeeded(Kind):
    """No more is preempted than needed

    Of what may go, the smallest set that makes the room is preempted. The reference preempts more than that for an ask
    that is bound to a node.
    """

    golden = "preemption.txt: Nobody goes who is not needed"

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            if _victims(ours) and _victims(ours) < _victims(theirs):
                return number
        return None


class FullClusterIsNoQuota(Kind):
    """An ask that is bound to a node preempts there although the cluster is full

    What has to run on one node can make its room there. In the reference it is not even considered where less than it
    needs is left in the partition as a whole: just when the cluster is full, nothing is preempted for it.
    """

    golden = (
        "preemption.txt: An ask that is bound to a node has whatever it needs there, of no higher priority, and at once"
    )

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            if _victims(ours) and not _victims(theirs) and self._beyond_all_there_is(case, number):
                return number
        return None

    def _beyond_all_there_is(self, case: Case, step: int) -> bool:
        left: dict[str, int] = {}
        for node in available(case, case.their_steps[:step]).values():
            for name, amount in node.items():
                left[name] = left.get(name, 0) + amount
        bound = [
            quantities(ask.get("resourceAsk"))
            for at, ask in case.asks()
            if at.number < step and set(ask.get("tags") or {}) & set(REQUIRED_NODE)
        ]
        return any(amount > left.get(name, 0) for need in bound for name, amount in need.items())


class LacksLeast(Kind):
    """The node that lacks least is reserved

    An ask that fits no node reserves the one where the smallest part of what it needs is missing. The reference means
    to do so and computes the reverse, how much of the node the ask would leave, so that it takes the first node in its
    order when all are too small.
    """

    golden = "reservations.txt: An ask that fits no node reserves the one that lacks least"

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, other = _reserved(ours), _reserved(theirs)
            for key in sorted(mine.keys() & other.keys()):
                if mine[key] != other[key] and self._lacks_less(case, number, key, mine[key], other[key]):
                    return number
        return None

    def _lacks_less(self, case: Case, step: int, key: str, ours: str, theirs: str) -> bool:
        left = available(case, case.our_steps[: step + 1])
        asked = [ask for at, ask in case.asks() if at.number <= step and ask.get("allocationKey") == key]
        need = quantities(asked[-1].get("resourceAsk")) if asked else {}

        def lacks(node_id: str) -> float:
            have = left.get(node_id, {})
            return sum((n - max(have.get(name, 0), 0)) / n for name, n in need.items() if n > max(have.get(name, 0), 0))

        return 0 < lacks(ours) < lacks(theirs)


def _reserved(step: Json) -> dict[str, str]:
    """Allocation key -> node, of the reservations made."""
    return {
        event.get("referenceID", ""): event["objectID"]
        for event in step.get("events") or ()
        if event.get("eventChangeDetail") == "NODE_RESERVATION" and event.get("eventChangeType") == "ADD"
    }


class UpdatesMeanWhatTheySay(Kind):
    """A new configuration means what its text says

    After an update queues have the settings of its text, as if they were new: properties that are gone are gone, what
    is inherited is inherited anew. In the reference removed properties keep their effect, and inherited ones are lost
    from view.
    """

    golden = "configurations.txt: A queue more, a queue less, and back again"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        last = len(case.scenario.steps) if difference.step == FINAL else difference.step
        updates = [number for number, _ in case.configurations() if 0 <= number <= last]
        if path[:2] != ("dump", "partitions") or not updates or "queues" not in path:
            return False
        queue, *rest = path[path.index("queues") + 1 :]
        configured = queue_configs(case.configuration_at(last)).get(queue)
        if configured is None or not rest:
            return False
        if rest[0] != "properties":
            return False
        said = dict(configured.properties)
        earlier = [queue_configs(found).get(queue) for number, found in case.configurations() if number < last]
        were = [dict(each.properties) for each in earlier if each is not None]
        ours, theirs = difference.ours, difference.theirs
        if len(rest) > 1:
            return ours == said.get(rest[1]) and (theirs is None or any(each.get(rest[1]) == theirs for each in were))
        before = {item for each in were for item in each.items()}
        return (ours or {}) == said and (theirs or {}).items() <= before | said.items()


class EqualCandidates(Kind):
    """Equal candidates have an order

    Queues, applications, placeholders or victims that compare equal are taken in the order of a hash map by the
    reference, so that the same day is never played twice in the same way. Here equal queues go by name, equal
    applications by ID, equal placeholders and victims by age: a run can be repeated. (Recognised where the reference's
    own answers varied, and all sums are the same in the end.)
    """

    golden = "order_of_queues.txt: Equal shares: the larger pending amount, then the name"

    def taints_from(self, case: Case) -> int | None:
        if case.deterministic or sums(case.ours.get("final")) != sums(case.theirs.get("final")):
            return None
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            sequences = [
                [(what, e.get("UUID"), e.get("nodeID")) for _, what, e in told([step], "allocation", "new", "released")]
                for step in (ours, theirs)
            ]
            if sequences[0] != sequences[1]:
                return number
        return None


def sums(dump: Json | None) -> dict[str, Json]:
    """By queue: what is allocated and pending."""
    return {
        path: {name: amounts(queue.get(name)) for name in ("allocatedResource", "pendingResource")}
        for path, queue in queues_of(dump).items()
    }


KINDS: Final[tuple[Kind, ...]] = (
    Nonsense(),
    UnknownReleaseAnswered(),
    BadNameNextRule(),
    NotReadyTakesNothing(),
    DrainingQueueTakesNothing(),
    UnknownRequiredNode(),
    AskUpdated(),
    AskOver(),
    TemplateMaxApplications(),
    OnlyChangesAreEvents(),
    FailingTakesNoAsks(),
    RecordReplaced(),
    LimitsHold(),
    KeptForPreemptor(),
    NoMoreThanNeeded(),
    FullClusterIsNoQuota(),
    LacksLeast(),
    UpdatesMeanWhatTheySay(),
    WhoCountsAsRunning(),
    DrainingQueueIsLimited(),
    EqualCandidates(),
)
