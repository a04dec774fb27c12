from collections.abc import Callable, Iterator

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import callbacks
from remuda_sdk.resource_manager.build import ask
from remuda_sdk.resource_manager.callbacks import DeadLetter, Session, parse_callback
from remuda_sdk.resource_manager.requests import RequestEncoder

LIMIT = 1_000_000


def callback(seq: int, log_seq: int | None = None, fact: int = 0, kind: str = "allocation") -> Message:
    headers = {} if log_seq is None else {subjects.LOG_SEQ: str(log_seq), subjects.LOG_FACT: str(fact)}
    return Message(subjects.callback("rm-1", kind), b"", headers, seq)


def test_a_malformed_rm_id_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 to 64 of"):
        Session("rm.1")


def test_a_callback_is_new_until_it_was_processed() -> None:
    session = Session("rm-1")
    message = callback(5, log_seq=7, fact=3)
    assert session.is_new(message) and session.is_new(message)
    session.taken(message)()
    assert not session.is_new(message)


def test_a_repeated_callback_is_processed_once() -> None:
    """The same facts come in another message, from an rmproxy that has taken over."""
    session = Session("rm-1")
    session.taken(callback(5, log_seq=7, fact=3))()
    assert not session.is_new(callback(6, log_seq=7, fact=3))
    assert not session.is_new(callback(6, log_seq=6, fact=9))
    assert session.is_new(callback(6, log_seq=7, fact=4))
    assert session.is_new(callback(6, log_seq=8, fact=0))


def test_a_dead_letter_is_identified_by_its_stream_sequence() -> None:
    session = Session("rm-1")
    session.taken(callback(5, kind="dead_letter"))()
    assert not session.is_new(callback(5, kind="dead_letter"))
    assert session.is_new(callback(6, kind="dead_letter"))


def test_events_and_callbacks_are_tracked_separately() -> None:
    session = Session("rm-1")
    session.taken(callback(50, log_seq=9))()
    event = Message(subjects.event("rm-1"), b"", {subjects.LOG_SEQ: "3"}, 7)
    assert session.is_new(event)
    session.taken(event)()
    assert not session.is_new(event)


def test_callbacks_are_typed() -> None:
    response = si.AllocationResponse(new=[si.Allocation(UUID="u")])
    assert parse_callback(Message(subjects.callback("rm-1", "allocation"), response.SerializeToString())) == response
    record = si.EventRecord(message="why", referenceID="7")
    assert parse_callback(Message(subjects.event("rm-1"), record.SerializeToString())) == record
    letter = Message(subjects.callback("rm-1", "dead_letter"), record.SerializeToString())
    assert parse_callback(letter) == DeadLetter("why", 7)
    with pytest.raises(ValueError, match="expected a callback of one of"):
        parse_callback(Message(subjects.callback("rm-1", "news"), b""))


def test_a_requested_release_is_confirmed_once() -> None:
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
    session.record_confirmed(confirmations)
    assert session.confirmations(response) == []
    assert session.confirmations(si.NodeResponse()) == []


def test_remembered_confirmations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "REMEMBERED_CONFIRMATIONS", 2)
    session = Session("rm-1")
    releases = [si.AllocationRelease(UUID=str(number), terminationType=si.TIMEOUT) for number in range(3)]
    session.record_confirmed(releases)
    assert session.confirmations(si.AllocationResponse(released=releases)) == releases[:1]


def test_many_asks_are_split_into_messages_of_a_thousand() -> None:
    payloads = list(RequestEncoder("rm-1").asks((ask("app-1", f"k{number}") for number in range(2_500)), LIMIT))
    requests = [si.AllocationRequest.FromString(payload) for payload in payloads]
    assert [len(request.asks) for request in requests] == [1_000, 1_000, 500]
    assert {request.rmID for request in requests} == {"rm-1"}
    assert [one.allocationKey for request in requests for one in request.asks] == [f"k{n}" for n in range(2_500)]


def test_large_asks_are_split_at_the_payload_limit() -> None:
    asks = [ask("app-1", f"k{number}", tags={"x": "y" * 100}) for number in range(100)]
    payloads = list(RequestEncoder("rm-1").asks(asks, 2_000))
    assert all(len(payload) <= 2_000 for payload in payloads)
    assert sum(len(si.AllocationRequest.FromString(payload).asks) for payload in payloads) == 100
    with pytest.raises(ValueError, match=r"asks\[0\]"):
        list(RequestEncoder("rm-1").asks([ask("app-1", "k", tags={"x": "y" * 3_000})], 2_000))


def test_releases_of_every_kind() -> None:
    [payload] = RequestEncoder("rm-1").releases(
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


def test_removals() -> None:
    [payload] = RequestEncoder("rm-1").removals(["a", "b"], "gpu", LIMIT)
    removed = si.ApplicationRequest.FromString(payload).remove
    assert [(one.applicationID, one.partitionName) for one in removed] == [("a", "gpu"), ("b", "gpu")]


def test_asks_and_allocations_cost_little(cost: Callable[[Callable[[], object]], float]) -> None:
    """50,000 asks and allocations may cost half a second of CPU. Without the bus, 1,000 cost some 3 and 0.2 ms."""
    session, encoder = Session("rm-1"), RequestEncoder("rm-1")

    def asks_of(count: int) -> Iterator[si.AllocationAsk]:
        return (ask("app-1", f"key-{number}", vcore=100, memory=2**30) for number in range(count))

    def publish() -> None:
        assert len(list(encoder.asks(asks_of(1_000), LIMIT))) == 1

    assert len(list(encoder.asks(asks_of(50_000), LIMIT))) == 50
    assert cost(publish) < 2.5
    size = ask("app-1", "key", vcore=100, memory=2**30).resourceAsk
    response = si.AllocationResponse(
        new=[si.Allocation(allocationKey=f"k{n}", UUID=f"u{n}", resourcePerAlloc=size) for n in range(1_000)]
    )
    message = Message(subjects.callback("rm-1", "allocation"), response.SerializeToString())

    assert cost(lambda: session.confirmations(parse_callback(message))) < 0.2
