"""Who may change log levels: administrators; each service hears of changes of its own."""

from __future__ import annotations

from remuda.access.permissions import SERVICES, of_role
from remuda_bus import subjects


def test_services_hear_and_do_not_say() -> None:
    for service in SERVICES:
        found = of_role(service)
        assert subjects.log_level(service) in found.subscribe
        assert not any(subject.startswith("remuda.process.") for subject in found.publish)
    assert not any(subject.startswith("remuda.process.") for subject in of_role("operator").publish)
