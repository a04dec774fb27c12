"""What the core knows of one resource manager."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from .. import facts
from ..limits import ALLOCATIONS_PER_RM
from ..rules import connection
from ..settings import Timing
from .partition import Partition
from .timers import NEVER_MS, Timers

# The last group of a UUID, 12 digits.
FIRST_UUID = 100_000_000_001


@dataclass(slots=True, eq=False)
class State:
    """All of one RM, at the position `inbox_seq` of its inbox and `request_seq`/`request_part` of its requests."""

    rm_id: str
    registration: int = 0
    # None: never, or not any more.
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
    # Of RmRegistered, and what every allocation begins with in it; see `next_uuid`.
    life: int = 0
    uuid_prefix: str = ""

    def __post_init__(self) -> None:
        self.begin_life(0)

    def begin_life(self, life: int) -> None:
        self.life = life
        digest = sha256(f"{self.rm_id} {life}".encode() if life else self.rm_id.encode()).hexdigest()
        self.uuid_prefix = f"{digest[:8]}-{digest[8:12]}-8{digest[12:15]}-a{digest[15:18]}-"

    @property
    def yunikorn_1_4(self) -> bool:
        """The configuration wants the rules of that version (semantics section 18)."""
        return self.configuration is not None and self.configuration.compatibility == "yunikorn-1.4"

    @property
    def reservation_delay_ms(self) -> int:
        """How long an ask waits before it may reserve a node; for ever where the RM wants no reservations."""
        extra = self.registered.extra_config if self.registered is not None else {}
        return NEVER_MS if extra.get("reservation.disabled", "").lower() == "true" else self.timing.reservation_delay_ms

    @property
    def allocations(self) -> int:
        """How many there are, or may be when the RM has answered."""
        return sum(len(partition.allocations) + len(partition.questions) for partition in self.partitions.values())

    @property
    def room(self) -> int:
        """How many more allocations there may be."""
        return ALLOCATIONS_PER_RM - self.allocations

    @property
    def predicates(self) -> bool:
        """Whether the RM is asked before anything is placed."""
        return self._declares("predicates")

    @property
    def preemption_predicates(self) -> bool:
        """Whether the RM is asked before anything is preempted."""
        return self._declares("preemption_predicates")

    def _declares(self, name: str) -> bool:
        return self.registered is not None and self.registered.extra_config.get(name, "").lower() == "true"

    def next_uuid(self) -> str:
        """Of the next allocation: derived, never drawn. A UUID of version 8 (RFC 9562), from the rmID, the life and a
        number that is not used twice in it."""
        return self.uuid_prefix + str(FIRST_UUID + self.next_allocation)

    def partition_name(self, plain: str) -> str:
        return f"[{self.rm_id}]{plain}"
