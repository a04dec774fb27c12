"""Errors of the SDK, beside those of the bus."""

from __future__ import annotations


class Superseded(Exception):
    """The registration is over: another instance has registered under this rmID, or has deregistered it, or the RM was
    forgotten. This instance receives no callbacks any more, and the scheduler ignores its requests."""


class ReportRequested(Exception):
    """The scheduler has lost the state of this RM and requests a report, and the RM has no handler for that
    (`ResourceManager.on_report_requested`)."""


class RegistrationFailed(Exception):
    """The scheduler did not register the RM. `code`: 400 malformed request, 422 refused by the configuration or the
    core, 503 outage; the others are listed in docs/wire-contract.md, section Errors."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(f"{reason} ({code})")
        self.reason = reason
        self.code = code
