"""The health of this process: what it does, and whether that is as it should be.

Services set it; the pages of `remuda_replication.process.health_pages` show it.
"""

from __future__ import annotations

import structlog

from remuda_bus import limits

log = structlog.get_logger()


class Health:
    """The health of a process. `doing`: what the service does, in a few words for people. `ready`: whether it works or
    stands by. `storage_fault`: the refusal of a NATS server without disk space; empty while it stores. `violations`: by
    rmID, what the last audit of a state has found. `listener_errors`: by kind of message, the last error of its
    listener; no sender waits for an answer. `changed_streams`: by stream, the settings that somebody has changed."""

    def __init__(self) -> None:
        self.doing = "starting"
        self.ready = False
        self.storage_fault = ""
        self.violations: dict[str, str] = {}
        self.listener_errors: dict[str, str] = {}
        self.changed_streams: dict[str, str] = {}

    def storage_failed(self, said: str) -> None:
        """The NATS server has refused an append: no space left."""
        if not self.storage_fault:
            log.error("the NATS server has no space left: nothing can be stored until there is room", answer=said)
        self.storage_fault = said

    def storage_works(self) -> None:
        """The NATS server has accepted an append."""
        if self.storage_fault:
            log.warning("the NATS server stores again", was=self.storage_fault)
            self.storage_fault = ""

    def listener_failed(self, kind: str, subject: str, error: Exception) -> None:
        """A listener to messages of this kind has raised an error, which is a bug. It gets the next message."""
        self.listener_errors[kind] = f"{subject}: {error!r}"[: limits.REASON_CHARACTERS]

    def set_status(self, doing: str, ready: bool = True) -> None:
        self.doing, self.ready = doing, ready


PROCESS_HEALTH = Health()
