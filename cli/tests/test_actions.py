"""The client of operators' actions: who it says it is, and what it does when nobody answers."""

from __future__ import annotations

import getpass
import json
from typing import Any

import pytest

from cli.tests.test_mistakes import command
from remuda.client.operators import operator
from remuda_bus import subjects
from remuda_bus.bus import Message, Refused, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_operations.operators import request_of
from remuda_operations.queries import NoAnswer, RequestRefused, actions
from remuda_operations.queries.actions import Outcome


class Deaf(MemoryBus):
    """The first requests get no answer."""

    unanswered = 0

    async def request(self, *given: Any, **named: Any) -> Message:
        message = await super().request(*given, **named)
        if self.unanswered:
            self.unanswered -= 1
            raise Unanswered("no answer")
        return message


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMUDA_NATS_SEED", raising=False)


async def hold(bus: MemoryBus) -> Outcome:
    return await actions.request(bus, operator(), "rm-1", "hold_queue", "id-1", {"queue": "root.a"})


async def served(bus: MemoryBus, reply: dict[str, Any] | Refused) -> list[Message]:
    seen: list[Message] = []

    async def answer(message: Message) -> bytes:
        seen.append(message)
        if isinstance(reply, Refused):
            raise reply
        return json.dumps(reply).encode()

    await bus.serve(subjects.administration("*", "*", "*", "hold_queue"), answer, "hold_queue")
    return seen


async def test_without_keys_the_operator_is_the_user_of_the_system() -> None:
    bus = MemoryBus()
    seen = await served(bus, {"outcome": "accepted", "action_id": "id-1", "added_later": 1})
    assert (await hold(bus)).outcome == "accepted"
    operator, rm_id, action = request_of(seen[0].subject)
    assert (operator.name, rm_id, action) == (getpass.getuser(), "rm-1", "hold_queue")
    assert json.loads(seen[0].payload) == {"action_id": "id-1", "queue": "root.a"}


def test_with_a_key_the_server_says_who_it_is(tmp_path, monkeypatch) -> None:
    (tmp_path / "seed").touch()
    monkeypatch.setenv("REMUDA_NATS_SEED", str(tmp_path / "seed"))
    assert actions.subject_of(operator(), "rm-1", "hold_queue") == "remuda.administer.rm-1.hold_queue"


async def test_a_request_without_an_answer_is_repeated_under_its_id() -> None:
    bus = Deaf()
    bus.unanswered = 2
    seen = await served(bus, {"outcome": "accepted", "action_id": "id-1", "repeated": True})
    assert (await hold(bus)).repeated
    assert len({message.payload for message in seen}) == 1 and len(seen) == 3


async def test_in_the_end_it_is_not_known(monkeypatch) -> None:
    monkeypatch.setattr("remuda_operations.queries.actions.ACTION_DECIDED_WITHIN_S", 0.0)
    bus = Deaf()
    bus.unanswered = 9
    await served(bus, {})
    outcome = await hold(bus)
    assert (outcome.outcome, outcome.action_id) == ("undecided", "id-1")


async def test_nobody_there_and_nobody_allowed(monkeypatch) -> None:
    monkeypatch.setattr("remuda_operations.queries.actions.RMPROXY_TAKES_OVER_WITHIN_S", 0.0)
    with pytest.raises(NoAnswer, match="no rmproxy takes the request"):
        await hold(MemoryBus())
    bus = MemoryBus()
    await served(bus, Refused("remuda-cli may not publish to x", 403))
    with pytest.raises(RequestRefused, match="this key is not that of an operator"):
        await hold(bus)


@pytest.mark.parametrize(
    ("outcome", "code", "out", "err"),
    [
        (Outcome("accepted", "id-1"), 0, "queue root.a is held\n", ""),
        (Outcome("accepted", "id-1", repeated=True), 0, "queue root.a is held (it was done before)\n", ""),
        (Outcome("refused", "id-1", "no"), 1, "", "remuda: hold queue in rm-1 is refused: no\n"),
        (
            Outcome("undecided", "id-1", "no core"), 3, "",
            "remuda: hold queue in rm-1 is not decided yet: no core; to ask again: --action-id id-1\n",
        ),
    ],
)  # fmt: skip
def test_what_people_see(monkeypatch, capsys, outcome: Outcome, code: int, out: str, err: str) -> None:
    async def decided(url: str, attempt: object) -> Outcome:
        return outcome

    monkeypatch.setattr("remuda.admin.act._request", decided)
    assert command(monkeypatch, capsys, "hold", "rm-1", "root.a") == (code, out, err)
    found, printed, _ = command(monkeypatch, capsys, "hold", "rm-1", "root.a", "--json")
    assert found == code and json.loads(printed)["outcome"] == outcome.outcome
