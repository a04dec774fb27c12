"""The event records of every kind of fact, and the time for a thousand allocations."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from remuda_events.event_records import FACTS_WITHOUT_RECORD, RECORDS_BY_FACT, event_records_of, records_of
from remuda_proto.remuda.v1 import config_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si

NOW_MS = 1_700_000_000_123
PARTITION = "[rm-1]default"
ROOM = si.Resource(resources={"memory": si.Quantity(value=10), "vcore": si.Quantity(value=1)})
ALLOCATION = si.Allocation(
    UUID="u-1", allocationKey="k1", applicationID="app-1", nodeID="n1", partitionName=PARTITION, resourcePerAlloc=ROOM
)
APP: dict[str, Any] = {"partition": PARTITION, "application_id": "app-1"}
NODE: dict[str, Any] = {"partition": PARTITION, "node_id": "n1"}
QUEUE: dict[str, Any] = {"partition": PARTITION, "queue": "root.a"}
RELEASE: dict[str, Any] = {**APP, "allocation_key": "k1", "uuid": "u-1", "node_id": "n1", "resource": ROOM}


def state(name: str, **more: Any) -> Message:
    return log_pb2.ApplicationStateChanged(state=name, queue="root.a", **APP, **more)


def release(kind: si.TerminationType.ValueType, **more: Any) -> Message:
    return log_pb2.AllocationReleased(termination_type=kind, message="why", **RELEASE, **more)


def queue_changed(managed: bool, **config: Any) -> Message:
    changed = [*config, "config"]
    return log_pb2.QueueChanged(managed=managed, changed=changed, config=config_pb2.QueueConfig(**config), **QUEUE)


RESERVATION: dict[str, Any] = {**APP, "allocation_key": "k1", "node_id": "n1", "resource": ROOM}

# Facts, and what they read like: type change detail object reference [resource] 'message'.
TOLD: list[tuple[Message, list[str]]] = [
    (
        log_pb2.ApplicationAccepted(queue="root.a", user="ann", **APP),
        ["APP ADD - app-1 -", "QUEUE ADD QUEUE_APP root.a app-1"],
    ),
    (
        log_pb2.ApplicationRejected(reason="no queue", **APP),
        ["APP ADD - app-1 -", "APP SET APP_REJECT app-1 - 'no queue'"],
    ),
    (log_pb2.NodeReserved(**RESERVATION), ["NODE ADD NODE_RESERVATION n1 k1 [memory=10 vcore=1]"]),
    (
        log_pb2.NodeUnreserved(reason="placed on n2", **RESERVATION),
        ["NODE REMOVE NODE_RESERVATION n1 k1 [memory=10 vcore=1] 'placed on n2'"],
    ),
    (
        log_pb2.PromiseChanged(
            application_id="app-1", allocation_key="k1", node_id="n1", promised_ms=2_000, before_ms=1_000, cause="late"
        ),
        ["NODE SET NODE_RESERVATION n1 k1 'promised 2000 ms: late'"],
    ),
    (
        log_pb2.DomainAvoided(allocation_key="k1", level="rack", domain=["b1", "r7"], missing=2, **APP),
        ["REQUEST NONE - k1 app-1 'others avoid b1/r7 for its group: 2 members found no room there yet'"],
    ),
    (
        log_pb2.DomainAvoidanceEnded(allocation_key="k1", level="rack", domain=["b1", "r7"], reason="it runs", **APP),
        ["REQUEST NONE - k1 app-1 'others avoid b1/r7 for its group no more: it runs'"],
    ),
    (state("Accepted", reason="runApplication"), ["APP SET APP_ACCEPTED app-1 - 'runApplication'"]),
    (state("Starting"), ["APP SET APP_STARTING app-1 -"]),
    (state("Running", allocated=ROOM), ["APP SET APP_RUNNING app-1 - [memory=10 vcore=1]"]),
    (state("Completing"), ["APP SET APP_COMPLETING app-1 -"]),
    (
        state("Completed"),
        ["APP SET APP_COMPLETED app-1 -", "QUEUE REMOVE QUEUE_APP root.a app-1", "APP REMOVE - app-1 -"],
    ),
    (state("Failing"), ["APP SET APP_FAILING app-1 -"]),
    (
        state("Failed"),
        ["APP SET APP_FAILED app-1 -", "QUEUE REMOVE QUEUE_APP root.a app-1", "APP REMOVE - app-1 -"],
    ),
    (state("Resuming"), ["APP SET APP_RESUMING app-1 -"]),
    (state("Expired"), ["APP SET APP_EXPIRED app-1 -"]),
    (state("Rejected"), ["APP SET APP_REJECT app-1 -"]),
    (
        log_pb2.ApplicationRemoved(queue="root.a", **APP),
        ["QUEUE REMOVE QUEUE_APP root.a app-1", "APP REMOVE - app-1 -"],
    ),
    (log_pb2.ApplicationRemoved(**APP), []),
    (
        log_pb2.ApplicationMoved(queue="root.b", from_queue="root.a", **APP),
        ["QUEUE REMOVE QUEUE_APP root.a app-1", "QUEUE ADD QUEUE_APP root.b app-1"],
    ),
    (
        log_pb2.AskAccepted(ask=si.AllocationAsk(allocationKey="k1", applicationID="app-1", resourceAsk=ROOM)),
        ["APP ADD APP_REQUEST app-1 k1 [memory=10 vcore=1]"],
    ),
    (
        log_pb2.AskChanged(ask=si.AllocationAsk(allocationKey="k1", applicationID="app-1", resourceAsk=ROOM)),
        ["APP ADD APP_REQUEST app-1 k1 [memory=10 vcore=1]"],
    ),
    (
        log_pb2.AskReleased(allocation_key="k1", termination_type=si.STOPPED_BY_RM, resource=ROOM, **APP),
        ["APP REMOVE REQUEST_CANCEL app-1 k1 [memory=10 vcore=1]"],
    ),
    (
        log_pb2.AskReleased(allocation_key="k1", termination_type=si.TIMEOUT, resource=ROOM, message="late", **APP),
        ["APP REMOVE REQUEST_TIMEOUT app-1 k1 [memory=10 vcore=1] 'late'"],
    ),
    (
        log_pb2.AskWaiting(allocation_key="k1", constraint="queue", reason="root.a is full", asks=1, **APP),
        ["REQUEST NONE - k1 app-1 'root.a is full'"],
    ),
    (
        log_pb2.AskWaiting(allocation_key="k1", constraint="queue", reason="root.a is full", asks=3, **APP),
        ["REQUEST NONE - k1 app-1 'root.a is full (3 asks of the application)'"],
    ),
    (
        log_pb2.PreemptionStarted(allocation_key="k1", node_id="n1", uuids=["u-1", "u-2"], resource=ROOM, **APP),
        ["REQUEST NONE - k1 app-1 [memory=10 vcore=1] 'preempting 2 allocations so that it fits on node n1'"],
    ),
    (
        log_pb2.PreemptionStarted(
            allocation_key="k1",
            node_id="n1",
            uuids=["u-1"],
            resource=ROOM,
            nodes=["n1", "n2"],
            domain="b/r7",
            members=["k1"],
            counts=[2],
            **APP,
        ),
        ["REQUEST NONE - k1 app-1 [memory=10 vcore=1] 'preempting 1 allocation so that its group fits in b/r7'"],
    ),
    (
        log_pb2.PreemptionEnded(allocation_key="k1", reason="node n1 was removed", **APP),
        ["REQUEST NONE - k1 app-1 'preemption has not helped: node n1 was removed'"],
    ),
    (
        log_pb2.ReleaseOverdue(
            allocation_key="k1", uuid="u-1", node_id="n1", termination_type=si.PREEMPTED_BY_SCHEDULER, **APP
        ),
        ["APP NONE ALLOC_PREEMPT app-1 u-1 'the RM was asked to release it on node n1 and has not'"],
    ),
    (
        log_pb2.Allocated(allocation=ALLOCATION),
        ["NODE ADD NODE_ALLOC n1 k1 [memory=10 vcore=1]", "APP ADD APP_ALLOC app-1 u-1 [memory=10 vcore=1]"],
    ),
    (
        log_pb2.AllocationRecovered(allocation=ALLOCATION),
        ["NODE ADD NODE_ALLOC n1 k1 [memory=10 vcore=1]", "APP ADD APP_ALLOC app-1 u-1 [memory=10 vcore=1]"],
    ),
    (
        log_pb2.ExistingAllocationRejected(
            allocation=log_pb2.Allocated(allocation=ALLOCATION), reason="application 'app-1' does not exist", name="u-1"
        ),
        [
            "NODE ADD NODE_OCCUPIED n1 k1 [memory=10 vcore=1] "
            "'by app-1/k1, which cannot be booked: application 'app-1' does not exist'"
        ],
    ),
    (
        log_pb2.RejectedAllocationForgotten(
            node_id="n1", application_id="app-1", allocation_key="k1", resource=ROOM, name="u-1", reason="it is gone"
        ),
        ["NODE REMOVE NODE_OCCUPIED n1 k1 [memory=10 vcore=1] 'by app-1/k1, which could not be booked: it is gone'"],
    ),
    (
        log_pb2.PlaceholderReplaced(
            allocation=log_pb2.Allocated(allocation=ALLOCATION),
            placeholder="u-0",
            placeholder_key="p0",
            placeholder_node="n0",
            placeholder_resource=ROOM,
        ),
        [
            "APP REMOVE ALLOC_REPLACED app-1 u-0 [memory=10 vcore=1] 'replaced by k1'",
            "NODE REMOVE NODE_ALLOC n0 p0 [memory=10 vcore=1]",
            "NODE ADD NODE_ALLOC n1 k1 [memory=10 vcore=1]",
            "APP ADD APP_ALLOC app-1 u-1 [memory=10 vcore=1]",
        ],
    ),
    *(
        (
            release(kind),
            [
                f"APP REMOVE {detail} app-1 u-1 [memory=10 vcore=1] 'why'",
                "NODE REMOVE NODE_ALLOC n1 k1 [memory=10 vcore=1]",
            ],
        )
        for kind, detail in (
            (si.UNKNOWN_TERMINATION_TYPE, "ALLOC_CANCEL"),
            (si.STOPPED_BY_RM, "ALLOC_CANCEL"),
            (si.TIMEOUT, "ALLOC_TIMEOUT"),
            (si.PREEMPTED_BY_SCHEDULER, "ALLOC_PREEMPT"),
            (si.PLACEHOLDER_REPLACED, "ALLOC_REPLACED"),
        )
    ),
    (
        release(si.STOPPED_BY_RM, node_removed=True),
        ["APP REMOVE ALLOC_NODEREMOVED app-1 u-1 [memory=10 vcore=1] 'why'"],
    ),
    (
        log_pb2.NodeAdded(capacity=ROOM, **NODE),
        [
            "NODE SET NODE_SCHEDULABLE n1 - 'schedulable: true'",
            "NODE ADD - n1 - [memory=10 vcore=1] 'added to partition default'",
        ],
    ),
    (
        log_pb2.NodeAdded(capacity=ROOM, draining=True, attributes={"ready": "false"}, **NODE),
        [
            "NODE SET NODE_SCHEDULABLE n1 - 'schedulable: false'",
            "NODE ADD - n1 - [memory=10 vcore=1] 'added to partition default'",
            "NODE SET NODE_READY n1 - 'ready: false'",
        ],
    ),
    (
        log_pb2.NodeChanged(capacity=ROOM, changed=["capacity"], **NODE),
        ["NODE SET NODE_CAPACITY n1 - [memory=10 vcore=1]"],
    ),
    (
        log_pb2.NodeChanged(
            capacity=ROOM,
            occupied=ROOM,
            attributes={"ready": "true"},
            changed=["attributes", "ready", "capacity", "occupied"],
            **NODE,
        ),
        [
            "NODE SET NODE_READY n1 - 'ready: true'",
            "NODE SET NODE_CAPACITY n1 - [memory=10 vcore=1]",
            "NODE SET NODE_OCCUPIED n1 - [memory=10 vcore=1]",
        ],
    ),
    (log_pb2.NodeDraining(**NODE), ["NODE SET NODE_SCHEDULABLE n1 - 'schedulable: false'"]),
    (
        log_pb2.NodeDraining(left=True, running=2, **NODE),
        [
            "NODE SET NODE_SCHEDULABLE n1 - 'schedulable: false'",
            "NODE NONE - n1 - '2 allocations still run on a node whose time to leave has come'",
        ],
    ),
    (
        log_pb2.NodeLeaving(from_ms=90_000, operator="sam", reason="new memory", **NODE),
        ["NODE SET - n1 - 'schedulable: false from 90000 ms on, by sam: new memory'"],
    ),
    (log_pb2.NodeSchedulable(draining=True, **NODE), []),
    (log_pb2.NodeSchedulable(**NODE), ["NODE SET NODE_SCHEDULABLE n1 - 'schedulable: true'"]),
    (log_pb2.NodeRemoved(**NODE), ["NODE REMOVE NODE_DECOMISSION n1 - 'removed from partition default'"]),
    (log_pb2.QueueAdded(managed=True, leaf=True, **QUEUE), ["QUEUE ADD - root.a -"]),
    (log_pb2.QueueAdded(managed=False, leaf=True, **QUEUE), ["QUEUE ADD QUEUE_DYNAMIC root.a -"]),
    (queue_changed(True), ["QUEUE SET QUEUE_CONFIG root.a -"]),
    (
        queue_changed(True, max=ROOM, guaranteed=ROOM),
        [
            "QUEUE SET QUEUE_CONFIG root.a -",
            "QUEUE SET QUEUE_MAX root.a - [memory=10 vcore=1]",
            "QUEUE SET QUEUE_GUARANTEED root.a - [memory=10 vcore=1]",
        ],
    ),
    (queue_changed(False), ["QUEUE SET QUEUE_DYNAMIC root.a -"]),
    (log_pb2.QueueDraining(**QUEUE), ["QUEUE SET QUEUE_CONFIG root.a - 'draining: true'"]),
    (
        log_pb2.QueueDrainOverdue(
            since_ms=1_700_000_000_000,
            applications=2,
            application_ids=["app-1"],
            users=["ann"],
            allocated=ROOM,
            admin_acls=["carl ops", "root"],
            **QUEUE,
        ),
        [
            "QUEUE NONE QUEUE_CONFIG root.a - [memory=10 vcore=1] "
            "'draining since 2023-11-14T22:13:20Z, 2 applications: app-1 and others; administered by carl ops; root'"
        ],
    ),
    (
        log_pb2.QuotaExceeded(above=ROOM, since_ms=1_700_000_000_000, preempt_at_ms=1_700_000_060_000, **QUEUE),
        [
            "QUEUE NONE QUEUE_MAX root.a - [memory=10 vcore=1] "
            "'above its maximum since 2023-11-14T22:13:20Z, preempted at 2023-11-14T22:14:20Z'"
        ],
    ),
    (
        log_pb2.QuotaPreempted(above=ROOM, uuids=["u-1", "u-2"], reason="more follow", **QUEUE),
        [
            "QUEUE NONE QUEUE_MAX root.a - [memory=10 vcore=1] "
            "'above its maximum, 2 allocations are preempted: more follow'"
        ],
    ),
    (log_pb2.QuotaPreempted(above=ROOM, reason="all are protected", **QUEUE), []),
    (
        log_pb2.QuotaExcessEnded(reason="it is within its maximum", **QUEUE),
        ["QUEUE NONE QUEUE_MAX root.a - 'nothing above its maximum is to be preempted: it is within its maximum'"],
    ),
    (
        log_pb2.QuotaLent(
            lender="root.a", borrower="root.b", amounts=ROOM, until_ms=61_000, operator="joe", reason="x"
        ),
        [
            "QUEUE NONE QUEUE_MAX root.a - [memory=10 vcore=1] 'lent to root.b until 1970-01-01T00:01:01Z, by joe: x'",
        ],
    ),
    (
        log_pb2.QuotaLoanEnded(lender="root.a", borrower="root.b", reason="its time is over"),
        ["QUEUE NONE QUEUE_MAX root.a - 'given back by root.b: its time is over'"],
    ),
    (
        log_pb2.BudgetPeriodBegan(from_ms=1_000, until_ms=61_000, used=ROOM, **QUEUE),
        [
            "QUEUE NONE QUEUE_MAX root.a - 'the period of its budget is over, used: memory 10 h, vcore 1 h; "
            "the next one ends at 1970-01-01T00:01:01Z'"
        ],
    ),
    (log_pb2.QueueRestored(**QUEUE), ["QUEUE SET QUEUE_CONFIG root.a - 'draining: false'"]),
    (
        log_pb2.QueueHeld(operator="alice", reason="costs", **QUEUE),
        ["QUEUE SET QUEUE_CONFIG root.a - 'held: true, by alice: costs'"],
    ),
    (log_pb2.QueueResumed(operator="bob", **QUEUE), ["QUEUE SET QUEUE_CONFIG root.a - 'held: false, by bob'"]),
    (log_pb2.QueueRemoved(managed=True, **QUEUE), ["QUEUE REMOVE - root.a -"]),
    (log_pb2.QueueRemoved(managed=False, **QUEUE), ["QUEUE REMOVE QUEUE_DYNAMIC root.a -"]),
    (
        log_pb2.QueueChanged(changed=["type"], leaf=False, **QUEUE),
        ["QUEUE SET QUEUE_TYPE root.a - 'leaf queue: false'"],
    ),
    (log_pb2.PartitionAdded(partition=PARTITION), ["QUEUE ADD - root - 'partition default'"]),
    (log_pb2.PartitionChanged(partition=PARTITION), ["QUEUE SET QUEUE_CONFIG root - 'partition default'"]),
    (
        log_pb2.PartitionDraining(partition=PARTITION),
        ["QUEUE SET QUEUE_CONFIG root - 'partition default, draining: true'"],
    ),
    (log_pb2.PartitionRemoved(partition=PARTITION), ["QUEUE REMOVE - root - 'partition default'"]),
    (
        log_pb2.RmPaused(reason="silent for 15 s"),
        ["QUEUE NONE - root - 'the resource manager is Paused, nothing new is allocated: silent for 15 s'"],
    ),
    (
        log_pb2.WindowOpened(window="disks", from_ms=0, until_ms=60_000),
        [
            "QUEUE NONE - root - 'window disks of the calendar is in force, from 1970-01-01T00:00:00Z to "
            "1970-01-01T00:01:00Z'"
        ],
    ),
    (log_pb2.WindowClosed(window="disks"), ["QUEUE NONE - root - 'window disks of the calendar is over'"]),
    (log_pb2.RmResumed(), ["QUEUE NONE - root - 'the resource manager is Running again'"]),
    (
        log_pb2.RmStopped(reason="silent for 10 min"),
        ["QUEUE NONE - root - 'the resource manager is Stopped, nothing new is allocated: silent for 10 min'"],
    ),
    (
        log_pb2.RmStopped(reason="it is shut down", deregistered=True),
        [
            "QUEUE NONE - root - 'the resource manager is Stopped, deregistered, nothing is known of it any more: "
            "it is shut down'"
        ],
    ),
]


def fact_of(value: Message) -> log_pb2.Fact:
    fields = log_pb2.Fact.DESCRIPTOR.oneofs_by_name["fact"].fields
    name = next(field.name for field in fields if field.message_type is value.DESCRIPTOR)
    fact = log_pb2.Fact()
    getattr(fact, name).CopyFrom(value)
    return fact


def spell(record: si.EventRecord) -> str:
    kind = si.EventRecord
    detail = kind.ChangeDetail.Name(record.eventChangeDetail).replace("DETAILS_NONE", "-")
    words = [kind.Type.Name(record.type), kind.ChangeType.Name(record.eventChangeType), detail]
    words += [record.objectID, record.referenceID or "-"]
    if record.resource.resources:
        amounts = sorted((name, amount.value) for name, amount in record.resource.resources.items())
        words.append(f"[{' '.join(f'{name}={value}' for name, value in amounts)}]")
    if record.message:
        words.append(f"'{record.message}'")
    return " ".join(words)


@pytest.mark.parametrize(
    ("value", "expected"), TOLD, ids=lambda value: getattr(value, "DESCRIPTOR", None) and value.DESCRIPTOR.name
)
def test_a_fact_reads_like_this(value: Message, expected: list[str]):
    assert [spell(record) for record in records_of(fact_of(value), 0)] == expected


def test_every_kind_of_fact_has_records_or_a_reason_for_having_none():
    kinds = {field.name for field in log_pb2.Fact.DESCRIPTOR.oneofs_by_name["fact"].fields}
    assert set(RECORDS_BY_FACT) | set(FACTS_WITHOUT_RECORD) == kinds
    assert not set(RECORDS_BY_FACT) & set(FACTS_WITHOUT_RECORD)
    assert all(FACTS_WITHOUT_RECORD.values())
    assert {fact_of(value).WhichOneof("fact") for value, _ in TOLD} == set(RECORDS_BY_FACT)


def test_records_bear_the_time_of_the_commit_and_keep_the_order_of_its_facts():
    commit = log_pb2.Commit(now_ms=NOW_MS)
    for value, _ in TOLD:
        commit.decisions.add(facts=[fact_of(value)])
    told = [si.EventRecord.FromString(payload) for payload in event_records_of(commit)]
    assert [spell(record) for record in told] == [line for _, lines in TOLD for line in lines]
    assert {record.timestampNano for record in told} == {NOW_MS * 1_000_000}


def test_a_fact_of_a_newer_core_is_passed_over():
    newer = log_pb2.Fact.FromString(b"\xfa\x3f\x00")  # field 1023, unknown
    assert list(records_of(newer, 0)) == []


def test_silent_facts_have_no_records():
    for name in FACTS_WITHOUT_RECORD:
        fact = log_pb2.Fact()
        getattr(fact, name).SetInParent()
        assert list(records_of(fact, 0)) == []


def test_the_records_of_a_thousand_allocations_cost_little(cost: Callable[[Callable[[], object]], float]):
    """Some 4 ms."""
    commit = log_pb2.Commit(now_ms=NOW_MS)
    facts = commit.decisions.add().facts
    for number in range(1_000):
        allocation = si.Allocation(
            UUID=f"0f8fad5b-d9cb-469f-a165-{number:012d}", allocationKey=f"task-{number}",
            applicationID=f"application-{number % 10}", nodeID=f"node-{number:05d}", resourcePerAlloc=ROOM,
        )  # fmt: skip
        facts.add(allocated=log_pb2.Allocated(allocation=allocation))
    commit = log_pb2.Commit.FromString(commit.SerializeToString())
    assert len(event_records_of(commit)) == 2_000
    assert cost(lambda: event_records_of(commit)) < 3
