"""Where applications go, and how they end."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from remuda_proto.remuda.v1 import config_pb2

from ..case import Case, in_step, queue_configs
from ..compare import Difference
from ..recording import Json
from ..reference_placement import QUEUE_NAME, reject_at_the_first_bad_queue_name
from ..reference_recovery import reject_what_could_not_start
from ..reference_rules import keep_what_gave_back_everything_completing, place_in_queues_that_drain
from .kind import Kind
from .lookups import applications_in, dump_in, last_step, names_application, state_of

ENDING: Final = ("Failing", "Failed", "Resuming")


class BadNameNextRule(Kind):
    """A rule whose queue is impossible does not match

    Where a placement rule produces an impossible queue name or a queue below a leaf, YuniKorn rejects the
    application; remuda tries the next rule.
    """

    golden = "differences.txt: A rule whose queue cannot be is passed over"
    reference_rules = (reject_at_the_first_bad_queue_name,)

    def taints_from(self, case: Case) -> int | None:
        for step, application in case.applications():
            name = application.get("applicationID", "")
            accepted = any(
                e.get("applicationID", "") == name
                for e in in_step(case.our_steps[step.number], "application", "accepted")
            )
            rejected = [
                e
                for e in in_step(case.their_steps[step.number], "application", "rejected")
                if e.get("applicationID", "") == name
            ]
            if accepted and rejected and self._makes_an_impossible_queue(case, step.number, application):
                return step.number
        return None

    def _makes_an_impossible_queue(self, case: Case, step: int, application: Json) -> bool:
        """A rule makes a name that no queue can have, or a queue below a leaf, and ours has placed it elsewhere."""
        configuration = case.configuration_at(step)
        rules = [rule for each in configuration.partitions for rule in each.placement_rules] if configuration else []
        leaves = self._leaves(case, step, configuration)
        name = application.get("applicationID", "")
        placed = [
            event.get("objectID", "") for event in case.our_steps[step].get("events") or ()
            if event.get("eventChangeDetail") == "QUEUE_APP" and event.get("referenceID") == name
        ]  # fmt: skip
        for rule in rules:
            made = made_by(rule, application)
            bad = made is not None and not all(QUEUE_NAME.matches(part) for part in made.split("."))
            above = made.rpartition(".")[0] if made is not None and rule.HasField("parent") else None
            if (bad or above in leaves) and made not in placed:
                return True
        return False

    def _leaves(self, case: Case, step: int, configuration: config_pb2.Configuration | None) -> set[str]:
        """Leaves that are configured, or into which ours has placed an application before."""
        configured = {
            path for path, each in queue_configs(configuration).items() if not each.queues and not each.parent
        }
        return configured | {
            event.get("objectID", "")
            for each in case.our_steps[:step]
            for event in each.get("events") or ()
            if (event.get("eventChangeType"), event.get("eventChangeDetail")) == ("ADD", "QUEUE_APP")
        }


def made_by(rule: config_pb2.PlacementRule, application: Json) -> str | None:
    """The path of the queue that a rule makes for an application; None: no queue, or one that is not made of the
    application's user, group or tags."""
    ugi, tags = application.get("ugi") or {}, application.get("tags") or {}
    groups = ugi.get("groups") or [""]
    of = {
        "user": ugi.get("user"), "primarygroup": groups[0], "tag": tags.get(rule.value), "fixed": rule.value,
        "applicationtype": tags.get("application.type"), "provided": application.get("queueName"),
    }  # fmt: skip
    name = str(of.get(rule.name) or "").lower()
    above = made_by(rule.parent, application) if rule.HasField("parent") else "root"
    if not name or above is None:
        return None
    if rule.name in ("fixed", "provided") and name.startswith("root."):
        return name
    return f"{above}.{name if rule.name == 'fixed' else name.replace('.', '_dot_')}"


class DrainingQueueTakesNothing(Kind):
    """A draining queue accepts no applications

    YuniKorn accepts applications in a queue that is removed from the configuration, so it may never be empty.
    """

    golden = "configurations.txt: A queue more, a queue less, and back again"
    reference_rules = (place_in_queues_that_drain,)

    def taints_from(self, case: Case) -> int | None:
        for step, application in case.applications():
            name = application.get("applicationID", "")
            path = str(application.get("queueName", "")).lower()
            known = [(number, queue_configs(found)) for number, found in case.configurations() if number < step.number]
            gone = len(known) > 1 and path not in known[-1][1] and any(path in queues for _, queues in known[:-1])
            ours = in_step(case.our_steps[step.number], "application", "rejected")
            theirs = in_step(case.their_steps[step.number], "application", "accepted")
            if gone and names_application(ours, name) and names_application(theirs, name):
                return step.number
        return None


class RunningWorkIsAccepted(Kind):
    """An application whose work runs is not rejected

    If a gang that is reported again no longer fits its queue, YuniKorn rejects it, and the nodes of its work.
    """

    golden = "recovery.txt: An application whose work runs is not refused for what concerns its start"
    reference_rules = (reject_what_could_not_start,)

    def taints_from(self, case: Case) -> int | None:
        """Where theirs rejects an application whose work runs, as the RM says, and ours accepts it."""
        running: set[str] = set()
        reported = [(step.number, node) for step, node in case.nodes()]
        for step, application in case.applications():
            for number, node in reported:
                if number < step.number:
                    running |= {each.get("applicationID", "") for each in node.get("existingAllocations") or ()}
            name = application.get("applicationID", "")
            forced = str((application.get("tags") or {}).get("application.create.force")).lower() == "true"
            ours = in_step(case.our_steps[step.number], "application", "accepted")
            theirs = in_step(case.their_steps[step.number], "application", "rejected")
            known = forced or name in running
            if known and names_application(ours, name) and names_application(theirs, name):
                return step.number
        return None


class GroupsOfTheRequest(Kind):
    """Groups come from the request

    An application has the groups that the RM names. If there are none, YuniKorn looks the user up in the operating
    system.
    """

    golden = "access.txt: Groups are those that the RM names; none are looked up"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or path[-1] != "groups" or len(path) < 5 or not path[-3].endswith("pplications"):
            return False
        named = [
            (each.get("ugi") or {}).get("groups") or []
            for step, each in case.applications()
            if each.get("applicationID", "") == path[-2] and step.number <= last_step(case, difference.step)
        ]
        return not difference.ours and bool(difference.theirs) and named[-1:] == [[]]


class WhoCountsAsRunning(Kind):
    """An application counts as running while it runs

    In YuniKorn one without allocations keeps its slot; one that runs again after Completing, or with placeholders
    from before a registration, counts only from its next real allocation.
    """

    golden = "differences.txt: A reserved slot goes with its application"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        of_users = path[1:2] in (("users",), ("groups",))
        if path[0] != "dump" or not (path[-1] == "allocatingAcceptedApps" or of_users):
            return False
        ours, theirs = (self._names(value) for value in (difference.ours, difference.theirs))
        if ours is None or theirs is None or ours == theirs:
            return False
        mine, other = (applications_in(dump_in(trace, difference.step)) for trace in (case.ours, case.theirs))
        return all(self._over(mine.get(name)) and self._over(other.get(name)) for name in theirs - ours) and all(
            self._again(mine.get(name)) and self._again(other.get(name)) for name in ours - theirs
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
        allocations = (application or {}).get("allocations") or ()
        by_places = bool(allocations) and all(each.get("placeholder") for each in allocations)
        return by_places or (not allocations and states[-2:] == ["Completing", "Running"])


class EverythingGivenBackCompletes(Kind):
    """An application that has released everything completes

    In YuniKorn, if all its allocations are released at once, it stays Completing for ever, and counts as running.
    """

    golden = "releases.txt: All of an application"
    reference_rules = (keep_what_gave_back_everything_completing,)

    def taints_from(self, case: Case) -> int | None:
        """Where only ours completes what has given everything back; or only theirs, released while completing."""
        given_back: set[str] = set()
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            now = {
                release.get("applicationID", "")
                for step, release in case.releases()
                if step.number == number and not release.get("UUID")
            }
            completed = [
                {e["applicationID"] for e in in_step(step, "application", "updated") if e["state"] == "Completed"}
                for step in (ours, theirs)
            ]
            for name in (completed[0] - completed[1]) & (given_back | now):
                if state_of(case.their_steps[: number + 1], name) == "Completing":
                    return number
            for name in (completed[1] - completed[0]) & now:
                if state_of(case.our_steps[:number], name) == state_of(case.their_steps[:number], name) == "Completing":
                    return number
            given_back |= now
        return None


class RecordReplaced(Kind):
    """One application has one record

    When the ID of an ended application is used again, YuniKorn lists both under one ID; in remuda the new record
    replaces the old one.
    """

    golden = "lives_of_applications.txt: The ID of an ended application may be used again, of a living one not"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        listed = ("completedApplications", "rejectedApplications")
        if path[0] != "dump" or difference.ours is not None or not set(path) & set(listed):
            return False
        last = last_step(case, difference.step)
        submitted = [each.get("applicationID") for step, each in case.applications() if step.number <= last]
        ids = [path[-1]] if path[-1] not in listed else list(difference.theirs)
        ours, theirs = (self._records(dump_in(trace, difference.step)) for trace in (case.ours, case.theirs))
        return all(submitted.count(name) > 1 and ours[name] == 1 and theirs[name] > 1 for name in ids)

    def _records(self, dump: Json) -> Counter[str]:
        """How many there are of each ID."""
        return Counter(
            application["applicationID"]
            for partition in (dump.get("partitions") or {}).values()
            for name in ("applications", "completedApplications", "rejectedApplications")
            for application in partition.get(name) or ()
        )
