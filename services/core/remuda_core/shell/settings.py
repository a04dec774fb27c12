"""Settings of the core process, from environment variables: REMUDA_SNAPSHOT_FACTS and so on."""

from __future__ import annotations

from pydantic import Field

from remuda_bus import process

from .. import limits


class CoreSettings(process.Settings):
    standbys: int = Field(limits.STANDBYS, ge=0, description="core processes that follow each RM beside its leader")
    snapshot_facts: int = Field(limits.SNAPSHOT_FACTS, ge=1, description="a snapshot after so many facts")
    snapshot_s: float = Field(limits.SNAPSHOT_S, ge=0, description="or after so long, if anything has happened")
    snapshot_apart_s: float = Field(limits.SNAPSHOT_APART_S, ge=0, description="but never sooner than this")
    snapshot_in_child: bool = Field(True, description="false: in the process itself, which stops meanwhile")
    replay_horizon_s: float = Field(limits.REPLAY_HORIZON_S, ge=0, description="logs keep at least what is this young")
