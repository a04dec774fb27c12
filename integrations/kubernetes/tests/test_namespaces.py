"""Quotas of namespaces: a change is in force at once."""

from __future__ import annotations

import json

import msgspec

from integrations.kubernetes.tests.objects import pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import Namespace
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import RecordEvent, Submit, Withdraw
from remuda_kubernetes.shim.namespaces import tags_of
from remuda_kubernetes.shim.resume import ApplicationRow, KeptState
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

GANG = {names.TASK_GROUPS: json.dumps([{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}}])}
ALICE = {"yunikorn.apache.org/user.info": json.dumps({"user": "alice", "groups": []})}


def namespace(version: int, quota: str = "", **labels: str) -> Namespace:
    annotations = {names.NAMESPACE_QUOTA: quota} if quota else {}
    metadata = {"name": "default", "uid": "ns", "resourceVersion": str(version), "labels": labels}
    return msgspec.convert({"metadata": {**metadata, "annotations": annotations}}, Namespace)


def sent(of: Shim) -> list[Submit | Withdraw | RecordEvent]:
    return [
        one
        for one in of.take()
        if isinstance(one, Submit | Withdraw) or (isinstance(one, RecordEvent) and one.reason == "InvalidQuota")
    ]


def quota(cpu: str) -> str:
    return json.dumps({"cpu": cpu})


def with_application() -> Shim:
    it = shim("n1")
    it.namespace_changed(namespace(1, quota("1")))
    it.pod_changed(pod("p", app="app", annotations=GANG | ALICE))
    it.take()
    return it


def test_wrong_value_is_reported_by_its_own_key() -> None:
    """An older annotation becomes the same tag."""
    metadata = {"name": "default", "annotations": {names.NAMESPACE_MAX_CPU: "2", names.NAMESPACE_MAX_MEMORY: "much"}}
    tags, wrong = tags_of(msgspec.convert({"metadata": metadata}, Namespace))
    assert (tags, len(wrong)) == ({}, 1)
    assert "namespace.max" in wrong[0] and "namespace.quota" not in wrong[0]


def test_changed_quota_is_sent_where_the_applications_of_the_namespace_are() -> None:
    it = with_application()
    it.namespace_changed(namespace(2, quota("2")))
    submitted, withdrawn = sent(it)
    assert isinstance(submitted, Submit)
    carrier = submitted.application
    assert json.loads(carrier.tags["namespace.resourcequota"]) == {"resources": {"vcore": {"value": 2000}}}
    assert (carrier.ugi.user, carrier.tags["namespace"]) == ("alice", "default")
    assert not carrier.HasField("placeholderAsk")
    assert withdrawn == Withdraw(carrier.applicationID)


def test_other_changes_of_a_namespace_send_nothing() -> None:
    it = with_application()
    it.namespace_changed(namespace(2, quota("1"), team="a"))
    assert not sent(it)


def test_namespace_without_applications_sends_nothing() -> None:
    it = shim("n1")
    it.namespace_changed(namespace(1, quota("1")))
    it.namespace_changed(namespace(2, quota("2")))
    assert not sent(it)


def test_each_queue_and_user_of_a_namespace_gets_it_once() -> None:
    it = with_application()
    for name, queue in (("q", "root.a"), ("r", "root.a"), ("s", "root.b")):
        it.pod_changed(pod(name, app=name, queue=queue))
    it.take()
    it.namespace_changed(namespace(2, quota("2")))
    assert [one.application.queueName for one in sent(it) if isinstance(one, Submit)] == ["", "root.a", "root.b"]


def test_quota_that_the_scheduler_refuses_is_reported_on_the_namespace() -> None:
    it = with_application()
    it.namespace_changed(namespace(2, quota("2")))
    (name,) = [one.application_id for one in sent(it) if isinstance(one, Withdraw)]
    rejected = si.RejectedApplication(applicationID=name, reason="more than the parent has")
    it.application(si.ApplicationResponse(rejected=[rejected]))
    (event,) = sent(it)
    assert isinstance(event, RecordEvent)
    assert (event.kind, event.of.name, event.note) == ("Namespace", "default", "more than the parent has")
    it.application(si.ApplicationResponse(rejected=[rejected]))
    assert not sent(it)


def test_quota_is_sent_after_a_restart_and_a_carrier_left_behind_is_withdrawn() -> None:
    it = Shim(ShimPolicy(frozenset({"remuda"})))
    it.namespace_changed(namespace(3, quota("2")))
    it.pod_changed(pod("p", app="app"))
    rows = [ApplicationRow("default.app", "Running"), ApplicationRow("default.:quota-2-0", "New")]
    it.resume(KeptState(applications=rows))
    first, second, third = sent(it)
    assert first == Withdraw("default.:quota-2-0")
    assert isinstance(second, Submit)
    assert third == Withdraw(second.application.applicationID)
