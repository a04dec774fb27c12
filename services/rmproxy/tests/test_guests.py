"""Guests: what the engine of a cluster may send in an RM's name, and what the RM sees of it: nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_bus.memory import MemoryBus
from remuda_proto.guests import PREDICATE_CLASS, is_guest, name_for, without_guests
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.rms.halts import Halts
from remuda_rmproxy.guests.guest_request import command_of, read_admissions
from remuda_rmproxy.guests.guest_requests import GuestRequests
from remuda_rmproxy.inbound.translate import InvalidRequest, commands_of
from remuda_rmproxy.outbound.callback_mapping import CALLBACK_MAPPINGS
from remuda_rmproxy.outbound.callbacks import callbacks_of
from remuda_rmproxy.outbound.predicates import answer_for_guest, request_for
from remuda_rmproxy.records.correlation import Correlation
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.settings import RmproxySettings

LIMIT = 1_000_000
ADMISSIONS = read_admissions(["default=rm-1/root.peloton"])
APP = "@peloton.default.pool"
KEY = "@peloton.default.run"


def message(payload: Any, cluster: str = "default", rm_id: str = "rm-1") -> Message:
    kind = "application" if isinstance(payload, si.ApplicationRequest) else "allocation"
    return Message(subjects.guest_request(cluster, rm_id, kind), payload.SerializeToString())


def command(payload: Any, **about: str) -> inbox_pb2.Command:
    rm_id, encoded = command_of(message(payload, **about), ADMISSIONS, LIMIT)
    assert rm_id == "rm-1"
    return inbox_pb2.Command.FromString(encoded)


def new(**fields: Any) -> si.ApplicationRequest:
    defaults = {"applicationID": APP, "queueName": "root.peloton.a"}
    return si.ApplicationRequest(new=[si.AddApplicationRequest(**{**defaults, **fields})])


def test_an_application_is_the_guests() -> None:
    found = command(new(ugi=si.UserGroupInformation(user="alice", groups=["admins"])))
    assert found.application.rmID == "rm-1" and not found.request_seq
    [one] = found.application.new
    assert one.partitionName == "[rm-1]default"
    assert (one.ugi.user, list(one.ugi.groups)) == ("peloton.default", [])


def test_asks_have_a_predicate_class_of_their_own() -> None:
    found = command(si.AllocationRequest(asks=[si.AllocationAsk(applicationID=APP, allocationKey=KEY)]))
    assert dict(found.allocation.asks[0].tags) == {"remuda/predicateClass": PREDICATE_CLASS}


def releases(**fields: Any) -> si.AllocationRequest:
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(**fields))


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        (new(applicationID="app-1"), "new.applicationID"),
        (new(applicationID="@peloton.other.pool"), "new.applicationID"),
        (new(queueName="root.batch"), "new.queueName"),
        (new(queueName="root.pelotonx"), "new.queueName"),
        (new(queueName=""), "new.queueName"),
        (new(placeholderAsk=si.Resource()), "new.placeholderAsk"),
        (si.ApplicationRequest(remove=[si.RemoveApplicationRequest(applicationID="app-1")]), "remove.applicationID"),
        (si.AllocationRequest(allocations=[si.Allocation(applicationID=APP)]), "allocations"),
        (si.AllocationRequest(asks=[si.AllocationAsk(allocationKey=KEY)]), "asks.applicationID"),
        (si.AllocationRequest(asks=[si.AllocationAsk(applicationID="app-1", allocationKey=KEY)]), "applicationID"),
        (si.AllocationRequest(asks=[si.AllocationAsk(applicationID=APP, allocationKey="k")]), "asks.allocationKey"),
        (
            si.AllocationRequest(asks=[si.AllocationAsk(applicationID=APP, allocationKey=KEY, placeholder=True)]),
            "placeholders",
        ),
        (releases(allocationsToRelease=[si.AllocationRelease(UUID="u")]), "allocationsToRelease.applicationID"),
        (
            releases(allocationsToRelease=[si.AllocationRelease(applicationID="app-1", UUID="u")]),
            "allocationsToRelease.applicationID",
        ),
        (
            releases(allocationAsksToRelease=[si.AllocationAskRelease(allocationKey=KEY)]),
            "allocationAsksToRelease.applicationID",
        ),
    ],
)
def test_what_is_not_the_guests_is_refused(request_: Any, names: str) -> None:
    with pytest.raises(Refused, match=names) as refused:
        command(request_)
    assert refused.value.code == 400


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_release_is_about_an_application_of_the_rm(application_id: str, uuid: str) -> None:
    try:
        found = command(releases(allocationsToRelease=[si.AllocationRelease(applicationID=application_id, UUID=uuid)]))
    except Refused:
        return
    assert all(is_guest(one.applicationID) for one in found.allocation.releases.allocationsToRelease)


@pytest.mark.parametrize("about", [{"rm_id": "rm-2"}, {"cluster": "other"}])
def test_only_admitted_clusters_are_guests(about: dict[str, str]) -> None:
    with pytest.raises(Refused, match=r"rms\.guests") as refused:
        command(new(), **about)
    assert refused.value.code == 403


@pytest.mark.parametrize("entry", ["default", "default=rm-1", "default=rm-1/root", "a.b=rm-1/root.x", "d=rm-1/root.X"])
def test_a_setting_that_cannot_be_read(entry: str) -> None:
    with pytest.raises(ValueError, match="expected CLUSTER=RM/QUEUE"):
        RmproxySettings(guests=(entry,))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("application", new()),
        ("application", si.ApplicationRequest(remove=[si.RemoveApplicationRequest(applicationID=APP)])),
        ("allocation", si.AllocationRequest(asks=[si.AllocationAsk(applicationID=APP)])),
        ("allocation", si.AllocationRequest(allocations=[si.Allocation(applicationID=APP)])),
        ("allocation", releases(allocationsToRelease=[si.AllocationRelease(applicationID=APP)])),
        ("allocation", releases(allocationAsksToRelease=[si.AllocationAskRelease(applicationID=APP)])),
        ("node", si.NodeRequest(nodes=[si.NodeInfo(existingAllocations=[si.Allocation(applicationID=APP)])])),
    ],
)
def test_an_rm_cannot_act_for_guests(kind: str, payload: Any) -> None:
    payload.rmID = "rm-1"
    with pytest.raises(InvalidRequest, match="applicationID '@peloton.default.pool': IDs that begin with @peloton"):
        commands_of(Message(subjects.request("rm-1", kind), payload.SerializeToString(), seq=1), "rm-1", LIMIT)


@pytest.mark.parametrize(
    "payload",
    [
        si.AllocationRequest(asks=[si.AllocationAsk(applicationID="app", allocationKey=KEY)]),
        si.AllocationRequest(allocations=[si.Allocation(applicationID="app", allocationKey=KEY)]),
        releases(allocationsToRelease=[si.AllocationRelease(UUID="u", allocationKey=KEY)]),
        releases(allocationAsksToRelease=[si.AllocationAskRelease(allocationKey=KEY)]),
        si.NodeRequest(
            nodes=[si.NodeInfo(existingAllocations=[si.Allocation(applicationID="app", allocationKey=KEY)])]
        ),
    ],
)
def test_an_rm_has_no_key_of_a_guest(payload: Any) -> None:
    """Nor does it withdraw the ask of one: a release need not name the application."""
    payload.rmID, kind = "rm-1", "node" if isinstance(payload, si.NodeRequest) else "allocation"
    with pytest.raises(InvalidRequest, match="allocationKey '@peloton.default.run': keys that begin with @peloton"):
        commands_of(Message(subjects.request("rm-1", kind), payload.SerializeToString(), seq=1), "rm-1", LIMIT)


def test_no_fact_about_a_guest_is_a_callback() -> None:
    """Of each kind of fact that has callbacks and an application: with the RM's own there is one."""
    for name, mapping in CALLBACK_MAPPINGS.items():
        for application_id, count in (("app-1", 1), (APP, 0)):
            fact = log_pb2.Fact()
            value = getattr(fact, name)
            value.SetInParent()
            if name in ("allocated", "placeholder_replaced"):
                allocation = value.allocation if name == "allocated" else value.allocation.allocation
                allocation.applicationID = application_id
            elif hasattr(value, "application_id"):
                value.application_id = application_id
            else:
                assert mapping.application(value) == ""
                continue
            if name == "allocation_released":
                value.reported = True
            if name == "ask_released":
                value.termination_type = si.TIMEOUT
            commit = log_pb2.Commit(decisions=[log_pb2.Decision(facts=[fact])])
            assert len(list(callbacks_of(commit, "rm-1", LIMIT))) == count, name


def test_questions_about_guests_are_answered_here() -> None:
    one = log_pb2.PredicateAsked(partition="[rm-1]default", application_id=APP, question=3)
    assert answer_for_guest(one).success
    batch = log_pb2.PredicatesAsked(application_id=APP, node_ids=["n1", "n2"], question=4)
    answer = answer_for_guest(batch)
    assert [(one.node_id, one.accepted) for one in answer.verdicts] == [("n1", True), ("n2", True)]
    assert answer.of_class


def test_guests_are_no_victims_that_an_rm_knows() -> None:
    asked = log_pb2.PreemptionAsked(application_id="app-1", victim_keys=["k1", KEY], node_id="n1")
    _, payload = request_for(asked, "rm-1")
    assert list(si.PreemptionPredicatesArgs.FromString(payload).preemptAllocationKeys) == ["k1"]


async def test_a_request_is_answered_with_its_position_in_the_inbox() -> None:
    bus = MemoryBus()
    guests = GuestRequests(bus, Halts(bus, "test", lambda: 0), ADMISSIONS)
    with pytest.raises(Refused, match="not registered"):
        await guests.append(message(new()))
    record = RmRecord("rm-1", state="registered")
    await bus.put(subjects.RMS.name, subjects.key_of("rm-1"), record.encode(), 0)
    seq = json.loads(await guests.append(message(new())))["inbox_seq"]
    stored = await bus.last_message(subjects.INBOX.name, subjects.inbox("rm-1"))
    assert stored is not None and stored.seq == seq
    assert inbox_pb2.Command.FromString(stored.payload).application.new[0].applicationID == APP


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("released by the RM", "released by the RM"),
        ("preempted for @peloton.default.pool/@peloton.default.run in root.b", "preempted for a guest in root.b"),
        ("node n1 is kept for @peloton.default.p: wait", "node n1 is kept for a guest: wait"),
        ("it is '@peloton.default.p.'.", "it is 'a guest.'."),
        ("(@peloton.default.p, @peloton.b.q)", "(a guest, a guest)"),
        ("IDs that begin with @peloton. are guests'", "IDs that begin with @peloton. are guests'"),
    ],
)  # fmt: skip
def test_a_text_names_no_guest(text: str, told: str) -> None:
    assert without_guests(text) == told


def test_no_text_of_a_callback_names_a_guest() -> None:
    """Whatever field of whatever fact has it."""
    for name, mapping in CALLBACK_MAPPINGS.items():
        fact = log_pb2.Fact()
        value = getattr(fact, name)
        value.SetInParent()
        texts = [field for field in ("message", "reason") if hasattr(value, field)]
        for field in texts:
            setattr(value, field, f"told of {APP}/{KEY}")
        if name == "allocation_released":
            value.reported = True
        if name == "ask_released":
            value.termination_type = si.TIMEOUT
        decision = log_pb2.Decision(facts=[fact], correlation_id=Correlation("configure", "1").encode())
        sent = list(callbacks_of(log_pb2.Commit(decisions=[decision]), "rm-1", LIMIT))
        assert len(sent) == 1, name
        assert b"@peloton" not in sent[0].payload, name
        assert mapping.kind == sent[0].kind
    assert name_for(APP, "app-1", "app-1/k") == "the resource manager"
    assert name_for("app-2", "app-1", "app-1/k") == "app-1/k"
    assert name_for("@peloton.other.pool", APP, KEY) == "a guest"
    assert name_for(APP, "@peloton.default.b", KEY) == KEY
