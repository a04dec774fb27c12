"""Facts: what has happened, as immutable values that are named in the past tense.

`decide` yields facts, `evolve` applies them to the state, and `wire` writes them into the log. A fact holds everything
that a reader of the log needs. Partition names are the scheduler's (`[rm-1]default`), queue names are full lower-case
paths, resources are in base units, times are in milliseconds since 1970.
"""

from __future__ import annotations

from .allocations import (
    PLACEHOLDER_REPLACED,
    PREEMPTED_BY_SCHEDULER,
    STOPPED_BY_RM,
    TIMEOUT,
    Allocated,
    AllocationRecovered,
    AllocationRejected,
    AllocationReleased,
    ReleaseIgnored,
    ReleaseOverdue,
    ReleaseRequested,
    termination_type,
)
from .applications import (
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationRemoved,
    ApplicationStateChanged,
    RejectionForgotten,
)
from .asks import (
    NO_NODE,
    Ask,
    AskAccepted,
    AskChanged,
    AskOutstanding,
    AskRejected,
    AskReleased,
    AskWaiting,
    Constraint,
)
from .configuration import (
    ConfigurationApplied,
    ConfigurationRefused,
    PartitionAdded,
    PartitionChanged,
    PartitionDraining,
    PartitionRemoved,
    QueueAdded,
    QueueChanged,
    QueueDraining,
    QueueRemoved,
    QueueRestored,
)
from .fact import Fact, Tags, TimePassed, kinds
from .gangs import PlaceholderReplaced, ReplacementAsked, ReplacementCancelled, ReplacementStarted
from .nodes import (
    NodeAdded,
    NodeChanged,
    NodeDraining,
    NodeRejected,
    NodeRemoved,
    NodeReserved,
    NodeSchedulable,
    NodeUnreserved,
)
from .predicates import PredicateAsked, PredicateRefused, PredicateWithdrawn, RefusalsForgotten
from .preemption import PreemptionAnswered, PreemptionAsked, PreemptionEnded, PreemptionRefused, PreemptionStarted
from .rms import RegistrationRefused, RmPaused, RmRegistered, RmResumed, RmStopped

__all__ = [
    "NO_NODE",
    "PLACEHOLDER_REPLACED",
    "PREEMPTED_BY_SCHEDULER",
    "STOPPED_BY_RM",
    "TIMEOUT",
    "Allocated",
    "AllocationRecovered",
    "AllocationRejected",
    "AllocationReleased",
    "ApplicationAccepted",
    "ApplicationRejected",
    "ApplicationRemoved",
    "ApplicationStateChanged",
    "Ask",
    "AskAccepted",
    "AskChanged",
    "AskOutstanding",
    "AskRejected",
    "AskReleased",
    "AskWaiting",
    "ConfigurationApplied",
    "ConfigurationRefused",
    "Constraint",
    "Fact",
    "NodeAdded",
    "NodeChanged",
    "NodeDraining",
    "NodeRejected",
    "NodeRemoved",
    "NodeReserved",
    "NodeSchedulable",
    "NodeUnreserved",
    "PartitionAdded",
    "PartitionChanged",
    "PartitionDraining",
    "PartitionRemoved",
    "PlaceholderReplaced",
    "PredicateAsked",
    "PredicateRefused",
    "PredicateWithdrawn",
    "PreemptionAnswered",
    "PreemptionAsked",
    "PreemptionEnded",
    "PreemptionRefused",
    "PreemptionStarted",
    "QueueAdded",
    "QueueChanged",
    "QueueDraining",
    "QueueRemoved",
    "QueueRestored",
    "RefusalsForgotten",
    "RegistrationRefused",
    "RejectionForgotten",
    "ReleaseIgnored",
    "ReleaseOverdue",
    "ReleaseRequested",
    "ReplacementAsked",
    "ReplacementCancelled",
    "ReplacementStarted",
    "RmPaused",
    "RmRegistered",
    "RmResumed",
    "RmStopped",
    "Tags",
    "TimePassed",
    "kinds",
    "termination_type",
]
