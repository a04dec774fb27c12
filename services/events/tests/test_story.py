"""Stories: the facts that belong to one, and their causes. Their texts are in the golden
scenarios."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from remuda_events.event_records import event_records_of
from remuda_events.stories.sentences import FACTS_ABOUT_THE_RM, FACTS_WITHOUT_SENTENCE, SENTENCES
from remuda_events.stories.story import Story, StoryLine, StoryTarget, mentions
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si

KINDS = {field.name: field for field in log_pb2.Fact.DESCRIPTOR.fields}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_every_kind_of_fact_has_words_or_a_reason_for_having_none() -> None:
    assert set(SENTENCES) | set(FACTS_WITHOUT_SENTENCE) == set(KINDS)
    assert not set(SENTENCES) & set(FACTS_WITHOUT_SENTENCE)
    assert set(SENTENCES) > FACTS_ABOUT_THE_RM


@pytest.mark.parametrize("kind", sorted(SENTENCES))
def test_an_empty_fact_has_a_sentence(kind: str) -> None:
    """Facts of other versions may lack anything."""
    fact = getattr(log_pb2.Fact(), kind)
    assert SENTENCES[kind](fact)
    assert list(mentions(kind, fact))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_text_or_number_from_outside_stops_a_story_or_the_history(kind: str) -> None:
    fact = log_pb2.Fact()
    getattr(fact, kind).SetInParent()
    fill_oddly(getattr(fact, kind))
    commit = log_pb2.Commit(now_ms=1)
    commit.decisions.add(command="Tick", correlation_id="configure:x", traceparent="-\x1b-\x1b-").facts.append(fact)
    assert all(si.EventRecord.FromString(record) for record in event_records_of(commit))
    if kind in SENTENCES:
        assert all(told.text.isprintable() for told in lines_of(StoryTarget(ODD), commit))


def test_a_number_without_a_name_is_shown_as_a_number() -> None:
    released = log_pb2.AllocationReleased(application_id="A", allocation_key="K", uuid="U", node_id="N")
    released.termination_type = 9  # type: ignore[assignment]
    (told,) = lines_of(StoryTarget("U"), commit_of(log_pb2.Fact(allocation_released=released)))
    assert told.text == "A/K released on N, termination type 9 (U)"


ODD = "\x1b[2J\u202e{%s}\n"


def fill_oddly(message: Message, depth: int = 3) -> None:
    """Every field, with what no client of ours would send."""
    for field in message.DESCRIPTOR.fields:
        of_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is not None:
            if depth and not of_map:
                inner = getattr(message, field.name)
                fill_oddly(inner.add() if field.is_repeated else inner, depth - 1)
            continue
        value: object = 9  # for enums
        if field.cpp_type == field.CPPTYPE_STRING:
            value = ODD.encode() if field.type == field.TYPE_BYTES else ODD
        elif field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_INT32):
            value = -(2**63) if field.cpp_type == field.CPPTYPE_INT64 else 2**31 - 1
        elif field.cpp_type == field.CPPTYPE_BOOL:
            value = True
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


@pytest.mark.parametrize("kind", sorted(set(SENTENCES) - FACTS_ABOUT_THE_RM))
def test_what_a_fact_names_is_found_in_it(kind: str) -> None:
    """By all of its names, wherever its message has them."""
    fact = log_pb2.Fact()
    message = getattr(fact, kind)
    message.SetInParent()
    of_queues = kind.startswith(("queue_", "quota_", "budget_")) or kind in OF_QUEUES
    filled = fill(message, NAMES | QUEUES if of_queues else NAMES)
    assert filled, f"{kind} names nothing"
    for name in filled:
        assert len(lines_of(StoryTarget(name), commit_of(fact))) == 1, f"{kind} is not in the story of its {name}"


NAMES = {
    "application_id": "A", "application_ids": "A", "applicationID": "A", "allocation_key": "K", "allocationKey": "K",
    "uuid": "U", "UUID": "U",
    "node_id": "N", "nodeID": "N", "placeholder": "P", "placeholder_key": "PK", "placeholder_node": "PN", "uuids": "V",
}  # fmt: skip


QUEUES = {"queue": "q", "from_queue": "f", "lender": "l", "borrower": "b"}
OF_QUEUES = {"action_taken", "action_refused", "application_moved"}  # others name a queue by the way


def fill(message: object, names: dict[str, str]) -> set[str]:
    found: set[str] = set()
    for field in message.DESCRIPTOR.fields:  # type: ignore[attr-defined]
        if field.message_type is not None and field.name in ("ask", "allocation", "action"):
            found |= fill(getattr(message, field.name), names)
        elif field.name in names and field.type == field.TYPE_STRING:
            name = names[field.name]
            if field.is_repeated:
                getattr(message, field.name).append(name)
            else:
                setattr(message, field.name, name)
            found.add(name)
    return found


def commit_of(*facts: log_pb2.Fact, command: str = "Schedule", **decision: object) -> log_pb2.Commit:
    commit = log_pb2.Commit(now_ms=5)
    commit.decisions.add(command=command, facts=facts, **decision)
    return commit


def lines_of(target: StoryTarget, *commits: log_pb2.Commit) -> list[StoryLine]:
    story = Story(target)
    return [line for seq, commit in enumerate(commits, start=1) for line in story.lines_of(seq, commit)]


def allocated(uuid: str, key: str = "k1", node: str = "n1", application: str = "app-1") -> log_pb2.Fact:
    allocation = si.Allocation(UUID=uuid, allocationKey=key, applicationID=application, nodeID=node)
    return log_pb2.Fact(allocated=log_pb2.Allocated(allocation=allocation))


def asked(key: str, application: str = "app-1") -> log_pb2.Fact:
    ask = si.AllocationAsk(applicationID=application, allocationKey=key, maxAllocations=2)
    return log_pb2.Fact(ask_accepted=log_pb2.AskAccepted(ask=ask))


def registered(times: int, resync: str = "") -> log_pb2.Fact:
    return log_pb2.Fact(rm_registered=log_pb2.RmRegistered(rm_id="rm-1", registration=times, resync=resync))


def test_a_name_inside_another_name_is_not_meant() -> None:
    commit = commit_of(asked("k1"), asked("k10"), allocated("u", key="k1.1", node="n-k1"))
    assert [line.kind for line in lines_of(StoryTarget("k1"), commit)] == ["AskAccepted"]


def test_a_key_of_an_application_is_not_that_of_another() -> None:
    commit = commit_of(asked("k1"), asked("k1", "app-2"), asked("app-1", "k1"))
    (line,) = lines_of(StoryTarget.parse("app-2/k1"), commit)
    assert line.text.startswith("app-2/k1 asks for 2 × ")


@pytest.mark.parametrize(
    ("application", "key"),
    [("spark/app", "k"), ("app", "ns/pod"), ("a/b", "c/d"), ("/", "//"), ("app/", "k"), ("a", "K/")],
)
def test_ids_may_contain_slashes(application: str, key: str) -> None:
    commit = commit_of(asked(key, application), asked("other", "other"), allocated("u", key, f"{key}/n", "other"))
    (line,) = lines_of(StoryTarget.parse(f"{application}/{key}"), commit)
    assert line.kind == "AskAccepted"
    assert [line.kind for line in lines_of(StoryTarget.parse(application), commit)] == ["AskAccepted"]
    assert [line.kind for line in lines_of(StoryTarget.parse(f"{key}/n"), commit)] == ["Allocated"]


def test_names_of_queues_have_no_case() -> None:
    """Facts have the name of a rejected application's queue as it was sent."""
    held = log_pb2.Fact(queue_held=log_pb2.QueueHeld(queue="root.prod"))
    sent = log_pb2.Fact(queue_held=log_pb2.QueueHeld(queue="root.PROD"))
    for name in ("root.prod", "Root.Prod", "ROOT.PROD"):
        assert len(lines_of(StoryTarget.parse(name), commit_of(held, sent))) == 2
    assert not lines_of(StoryTarget.parse("APP-1"), commit_of(asked("k1")))


def test_the_story_of_an_allocation_restarts_with_its_ask() -> None:
    commits = [commit_of(asked("k1")), commit_of(allocated("u1"), allocated("u2")), commit_of(asked("k2"))]
    story = Story(StoryTarget("u2"))
    lines = [line for commit in commits for line in story.lines_of(1, commit)]
    assert len(lines) == 1 and story.restart_as == StoryTarget("u2", ask=("app-1", "k1"))
    assert [line.kind for line in lines_of(story.restart_as, *commits)] == ["AskAccepted", "Allocated"]
    assert Story(StoryTarget("app-1")).restart_as is None


def test_the_story_of_an_application_with_the_name_of_a_uuid_does_not_restart() -> None:
    story = Story(StoryTarget("u1"))
    list(story.lines_of(1, commit_of(asked("k1", "u1"))))
    list(story.lines_of(2, commit_of(allocated("u1"))))
    assert story.restart_as is None


def test_what_happens_to_the_rm_belongs_to_what_it_has() -> None:
    """And not to what it has not got yet."""
    first, again, replay = (
        commit_of(fact, command="Register") for fact in (registered(1), registered(2), registered(3, "replay"))
    )
    texts = [line.text for line in lines_of(StoryTarget("k1"), first, commit_of(asked("k1")), again, replay)]
    assert texts[1:] == [
        "rm-1 registers for the 2nd time: all that was known of it is dropped",
        "rm-1 registers for the 3rd time: everything stays",
    ]


def test_causes() -> None:
    own = commit_of(asked("k"), command="Tick")
    request = commit_of(asked("k"), command="UpdateAllocation", inbox_seq=3, request_seq=8, request_part=2,
                        traceparent=f"00-{TRACE}-00f067aa0ba902b7-01", correlation_id="c")  # fmt: skip
    command = commit_of(asked("k"), command="Configure", inbox_seq=9, traceparent="nonsense")
    lines = lines_of(StoryTarget("k"), own, request, command)
    causes = ["the scheduler: Tick", "UpdateAllocation, request 8.2", "Configure, command 9"]
    assert [line.cause for line in lines] == causes
    assert [line.trace_id for line in lines] == ["", TRACE, ""]
    assert [(line.at_ms, line.log_seq) for line in lines] == [(5, 1), (5, 2), (5, 3)]


def test_facts_of_a_newer_core_are_passed_over() -> None:
    unknown = log_pb2.Fact.FromString(b"\xfa\x7f\x02k1")
    assert [line.kind for line in lines_of(StoryTarget("k1"), commit_of(unknown, asked("k1")))] == ["AskAccepted"]


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_what_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a name, or APPLICATION/KEY"):
        StoryTarget.parse(text)


def test_a_hold_is_in_the_story_of_its_queue() -> None:
    action = log_pb2.Action(kind="HoldQueue", operator="alice", reason="new disks", queue="root.A")
    taken = log_pb2.Fact(action_taken=log_pb2.ActionTaken(action=action))
    held = log_pb2.Fact(queue_held=log_pb2.QueueHeld(queue="root.a", operator="alice", reason="new disks"))
    told = lines_of(StoryTarget("root.a"), commit_of(taken, held))
    assert [line.text for line in told] == [
        "operator alice holds queue root.A: new disks",
        "queue root.a starts nothing: held by operator alice: new disks",
    ]
    assert not lines_of(StoryTarget("root"), commit_of(taken, held))
