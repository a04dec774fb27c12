"""Effects of each report: one test for each row of the table of messages."""

from __future__ import annotations

import json

from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes import limits
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import (
    Ask,
    Bind,
    CreatePlaceholder,
    Effect,
    FailPod,
    RecordEvent,
    Release,
    ReportAllocation,
    ReportNode,
    SetCondition,
    Submit,
)
from remuda_kubernetes.shim.shim import STATES, Shim
from remuda_proto.si.v1 import si_pb2 as si


def taken(of: Shim) -> list[Effect]:
    """Without events, which are for people."""
    return [effect for effect in of.take() if not isinstance(effect, RecordEvent)]


def kinds(effects: list[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def allocated(of: Shim, name: str, node: str, uuid: str = "") -> None:
    new = si.Allocation(allocationKey=f"uid-{name}", UUID=uuid or f"u-{name}", nodeID=node, applicationID="default.app")
    of.allocation(si.AllocationResponse(new=[new]))


def released(of: Shim, name: str, kind: si.TerminationType.ValueType) -> si.AllocationRelease:
    release = si.AllocationRelease(
        allocationKey=f"uid-{name}", UUID=f"u-{name}", applicationID="default.app", terminationType=kind
    )
    of.allocation(si.AllocationResponse(released=[release]))
    return release


def running(of: Shim, name: str, on: str = "n1") -> None:
    of.pod_changed(pod(name, app="app", cpu="1"))
    allocated(of, name, on)
    of.pod_changed(pod(name, app="app", cpu="1", node=on))
    of.take()


def test_pod_is_submitted_asked_for_and_bound() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app", queue="root.a", cpu="1", priority=5))
    submit, asked = taken(it)
    assert isinstance(submit, Submit)
    assert (submit.application.applicationID, submit.application.queueName) == ("default.app", "root.a")
    assert isinstance(asked, Ask)
    assert (asked.ask.allocationKey, asked.ask.priority, asked.ask.Originator) == ("uid-p", 5, True)
    assert {name: one.value for name, one in asked.ask.resourceAsk.resources.items()} == {"vcore": 1_000, "pods": 1}
    assert asked.ask.tags["kubernetes.io/meta/podName"] == "p"
    assert asked.ask.tags["kubernetes.io/label/applicationId"] == "app"
    allocated(it, "p", "n1")
    allocated(it, "p", "n1")  # delivered twice
    (bind,) = taken(it)
    assert isinstance(bind, Bind)
    assert (bind.pod.uid, bind.node) == ("uid-p", "n1")
    it.pod_changed(pod("p", app="app", cpu="1", node="n1"))
    assert taken(it) == []


def test_second_pod_is_no_originator() -> None:
    it = shim()
    it.pod_changed(pod("p", app="app"))
    it.pod_changed(pod("q", app="app"))
    asks = [effect.ask for effect in it.take() if isinstance(effect, Ask)]
    assert [ask.Originator for ask in asks] == [True, False]


def test_pod_with_gates_waits_for_them() -> None:
    it = shim()
    it.pod_changed(pod("p", app="app", schedulingGates=[{"name": "g"}]))
    assert taken(it) == []
    it.pod_changed(pod("p", app="app"))
    assert kinds(taken(it)) == ["Submit", "Ask"]


def test_pod_that_ends_is_released_once() -> None:
    it = shim("n1")
    running(it, "p")
    it.pod_changed(pod("p", app="app", cpu="1", node="n1", phase="Succeeded"))
    it.pod_gone(pod("p", app="app", cpu="1", node="n1", phase="Succeeded"))
    (release,) = taken(it)
    assert isinstance(release, Release)
    assert isinstance(release.release, si.AllocationRelease)
    assert (release.release.UUID, release.release.terminationType) == ("u-p", si.STOPPED_BY_RM)


def test_ask_of_a_pod_that_goes_is_withdrawn() -> None:
    it = shim()
    it.pod_changed(pod("p", app="app"))
    it.take()
    it.pod_gone(pod("p", app="app"))
    (release,) = taken(it)
    assert isinstance(release, Release)
    assert isinstance(release.release, si.AllocationAskRelease)


def test_allocation_of_a_pod_that_is_gone_is_released() -> None:
    it = shim("n1")
    allocated(it, "p", "n1")
    assert kinds(taken(it)) == ["Release"]


def test_allocation_that_is_known_stays_when_its_callback_follows() -> None:
    """After a restart it is read first; the callback may come when the pod is bound."""
    it = shim("n1")
    running(it, "p")
    allocated(it, "p", "n1")
    assert not taken(it)


def test_release_is_confirmed_when_the_pod_is_gone() -> None:
    it = shim("n1")
    running(it, "p")
    release = released(it, "p", si.PREEMPTED_BY_SCHEDULER)
    released(it, "p", si.PREEMPTED_BY_SCHEDULER)
    assert kinds(taken(it)) == ["Evict"]
    it.pod_changed(pod("p", app="app", cpu="1", node="n1", deleted=True))
    assert taken(it) == []
    it.pod_gone(pod("p", app="app", cpu="1", node="n1"))
    assert taken(it) == [Release(release)]


def test_release_of_a_pod_that_is_gone_is_confirmed_at_once() -> None:
    it = shim("n1")
    release = released(it, "p", si.TIMEOUT)
    assert taken(it) == [Release(release)]


def test_binding_that_fails_is_asked_for_again() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app", cpu="1"))
    allocated(it, "p", "n1")
    it.take()
    it.binding_failed("uid-p", "n1", "no")
    assert kinds(taken(it)) == ["Release", "Ask"]


def test_node_of_refused_bindings_counts_as_not_ready_until_it_changes() -> None:
    it = shim("n1")
    for _ in range(3):
        it.binding_refused("n1")
    (report,) = taken(it)
    assert isinstance(report, ReportNode)
    assert report.node.attributes["ready"] == "false"
    it.node_changed(node("n1"))
    (report,) = taken(it)
    assert isinstance(report, ReportNode)
    assert report.node.attributes["ready"] == "true"


def test_pod_bound_by_another_process_is_reported() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app", cpu="1"))
    it.take()
    it.pod_changed(pod("p", app="app", cpu="1", node="n1"))
    withdrawn, reported = taken(it)
    assert isinstance(withdrawn, Release)
    assert isinstance(reported, ReportAllocation)
    assert (reported.allocation.UUID, reported.allocation.nodeID) == ("uid-p", "n1")


def test_bound_pod_is_reported_again_with_its_application_that_has_completed() -> None:
    """The application completed before its report arrived."""
    it = shim("n1")
    it.pod_changed(pod("p", app="app", node="n1"))
    it.take()
    completed = si.UpdatedApplication(applicationID="default.app", state="Completed")
    it.application(si.ApplicationResponse(updated=[completed]))
    rejected = si.RejectedAllocation(allocationKey="uid-p", applicationID="default.app", reason="there is none")
    for _ in range(limits.RESUBMISSIONS):
        it.allocation(si.AllocationResponse(rejectedAllocations=[rejected]))
    again = [effect for effect in it.take() if isinstance(effect, Submit | ReportAllocation)]
    assert [type(effect) for effect in again] == [Submit, *[ReportAllocation] * limits.RESUBMISSIONS]
    it.allocation(si.AllocationResponse(rejectedAllocations=[rejected]))
    assert [effect.reason for effect in it.take() if isinstance(effect, RecordEvent)] == ["TaskRejected"]


def test_pod_that_is_to_be_released_and_is_bound_elsewhere_is_released_there() -> None:
    """The release that the scheduler has requested is of the former allocation."""
    it = shim("n1", "n2")
    it.pod_changed(pod("p", app="app", cpu="1"))
    allocated(it, "p", "n1")
    released(it, "p", si.PREEMPTED_BY_SCHEDULER)
    it.take()
    it.pod_changed(pod("p", app="app", cpu="1", node="n2"))
    former, reported = taken(it)
    assert isinstance(former, Release) and isinstance(reported, ReportAllocation)
    assert isinstance(former.release, si.AllocationRelease) and former.release.UUID == "u-p"
    it.pod_gone(pod("p", app="app", cpu="1", node="n2"))
    (now,) = taken(it)
    assert isinstance(now, Release) and isinstance(now.release, si.AllocationRelease)
    assert now.release.UUID == reported.allocation.UUID


def test_node_is_reported_with_what_runs_there() -> None:
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.pod_changed(pod("ours", app="app", cpu="1", node="n1"))
    it.pod_changed(pod("theirs", cpu="2", scheduler="default-scheduler", node="n1"))
    it.node_changed(node("n1", cordoned=True))
    assert it.take() == []
    it.report()
    submit, report = taken(it)
    assert isinstance(submit, Submit)
    assert submit.application.tags["application.create.force"] == "true"
    assert isinstance(report, ReportNode)
    assert report.node.action == si.NodeInfo.CREATE_DRAIN
    assert [one.allocationKey for one in report.node.existingAllocations] == ["uid-ours"]
    assert report.node.occupiedResource.resources["vcore"].value == 2_000


def test_a_node_leaves_by_its_annotation() -> None:
    it = shim()
    at = "2027-03-01T08:00:00Z"
    said: list[tuple[str, str | None]] = []
    for leaves_at in (at, at, "", "tomorrow", "tomorrow", "1803884400000"):
        it.node_changed(node("n1", leaves_at=leaves_at))
        for effect in it.take():
            if isinstance(effect, ReportNode):
                said.append(("reported", effect.node.attributes.get("remuda/leavesAt")))
            elif isinstance(effect, RecordEvent) and effect.is_warning:
                said.append((effect.reason, effect.note))
    expected = "expected a time with its zone, such as 2027-03-01T08:00:00Z, or milliseconds since 1970"
    assert said == [
        ("reported", at),
        ("reported", ""),
        ("AnnotationIgnored", f"annotation remuda.io/leaves-at: 'tomorrow', {expected}"),
        ("reported", "1803884400000"),
    ]


def test_changes_of_nodes() -> None:
    it = shim("n1")
    update = si.NodeInfo.UPDATE  # beside a cordon: verdicts about the node are void
    for changed, actions in (
        (node("n1", cpu="8"), [update]),
        (node("n1", cpu="8", cordoned=True), [update, si.NodeInfo.DRAIN_NODE]),
        (node("n1", cpu="8"), [update, si.NodeInfo.DRAIN_TO_SCHEDULABLE]),
        (node("n1", cpu="8", ready=False), [update]),
    ):
        it.node_changed(changed)
        assert [effect.node.action for effect in taken(it) if isinstance(effect, ReportNode)] == actions
    it.node_changed(node("n1", cpu="8", ready=False))
    assert taken(it) == []
    it.node_gone(node("n1"))
    (report,) = taken(it)
    assert isinstance(report, ReportNode)
    assert report.node.action == si.NodeInfo.DECOMISSION


def test_pods_of_other_schedulers_are_summed() -> None:
    it = shim("n1")
    for name in ("a", "b"):
        it.pod_changed(pod(name, cpu="1", scheduler="default-scheduler", node="n1"))
    (report,) = taken(it)
    assert isinstance(report, ReportNode)
    assert report.node.occupiedResource.resources["vcore"].value == 2_000
    for name in ("a", "b"):
        it.pod_gone(pod(name, cpu="1", scheduler="default-scheduler", node="n1"))
    (report,) = taken(it)
    assert isinstance(report, ReportNode)
    assert report.node.occupiedResource.resources["vcore"].value == 0


def test_orphan_is_adopted_when_its_node_is_back() -> None:
    it = shim("n1")
    running(it, "p")
    it.node_gone(node("n1"))
    released(it, "p", si.STOPPED_BY_RM)
    assert kinds(taken(it)) == ["ReportNode"]
    it.node_changed(node("n1", uid="another"))
    (report,) = taken(it)
    assert isinstance(report, ReportNode)
    assert [one.allocationKey for one in report.node.existingAllocations] == ["uid-p"]


def test_rejected_application_fails_its_waiting_pods() -> None:
    it = shim("n1")
    running(it, "runs")
    it.pod_changed(pod("waits", app="app"))
    it.take()
    it.application(
        si.ApplicationResponse(rejected=[si.RejectedApplication(applicationID="default.app", reason="no queue")])
    )
    (failed,) = taken(it)
    assert isinstance(failed, FailPod)
    assert (failed.pod.name, failed.reason, failed.message) == ("waits", "ApplicationRejected", "no queue")


def test_application_that_has_completed_is_submitted_again() -> None:
    it = shim()
    it.pod_changed(pod("p", app="app"))
    it.take()
    it.application(
        si.ApplicationResponse(updated=[si.UpdatedApplication(applicationID="default.app", state="Completed")])
    )
    assert kinds(taken(it)) == ["Submit", "Ask"]


def test_pod_of_an_application_that_completes_is_asked_for_without_another_submission() -> None:
    it = shim("n1")
    running(it, "p")
    it.pod_gone(pod("p", app="app", cpu="1", node="n1"))
    it.pod_changed(pod("q", app="app"))
    release, asked = taken(it)
    assert isinstance(release, Release)
    assert isinstance(asked, Ask)
    assert asked.ask.Originator
    it.pod_gone(pod("q", app="app"))
    it.application(
        si.ApplicationResponse(updated=[si.UpdatedApplication(applicationID="default.app", state="Completed")])
    )
    it.take()
    it.pod_changed(pod("r", app="app"))
    assert kinds(taken(it)) == ["Submit", "Ask"]


def test_why_a_pod_waits_is_a_condition_once() -> None:
    it = shim()
    it.pod_changed(pod("p", app="app"))
    it.take()
    for state, reason in ((STATES.SKIPPED, "SchedulingSkipped"), (STATES.FAILED, "Unschedulable")):
        update = STATES(allocationKey="uid-p", applicartionID="default.app", state=state, reason="because")
        it.scheduling_state(update)
        it.scheduling_state(update)
        (condition,) = taken(it)
        assert isinstance(condition, SetCondition)
        assert (condition.reason, condition.message) == (reason, "because")


GROUPS = json.dumps([{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}}])
GANG = {names.TASK_GROUPS: GROUPS, names.TASK_GROUP: "g"}


RECORD = si.EventRecord


def test_records_of_the_scheduler_are_events_on_pods_and_nodes() -> None:
    """Not what the condition says already, nothing about others, and of nodes only that they come and go."""
    it = shim("n1")
    it.pod_changed(pod("p", app="app"))
    it.take()
    waits = STATES(allocationKey="uid-p", state=STATES.SKIPPED, reason="root.a is full")
    it.scheduling_state(waits)
    it.take()
    for record in (
        RECORD(type=RECORD.REQUEST, objectID="uid-p", message="root.a is full (3 asks of the application)"),
        RECORD(type=RECORD.REQUEST, objectID="uid-p", message="preempting 1 allocation"),
        RECORD(type=RECORD.REQUEST, objectID="uid-of-another", message="preempting 1 allocation"),
        RECORD(type=RECORD.APP, objectID="default.app", message="new"),
        RECORD(type=RECORD.NODE, objectID="n1", eventChangeType=RECORD.SET, message="ready: false"),
        RECORD(type=RECORD.NODE, objectID="n1", eventChangeType=RECORD.ADD, message="added to partition default"),
        RECORD(
            type=RECORD.NODE, objectID="gone", eventChangeType=RECORD.REMOVE,
            eventChangeDetail=RECORD.NODE_DECOMISSION, message="removed from partition default",
        ),
    ):  # fmt: skip
        it.event(record)
    told = [(one.kind, one.of.name, one.of.uid, one.reason, one.note) for one in it.take()]  # type: ignore[union-attr]
    assert told == [
        ("Pod", "p", "uid-p", "Informational", "preempting 1 allocation"),
        ("Node", "n1", "uid-n1", "Informational", "added to partition default"),
        ("Node", "gone", "gone", "Informational", "removed from partition default"),
    ]


def reserving() -> tuple[Shim, list[CreatePlaceholder]]:
    it = shim("n1")
    it.pod_changed(pod("driver", app="app", cpu="1", annotations=GANG))
    (submit,) = taken(it)
    assert isinstance(submit, Submit)
    assert submit.application.placeholderAsk.resources["vcore"].value == 2_000
    it.application(si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="default.app")]))
    return it, [effect for effect in it.take() if isinstance(effect, CreatePlaceholder)]


def placeholder(name: str, on: str = "") -> object:
    return pod(name, app="app", cpu="1", node=on, annotations=GANG | {names.PLACEHOLDER: "true"})


def test_real_pods_of_a_gang_wait_for_its_placeholders() -> None:
    it, created = reserving()
    made = [one.manifest["metadata"]["name"] for one in created]
    assert len(set(made)) == 2
    for name in made:
        it.pod_changed(placeholder(name))  # type: ignore[arg-type]
    asks = [effect.ask for effect in it.take() if isinstance(effect, Ask)]
    assert [(ask.placeholder, ask.taskGroupName) for ask in asks] == [(True, "g")] * 2
    for name in made:
        allocated(it, name, "n1")
        it.pod_changed(placeholder(name, "n1"))  # type: ignore[arg-type]
    asks = [effect.ask for effect in it.take() if isinstance(effect, Ask)]
    assert [(ask.allocationKey, ask.placeholder) for ask in asks] == [("uid-driver", False)]


def test_soft_gang_goes_on_and_its_placeholders_go() -> None:
    it, created = reserving()
    name = created[0].manifest["metadata"]["name"]
    it.pod_changed(placeholder(name))  # type: ignore[arg-type]
    it.take()
    it.application(
        si.ApplicationResponse(updated=[si.UpdatedApplication(applicationID="default.app", state="Resuming")])
    )
    assert kinds(taken(it)) == ["Ask"]
    withdrawn = si.AllocationAskRelease(
        applicationID="default.app", allocationKey=f"uid-{name}", terminationType=si.TIMEOUT
    )
    it.allocation(si.AllocationResponse(releasedAsks=[withdrawn]))
    assert kinds(taken(it)) == ["DeletePod"]


def test_hard_gang_fails_its_waiting_pods() -> None:
    it, _ = reserving()
    it.application(
        si.ApplicationResponse(updated=[si.UpdatedApplication(applicationID="default.app", state="Failing")])
    )
    (failed,) = taken(it)
    assert isinstance(failed, FailPod)
    assert failed.reason == "ResourceReservationTimeout"


def test_placeholder_that_cannot_be_created_ends_the_gang() -> None:
    it, created = reserving()
    it.pod_changed(placeholder(created[0].manifest["metadata"]["name"]))  # type: ignore[arg-type]
    it.take()
    it.placeholder_failed("default.app", "quota of pods")
    assert kinds(taken(it)) == ["DeletePod", "Ask"]
