"""The data of one resource manager in the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from .. import facts
from ..limits import ALLOCATIONS_PER_RM
from ..rules import connection
from ..rules.predicate_class import BATCH
from ..settings import Timing
from .accounts import Accounts
from .application import Hold, Loan, LoanKey
from .budgets import Budgets
from .left_guest import LeftGuest
from .partition import Partition
from .timers import NEVER_MS, Timers

# The last group of a UUID, 12 digits.
FIRST_UUID = 100_000_000_001


@dataclass(slots=True, eq=False)
class State:
    """All of one RM, at the position `inbox_seq` of its inbox and `request_seq`/`request_part` of its requests."""

    rm_id: str
    registration: int = 0
    # None: the RM has never registered, or has deregistered.
    registered: facts.RmRegistered | None = None
    rm_state: str = connection.INIT
    configuration: facts.ConfigurationApplied | None = None
    timing: Timing = field(default_factory=Timing)
    partitions: dict[str, Partition] = field(default_factory=dict)
    now_ms: int = 0
    inbox_seq: int = 0
    request_seq: int = 0
    request_part: int = 0
    next_seq: int = 0
    next_allocation: int = 0
    next_question: int = 1
    timers: Timers = field(default_factory=Timers)
    # Holds and drains of operators, by partition and queue or node; these outlive registrations. And the outcomes of
    # their last actions, by action_id, the oldest first.
    holds: dict[tuple[str, str], Hold] = field(default_factory=dict)
    drains: dict[tuple[str, str], Hold] = field(default_factory=dict)
    # Loans between queues; these outlive registrations, too.
    loans: dict[LoanKey, Loan] = field(default_factory=dict)
    actions: dict[str, facts.ActionTaken | facts.ActionRefused] = field(default_factory=dict)
    # When these were decided, in ms. For people alone: no digest has it, and older snapshots lack it.
    action_times: dict[str, int] = field(default_factory=dict)
    # What queues and users have used; these outlive registrations, too.
    accounts: Accounts = field(default_factory=Accounts)
    budgets: Budgets = field(init=False)
    # Guests of partitions that are not configured, by partition and application: they wait for their partition.
    left_guests: dict[str, dict[str, LeftGuest]] = field(default_factory=dict)
    # `RmRegistered.life`, and the first four groups of every UUID of that life; see `next_uuid`.
    life: int = 0
    uuid_prefix: str = ""

    def __post_init__(self) -> None:
        self.budgets = Budgets(self)
        self.begin_life(0)

    def begin_life(self, life: int) -> None:
        self.life = life
        digest = sha256(f"{self.rm_id} {life}".encode() if life else self.rm_id.encode()).hexdigest()
        self.uuid_prefix = f"{digest[:8]}-{digest[8:12]}-8{digest[12:15]}-a{digest[15:18]}-"

    @property
    def yunikorn_1_4(self) -> bool:
        """The configuration selects the rules of Apache YuniKorn 1.4 (semantics section 18)."""
        return self.configuration is not None and self.configuration.compatibility == "yunikorn-1.4"

    @property
    def reservation_delay_ms(self) -> int:
        """The time that an ask waits before it may reserve a node, in ms; NEVER_MS if the RM has disabled
        reservations."""
        extra = self.registered.extra_config if self.registered is not None else {}
        return NEVER_MS if extra.get("reservation.disabled", "").lower() == "true" else self.timing.reservation_delay_ms

    @property
    def allocations(self) -> int:
        """The number of allocations, including those that an open question to the RM holds, those that were rejected
        with their node accepted, and those of guests that wait for their partition."""
        left = sum(len(one.allocations) for guests in self.left_guests.values() for one in guests.values())
        return left + sum(
            len(partition.allocations) + len(partition.questions) + partition.rejected_allocations.count
            for partition in self.partitions.values()
        )

    @property
    def room(self) -> int:
        """The number of further allocations that the RM may have."""
        return ALLOCATIONS_PER_RM - self.allocations

    @property
    def predicates(self) -> bool:
        """The RM declares predicates: it is asked before an ask is placed."""
        return self._declares("predicates") or self.batch_predicates

    @property
    def batch_predicates(self) -> bool:
        """The RM declares that it answers about many nodes at once."""
        return self.registered is not None and self.registered.extra_config.get("predicates", "").lower() == BATCH

    @property
    def preemption_predicates(self) -> bool:
        """The RM declares preemption predicates: it is asked before allocations are preempted."""
        return self._declares("preemption_predicates")

    def _declares(self, name: str) -> bool:
        return self.registered is not None and self.registered.extra_config.get(name, "").lower() == "true"

    def next_uuid(self) -> str:
        """The UUID of the next allocation, of version 8 (RFC 9562). It is derived, not random: from the rmID, the life
        and a number that is used once per life."""
        return self.uuid_prefix + str(FIRST_UUID + self.next_allocation)

    def partition_name(self, plain: str) -> str:
        return f"[{self.rm_id}]{plain}"
