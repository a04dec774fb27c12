"""Gangs whose pods come and go, and across restarts of the front end."""

from __future__ import annotations

import json

from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.books import ShimPolicy
from remuda_kubernetes.shim.effects import CreatePlaceholder, Submit
from remuda_kubernetes.shim.resume import ApplicationRow, KeptState
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si
from services.kubernetes.tests.reporting_shim import shim
from tests.kubernetes.objects import pod

GROUPS = json.dumps([{"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}])
MEMBER = pod("member", app="app", cpu="1", annotations={names.TASK_GROUPS: GROUPS})
ACCEPTED = si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="default.app")])
COMPLETED = si.ApplicationResponse(updated=[si.UpdatedApplication(applicationID="default.app", state="Completed")])


def created(of: Shim) -> int:
    return sum(isinstance(effect, CreatePlaceholder) for effect in of.take())


def test_gang_that_is_gone_when_it_is_accepted_has_no_placeholders() -> None:
    it = shim("n1")
    it.pod_changed(MEMBER)
    it.pod_gone(MEMBER)
    it.application(ACCEPTED)
    it.application(COMPLETED)
    assert not created(it)


def test_gang_without_an_ask_goes_on_after_a_restart() -> None:
    """The scheduler accepts an application when it takes it, and changes its state at the first ask."""
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.pod_changed(MEMBER)
    it.resume(KeptState(applications=[ApplicationRow("default.app", "New")]))
    assert created(it) == 2


def test_gang_that_begins_again_has_placeholders_again() -> None:
    it = shim("n1")
    it.pod_changed(MEMBER)
    it.application(ACCEPTED)
    assert created(it) == 2
    it.application(COMPLETED)  # its placeholders were deleted
    assert any(isinstance(effect, Submit) for effect in it.take())
    it.application(ACCEPTED)
    assert created(it) == 2
