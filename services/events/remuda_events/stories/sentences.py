"""One sentence for each fact, for stories. Pure.

One table, SENTENCES, has a function for each kind of fact. FACTS_WITHOUT_SENTENCE has the reason for each other fact.
Amounts are in base units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si


def amounts(resource: si.Resource) -> str:
    return " ".join(f"{name}={resource.resources[name].value}" for name in sorted(resource.resources)) or "nothing"


def name(fact: Any) -> str:
    return f"{fact.application_id}/{fact.allocation_key}"


def because(text: str) -> str:
    return f": {text}" if text else ""


def ended(fact: Any) -> str:
    """The termination type. An RM may send a number that has no name in this version."""
    number = fact.termination_type
    known = si.TerminationType.DESCRIPTOR.values_by_number.get(number)
    return f"termination type {number}" if known is None else known.name


def plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def rm_registered(fact: log_pb2.RmRegistered) -> str:
    came = f"{fact.rm_id} registers for the {ordinal(fact.registration)} time"
    if fact.registration == 1:
        return came
    return f"{came}: {'everything stays' if fact.resync == 'replay' else 'all that was known of it is dropped'}"


def ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"


def rm_stopped(fact: log_pb2.RmStopped) -> str:
    if fact.deregistered:
        return f"the RM deregisters, all that was known of it is dropped{because(fact.reason)}"
    return f"the RM is gone, nothing new is allocated{because(fact.reason)}"


def node_added(fact: log_pb2.NodeAdded) -> str:
    return f"node {fact.node_id} added with {amounts(fact.capacity)}{', draining' if fact.draining else ''}"


def node_changed(fact: log_pb2.NodeChanged) -> str:
    now = {"capacity": amounts(fact.capacity), "occupied": amounts(fact.occupied)}
    changes = (f"{what} now {now[what]}" if what in now else f"{what} changed" for what in fact.changed)
    return f"node {fact.node_id}: {', '.join(changes)}"


def node_draining(fact: log_pb2.NodeDraining) -> str:
    by = f", by operator {fact.operator}{because(fact.reason)}" if fact.operator else ""
    by = ", as its time to leave has come" if fact.left else by
    by = f", for window {fact.window}" if fact.window else by
    running = f"; {fact.running} allocations still run there" if fact.running else ""
    return f"node {fact.node_id} takes nothing new: draining{by}{running}"


def node_leaving(fact: log_pb2.NodeLeaving) -> str:
    by = f"by operator {fact.operator}{because(fact.reason)}"
    return f"node {fact.node_id} is drained from {time_of(fact.from_ms)} on, {by}"


def node_schedulable(fact: log_pb2.NodeSchedulable) -> str:
    if fact.left and fact.draining:
        return f"node {fact.node_id} is to leave later or not at all, and is still drained"
    if fact.window and fact.draining:
        return f"node {fact.node_id} is no longer drained for window {fact.window}, and is still drained"
    if fact.draining:
        one, other = (f"operator {fact.operator}", "the RM") if fact.operator else ("the RM", "an operator")
        return f"node {fact.node_id} is no longer drained by {one}, {other} still drains it"
    return f"node {fact.node_id} is open again"


def node_reserved(fact: log_pb2.NodeReserved) -> str:
    why = ", where room is made for it by preemption" if fact.by_preemption else ""
    promised = f", which starts at {time_of(fact.promised_ms)} at the latest" if fact.promised_ms else ""
    return f"node {fact.node_id} kept for {name(fact)}{why}{promised}"


def promise_changed(fact: log_pb2.PromiseChanged) -> str:
    if not fact.promised_ms:
        return f"nothing is promised to {name(fact)} on {fact.node_id} any more{because(fact.cause)}"
    return f"{name(fact)} starts on {fact.node_id} at {time_of(fact.promised_ms)} at the latest{because(fact.cause)}"


def time_of(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):  # beyond the calendar
        return f"{at_ms} ms since 1970"


def application_accepted(fact: log_pb2.ApplicationAccepted) -> str:
    gang = f", with placeholders of {amounts(fact.placeholder_ask)}" if fact.placeholder_ask.resources else ""
    ignored = f"; ignored, as it runs already: {fact.ignored}" if fact.ignored else ""
    return f"application {fact.application_id} of {fact.user} accepted in {fact.queue}{gang}{ignored}"


def ask_accepted(fact: log_pb2.AskAccepted | log_pb2.AskChanged) -> str:
    ask = fact.ask
    verb = "asks for" if isinstance(fact, log_pb2.AskAccepted) else "now asks for"
    times = f"{ask.maxAllocations} × " if ask.maxAllocations != 1 else ""
    what = f"{times}{amounts(ask.resourceAsk)}"
    ignored = f"; ignored: {fact.ignored}" if fact.ignored else ""
    return f"{ask.applicationID}/{ask.allocationKey} {verb} {what}, priority {ask.priority}{group(ask)}{ignored}"


def group(of: si.AllocationAsk | si.Allocation) -> str:
    if not of.taskGroupName:
        return ""
    return f", {'placeholder' if of.placeholder else 'member'} of task group {of.taskGroupName}"


def ask_released(fact: log_pb2.AskReleased) -> str:
    return f"{name(fact)} withdrawn with {fact.pending} pending, {ended(fact)}{because(fact.message)}"


def ask_waiting(fact: log_pb2.AskWaiting) -> str:
    also = f", with {plural(fact.asks - 1, 'other ask')} like it" if fact.asks > 1 else ""
    return f"{name(fact)} waits{also}{because(fact.reason)}"


def allocated(fact: log_pb2.Allocated) -> str:
    return placed(fact.allocation, "allocated on") + on_devices(fact.devices)


def on_devices(devices: Mapping[str, str]) -> str:
    """The end of a sentence, for example: , on devices of gpu: GPU-a,GPU-c"""
    return "".join(f", on devices of {name}: {devices[name]}" for name in sorted(devices))


def placed(one: si.Allocation, verb: str) -> str:
    what = f"{amounts(one.resourcePerAlloc)}{group(one)}"
    return f"{one.applicationID}/{one.allocationKey} {verb} {one.nodeID} as {one.UUID}, {what}"


def allocation_released(fact: log_pb2.AllocationReleased) -> str:
    return f"{name(fact)} released on {fact.node_id}, {ended(fact)}{because(fact.message)} ({fact.uuid})"


def release_requested(fact: log_pb2.ReleaseRequested) -> str:
    return f"the RM is asked to release {name(fact)}, {ended(fact)}{because(fact.message)} ({fact.uuid})"


def release_overdue(fact: log_pb2.ReleaseOverdue) -> str:
    return f"the RM has not released {name(fact)} on {fact.node_id}, which it was asked for: {ended(fact)}"


def queue_changed(fact: log_pb2.QueueChanged) -> str:
    return f"queue {fact.queue} has other settings: {', '.join(fact.changed) or 'not said which'}"


def queue_drain_overdue(fact: log_pb2.QueueDrainOverdue) -> str:
    what = f"{plural(fact.applications, 'application')} with {amounts(fact.allocated)}"
    administrators = f", administered by {'; '.join(fact.admin_acls)}" if fact.admin_acls else ""
    return f"{fact.queue}{administrators}, is still draining and has {what}"


def budget_period_began(fact: log_pb2.BudgetPeriodBegan) -> str:
    used = ", ".join(f"{name} {amount.value} h" for name, amount in sorted(fact.used.resources.items()))
    return f"queue {fact.queue} has its whole budget again; used in the period before: {used or 'nothing'}"


def quota_preempted(fact: log_pb2.QuotaPreempted) -> str:
    victims = f"{plural(len(fact.uuids), 'allocation')}: {', '.join(fact.uuids)}"
    what = f"is to lose {victims}" if fact.uuids else "loses no more" if fact.reason else "waits for releases under way"
    return f"queue {fact.queue}, {amounts(fact.above)} above its maximum, {what}{because(fact.reason)}"


def release_ignored(fact: log_pb2.ReleaseIgnored) -> str:
    what = f"{name(fact)} {fact.uuid}".strip("/ ") or "everything"
    return f"the RM releases {what}, which is not there{because(fact.message)}"


def preemption_started(fact: log_pb2.PreemptionStarted) -> str:
    victims = f"{plural(len(fact.uuids), 'allocation')}: {', '.join(fact.uuids)}"
    if not fact.nodes:
        return f"for {name(fact)} in {fact.queue}, node {fact.node_id} is to lose {victims}"
    where = f"{', '.join(fact.nodes)}{fact.domain and f' in {fact.domain}'}"
    members = plural(sum(fact.counts), "allocation")
    return f"for {members} of the group of {name(fact)} in {fact.queue}, {where} are to lose {victims}"


def predicates_asked(fact: Any) -> str:
    return f"the RM is asked about {plural(len(fact.node_ids), 'node')} for {name(fact)} and asks like it"


def preemption_asked(fact: log_pb2.PreemptionAsked) -> str:
    victims = plural(len(fact.uuids), "allocation")
    return f"the RM is asked whether {name(fact)} would start on {fact.node_id} without {victims} there"


def preemption_answered(fact: log_pb2.PreemptionAnswered) -> str:
    if fact.spared:
        spared = plural(len(fact.spared), "allocation")
        return f"the RM spares {spared} that {name(fact)} would preempt{because(fact.reason)}"
    answer = "would start" if fact.success else "would not start"
    return f"the RM says that {name(fact)} {answer} on {fact.node_id}{because(fact.reason)}"


def replacement_started(fact: log_pb2.ReplacementStarted) -> str:
    real = fact.allocation.allocation
    return (
        f"{real.applicationID}/{real.allocationKey} is to replace placeholder {fact.placeholder_key} on {real.nodeID}"
    )


def placeholder_replaced(fact: log_pb2.PlaceholderReplaced) -> str:
    real = fact.allocation
    return f"{placed(real.allocation, 'allocated on')}, in place of {fact.placeholder_key}{on_devices(real.devices)}"


def acted(action: log_pb2.Action) -> str:
    """The sentence of an operator's action, for example: operator alice kills application app-1"""
    verb, *objects = ACTIONS.get(action.kind, (f"does {action.kind} on", "application_id", "queue", "node_id", "uuid"))
    named = [value for each in objects if (value := getattr(action, each))]
    return f"operator {action.operator} {verb} {' '.join(named)}".rstrip()


# By Action.kind: the verb, and the fields that name its objects.
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "KillApplication": ("kills application", "application_id"),
    "MoveApplication": ("moves to another queue: application, queue", "application_id", "queue"),
    "HoldQueue": ("holds queue", "queue"),
    "ResumeQueue": ("resumes queue", "queue"),
    "LendQuota": ("lends quota of one queue to another:", "queue", "borrower"),
    "EndLoan": ("ends a loan of one queue to another:", "queue", "borrower"),
    "DrainNode": ("drains node", "node_id"),
    "UndrainNode": ("no longer drains node", "node_id"),
    "ChangeAskPriority": ("changes the priority of", "application_id", "allocation_key"),
    "ReleaseOneAllocation": ("has one allocation released:", "uuid"),
}


def action_taken(fact: log_pb2.ActionTaken) -> str:
    again = ", which was done before" if fact.repeated else ""
    force = f", by force although {'; '.join(fact.overridden)}" if fact.overridden else ""
    return f"{acted(fact.action)}{again}{force}{because(fact.action.reason)}"


def action_refused(fact: log_pb2.ActionRefused) -> str:
    return f"refused: {acted(fact.action)}{because(fact.refusal)}"


SENTENCES: Final[Mapping[str, Callable[[Any], str]]] = {
    "rm_registered": rm_registered,
    "rm_paused": lambda fact: f"the RM is silent, nothing new is allocated{because(fact.reason)}",
    "rm_resumed": lambda fact: "the RM sends heartbeats again",
    "rm_stopped": rm_stopped,
    "action_taken": action_taken,
    "action_refused": action_refused,
    "node_added": node_added,
    "node_rejected": lambda fact: f"node {fact.node_id} rejected{because(fact.reason)}",
    "node_changed": node_changed,
    "node_draining": node_draining,
    "node_leaving": node_leaving,
    "node_schedulable": node_schedulable,
    "node_removed": lambda fact: f"node {fact.node_id} removed",
    "node_reserved": node_reserved,
    "node_unreserved": lambda fact: f"node {fact.node_id} no longer kept for {name(fact)}{because(fact.reason)}",
    "promise_changed": promise_changed,
    "application_accepted": application_accepted,
    "application_rejected": lambda fact: f"application {fact.application_id} rejected{because(fact.reason)}",
    "application_state_changed": lambda fact: (
        f"application {fact.application_id} is {fact.state}{because(fact.reason)}"
    ),
    "application_moved": lambda fact: (
        f"application {fact.application_id} is moved from {fact.from_queue} to {fact.queue}"
    ),
    "application_removed": lambda fact: f"application {fact.application_id} removed from memory",
    "rejection_forgotten": lambda fact: f"that {fact.application_id} was rejected is no longer remembered",
    "ask_accepted": ask_accepted,
    "ask_changed": ask_accepted,
    "ask_rejected": lambda fact: f"{name(fact)} rejected{because(fact.reason)}",
    "ask_released": ask_released,
    "ask_waiting": ask_waiting,
    "ask_outstanding": lambda fact: f"{name(fact)} waits for a node{because(fact.reason)}",
    "allocated": allocated,
    "allocation_recovered": lambda fact: (
        placed(fact.allocation, "reported by the RM as running on") + on_devices(fact.devices)
    ),
    "devices_assigned": lambda fact: f"allocation {fact.uuid} has devices{on_devices(fact.devices)}",
    "guest_kept": lambda fact: placed(fact.allocation.allocation, "outlives the RM's registration on"),
    "existing_allocation_rejected": lambda fact: (
        f"{placed(fact.allocation.allocation, 'reported by the RM as running on')}, and rejected, so that its resource "
        f"is occupied{because(fact.reason)}"
    ),
    "rejected_allocation_forgotten": lambda fact: (
        f"{name(fact)}, which was rejected, no longer occupies {amounts(fact.resource)} of {fact.node_id}"
        f"{because(fact.reason)}"
    ),
    "allocation_rejected": lambda fact: f"{name(fact)}, reported as running, rejected{because(fact.reason)}",
    "allocation_released": allocation_released,
    "release_requested": release_requested,
    "release_ignored": release_ignored,
    "release_overdue": release_overdue,
    "queue_added": lambda fact: f"queue {fact.queue} added, {'configured' if fact.managed else 'for an application'}",
    "queue_changed": queue_changed,
    "queue_draining": lambda fact: f"queue {fact.queue} is no longer configured: draining",
    "queue_drain_overdue": queue_drain_overdue,
    "quota_exceeded": lambda fact: (
        f"queue {fact.queue} is {amounts(fact.above)} above its maximum, preempted in {fact.delay_ms / 1_000:g} s"
    ),
    "quota_preempted": quota_preempted,
    "quota_lent": lambda fact: (
        f"queue {fact.lender} lends {amounts(fact.amounts)} of its {'guarantee' if fact.guaranteed else 'maximum'} to "
        f"queue {fact.borrower}, arranged by {fact.operator}{because(fact.reason)}"
    ),
    "quota_loan_ended": lambda fact: (
        f"what queue {fact.lender} has lent to queue {fact.borrower} is given back{because(fact.reason)}"
    ),
    "budget_period_began": budget_period_began,
    "quota_excess_ended": lambda fact: f"queue {fact.queue} has nothing to give back{because(fact.reason)}",
    "queue_restored": lambda fact: f"queue {fact.queue} is configured again",
    "queue_removed": lambda fact: f"queue {fact.queue} removed",
    "queue_held": lambda fact: (
        f"queue {fact.queue} starts nothing: held by operator {fact.operator}{because(fact.reason)}"
    ),
    "queue_resumed": lambda fact: f"queue {fact.queue} is no longer held",
    "preemption_asked": preemption_asked,
    "preemption_answered": preemption_answered,
    "preemption_started": preemption_started,
    "preemption_ended": lambda fact: f"preemption has not helped {name(fact)}{because(fact.reason)}",
    "domain_avoided": lambda fact: (
        f"others avoid {fact.level} {'/'.join(fact.domain)} for the group of {name(fact)}: "
        f"{fact.missing} of its members found no room there yet"
    ),
    "domain_avoidance_ended": lambda fact: (
        f"others avoid {fact.level} {'/'.join(fact.domain)} for the group of {name(fact)} no more{because(fact.reason)}"
    ),
    "preemption_refused": lambda fact: f"nothing can be preempted for {name(fact)}{because(fact.reason)}",
    "replacement_asked": lambda fact: f"the RM is asked whether {name(fact)} may start on {fact.node_id}",
    "replacement_started": replacement_started,
    "placeholder_replaced": placeholder_replaced,
    "replacement_cancelled": lambda fact: f"{name(fact)} does not replace its placeholder{because(fact.reason)}",
    "predicate_asked": lambda fact: f"the RM is asked whether {name(fact)} may start on {fact.node_id}",
    "predicate_refused": lambda fact: f"the RM does not want {name(fact)} on {fact.node_id}{because(fact.reason)}",
    "predicate_withdrawn": lambda fact: f"{name(fact)} does not start on {fact.node_id}{because(fact.reason)}",
    "predicates_asked": predicates_asked,
    "refusals_forgotten": lambda fact: f"the RM may be asked about {name(fact)} again",
}

# Facts about the RM as a whole: they are in the story of each of its things.
FACTS_ABOUT_THE_RM: Final = frozenset({"rm_registered", "rm_paused", "rm_resumed", "rm_stopped"})

# Why a fact is in no story.
FACTS_WITHOUT_SENTENCE: Final[Mapping[str, str]] = {
    "predicates_answered": "it is about a class of asks; each ask has a sentence for what follows",
    "verdicts_expired": "it is about a class of asks",
    "registration_refused": "nothing changed",
    "configuration_applied": "it names no application, ask, allocation, node or queue",
    "configuration_refused": "nothing changed",
    "partition_added": "it names a partition only",
    "partition_changed": "it names a partition only",
    "partition_draining": "it names a partition only",
    "partition_removed": "it names a partition only",
    "window_planned": "nothing starts otherwise yet",
    "window_opened": "the facts about nodes and queues after it have its effects",
    "window_closed": "the facts about nodes and queues after it have its effects",
    "time_passed": "the facts before it have its effects",
    "work_measured": "it is about no item; placements after it follow other prices",
}
