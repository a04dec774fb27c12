"""Actions of operators, as values: the part of the command `Administer` that says what to do.

The names of their fields are those of `facts.Action`, which describes an action in the log.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Action(msgspec.Struct, frozen=True, gc=False):
    pass


class KillApplication(Action):
    """Withdraw the asks and have the RM release the allocations. The application fails."""

    application_id: str


class MoveApplication(Action):
    """Move the application, with all it has, to the leaf queue `queue` (full path)."""

    application_id: str
    queue: str


class HoldQueue(Action):
    """Nothing is allocated or started in the queue and below it until `ResumeQueue`."""

    queue: str


class ResumeQueue(Action):
    queue: str


class LendQuota(Action):
    """The queue `queue` lends amounts of its maximum, or of its guarantee, to the queue `borrower` until a time."""

    queue: str
    borrower: str
    amounts: Mapping[str, int]
    guaranteed: bool
    until_ms: int


class EndLoan(Action):
    queue: str
    borrower: str


class DrainNode(Action):
    """`from_ms`: from this time on; 0: at once."""

    node_id: str
    from_ms: int = 0


class UndrainNode(Action):
    node_id: str


class ChangeAskPriority(Action):
    application_id: str
    allocation_key: str
    priority: int


class ReleaseOneAllocation(Action):
    """Have the RM release the allocation."""

    uuid: str
