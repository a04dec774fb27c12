"""Configurations as values. The configuration service has parsed and verified them.

Names are lower case, amounts are in base units. 001 and docs/configuration.md define the meaning of each field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from .rules.resource import Resource


class Settings(msgspec.Struct, frozen=True):
    pass


class Limit(Settings):
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_resources: Resource = {}
    max_applications: int = 0
    description: str = ""


# `Budget.calendar`: in which periods a budget counts. Empty: in those of `period_ms`.
DAY: Final = "day"
WEEK: Final = "week"
MONTH: Final = "month"
CALENDARS: Final = (DAY, WEEK, MONTH)


class Offset(Settings):
    """Clocks are ahead of UTC by so much, from a time on in ms since 1970."""

    from_ms: int
    offset_ms: int


class Budget(Settings):
    """The most that a queue and the queues below may use in a period: `amounts` in base units * hours. `zone`: the time
    zone of a calendar, for people; its clock is that of `offsets`, or without any UTC."""

    amounts: Resource
    calendar: str = ""
    period_ms: int = 0
    zone: str = ""
    offsets: tuple[Offset, ...] = ()


class ChildTemplate(Settings):
    max_applications: int = 0
    properties: Mapping[str, str] = {}
    guaranteed: Resource = {}
    max: Resource = {}
    budget: Budget | None = None


class QueueSettings(Settings):
    """One queue. In a fact `queues` is empty, because each queue has its own fact. A resource that is missing in
    `guaranteed` is not guaranteed; one that is missing in `max` is not limited. `max_applications` 0: unlimited."""

    name: str
    parent: bool = False
    guaranteed: Resource = {}
    max: Resource = {}
    max_applications: int = 0
    properties: Mapping[str, str] = {}
    admin_acl: str = ""
    submit_acl: str = ""
    child_template: ChildTemplate | None = None
    limits: tuple[Limit, ...] = ()
    queues: tuple[QueueSettings, ...] = ()
    budget: Budget | None = None


class PlacementFilter(Settings):
    type: str = "allow"
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class PlacementRule(Settings):
    name: str
    create: bool = False
    value: str = ""
    filter: PlacementFilter | None = None
    parent: PlacementRule | None = None


# `PartitionSettings.pack`: asks go to nodes on which their application is already; or to nodes and racks that are in
# use already. Empty: only the node sort policy decides.
APPLICATION: Final = "application"
TOPOLOGY: Final = "topology"
PACKINGS: Final = ("", APPLICATION, TOPOLOGY)


# `PartitionSettings.backfill` and `backfill_order`. Empty: reserved nodes are kept free; asks go in the order of
# queues.
EASY: Final = "easy"
BACKFILLS: Final = ("", EASY)
SHORTEST: Final = "shortest"
BACKFILL_ORDERS: Final = ("", SHORTEST)


class TopologyLevel(Settings):
    """The nodes with the same values of this attribute, and of those of all levels above, are one domain."""

    level: str
    attribute: str


class QueueInWindow(Settings):
    """`config` has no queues below it."""

    path: str
    config: QueueSettings


class Window(Settings):
    """A span of time, which comes once, at `start_ms`, or on `days` of the week (0: Monday), `time_ms` after midnight
    by the clock of `offsets`. Times are in ms since 1970. Nodes are those with these attributes, and those with these
    IDs, which are sorted. With a `queue`, it keeps them for that queue, from `lead_ms` before on; with `queues`, these
    have other settings in it, and it has no nodes; else it is one of maintenance (semantics section 26)."""

    name: str
    start_ms: int = 0
    days: tuple[int, ...] = ()
    time_ms: int = 0
    duration_ms: int = 0
    offsets: tuple[Offset, ...] = ()
    # It begins from the first and before the second of these times on; 0: always.
    since_ms: int = 0
    until_ms: int = 0
    # Days on which it does not begin, counted from 1970-01-01.
    skip: tuple[int, ...] = ()
    nodes: Mapping[str, str] = {}
    ids: tuple[str, ...] = ()
    # Maintenance: asks without a bound start until it begins; and what runs then is released.
    unbounded: bool = False
    release: bool = False
    queue: str = ""
    lead_ms: int = 0
    queues: tuple[QueueInWindow, ...] = ()


class PartitionSettings(Settings):
    """One partition. In a fact `root` has no queues below it."""

    name: str
    root: QueueSettings
    node_sort: str = "fair"
    resource_weights: Mapping[str, float] = msgspec.field(default_factory=lambda: {"vcore": 1.0, "memory": 1.0})
    preemption_enabled: bool = True
    placement_rules: tuple[PlacementRule, ...] = ()
    limits: tuple[Limit, ...] = ()
    # In per cent of the partition's total: nothing is preempted while less is in use.
    preemption_threshold: int = 0
    # Between two attempts for asks of one kind; 0: `Timing.preemption_attempt_ms`.
    preemption_interval_ms: int = 0
    # Which asks are packed onto few nodes: one of PACKINGS.
    pack: str = ""
    # Queues with a delay give back what is above their maximum.
    quota_preemption_enabled: bool = False
    # In per cent of the nodes: how many may be reserved for asks that are not bound to a node; and how many of them for
    # asks of one leaf queue. One always may.
    reservation_share: int = 50
    queue_reservation_share: int = 25
    # Resources that stand on devices: the amount of one device of each (semantics section 20).
    devices: Resource = {}
    # From coarse to fine (semantics section 21).
    topology: tuple[TopologyLevel, ...] = ()
    # Whether asks may be placed on reserved nodes if they end in time: one of BACKFILLS; and which of them go first:
    # one of BACKFILL_ORDERS (semantics section 22).
    backfill: str = ""
    backfill_order: str = ""
    # Windows of time (semantics section 26); and, in a fact, the settings outside of them of queues that they change.
    calendar: tuple[Window, ...] = ()
    outside: tuple[QueueInWindow, ...] = ()


class Timing(Settings):
    """Durations after which something ends or may begin, in milliseconds (semantics sections 7, 11, 12, 13)."""

    # An application leaves Starting for Running; leaves Completing for Completed; an ended one is removed.
    starting_ms: int = 5 * 60_000
    completing_ms: int = 30_000
    ended_ms: int = 3 * 86_400_000
    # An ask may reserve a node when it has waited this long.
    reservation_delay_ms: int = 2_000
    # A node is reserved for an ask for so long at most.
    reservation_timeout_ms: int = 60 * 60_000
    # A group that has waited for a domain this long makes others avoid one; it is chosen anew after as long.
    domain_delay_ms: int = 10 * 60_000
    # Between two preemption attempts for one ask.
    preemption_attempt_ms: int = 15_000
    # Placeholders time out, unless the application sets its own time-out.
    placeholder_ms: int = 15 * 60_000


class Configuration(Settings):
    """`source`: where it came from, for people. `compatibility`: "none" or "yunikorn-1.4" (semantics section 18).
    `revision`: the number of the version of the file; 0: it is not of the file."""

    checksum: str
    partitions: tuple[PartitionSettings, ...]
    compatibility: str = "none"
    source: str = ""
    timing: Timing = Timing()
    revision: int = 0


def built_in() -> Configuration:
    """The configuration of an RM without one: a partition that is open to all users, with a dynamic queue per
    namespace."""
    root = QueueSettings("root", parent=True, submit_acl="*")
    rules = (PlacementRule("provided"), PlacementRule("tag", create=True, value="namespace"))
    return Configuration("", (PartitionSettings("default", root, placement_rules=rules),), source="built-in")
