"""Settings of the core process, beyond those of every service."""

from __future__ import annotations

from typing import ClassVar

from remuda_bus.settings import Seconds, setting
from remuda_replication.process import Settings
from remuda_replication.settings import REPLAY_HORIZON_S, SNAPSHOT_APART_S, SNAPSHOT_FACTS, SNAPSHOT_S, STANDBYS

from .. import limits


class CoreSettings(Settings):
    keeps_logs: ClassVar[bool] = True
    standbys: int = setting(
        "core.standbys", STANDBYS,
        "cores that follow each RM; the highest setting counts",
        variables=("REMUDA_STANDBYS",), ge=0,
    )  # fmt: skip
    allocations_per_pass: int = setting(
        "core.allocations_per_pass", limits.ALLOCATIONS_PER_PASS,
        "most allocations of one pass and commit; fewer let other requests come sooner",
        ge=1, le=limits.MOST_ALLOCATIONS_PER_PASS,
    )  # fmt: skip
    snapshot_facts: int = setting(
        "core.snapshots.facts", SNAPSHOT_FACTS, "facts after which a snapshot is written",
        variables=("REMUDA_SNAPSHOT_FACTS",), ge=1,
    )  # fmt: skip
    snapshot_s: Seconds = setting(
        "core.snapshots.interval", SNAPSHOT_S, "time after which new facts cause a snapshot",
        variables=("REMUDA_SNAPSHOT_S",), ge=0,
    )  # fmt: skip
    snapshot_apart_s: Seconds = setting(
        "core.snapshots.apart", SNAPSHOT_APART_S,
        "least time between two snapshots",
        variables=("REMUDA_SNAPSHOT_APART_S",), ge=0,
    )  # fmt: skip
    snapshot_in_child: bool = setting(
        "core.snapshots.in_child", True,
        "`false`: the core pauses to write it, for systems without `fork`",
        variables=("REMUDA_SNAPSHOT_IN_CHILD",),
    )  # fmt: skip
    replay_horizon_s: Seconds = setting(
        "core.replay_horizon", REPLAY_HORIZON_S, "logs and inboxes keep messages that are younger",
        variables=("REMUDA_REPLAY_HORIZON_S",), ge=0,
    )  # fmt: skip
    audit_s: Seconds = setting(
        "core.audit.interval", limits.AUDIT_S,
        "between two audits of RMs that this process follows; 0: none", ge=0,
    )  # fmt: skip
