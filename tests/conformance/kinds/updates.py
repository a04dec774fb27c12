"""Effects of requests and updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import remuda_config
from remuda_config import schema
from remuda_config.schema import Queue
from remuda_proto.remuda.v1 import config_pb2

from ..case import Case, event_in, in_step, queue_configs
from ..compare import FINAL, Difference
from ..recording import Json, Step
from ..reference_configurations import (
    NO_LEAF,
    accept_rules_that_lead_to_no_leaf,
    misses_a_queue,
    refuse_rules_whose_queue_is_missed,
)
from .kind import Kind
from .lookups import is_draining, names_application, state_of, taken_alone


class OnlyChangesAreEvents(Kind):
    """An event reports a change

    YuniKorn also reports that a rejected node is added, and that a decommissioned one becomes unschedulable. A
    changed or draining queue is reported as QUEUE_CONFIG.
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
                names_application(in_step(s[step.number], "application", "rejected"), name)
                for s in (case.our_steps, case.their_steps)
            )
        if step.action == "node" and kind == "APP" and detail in ("APP_ALLOC", "ALLOC_NODEREMOVED"):
            return _of_rejected_node(case, step, about)
        if kind == "NODE" and step.action == "node":
            rejected = all(
                any(e.get("nodeID", "") == about for e in in_step(steps[step.number], "node", "rejected"))
                for steps in (case.our_steps, case.their_steps)
            )
            created = (change, detail) in (("ADD", ""), ("SET", "NODE_SCHEDULABLE"), ("ADD", "NODE_ALLOC"))
            removed = any(
                (node.get("nodeID"), node.get("action")) == (about, "DECOMISSION") for node in step.argument["nodes"]
            )
            was_draining = (change, detail) == ("SET", "NODE_SCHEDULABLE") and is_draining(case, step.number, about)
            return (rejected and created) or (removed and was_draining)
        if kind == "QUEUE" and step.action == "config":
            configured = about in queue_configs(case.configuration_at(step.number))
            return configured and (change, detail) == ("ADD", "") and self._is_there(case, step.number, about)
        return False

    def _is_there(self, case: Case, step: int, queue: str) -> bool:
        """It is configured before this step, or was and has not been removed since."""
        there = False
        for number in range(-1, step):
            there = there or queue in queue_configs(case.configuration_at(number))
            if number >= 0 and event_in(case.our_steps[number], "QUEUE", "REMOVE", "", queue):
                there = False
        return there

    def _ours(self, case: Case, step: Step, kind: str, change: str, detail: str, about: str, reference: str) -> bool:
        if kind == "APP" and step.action == "application" and (change, detail) in (("ADD", ""), ("SET", "APP_REJECT")):
            ours, theirs = (
                in_step(s[step.number], "application", "rejected") for s in (case.our_steps, case.their_steps)
            )
            return names_application(ours, about) and names_application(theirs, about)
        if kind != "QUEUE" or step.action != "config" or (change, detail) != ("SET", "QUEUE_CONFIG"):
            return False
        return self._is_changed(case, step.number, about)

    def _is_changed(self, case: Case, step: int, queue: str) -> bool:
        """The update changes its settings or those of a queue above, or removes it, or brings it back."""
        before, after = (queue_configs(case.configuration_at(at)) for at in (step - 1, step))
        earlier = [queue_configs(found) for at, found in case.configurations() if at < step]
        if queue not in before or queue not in after:
            return queue in before or (queue in after and any(queue in each for each in earlier))
        if queue == "root" and self._partition(case, step - 1) != self._partition(case, step):
            return True
        path = queue
        while path:
            if _own(before[path]) != _own(after[path]):
                return True
            path = path.rpartition(".")[0]
        return False

    def _partition(self, case: Case, step: int) -> list[bytes]:
        """The settings of partitions without their queues."""
        found = []
        configuration = case.configuration_at(step)
        for each in configuration.partitions if configuration is not None else ():
            alone = config_pb2.PartitionConfig()
            alone.CopyFrom(each)
            alone.ClearField("root")
            found.append(alone.SerializeToString(deterministic=True))
        return found


def _own(queue: config_pb2.QueueConfig) -> config_pb2.QueueConfig:
    """Its settings without those of its children."""
    own = config_pb2.QueueConfig()
    own.CopyFrom(queue)
    own.parent = queue.parent or bool(queue.queues)
    own.ClearField("queues")
    return own


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


class LeafStaysLeaf(Kind):
    """A leaf with applications does not become a parent

    An update that would do so is refused as a whole. In YuniKorn its applications stay there and get nothing more.
    """

    golden = "configurations.txt: Refused: what has applications stays what it is"
    blind = True

    def taints_from(self, case: Case) -> int | None:
        for step, text in taken_alone(case, by_ours=False):
            before = queue_configs(case.configuration_at(step - 1))
            try:
                after = queue_configs(remuda_config.load(text))
            except remuda_config.Invalid:
                continue
            grown = {path for path, queue in after.items() if _is_parent(queue)} - {
                path for path, queue in before.items() if _is_parent(queue)
            }
            if self._has_applications(case, step, grown):
                return step
        return None

    def _has_applications(self, case: Case, step: int, paths: set[str]) -> bool:
        """In both, an application that has not ended is in one of these queues."""
        return all(
            any(
                queue in paths and state_of(steps[:step], name) not in ENDED
                for name, queue in _queues_of_applications(steps[:step]).items()
            )
            for steps in (case.our_steps, case.their_steps)
        )


ENDED = ("Completed", "Failed", "Expired", "Rejected")


def _is_parent(queue: config_pb2.QueueConfig) -> bool:
    return queue.parent or bool(queue.queues)


def _queues_of_applications(steps: list[Json]) -> dict[str, str]:
    return {
        event.get("referenceID", ""): event.get("objectID", "")
        for step in steps
        for event in step.get("events") or ()
        if (event.get("eventChangeType"), event.get("eventChangeDetail")) == ("ADD", "QUEUE_APP")
    }


class RulesFindTheirQueue(Kind):
    """A rule finds the queue that it leads to

    In YuniKorn, rules need the right case of names, `parent: true` of a queue with children, and `create` also
    below a rule that creates.
    """

    golden = "names.txt: A rule finds a queue however it is written"
    reference_rules = (refuse_rules_whose_queue_is_missed,)

    def taints_from(self, case: Case) -> int | None:
        """Where ours takes such a configuration, and theirs does not."""
        return next((step for step, text in taken_alone(case, by_ours=True) if misses_a_queue(text)), None)


class RulesLeadToLeaves(Kind):
    """A rule that can lead to no leaf is refused

    YuniKorn passes over some fixed rules whose queue has children, or does not exist and is not created.
    """

    golden = "queues_yaml.txt: A rule that can lead to no leaf"
    reference_rules = (accept_rules_that_lead_to_no_leaf,)

    def taints_from(self, case: Case) -> int | None:
        """Where theirs takes a configuration that ours refuses for such rules alone."""
        return next((step for step, text in taken_alone(case, by_ours=False) if self._leads_to_no_leaf(text)), None)

    def _leads_to_no_leaf(self, text: str) -> bool:
        try:
            remuda_config.load(text)
        except remuda_config.Invalid as invalid:
            return all(NO_LEAF.search(str(problem)) for problem in invalid.problems)
        return False


class RefusedChangesNothing(Kind):
    """A refused configuration changes nothing

    An update is applied as a whole or not at all. YuniKorn applies the part before the mistake, and keeps it.
    """

    golden = "configurations.txt: Refused: what has applications stays what it is"
    blind = True

    def explains(self, case: Case, difference: Difference) -> bool:
        path, theirs = difference.path, difference.theirs
        if self._is_about(difference, self._taken(case)):
            return True
        if path[0] == "event":
            texts = _refused_updates(case).get(difference.step, {})
            return difference.ours is None and theirs[0] == "QUEUE" and theirs[3] in texts
        if path[0] != "dump" or "queues" not in path[:-1]:
            return False
        queue, *rest = path[path.index("queues") + 1 :]
        last = len(case.scenario.steps) if difference.step == FINAL else difference.step
        refused_texts = [found for step, found in _refused_updates(case).items() if step < last]
        return bool(rest) and any(_changes(found.get(queue), rest, theirs) for found in refused_texts)

    def taints_from(self, case: Case) -> int | None:
        """Where something is asked for an application that only theirs has taken."""
        taken = self._taken(case)
        return next((step.number for step, ask in case.asks() if ask.get("applicationID", "") in taken), None)

    def _taken(self, case: Case) -> set[str]:
        """Applications for queues of a refused update, that ours rejects and theirs accepts."""
        found = set()
        for step, application in case.applications():
            name, queue = application.get("applicationID", ""), str(application.get("queueName", "")).lower()
            ours = in_step(case.our_steps[step.number], "application", "rejected")
            theirs = in_step(case.their_steps[step.number], "application", "accepted")
            refused = any(queue in queues for at, queues in _refused_updates(case).items() if at < step.number)
            if refused and names_application(ours, name) and names_application(theirs, name):
                found.add(name)
        return found

    def _is_about(self, difference: Difference, taken: set[str]) -> bool:
        """That these applications are in theirs, and rejected in ours."""
        path, ours, theirs = difference.path, difference.ours, difference.theirs
        if path[0] == "application callbacks":
            return path[1] in taken and (ours, theirs) == (["rejected"], ["accepted"])
        if path[0] == "event":
            if ours is not None:
                return ours[:3] == ["APP", "SET", "APP_REJECT"] and ours[3] in taken
            return theirs[:3] == ["QUEUE", "ADD", "QUEUE_APP"] and theirs[4] in taken
        for listed, there, missing in (("applications", theirs, ours), ("rejectedApplications", ours, theirs)):
            if listed in path and there is not None and missing is None:
                return {*path[path.index(listed) + 1 :], *(there if path[-1] == listed else ())} <= taken
        return False


def _refused_updates(case: Case) -> dict[int, dict[str, Queue]]:
    """Step -> the queues of the text, by path, of updates that both refuse."""
    found: dict[int, dict[str, Queue]] = {}
    for step in case.scenario.steps:
        if step.action == "config" and all(s[step.number].get("error") for s in (case.our_steps, case.their_steps)):
            try:
                queues, _, _ = schema.validate(schema.read_yaml(str(step.argument)))
            except schema.NotYaml:
                continue
            found[step.number] = {
                path: queue for partition in queues.partitions for path, queue in _below(partition.root(())[0], "")
            }
    return found


def _below(queue: Queue, above: str) -> Iterator[tuple[str, Queue]]:
    path = f"{above}.{queue.name.lower()}" if above else "root"
    yield path, queue
    for child in queue.queues:
        yield from _below(child, path)


def _changes(queue: Queue | None, path: list[str], theirs: Any) -> bool:
    """The reference's answer shows the settings of the refused text."""
    if queue is None:
        return False
    if path == ["isLeaf"]:
        return bool(theirs) != queue.is_parent
    amounts_of = {"maxResource": queue.resources.max, "guaranteedResource": queue.resources.guaranteed}
    if path[0] not in amounts_of:
        return False
    said = amounts_of[path[0]] or {}
    return bool(said == theirs if len(path) == 1 else said.get(path[1]) == theirs)
