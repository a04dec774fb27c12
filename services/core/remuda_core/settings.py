"""The configuration as the core knows it: values, verified elsewhere (the configuration service), never text.

Names are lower case, amounts are in base units; see 001 and docs/configuration.md for what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping

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


class ChildTemplate(Settings):
    max_applications: int = 0
    properties: Mapping[str, str] = {}
    guaranteed: Resource = {}
    max: Resource = {}


class QueueSettings(Settings):
    """One queue. In a fact `queues` is empty: each queue has a fact of its own. An empty `guaranteed` guarantees
    nothing, a name missing in `max` is not limited; `max_applications` 0 is unlimited."""

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


class PartitionSettings(Settings):
    """One partition. In a fact `root` has no queues below it."""

    name: str
    root: QueueSettings
    node_sort: str = "fair"
    resource_weights: Mapping[str, float] = msgspec.field(default_factory=lambda: {"vcore": 1.0, "memory": 1.0})
    preemption_enabled: bool = True
    placement_rules: tuple[PlacementRule, ...] = ()
    limits: tuple[Limit, ...] = ()
    # Nothing is preempted while less than this part of the cluster is in use, in per cent.
    preemption_threshold: int = 0
    # Between two attempts for like asks; 0: as long as `Timing` says.
    preemption_interval_ms: int = 0


class Timing(Settings):
    """How long things last that end by themselves, in milliseconds (semantics sections 7, 11, 12, 13)."""

    # A state of an application: Starting, until it counts as Running; Completing, until it is Completed; and how long
    # a record of one that has ended is kept.
    starting_ms: int = 5 * 60_000
    completing_ms: int = 30_000
    ended_ms: int = 3 * 86_400_000
    # An ask has to wait this long before it may reserve a node.
    reservation_delay_ms: int = 2_000
    # Between two attempts to preempt for one ask.
    preemption_attempt_ms: int = 15_000
    # Placeholders that nothing replaces, where the application does not say itself how long.
    placeholder_ms: int = 15 * 60_000


class Configuration(Settings):
    """`source`: where it came from, for people; `compatibility`: "none" or "yunikorn-1.4"."""

    checksum: str
    partitions: tuple[PartitionSettings, ...]
    compatibility: str = "none"
    source: str = ""
    timing: Timing = Timing()


def built_in() -> Configuration:
    """What holds without any configuration: one partition, everyone may submit, queues appear by namespace."""
    root = QueueSettings("root", parent=True, submit_acl="*")
    rules = (PlacementRule("provided"), PlacementRule("tag", create=True, value="namespace"))
    return Configuration("", (PartitionSettings("default", root, placement_rules=rules),), source="built-in")
