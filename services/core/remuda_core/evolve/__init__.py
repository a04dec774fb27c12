"""Applies facts to the state. One function per kind of fact; it computes and never decides, and on a valid log it never
fails.

A function returns the objects that the fact has removed from the state, or has changed without naming them: the
scheduling index needs them to find its entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .. import facts
from ..state import State
from . import (
    administration,
    allocations,
    applications,
    asks,
    budgets,
    devices,
    gangs,
    guests,
    loans,
    nodes,
    predicate_classes,
    preemption,
    questions,
    queues,
    rms,
    windows,
)


def evolve(state: State, fact: facts.Fact) -> Any:
    """Apply one fact. `state.now_ms` must be the time of its commit. Returns what `Index.apply` needs beside it."""
    return BY_FACT[type(fact)](state, fact)


def nothing(state: State, fact: facts.Fact) -> None:
    """Refusals do not change the state. They are facts so that the RM and people learn of them."""


BY_FACT: Final[dict[type[facts.Fact], Callable[[State, Any], Any]]] = {
    facts.TimePassed: rms.time_passed,
    facts.ActionTaken: administration.action_handled,
    facts.ActionRefused: administration.action_handled,
    facts.ApplicationMoved: administration.application_moved,
    facts.QueueHeld: administration.queue_held,
    facts.QueueResumed: administration.queue_resumed,
    facts.RmRegistered: rms.rm_registered,
    facts.RegistrationRefused: nothing,
    facts.RmPaused: rms.rm_paused,
    facts.RmResumed: rms.rm_resumed,
    facts.RmStopped: rms.rm_stopped,
    facts.ConfigurationApplied: rms.configuration_applied,
    facts.ConfigurationRefused: nothing,
    facts.PartitionAdded: queues.partition_added,
    facts.PartitionChanged: queues.partition_changed,
    facts.PartitionDraining: queues.partition_draining,
    facts.PartitionRemoved: queues.partition_removed,
    facts.QueueAdded: queues.queue_added,
    facts.QueueChanged: queues.queue_changed,
    facts.QueueDraining: queues.queue_draining,
    facts.QueueDrainOverdue: queues.queue_drain_overdue,
    facts.QueueRestored: queues.queue_restored,
    facts.QueueRemoved: queues.queue_removed,
    facts.NodeAdded: nodes.node_added,
    facts.NodeRejected: nothing,
    facts.NodeChanged: nodes.node_changed,
    facts.NodeDraining: nodes.node_draining,
    facts.NodeLeaving: nodes.node_leaving,
    facts.WindowPlanned: windows.window_planned,
    facts.WindowOpened: windows.window_opened,
    facts.WindowClosed: windows.window_closed,
    facts.NodeSchedulable: nodes.node_schedulable,
    facts.NodeRemoved: nodes.node_removed,
    facts.NodeReserved: nodes.node_reserved,
    facts.NodeUnreserved: nodes.node_unreserved,
    facts.PromiseChanged: nodes.promise_changed,
    facts.DomainAvoided: nodes.domain_avoided,
    facts.DomainAvoidanceEnded: nodes.domain_avoidance_ended,
    facts.ApplicationAccepted: applications.application_accepted,
    facts.ApplicationRejected: applications.application_rejected,
    facts.RejectionForgotten: applications.rejection_forgotten,
    facts.ApplicationStateChanged: applications.application_state_changed,
    facts.ApplicationRemoved: applications.application_removed,
    facts.AskAccepted: asks.ask_accepted,
    facts.AskChanged: asks.ask_changed,
    facts.AskRejected: nothing,
    facts.AskReleased: asks.ask_released,
    facts.AskWaiting: asks.ask_waiting,
    facts.AskOutstanding: nothing,
    facts.Allocated: allocations.allocated,
    facts.AllocationRecovered: allocations.allocation_recovered,
    facts.AllocationRejected: nothing,
    facts.ExistingAllocationRejected: nodes.existing_allocation_rejected,
    facts.RejectedAllocationForgotten: nodes.rejected_allocation_forgotten,
    facts.DevicesAssigned: devices.devices_assigned,
    facts.WorkMeasured: devices.work_measured,
    facts.GuestKept: guests.guest_kept,
    facts.AllocationReleased: allocations.allocation_released,
    facts.ReleaseRequested: allocations.release_requested,
    facts.ReleaseIgnored: nothing,
    facts.PredicateAsked: questions.predicate_asked,
    facts.PredicateRefused: questions.predicate_refused,
    facts.PredicateWithdrawn: questions.predicate_withdrawn,
    facts.PredicatesAsked: predicate_classes.predicates_asked,
    facts.PredicatesAnswered: predicate_classes.predicates_answered,
    facts.VerdictsExpired: predicate_classes.verdicts_expired,
    facts.RefusalsForgotten: questions.refusals_forgotten,
    facts.ReplacementAsked: questions.replacement_asked,
    facts.PreemptionAsked: preemption.preemption_asked,
    facts.PreemptionAnswered: preemption.preemption_answered,
    facts.ReleaseOverdue: allocations.release_overdue,
    facts.PreemptionStarted: preemption.preemption_started,
    facts.PreemptionEnded: preemption.preemption_ended,
    facts.PreemptionRefused: preemption.preemption_refused,
    facts.QuotaExceeded: queues.quota_exceeded,
    facts.QuotaPreempted: queues.quota_preempted,
    facts.QuotaExcessEnded: queues.quota_excess_ended,
    facts.QuotaLent: loans.quota_lent,
    facts.QuotaLoanEnded: loans.quota_loan_ended,
    facts.BudgetPeriodBegan: budgets.period_began,
    facts.ReplacementStarted: gangs.replacement_started,
    facts.PlaceholderReplaced: gangs.placeholder_replaced,
    facts.ReplacementCancelled: gangs.replacement_cancelled,
}
