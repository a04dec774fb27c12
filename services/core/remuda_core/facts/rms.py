"""Facts about the connection of a resource manager."""

from __future__ import annotations

from .fact import Fact, Tags


class RmRegistered(Fact):
    rm_id: str
    version: str
    policy_group: str
    build_info: Tags
    extra_config: Tags
    registration: int
    # REPORT or REPLAY; empty in logs from before there was a choice: REPORT.
    resync: str = ""
    # Which log of this RM it is: 0, or when the one before was given up.
    life: int = 0


class RmPaused(Fact):
    """The RM is silent."""

    reason: str


class RmResumed(Fact):
    """The RM is heard again."""


class RmStopped(Fact):
    """The RM is gone: silent for too long, or `deregistered`; then all that was known of it is dropped."""

    reason: str
    deregistered: bool = False


class RegistrationRefused(Fact):
    rm_id: str
    reason: str
