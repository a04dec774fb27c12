"""Gangs whose pods come and go, and across restarts of the front end."""

from __future__ import annotations

import json

from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes import limits
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import Ask, CreatePlaceholder, DeletePod, RecordEvent, Submit
from remuda_kubernetes.shim.resume import ApplicationRow, KeptState
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

GROUPS = json.dumps([{"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}])
MEMBER = pod("member", app="app", cpu="1", annotations={names.TASK_GROUPS: GROUPS})
ACCEPTED = si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="default.app")])
COMPLETED = si.ApplicationResponse(updated=[si.UpdatedApplication(applicationID="default.app", state="Completed")])


def placeholders(of: Shim) -> list[str]:
    """Names of those to create."""
    return [effect.manifest["metadata"]["name"] for effect in of.take() if isinstance(effect, CreatePlaceholder)]


def created(of: Shim) -> int:
    return len(placeholders(of))


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


def test_owner_of_placeholders_is_the_originator_after_a_restart() -> None:
    """Also if another pod was created in the same second, and is the first by name."""
    driver, another = MEMBER, pod("another", app="app", cpu="1", annotations={names.TASK_GROUPS: GROUPS})
    before = shim("n1")
    before.pod_changed(driver)
    before.application(ACCEPTED)
    first, second = placeholders(before)
    annotations = {names.PLACEHOLDER: "true", names.TASK_GROUP: "workers"}
    standing = pod(first, app="app", cpu="1", annotations=annotations, owner=driver.uid)
    for order in ((another, driver, standing), (standing, another, driver)):
        it = Shim(ShimPolicy(frozenset({"remuda"})))
        for one in order:
            it.pod_changed(one)
        it.resume(KeptState(applications=[ApplicationRow("default.app", "Accepted")]))
        assert placeholders(it) == [second]


def test_gang_whose_placeholder_went_before_it_was_bound_ends_with_the_time_of_the_others() -> None:
    """All placeholders were allocated, so that the scheduler has started the application and says no more."""
    it = shim("n1")
    it.pod_changed(MEMBER)
    it.application(ACCEPTED)
    first, _ = placeholders(it)
    annotations = {names.PLACEHOLDER: "true", names.TASK_GROUP: "workers"}
    it.pod_changed(pod(first, app="app", cpu="1", annotations=annotations))
    new = si.Allocation(allocationKey=f"uid-{first}", UUID="u", nodeID="n1", applicationID="default.app")
    it.allocation(si.AllocationResponse(new=[new]))
    started = si.UpdatedApplication(applicationID="default.app", state="Starting")
    it.application(si.ApplicationResponse(updated=[started]))
    assert not [effect for effect in it.take() if isinstance(effect, Ask) and effect.ask.allocationKey == "uid-member"]
    over = si.AllocationRelease(
        applicationID="default.app", UUID="u", allocationKey=f"uid-{first}", terminationType=si.TIMEOUT
    )
    it.allocation(si.AllocationResponse(released=[over]))
    assert [effect.ask.allocationKey for effect in it.take() if isinstance(effect, Ask)] == ["uid-member"]


def test_placeholder_that_nobody_saw_is_created_again() -> None:
    it = shim("n1")
    it.pod_changed(MEMBER)
    it.application(ACCEPTED)
    first, second = placeholders(it)
    annotations = {names.PLACEHOLDER: "true", names.TASK_GROUP: "workers"}
    placeholder = pod(first, app="app", cpu="1", annotations=annotations)
    it.pod_changed(placeholder)
    it.pod_gone(placeholder)
    it.pods_listed()
    assert placeholders(it) == [second]


def test_placeholder_of_before_is_replaced_when_it_is_gone() -> None:
    """An application that begins again has the names of its placeholders again, and pods that have ended stay."""
    it = shim("n1")
    it.pod_changed(MEMBER)
    it.application(ACCEPTED)
    first, _ = placeholders(it)
    annotations = {names.PLACEHOLDER: "true", names.TASK_GROUP: "workers"}
    it.applications.placeholder_left("default.app", pod(first, app="app", annotations=annotations, phase="Succeeded"))
    assert [effect.pod.uid for effect in it.take() if isinstance(effect, DeletePod)] == [f"uid-{first}"]
    again = []
    for _ in range(limits.DELETION_SWEEPS):
        it.sweep()
        again += placeholders(it)
    assert again == [first]


def test_gang_that_begins_again_has_placeholders_again() -> None:
    it = shim("n1")
    it.pod_changed(MEMBER)
    it.application(ACCEPTED)
    assert created(it) == 2
    it.application(COMPLETED)  # its placeholders were deleted
    assert any(isinstance(effect, Submit) for effect in it.take())
    it.application(ACCEPTED)
    assert created(it) == 2


def test_events_tell_the_story_of_a_gang() -> None:
    it = shim("n1")
    member = pod("one", app="app", cpu="1", annotations={names.TASK_GROUPS: GROUPS, names.TASK_GROUP: "workers"})
    it.pod_changed(member)
    it.application(ACCEPTED)
    told, standing = [], []
    for effect in it.take():
        if isinstance(effect, RecordEvent):
            told.append((effect.of.name, effect.reason))
        if isinstance(effect, CreatePlaceholder):
            standing.append(effect.manifest["metadata"]["name"])
    for name in standing:
        annotations = {names.PLACEHOLDER: "true", names.TASK_GROUP: "workers"}
        it.pod_changed(pod(name, app="app", cpu="1", annotations=annotations))
        new = si.Allocation(allocationKey=f"uid-{name}", UUID=f"u-{name}", nodeID="n1", applicationID="default.app")
        it.allocation(si.AllocationResponse(new=[new]))
        it.pod_changed(pod(name, app="app", cpu="1", annotations=annotations, node="n1"))
    told += [(effect.of.name, effect.reason) for effect in it.take() if isinstance(effect, RecordEvent)]
    assert [reason for name, reason in told if name == "one"] == [
        "CreatingPlaceholders",
        "PlaceholderAllocated",
        "PlaceholderAllocated",
        "GangReservationComplete",
        "Scheduling",
        "TaskGroupMatch",
    ]
    assert [reason for name, reason in told if name == standing[0]] == ["Scheduling", "Scheduled"]
