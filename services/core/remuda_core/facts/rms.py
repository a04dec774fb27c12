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
    # REPORT or REPLAY of `rules.connection`; "" in old logs means REPORT.
    resync: str = ""
    # The life of the RM: another number after each rebuild or forgetting. UUIDs of allocations derive from it.
    life: int = 0
    # Guests stay, and GuestKept follows for each of their allocations. Logs of versions that dropped them have no such
    # field.
    keeps_guests: bool = False


class RmPaused(Fact):
    """The RM has sent no heartbeat in time. Nothing is scheduled for it."""

    reason: str


class RmResumed(Fact):
    """The RM sends heartbeats again."""


class RmStopped(Fact):
    """The RM has been silent for too long, or has `deregistered`; in that case its whole state is
    dropped, but for guests."""

    reason: str
    deregistered: bool = False
    # As in RmRegistered; GuestKept follows the next registration.
    keeps_guests: bool = False


class RegistrationRefused(Fact):
    rm_id: str
    reason: str
