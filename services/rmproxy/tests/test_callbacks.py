from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.outbound.callbacks import Callback, callbacks_of

LIMIT = 1_000_000
PARTITION = "[rm-1]default"
STATES = si.UpdateContainerSchedulingStateRequest
Fact = log_pb2.Fact


def allocated(key: str, app: str = "app-1") -> Fact:
    allocation = si.Allocation(
        allocationKey=key, UUID=f"u-{key}", applicationID=app, nodeID="n1", partitionName=PARTITION
    )
    return Fact(allocated=log_pb2.Allocated(allocation=allocation))


def test_devices_are_tags_of_an_allocation() -> None:
    fact = allocated("k1")
    fact.allocated.devices.update({"gpu": "GPU-a,GPU-c", "fpga": "0"})
    fact.allocated.allocation.allocationTags["mine"] = "kept"
    [callback] = told(fact)
    (new,) = allocation_response(callback).new
    assert dict(new.allocationTags) == {
        "mine": "kept",
        "remuda/devices.gpu": "GPU-a,GPU-c",
        "remuda/devices.fpga": "0",
    }
    assert dict(fact.allocated.allocation.allocationTags) == {"mine": "kept"}, "the log is not changed"


def released(key: str, reported: bool = True) -> Fact:
    return Fact(
        allocation_released=log_pb2.AllocationReleased(
            partition=PARTITION, application_id="app-1", allocation_key=key, uuid=f"u-{key}",
            termination_type=si.STOPPED_BY_RM, message="done", reported=reported,
        )
    )  # fmt: skip


def accepted(app: str) -> Fact:
    return Fact(application_accepted=log_pb2.ApplicationAccepted(partition=PARTITION, application_id=app))


def state(app: str, name: str) -> Fact:
    return Fact(
        application_state_changed=log_pb2.ApplicationStateChanged(
            partition=PARTITION, application_id=app, state=name, reason="why", at_ms=5
        )
    )


def rejected_app(app: str) -> Fact:
    return Fact(application_rejected=log_pb2.ApplicationRejected(application_id=app, reason="no"))


def waiting(constraint: str) -> Fact:
    return Fact(
        ask_waiting=log_pb2.AskWaiting(application_id="app-1", allocation_key="k", constraint=constraint, reason="r")
    )


def commit(*facts: Fact, correlation_id: str = "") -> log_pb2.Commit:
    decision = log_pb2.Decision(command="Test", facts=facts, correlation_id=correlation_id)
    return log_pb2.Commit(decisions=[decision], now_ms=9)


def told(*facts: Fact, limit: int = LIMIT, after: int = -1) -> list[Callback]:
    return list(callbacks_of(commit(*facts), "rm-1", limit, after))


def allocation_response(callback: Callback) -> si.AllocationResponse:
    assert callback.kind == "allocation"
    return si.AllocationResponse.FromString(callback.payload)


def test_consecutive_allocations_share_a_message_and_have_plain_partitions() -> None:
    [callback] = told(*(allocated(f"k{number}") for number in range(5)))
    response = allocation_response(callback)
    assert [one.allocationKey for one in response.new] == ["k0", "k1", "k2", "k3", "k4"]
    assert {one.partitionName for one in response.new} == {"default"}
    assert {one.nodeID for one in response.new} == {"n1"}
    assert callback.last_fact == 4


def test_a_release_comes_before_the_allocation_that_takes_its_room() -> None:
    first, second = told(released("old"), allocated("new"), released("newer"))
    assert [one.allocationKey for one in allocation_response(first).released] == ["old"]
    both = allocation_response(second)
    assert [one.allocationKey for one in both.new] == ["new"]
    assert [one.allocationKey for one in both.released] == ["newer"]
    assert (first.last_fact, second.last_fact) == (0, 2)


def test_every_kind_of_release() -> None:
    naming = {"partition": PARTITION, "application_id": "app-1", "allocation_key": "k", "uuid": "u"}
    [callback] = told(
        released("a"),
        released("b", reported=False),
        Fact(release_requested=log_pb2.ReleaseRequested(**naming, termination_type=si.PREEMPTED_BY_SCHEDULER)),
        Fact(release_ignored=log_pb2.ReleaseIgnored(**naming, termination_type=si.STOPPED_BY_RM, message="unknown")),
        Fact(release_ignored=log_pb2.ReleaseIgnored(**naming, termination_type=si.TIMEOUT, message="confirmed twice")),
    )
    first, second, third = allocation_response(callback).released
    assert (first.UUID, first.applicationID, first.message, first.partitionName) == ("u-a", "app-1", "done", "default")
    assert second.terminationType == si.PREEMPTED_BY_SCHEDULER
    assert (third.terminationType, third.message) == (si.STOPPED_BY_RM, "unknown")


def test_only_asks_that_the_core_releases_have_a_callback() -> None:
    def ask_released(kind: int) -> Fact:
        return Fact(ask_released=log_pb2.AskReleased(partition=PARTITION, allocation_key="k", termination_type=kind))  # type: ignore[arg-type]

    [callback] = told(ask_released(si.STOPPED_BY_RM), ask_released(si.TIMEOUT))
    [one] = allocation_response(callback).releasedAsks
    assert (one.terminationType, one.partitionName, one.allocationKey) == (si.TIMEOUT, "default", "k")


def test_rejections() -> None:
    naming = {"partition": PARTITION, "application_id": "app-1", "allocation_key": "k", "reason": "too large"}
    [callback] = told(
        Fact(ask_rejected=log_pb2.AskRejected(**naming)),
        Fact(allocation_rejected=log_pb2.AllocationRejected(**naming)),
    )
    response = allocation_response(callback)
    assert (response.rejected[0].allocationKey, response.rejected[0].reason) == ("k", "too large")
    assert response.rejectedAllocations[0].applicationID == "app-1"


def test_nodes() -> None:
    rejected, accepted_node = told(
        Fact(node_added=log_pb2.NodeAdded(partition=PARTITION, node_id="n1")),
        Fact(node_rejected=log_pb2.NodeRejected(partition=PARTITION, node_id="n1", reason="exists")),
    )
    assert si.NodeResponse.FromString(rejected.payload).accepted[0].nodeID == "n1"
    assert si.NodeResponse.FromString(accepted_node.payload).rejected[0].reason == "exists"


def test_applications_share_a_message_as_long_as_each_keeps_its_order() -> None:
    [callback] = told(accepted("a"), state("a", "New"), accepted("b"), state("b", "New"), rejected_app("c"))
    response = si.ApplicationResponse.FromString(callback.payload)
    assert [one.applicationID for one in response.accepted] == ["a", "b"]
    assert response.updated[0].stateTransitionTimestamp == 5_000_000
    assert (response.updated[0].state, response.updated[0].message) == ("New", "why")
    assert response.rejected[0].reason == "no"
    assert len(told(accepted("a"), state("a", "Completed"), rejected_app("a"))) == 2


def test_why_an_ask_waits() -> None:
    quota, node = (STATES.FromString(callback.payload) for callback in told(waiting("queue"), waiting("node")))
    assert (quota.state, node.state) == (STATES.SKIPPED, STATES.FAILED)
    assert (node.applicartionID, node.allocationKey, node.reason) == ("app-1", "k", "r")
    another = Fact(ask_outstanding=log_pb2.AskOutstanding(application_id="app-1", allocation_key="k2", reason="r"))
    [outstanding] = (STATES.FromString(callback.payload) for callback in told(another))
    assert (outstanding.state, outstanding.allocationKey, outstanding.reason) == (STATES.FAILED, "k2", "r")
    reservation = Fact(node_reserved=log_pb2.NodeReserved(application_id="app-1", allocation_key="k", node_id="n1"))
    [reserved] = (STATES.FromString(callback.payload) for callback in told(reservation))
    assert (reserved.state, reserved.allocationKey) == (STATES.RESERVED, "k")
    assert "n1" in reserved.reason


def test_a_refused_configuration_has_a_callback_if_the_rm_requested_it() -> None:
    refused = Fact(configuration_refused=log_pb2.ConfigurationRefused(reason="root.a has applications"))
    [callback] = callbacks_of(commit(refused, correlation_id="configure:77:registration:"), "rm-1", LIMIT)
    record = si.EventRecord.FromString(callback.payload)
    assert callback.kind == "dead_letter"
    assert (record.referenceID, record.message, record.timestampNano) == ("77", "root.a has applications", 9_000_000)
    assert told(refused) == []


def test_facts_that_do_not_concern_the_rm_have_no_callback() -> None:
    assert told(Fact(queue_added=log_pb2.QueueAdded(queue="root.a")), Fact(ask_accepted=log_pb2.AskAccepted())) == []


FACTS = st.one_of(
    st.sampled_from(["k1", "k2"]).map(allocated),
    st.sampled_from(["k1", "k2"]).map(released),
    st.sampled_from(["a", "b"]).map(accepted),
    st.sampled_from(["a", "b"]).map(lambda app: state(app, "Running")),
    st.sampled_from(["a", "b"]).map(rejected_app),
    st.just(waiting("node")),
    st.just(Fact(queue_added=log_pb2.QueueAdded(queue="root.a"))),
)


def order_of(callbacks: list[Callback]) -> list[tuple[str, str, str]]:
    """The changes in the order in which the fields are declared."""
    types: dict[str, Any] = {
        "allocation": si.AllocationResponse,
        "application": si.ApplicationResponse,
        "container": STATES,
    }
    story = []
    for callback in callbacks:
        message = types[callback.kind].FromString(callback.payload)
        if callback.kind == "container":
            story.append(("container", "", ""))
            continue
        for descriptor in message.DESCRIPTOR.fields:
            for one in getattr(message, descriptor.name):
                what = one.allocationKey if callback.kind == "allocation" else ""
                story.append((descriptor.name, one.applicationID, what))
    return story


@given(st.lists(FACTS, max_size=30), st.integers(-1, 30), st.sampled_from([60, 100, 400, LIMIT]))
def test_order_is_kept_and_publishing_resumes_at_any_fact(facts: list[Fact], after: int, limit: int) -> None:
    whole, rest = told(*facts), told(*facts, limit=limit, after=after)
    singly = [story for fact in facts for story in order_of(told(fact))]
    for app in ("app-1", "a", "b"):  # applications do not depend on one another
        assert [s for s in order_of(whole) if s[1] in ("", app)] == [s for s in singly if s[1] in ("", app)]
    assert sorted(order_of(rest)) == sorted(story for fact in facts[after + 1 :] for story in order_of(told(fact)))
    indexes = [callback.last_fact for callback in rest]
    assert indexes == sorted(set(indexes)) and all(index > after for index in indexes)


def test_a_message_above_the_limit_is_cut_in_halves() -> None:
    callbacks = told(*(allocated(f"k{number}") for number in range(100)), limit=1_000)
    assert all(len(callback.payload) <= 1_000 for callback in callbacks)
    keys = [one.allocationKey for callback in callbacks for one in allocation_response(callback).new]
    assert keys == [f"k{number}" for number in range(100)]


def test_a_thousand_allocations_cost_little(cost: Callable[[Callable[[], object]], float]) -> None:
    """Some 1.5 ms."""
    whole = commit(*(allocated(f"key-{number}") for number in range(1_000)))
    assert len(list(callbacks_of(whole, "rm-1", LIMIT))) == 1
    assert cost(lambda: list(callbacks_of(whole, "rm-1", LIMIT))) < 1.2
