"""The kinds of difference from the reference that are meant: each with its reason, and a predicate that recognises it
from the data alone. docs/differences.md is written from this table.
"""

from __future__ import annotations

from typing import Final

from .applications import (
    BadNameNextRule,
    DrainingQueueTakesNothing,
    EverythingGivenBackCompletes,
    GroupsOfTheRequest,
    RecordReplaced,
    RunningWorkIsAccepted,
    WhoCountsAsRunning,
)
from .gangs import (
    ClockInAnyState,
    LargerGoOn,
    NoPlaceOnDrainingNodes,
    PendingPlacesTimeOut,
    PlacesGivenUpAreCounted,
    RealAsksStay,
)
from .kind import Kind
from .limits import LimitsHold, NamedIsNotAnyone, UsageIsWhatIsUsed
from .lookups import sums
from .nodes import (
    BadAllocationsAreOccupied,
    BoundAskHoldsUpNobody,
    ClusterIsNoQuota,
    DrainedIsKeptForNobody,
    EqualCandidates,
    LacksLeast,
    NotReadyTakesNothing,
    ReportedIsOnItsNode,
    ReservationsAreBounded,
)
from .placement import LaterNames, PlacedByDefault
from .preemption import KeptForPreemptor, NoMoreThanNeeded, PreemptsForEach
from .queues import (
    DrainingQueueIsLimited,
    QuotasAreEvents,
    QuotasCanBeRemoved,
    RestoredQueueIsActive,
    TemplateMaxApplications,
    TemplateStandsOnce,
    UpdatesMeanWhatTheySay,
)
from .requests import (
    AskOver,
    AskUpdated,
    FailingTakesNoAsks,
    Nonsense,
    UnknownNodeAnswered,
    UnknownReleaseAnswered,
    UpdatedAskKeepsItsAge,
)
from .templates import TemplateInForce
from .updates import (
    LeafStaysLeaf,
    OnlyChangesAreEvents,
    RefusedChangesNothing,
    RulesFindTheirQueue,
    RulesLeadToLeaves,
)
from .victims import ComparedWhereTheyMeet, PlacedBeforePreempted, WillingGoFirst

__all__ = ["KINDS", "Kind", "sums"]

KINDS: Final[tuple[Kind, ...]] = (
    Nonsense(),
    UnknownReleaseAnswered(),
    UnknownNodeAnswered(),
    LaterNames(),
    BadNameNextRule(),
    PlacedByDefault(),
    NotReadyTakesNothing(),
    BadAllocationsAreOccupied(),
    RunningWorkIsAccepted(),
    DrainingQueueTakesNothing(),
    BoundAskHoldsUpNobody(),
    AskUpdated(),
    UpdatedAskKeepsItsAge(),
    AskOver(),
    TemplateMaxApplications(),
    OnlyChangesAreEvents(),
    FailingTakesNoAsks(),
    RecordReplaced(),
    GroupsOfTheRequest(),
    LimitsHold(),
    NamedIsNotAnyone(),
    KeptForPreemptor(),
    PreemptsForEach(),
    NoMoreThanNeeded(),
    WillingGoFirst(),
    ComparedWhereTheyMeet(),
    PlacedBeforePreempted(),
    ClusterIsNoQuota(),
    LacksLeast(),
    DrainedIsKeptForNobody(),
    ReportedIsOnItsNode(),
    ReservationsAreBounded(),
    EverythingGivenBackCompletes(),
    NoPlaceOnDrainingNodes(),
    UpdatesMeanWhatTheySay(),
    WhoCountsAsRunning(),
    DrainingQueueIsLimited(),
    QuotasCanBeRemoved(),
    LargerGoOn(),
    PendingPlacesTimeOut(),
    RealAsksStay(),
    ClockInAnyState(),
    TemplateStandsOnce(),
    TemplateInForce(),
    QuotasAreEvents(),
    PlacesGivenUpAreCounted(),
    UsageIsWhatIsUsed(),
    RestoredQueueIsActive(),
    RefusedChangesNothing(),
    LeafStaysLeaf(),
    RulesFindTheirQueue(),
    RulesLeadToLeaves(),
    EqualCandidates(),
)
