"""Requests of operators: what is wrong with one is said, the rest becomes one command each, and the decision is the
answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_operations.operators import Operator
from remuda_proto.access_list import AccessList
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_replication.rms.halts import FAULT, Halts
from remuda_rmproxy import limits
from remuda_rmproxy.administration.action_request import FIELDS, FORGET_RM, read_request
from remuda_rmproxy.administration.operator_actions import OperatorActions
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.pending_answers import PendingAnswers
from tests.failing_bus import FailingBus

ALICE = Operator("alice@example.com", ("ops", "dev"))
BOB = Operator("bob")
RM = "rm-1"
VALUES: dict[str, dict[str, Any]] = {
    "kill_application": {"application_id": "app"},
    "move_application": {"application_id": "app", "queue": "root.b"},
    "hold_queue": {"queue": "root.a"},
    "resume_queue": {"queue": "root.a"},
    "drain_node": {"node_id": "n1"},
    "undrain_node": {"node_id": "n1"},
    "change_ask_priority": {"application_id": "app", "allocation_key": "k", "priority": -5},
    "release_one_allocation": {"uuid": "u"},
    "lend_quota": {"queue": "root.a", "borrower": "root.b", "amounts": {"vcore": 5}, "guaranteed": True, "until_ms": 9},
    "end_loan": {"queue": "root.a", "borrower": "root.b"},
    FORGET_RM: {},
}
TAKEN = log_pb2.Fact(action_taken=log_pb2.ActionTaken())


def message(action: str, operator: Operator = ALICE, rm_id: str = RM, **fields: Any) -> Message:
    subject = subjects.administration(operator.token, operator.groups_token, rm_id, action)
    return Message(subject, json.dumps({"action_id": "x", **fields}).encode())


def hold(**fields: Any) -> Message:
    return message("hold_queue", **{"queue": "root.a", **fields})


def test_each_action_is_known_everywhere() -> None:
    assert tuple(FIELDS) == subjects.ACTIONS == tuple(VALUES)


@pytest.mark.parametrize("action", [action for action in VALUES if action != FORGET_RM])
def test_an_action_becomes_a_command(action: str) -> None:
    said = message(action, reason="no longer needed", partition="GPU", force=True, **VALUES[action])
    command = read_request(said).command(scheduler_administrator=True)
    assert command == inbox_pb2.Command(
        correlation_id="administer:alice@example.com/x",
        administer=inbox_pb2.Administer(
            operator="alice@example.com",
            groups=["ops", "dev"],
            scheduler_administrator=True,
            reason="no longer needed",
            action_id="alice@example.com/x",
            force=True,
            partition="[rm-1]gpu",
            **{action: VALUES[action]},  # type: ignore[arg-type]
        ),
    )


def test_a_node_is_drained_from_a_time_on() -> None:
    command = read_request(message("drain_node", node_id="n1", from_ms=1_800_000_000_000)).command(True)
    assert command.administer.drain_node == inbox_pb2.DrainNode(node_id="n1", from_ms=1_800_000_000_000)
    command = read_request(message("drain_node", node_id="n1")).command(True)
    assert command.administer.drain_node == inbox_pb2.DrainNode(node_id="n1")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (hold(action_id=""), "action_id ''"),
        (hold(action_id=7), "action_id 7: expected 1 to 64"),
        (hold(action_id="a" * 65), "expected 1 to 64"),
        (hold(queue=""), "queue '': expected a text of 1 to 4,224 bytes"),
        (hold(queue=None), "queue None"),
        (hold(queue="r" * 5_000), "expected a text of 1 to 4,224 bytes"),
        (hold(queue="root.\ud800"), "expected no control characters"),
        (hold(reason="x" * 1_025), "reason 'x.*expected a text of 0 to 1,024 bytes"),
        (hold(reason="a\x1b[2J"), r"reason 'a\\x1b.*no control characters"),
        (hold(force="yes"), "force 'yes': expected true or false"),
        (hold(partition="[rm-2]default"), r"partition '\[rm-2\]default': expected a plain name"),
        (hold(partition=3), "partition 3"),
        (hold(queues="x"), "unknown field 'queues', expected action_id, force, partition, queue, reason"),
        (message("kill_application"), "application_id None"),
        (message("change_ask_priority", application_id="a", allocation_key="k", priority=2**31), "expected a number"),
        (message("change_ask_priority", application_id="a", allocation_key="k", priority=True), "priority True"),
        (message("drain_node", node_id="n", from_ms="18:00"), "from_ms '18:00': expected a number from 0 to 10+"),
        (message("drain_node", node_id="n", from_ms=-1), "from_ms -1"),
        (message("drain_node", node_id="n", from_ms=2**62), "from_ms 4611686018427387904"),
        (message("hold", queue="x"), "action 'hold': expected one of kill_application"),
        (Message(hold().subject, b"\xff"), "a request to hold_queue: not JSON"),
        (Message(hold().subject, b"[1]"), "a JSON object was expected"),
        (Message(hold().subject, b"[" * 100_000), "expected at most 16384"),
        (Message("remuda.admin.a=4.-.rm-1.hold_queue", hold().payload), "'a=4': expected A-Z"),
        (Message("remuda.admin.a.b=2.rm-1.hold_queue", hold().payload), "'b=2': expected A-Z"),
        (Message("remuda.admin.a.-.r$m.hold_queue", hold().payload), r"rmID 'r\$m'"),
    ],
)
def test_a_wrong_request_is_refused_with_its_field(request_: Message, reason: str) -> None:
    with pytest.raises(Refused, match=reason) as refusal:
        read_request(request_)
    assert refusal.value.code == 400


@given(st.binary(max_size=300) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.dictionaries(st.sampled_from([*("action_id", "queue", "force", "reason", "partition")]), inner),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_payload_does_anything_but_read_or_be_refused(payload: bytes) -> None:
    try:
        read_request(Message(hold().subject, payload)).command(False).SerializeToString()
    except Refused:
        return


Answer = Callable[[inbox_pb2.Command], log_pb2.Fact | None]


class Door:
    """OperatorActions with a core that answers each command by `answer`; None: not at all."""

    def __init__(self, memory: MemoryBus, bus: Any, answer: Answer, acl: str, core_timeout_s: float) -> None:
        self.bus = memory
        self.halts = Halts(bus, "test", lambda: 1)
        self.commands: list[inbox_pb2.Command] = []
        self._answer = answer
        self._pending = PendingAnswers()
        self.actions = OperatorActions(
            bus, self.halts, self._pending, AccessList.parse(acl), "test", lambda: 1, core_timeout_s
        )

    async def run(self) -> None:
        reader = await self.bus.read(subjects.INBOX.name, subjects.inbox(RM))
        while True:
            for one in await reader.batch():
                command = inbox_pb2.Command.FromString(one.payload)
                self.commands.append(command)
                fact = self._answer(command)
                if fact is not None:
                    decision = log_pb2.Decision(correlation_id=command.correlation_id, facts=[fact])
                    self._pending.resolve(RM, decision)

    async def ask(self, request: Message) -> dict[str, Any]:
        return json.loads(await self.actions.act(request))


@asynccontextmanager
async def door(
    answer: Answer = lambda command: TAKEN, acl: str = "", bus: Any = None, core_timeout_s: float = 5.0
) -> AsyncIterator[Door]:
    memory = MemoryBus()
    await memory.put(subjects.RMS.name, RM, RmRecord(RM, state="registered", registration=1).encode())
    opened = Door(memory, bus(memory) if bus else memory, answer, acl, core_timeout_s)
    core = asyncio.create_task(opened.run())
    try:
        yield opened
    finally:
        core.cancel()
        await asyncio.gather(core, return_exceptions=True)


async def test_the_decision_is_the_answer() -> None:
    soft = log_pb2.Fact(action_refused=log_pb2.ActionRefused(refusal="over its quota", soft=True))
    again = log_pb2.Fact(action_taken=log_pb2.ActionTaken(repeated=True, overridden=["quota"]))
    answers = iter([TAKEN, soft, again])
    async with door(lambda command: next(answers)) as opened:
        said = {"reason": "", "repeated": False, "overridden": [], "soft": False, "action_id": "x"}
        assert await opened.ask(hold()) == {**said, "outcome": "accepted"}
        assert await opened.ask(hold()) == {**said, "outcome": "refused", "reason": "over its quota", "soft": True}
        assert await opened.ask(hold()) == {**said, "outcome": "accepted", "repeated": True, "overridden": ["quota"]}


async def test_a_scheduler_administrator_is_one_by_name_or_group() -> None:
    async with door(acl="bob ops") as opened:
        for operator in (ALICE, BOB, Operator("eve", ("bob",))):
            await opened.ask(hold(operator=operator))
        assert [one.administer.scheduler_administrator for one in opened.commands] == [True, True, False]


async def test_without_a_core_the_answer_says_so_in_time() -> None:
    async with door(lambda command: None, core_timeout_s=0.01) as opened:
        found = await opened.ask(hold())
        assert found["outcome"] == "undecided" and "no decision within 0.01 s" in found["reason"]


async def test_nothing_is_asked_of_an_rm_that_is_not_there_or_halted() -> None:
    async with door() as opened:
        with pytest.raises(Refused, match="rmID 'rm-2' is not registered") as refusal:
            await opened.ask(hold(rm_id="rm-2"))
        assert refusal.value.code == 404
        await opened.halts.halt(RM, "a fault", FAULT)
        with pytest.raises(Refused, match="a fault") as refusal:
            await opened.ask(hold())
        assert refusal.value.code == 503
        assert opened.commands == []


async def test_an_outage_is_no_answer() -> None:
    class Unsure:
        def __init__(self, bus: MemoryBus) -> None:
            self._bus = bus

        def __getattr__(self, name: str) -> Any:
            return getattr(self._bus, name)

        async def append(self, *given: Any, **named: Any) -> int:
            raise Unanswered("the connection broke")

    async with door(bus=Unsure) as opened:
        with pytest.raises(Refused, match="asking again with the same ID is safe") as refusal:
            await opened.ask(hold())
        assert refusal.value.code == 503


async def test_a_flood_of_one_operator_is_refused_to_that_operator_alone() -> None:
    async with door() as opened:
        flood = [opened.ask(hold(action_id=f"x{n}")) for n in range(limits.ACTIONS_BURST * 3)]
        answers = await asyncio.gather(*flood, return_exceptions=True)
        refusals = [one for one in answers if isinstance(one, Refused)]
        assert {one.code for one in refusals} == {429}
        assert len(opened.commands) == len(answers) - len(refusals) <= limits.ACTIONS_AT_ONCE
        assert (await opened.ask(hold(operator=BOB)))["outcome"] == "accepted"


async def test_an_rm_is_forgotten_by_a_scheduler_administrator_once_it_has_deregistered() -> None:
    async with door(acl=" ops") as opened:
        bus = opened.bus
        refused = await opened.ask(message(FORGET_RM, BOB))
        assert refused["outcome"] == "refused" and "'bob' is not in the scheduler's access list" in refused["reason"]
        refused = await opened.ask(message(FORGET_RM))
        assert refused["outcome"] == "refused" and refused["soft"] and "is registered" in refused["reason"]
        assert await bus.get(subjects.RMS.name, RM) is not None
        await bus.put(subjects.RMS.name, RM, RmRecord(RM, state="deregistered", registration=1).encode())
        for _ in range(2):  # the second one finds nothing left to do
            assert (await opened.ask(message(FORGET_RM)))["outcome"] == "accepted"
            assert await bus.get(subjects.RMS.name, RM) is None
        assert opened.commands == []


async def test_a_registered_rm_is_forgotten_by_force() -> None:
    async with door(acl="bob") as opened:
        assert (await opened.ask(message(FORGET_RM, BOB, force=True)))["outcome"] == "accepted"
        assert await opened.bus.get(subjects.RMS.name, RM) is None


class Died(Exception):
    """So does the process."""


@pytest.mark.parametrize("after", [False, True])
async def test_wherever_the_process_dies_asking_again_is_answered(after: bool) -> None:
    """A failure at each call of the bus in turn: a command is in the inbox whole or not at all."""
    for call in count(1):
        failing: list[FailingBus] = []

        def fail(memory: MemoryBus, call: int = call, failing: list[FailingBus] = failing) -> FailingBus:
            failing.append(FailingBus(memory, call, Died(), after=after))
            return failing[0]

        async with door(bus=fail) as opened:
            with suppress(Died):
                await opened.ask(hold())
            if not failing[0].failed:
                break
            assert (await opened.ask(hold()))["outcome"] == "accepted"
            assert all(one.administer.hold_queue.queue == "root.a" for one in opened.commands)
            assert {one.administer.action_id for one in opened.commands} == {"alice@example.com/x"}
    assert call > 2
