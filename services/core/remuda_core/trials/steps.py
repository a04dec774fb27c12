"""The steps of a change: what an operator, a user or an RM would do, as values; and carrying them out on a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from remuda_proto.constants import LEAVES_AT

from ..actions import UndrainNode
from ..commands import (
    Administer,
    AnswerPredicate,
    Command,
    Configure,
    ReleaseAllocation,
    ReleaseAsk,
    RemoveApplication,
    RmConnection,
    UpdateNode,
)
from ..core import Core
from ..decide.names import plain
from ..facts import PREEMPTED_BY_SCHEDULER, STOPPED_BY_RM, Fact, QueueChanged, QueueResumed
from ..rules.connection import BACK
from ..rules.resource import Resource, show
from ..settings import Configuration, Limit, QueueSettings
from ..state import NEVER_MS, Node, Partition, Queue, State

# Kinds of steps.
MAX: Final = "max"  # the maximum of a queue is raised; of a dynamic one by the tags of an application
LIMIT: Final = "limit"  # the limit of a user or group in a queue
MAX_APPLICATIONS: Final = "max_applications"  # the maximum of running applications, of a queue or a limit in it
NODE: Final = "node"  # a node is added
UNDRAIN: Final = "undrain"  # a node accepts allocations again
WINDOW: Final = "window"  # a window of the calendar does not come
RESUME: Final = "resume"  # a held queue is resumed
CONNECT: Final = "connect"  # the RM connects again
ANSWER: Final = "answer"  # the RM accepts the node that it is asked about
CONFIRM: Final = "confirm"  # the RM confirms the releases that a preemption waits for
ASK: Final = "ask"  # another ask is withdrawn
APPLICATION: Final = "application"  # another application ends

QUOTAS: Final = (MAX, LIMIT, MAX_APPLICATIONS)
WHAT_IF: Final = "what-if"  # names the operator, the action and the configuration of a step


class Step(msgspec.Struct, frozen=True):
    """`step`: its kind. `where`: the path of the queue, or the ID of the node or application; `key`: of the ask.

    A quota is raised from `before` to `after`: of a `resource`, or of running applications. `who`: "user ann" or "group
    dev", if it is a limit. `capacity`: of a node that is added."""

    step: str
    where: str = ""
    key: str = ""
    who: str = ""
    resource: str = ""
    before: int = 0
    after: int = 0
    capacity: Resource = {}

    def __str__(self) -> str:
        ours = f"the limit of {self.who} in queue {self.where}" if self.who else f"the maximum of queue {self.where}"
        match self.step:
            case "max" | "limit":
                added = self.after - self.before
                return f"{ours}: {self.resource} {self.before} to {self.after}, {added} more"
            case "max_applications":
                return f"{ours}: running applications {self.before} to {self.after}"
            case "node":
                named = f"node {self.where}" if self.where else "one more node"
                return f"{named} with {show(self.capacity)}"
            case "undrain":
                return f"node {self.where} accepts allocations again"
            case "window":
                return f"window {self.where} does not come"
            case "resume":
                return f"queue {self.where} is resumed"
            case "connect":
                return "the resource manager connects again"
            case "answer":
                return "the resource manager accepts the node that it is asked about"
            case "confirm":
                where = f"in {self.where} for the group of {self.key}" if self.key else f"on node {self.where}"
                return f"the resource manager releases what is preempted {where}"
            case "ask":
                return f"ask {self.where}/{self.key} is withdrawn"
        return f"application {self.where} ends"


def carry_out(core: Core, partition: Partition, ask: tuple[str, str], steps: Sequence[Step], now_ms: int) -> list[Fact]:
    """Apply the steps to the core, which is a copy. `ask`: application and key of the ask that is to run."""
    dynamic = [step for step in steps if step.step == MAX and not partition.queues[step.where].managed]
    quotas = [step for step in steps if step.step in QUOTAS and step not in dynamic]
    without = [step.where for step in steps if step.step == WINDOW]
    commands: list[Command] = []
    if quotas or without:
        commands.append(Configure(raised(core.state, partition, ask[0], quotas, without)))
    for step in steps:
        if step.step not in (*QUOTAS, RESUME, WINDOW):
            commands += _commands(partition, ask, step)
    # Whoever resumes it may do so, and submits the application whose tags have the quota; access is not what is tried.
    resumed = [QueueResumed(partition.name, step.where, WHAT_IF) for step in steps if step.step == RESUME]
    core.replay([*resumed, *_of_dynamic_queues(partition, dynamic)], max(now_ms, core.state.now_ms))
    return core.handle_all(commands, now_ms)


def _of_dynamic_queues(partition: Partition, steps: Sequence[Step]) -> list[Fact]:
    """The facts that change the maxima of queues which placement rules have made, as the tags of an application
    would."""
    raised: dict[str, dict[str, int]] = {}
    for step in steps:
        raised.setdefault(step.where, {})[step.resource] = step.after
    found: list[Fact] = []
    for path, amounts in raised.items():
        queue = partition.queues[path]
        settings = replace(queue.settings, max={**queue.settings.max, **amounts})
        found.append(QueueChanged(partition.name, path, queue.leaf, queue.managed, settings, ("max",)))
    return found


def _commands(partition: Partition, ask: tuple[str, str], step: Step) -> list[Command]:
    name, application, key = partition.name, *ask
    match step.step:
        case "node":
            return [UpdateNode(name, step.where or unused(partition), "CREATE", {}, step.capacity)]
        case "undrain":
            return _undraining(name, partition.nodes[step.where])
        case "connect":
            return [RmConnection(BACK)]
        case "answer":
            asked = (question for question in partition.questions.values() if question.application.id == application)
            return [
                AnswerPredicate(name, question.fact.question, True)
                for question in asked
                if question.fact.allocation_key == key
            ]
        case "confirm":
            under_way = partition.applications[application].asks[key].preemption
            if under_way is None:
                return []
            there = [partition.allocations[uuid] for uuid in under_way.uuids if uuid in partition.allocations]
            return [ReleaseAllocation(name, one.application.id, one.fact.uuid, PREEMPTED_BY_SCHEDULER) for one in there]
        case "ask":
            return [ReleaseAsk(name, step.where, step.key, STOPPED_BY_RM)]
    return [RemoveApplication(name, step.where)]


def unused(partition: Partition) -> str:
    """An ID that no node has."""
    found = WHAT_IF
    while found in partition.nodes:
        found += "+"
    return found


def _undraining(partition: str, node: Node) -> list[Command]:
    commands: list[Command] = []
    if node.drained is not None:
        commands.append(Administer(WHAT_IF, (), True, "", WHAT_IF, True, partition, UndrainNode(node.id)))
    if node.drained_by_rm:
        commands.append(UpdateNode(partition, node.id, "DRAIN_TO_SCHEDULABLE"))
    if node.leaving_ms < NEVER_MS:
        commands.append(UpdateNode(partition, node.id, "UPDATE", {LEAVES_AT: ""}))
    if not node.ready:
        commands.append(UpdateNode(partition, node.id, "UPDATE", {"ready": "true"}))
    return commands


def raised(
    state: State, partition: Partition, application: str, steps: Sequence[Step], without: Sequence[str] = ()
) -> Configuration:
    """The configuration in force, with these quotas of the partition raised. `without`: these windows."""
    changed: dict[str, QueueSettings] = {}
    for step in steps:
        queue = partition.queues[step.where]
        settings = changed.get(step.where, queue.settings)
        changed[step.where] = _raised(settings, queue, partition, application, step)
    return _configuration(state, {partition.name: changed}, {partition.name: without})


def _raised(settings: QueueSettings, queue: Queue, partition: Partition, application: str, step: Step) -> QueueSettings:
    if step.step == MAX:
        return replace(settings, max={**settings.max, step.resource: step.after})
    if not step.who:
        return replace(settings, max_applications=step.after)
    trackers = partition.applications[application].trackers
    place = next(
        queue.settings.limits.index(one.limit)
        for one in trackers
        if one.queue is queue and f"{one.kind} {one.name}" == step.who
    )
    limit = settings.limits[place]
    more: Limit = (
        replace(limit, max_applications=step.after)
        if step.step == MAX_APPLICATIONS
        else replace(limit, max_resources={**limit.max_resources, step.resource: step.after})
    )
    return replace(settings, limits=(*settings.limits[:place], more, *settings.limits[place + 1 :]))


def _configuration(
    state: State, changed: Mapping[str, Mapping[str, QueueSettings]], without: Mapping[str, Sequence[str]]
) -> Configuration:
    """The configuration in force, with the settings of these queues (by partition and path), and without these windows.
    Queues stay as they are, whatever windows change them."""
    now = state.configuration
    partitions = tuple(
        replace(
            one.settings,
            name=plain(one.name),
            root=_tree(one.root, changed.get(one.name, {})),
            calendar=tuple(
                window
                for window in one.settings.calendar
                if not window.queues and window.name not in without.get(one.name, ())
            ),
        )
        for one in state.partitions.values()
        if not one.draining
    )
    if now is None:
        return Configuration(WHAT_IF, partitions, timing=state.timing)
    return Configuration(WHAT_IF, partitions, now.compatibility, WHAT_IF, now.timing, now.revision)


def _tree(queue: Queue, changed: Mapping[str, QueueSettings]) -> QueueSettings:
    below = tuple(_tree(child, changed) for child in queue.children.values() if child.managed and not child.draining)
    settings = changed.get(queue.path, queue.settings)
    return replace(settings, queues=below, parent=settings.parent or not (queue.leaf or below or queue.path == "root"))
