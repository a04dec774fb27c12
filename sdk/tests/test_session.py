from collections.abc import Callable, Iterator

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import DeadLetter, ask, limits
from remuda_sdk.session import Session, read

LIMIT = 1_000_000


def callback(seq: int, log_seq: int | None = None, fact: int = 0, kind: str = "allocation") -> Message:
    headers = {} if log_seq is None else {subjects.LOG_SEQ: str(log_seq), subjects.LOG_FACT: str(fact)}
    return Message(subjects.callback("rm-1", kind), b"", headers, seq)


def test_an_rm_id_that_cannot_be_a_subject_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 to 64 of"):
        Session("rm.1")


def test_a_callback_is_new_until_it_was_taken() -> None:
    session = Session("rm-1")
    message = callback(5, log_seq=7, fact=3)
    assert session.is_new(message) and session.is_new(message)
    session.taken(message)()
    assert not session.is_new(message)


def test_what_was_told_twice_is_taken_once() -> None:
    """The same facts in another message: whoever took over telling was not sure what had been told."""
    session = Session("rm-1")
    session.taken(callback(5, log_seq=7, fact=3))()
    assert not session.is_new(callback(6, log_seq=7, fact=3))
    assert not session.is_new(callback(6, log_seq=6, fact=9))
    assert session.is_new(callback(6, log_seq=7, fact=4))
    assert session.is_new(callback(6, log_seq=8, fact=0))


def test_a_dead_letter_is_known_by_its_place_in_the_stream() -> None:
    session = Session("rm-1")
    session.taken(callback(5, kind="dead_letter"))()
    assert not session.is_new(callback(5, kind="dead_letter"))
    assert session.is_new(callback(6, kind="dead_letter"))


def test_events_are_counted_apart() -> None:
    session = Session("rm-1")
    session.taken(callback(50, log_seq=9))()
    event = Message(subjects.event("rm-1"), b"", {subjects.LOG_SEQ: "3"}, 7)
    assert session.is_new(event)
    session.taken(event)()
    assert not session.is_new(event)


def test_callbacks_are_typed() -> None:
    response = si.AllocationResponse(new=[si.Allocation(UUID="u")])
    assert read(Message(subjects.callback("rm-1", "allocation"), response.SerializeToString())) == response
    record = si.EventRecord(message="why", referenceID="7")
    assert read(Message(subjects.event("rm-1"), record.SerializeToString())) == record
    assert read(Message(subjects.callback("rm-1", "dead_letter"), record.SerializeToString())) == DeadLetter("why", 7)
    with pytest.raises(ValueError, match="expected a callback of one of"):
        read(Message(subjects.callback("rm-1", "news"), b""))


def test_a_release_the_scheduler_asks_for_is_confirmed_once() -> None:
    session = Session("rm-1")
    response = si.AllocationResponse(
        released=[
            si.AllocationRelease(UUID="mine", terminationType=si.STOPPED_BY_RM),
            si.AllocationRelease(UUID="late", terminationType=si.TIMEOUT),
            si.AllocationRelease(UUID="victim", terminationType=si.PREEMPTED_BY_SCHEDULER),
            si.AllocationRelease(UUID="gang", terminationType=si.PLACEHOLDER_REPLACED),
        ]
    )
    confirmations = session.confirmations(response)
    assert [release.UUID for release in confirmations] == ["late", "victim", "gang"]
    session.confirmed(confirmations)
    assert session.confirmations(response) == []
    assert session.confirmations(si.NodeResponse()) == []


def test_what_is_remembered_of_confirmations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMEMBERED_CONFIRMATIONS", 2)
    session = Session("rm-1")
    releases = [si.AllocationRelease(UUID=str(number), terminationType=si.TIMEOUT) for number in range(3)]
    session.confirmed(releases)
    assert session.confirmations(si.AllocationResponse(released=releases)) == releases[:1]


def test_many_asks_are_cut_into_messages_of_a_thousand() -> None:
    payloads = list(Session("rm-1").asks((ask("app-1", f"k{number}") for number in range(2_500)), LIMIT))
    requests = [si.AllocationRequest.FromString(payload) for payload in payloads]
    assert [len(request.asks) for request in requests] == [1_000, 1_000, 500]
    assert {request.rmID for request in requests} == {"rm-1"}
    assert [one.allocationKey for request in requests for one in request.asks] == [f"k{n}" for n in range(2_500)]


def test_large_asks_are_cut_to_the_size_that_travels() -> None:
    asks = [ask("app-1", f"k{number}", tags={"x": "y" * 100}) for number in range(100)]
    payloads = list(Session("rm-1").asks(asks, 2_000))
    assert all(len(payload) <= 2_000 for payload in payloads)
    assert sum(len(si.AllocationRequest.FromString(payload).asks) for payload in payloads) == 100
    with pytest.raises(ValueError, match=r"asks\[0\]"):
        list(Session("rm-1").asks([ask("app-1", "k", tags={"x": "y" * 3_000})], 2_000))


def test_releases_of_every_kind() -> None:
    [payload] = Session("rm-1").releases(
        [
            si.Allocation(UUID="u1", applicationID="app-1"),
            si.AllocationRelease(UUID="u2"),
            si.AllocationRelease(UUID="u3", terminationType=si.TIMEOUT),
            si.AllocationAskRelease(allocationKey="k"),
        ],
        LIMIT,
    )
    releases = si.AllocationRequest.FromString(payload).releases
    assert [(one.UUID, one.terminationType) for one in releases.allocationsToRelease] == [
        ("u1", si.STOPPED_BY_RM), ("u2", si.STOPPED_BY_RM), ("u3", si.TIMEOUT)
    ]  # fmt: skip
    assert releases.allocationAsksToRelease[0].terminationType == si.STOPPED_BY_RM
    with pytest.raises(TypeError, match="expected an Allocation"):
        list(Session("rm-1").releases(["u1"], LIMIT))  # type: ignore[list-item]


def test_removals() -> None:
    [payload] = Session("rm-1").removals(["a", "b"], "gpu", LIMIT)
    removed = si.ApplicationRequest.FromString(payload).remove
    assert [(one.applicationID, one.partitionName) for one in removed] == [("a", "gpu"), ("b", "gpu")]


def test_asks_and_allocations_cost_little(cost: Callable[[Callable[[], object]], float]) -> None:
    """Half a second of CPU is for 50,000 of both; here is what needs no bus, for 1,000: some 3 and 0.2 ms."""
    session = Session("rm-1")

    def asks_of(count: int) -> Iterator[si.AllocationAsk]:
        return (ask("app-1", f"key-{number}", vcore=100, memory=2**30) for number in range(count))

    def publish() -> None:
        assert len(list(session.asks(asks_of(1_000), LIMIT))) == 1

    assert len(list(session.asks(asks_of(50_000), LIMIT))) == 50
    assert cost(publish) < 2.5
    size = ask("app-1", "key", vcore=100, memory=2**30).resourceAsk
    response = si.AllocationResponse(
        new=[si.Allocation(allocationKey=f"k{n}", UUID=f"u{n}", resourcePerAlloc=size) for n in range(1_000)]
    )
    message = Message(subjects.callback("rm-1", "allocation"), response.SerializeToString())

    assert cost(lambda: session.confirmations(read(message))) < 0.2
