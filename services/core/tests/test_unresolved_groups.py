"""Applications of users whose groups could not be resolved are rejected with the reason; others are not."""

from __future__ import annotations

from remuda_core import facts
from remuda_core.core import Core
from remuda_core.wire.codec import CommitCodec
from remuda_proto.remuda.v1 import inbox_pb2
from services.core.tests.test_leader import registered


def decided(core: Core, command: inbox_pb2.Command) -> list[facts.Fact]:
    _, found = CommitCodec().read(inbox_pb2.Command.FromString(command.SerializeToString()))
    return [fact for one in found for fact in core.handle(one, 1_000)]


def test_only_the_users_without_an_answer() -> None:
    command = inbox_pb2.Command(groups_unresolved={"ann": "no answer", "bob": "no answer"})
    for app, user, groups in (("a", "ann", []), ("b", "bob", ["own"]), ("c", "carl", [])):
        new = command.application.new.add(applicationID=app, partitionName="[rm-1]default", queueName="root.a")
        new.ugi.user = user
        new.ugi.groups.extend(groups)
    found = decided(registered(), command)
    rejected = {fact.application_id: fact.reason for fact in found if isinstance(fact, facts.ApplicationRejected)}
    accepted = {fact.application_id: fact.groups for fact in found if isinstance(fact, facts.ApplicationAccepted)}
    assert rejected.get("a") == "no answer"
    assert "no answer" not in (rejected.get("b"), rejected.get("c")) and rejected.keys() | accepted.keys() == {*"abc"}


def test_what_is_wrong_anyway_comes_first() -> None:
    command = inbox_pb2.Command(groups_unresolved={"ann": "no answer"})
    command.application.new.add(applicationID="a", partitionName="[rm-1]other").ugi.user = "ann"
    [rejected] = decided(registered(), command)
    assert isinstance(rejected, facts.ApplicationRejected) and "does not exist" in rejected.reason
