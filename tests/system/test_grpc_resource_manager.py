"""`remuda.v1.ResourceManager` over gRPC, with a real nats-server, rmproxy and core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_proto.remuda.v1 import predicates_pb2, resource_manager_pb2_grpc
from remuda_proto.remuda.v1 import resource_manager_pb2 as rm_pb2
from remuda_proto.si.v1 import si_pb2 as si
from tests.system.grpc_client import client, details, failure, told
from tests.system.grpc_system import System, grpc_system
from tests.system.running import until
from tests.system.test_grpc import app_1, asks, keys_of, some_nodes

Answers = Callable[[rm_pb2.Question], rm_pb2.Answer | None]


@pytest.fixture
async def system(server: NatsServer) -> AsyncIterator[System]:
    async with grpc_system(server.url) as running:
        yield running


class Conversation:
    """One conversation. Answers questions in the background."""

    def __init__(self, system: System, rm_id: str, answers: Answers, **hello: Any) -> None:
        self.heard: list[Any] = []
        self._channel = grpc.aio.insecure_channel(f"localhost:{system.port}")
        self.stub: Any = resource_manager_pb2_grpc.ResourceManagerStub(self._channel)
        self._hello = rm_pb2.Hello(rm_id=rm_id, **hello)
        self._answers = answers

    async def __aenter__(self) -> Conversation:
        self.call = self.stub.Converse()
        await self.call.write(rm_pb2.FromResourceManager(hello=self._hello))
        await self.call.initial_metadata()
        self.reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()
        self.reading.cancel()
        await asyncio.wait([self.reading])
        await self._channel.close()

    async def _read(self) -> None:
        while (message := await self.call.read()) is not grpc.aio.EOF:
            self.heard.append(message)
            answer = self._answers(message.question) if message.HasField("question") else None
            if answer is not None:
                answer.number = message.question.number
                await self.call.write(rm_pb2.FromResourceManager(answer=answer))

    async def hears(self, kind: str, within_s: float = 10.0) -> Any:
        async def heard() -> bool:
            return any(message.HasField(kind) for message in self.heard)

        await until(heard, within_s)
        return next(getattr(message, kind) for message in self.heard if message.HasField(kind))


async def place(rm: Any, *keys: str) -> list[si.AllocationResponse]:
    """Report three nodes, submit an application and its asks; the responses until all are allocated."""
    nodes, applications, allocations = rm.open("node"), rm.open("application"), rm.open("allocation")
    await nodes.write(some_nodes(3))
    await told(nodes, lambda responses: sum(len(one.accepted) for one in responses) == 3)
    await applications.write(app_1())
    await told(applications, lambda responses: responses[-1].accepted)
    await allocations.write(asks(*keys))
    return await told(allocations, lambda responses: len(keys_of(responses)) == len(keys))


async def test_single_questions_are_answered_on_the_stream(system):
    def answers(question: rm_pb2.Question) -> rm_pb2.Answer:
        assert (question.application_id, question.partition) == ("app-1", "default")
        return rm_pb2.Answer(refusal="" if question.predicates.nodeID == "n1" else "not there")

    async with client(system.port) as rm:
        await rm.register(extraConfig={"predicates": "true"})
        async with Conversation(system, "rm-1", answers):
            responses = await place(rm, "k1", "k2")
    assert {one.nodeID for response in responses for one in response.new} == {"n1"}


async def test_one_question_about_many_nodes(system):
    def answers(question: rm_pb2.Question) -> rm_pb2.Answer:
        verdicts = [
            predicates_pb2.NodeVerdict(node_id=node_id, accepted=node_id == "n2", reason="taint")
            for node_id in question.batch_predicates.node_ids
        ]
        return rm_pb2.Answer(batch_predicates=predicates_pb2.BatchPredicatesResponse(verdicts=verdicts))

    async with client(system.port) as rm:
        await rm.register(extraConfig={"predicates": "batch"})
        async with Conversation(system, "rm-1", answers) as conversation:
            responses = await place(rm, "k1", "k2", "k3")
    assert {one.nodeID for response in responses for one in response.new} == {"n2"}
    assert sum(message.HasField("question") for message in conversation.heard) == 1


async def test_state_dump(system):
    def answers(question: rm_pb2.Question) -> rm_pb2.Answer:
        assert question.HasField("state_dump")
        return rm_pb2.Answer(state_dump=json.dumps({"pods": 3}))

    async with client(system.port) as rm:
        await rm.register()
        async with Conversation(system, "rm-1", answers):
            reply = await system.bus.request(subjects.question("rm-1", "state_dump"), timeout_s=5)
            assert json.loads(reply.payload) == {"pods": 3}


async def test_scheduling_states_and_dead_letters(system):
    async with client(system.port) as rm:
        await rm.register()
        async with Conversation(system, "rm-1", lambda _: None) as conversation:
            nodes, applications, allocations = rm.open("node"), rm.open("application"), rm.open("allocation")
            await nodes.write(some_nodes(1, vcore=1))
            await told(nodes, lambda responses: responses[-1].accepted)
            await applications.write(app_1())
            await told(applications, lambda responses: responses[-1].accepted)
            await allocations.write(asks("k1", vcore=5))
            state = await conversation.hears("container")
            assert (state.applicartionID, state.allocationKey) == ("app-1", "k1")
            bad = si.UpdateConfigurationRequest(rmID="rm-1", config="partitions: nonsense")
            await conversation.stub.UpdateConfiguration(bad)
            letter = await conversation.hears("dead_letter")
            assert "partitions" in letter.message


async def test_events_come_if_hello_wants_them_and_none_is_lost(system):
    """Those of before the conversation, and of between two of them; a conversation that wants none gets none."""
    async with client(system.port) as rm:
        await rm.register(extraConfig={"events": "true"})
        await publish_event(system, "first")
        async with Conversation(system, "rm-1", lambda _: None, events=True) as conversation:
            assert (await conversation.hears("event")).message == "first"
        await publish_event(system, "second")
        async with Conversation(system, "rm-1", lambda _: rm_pb2.Answer(state_dump="1")) as conversation:
            await system.bus.request(subjects.question("rm-1", "state_dump"), timeout_s=5)
            assert not any(message.HasField("event") for message in conversation.heard)
        async with Conversation(system, "rm-1", lambda _: None, events=True) as conversation:
            # At once, unless the one that was cancelled had just taken it: then when its acknowledgement is overdue.
            await until(lambda: hears_event(conversation, "second"), within_s=45.0)


async def hears_event(conversation: Conversation, message: str) -> bool:
    """Maybe behind one that was heard before: they come at least once."""
    return message in [heard.event.message for heard in conversation.heard if heard.HasField("event")]


async def test_events_that_the_registration_has_not_declared_are_refused(system):
    async with client(system.port) as rm:
        await rm.register()
        async with Conversation(system, "rm-1", lambda _: None, events=True) as conversation:
            error = await failure(conversation.reading)
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert details(error)["ErrorInfo"].reason == "NO_EVENTS"


async def publish_event(system: System, message: str) -> None:
    record = si.EventRecord(type=si.EventRecord.APP, objectID="app-1", message=message)
    await system.bus.append(subjects.event("rm-1"), record.SerializeToString())


async def test_configuration_takes_effect(system):
    queues = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: only}]}]}]"
    async with client(system.port) as rm:
        await rm.register()
        async with Conversation(system, "rm-1", lambda _: None) as conversation:
            await conversation.stub.UpdateConfiguration(si.UpdateConfigurationRequest(rmID="rm-1", config=queues))
            applications = rm.open("application")
            new = si.AddApplicationRequest(
                applicationID="a", queueName="root.only", ugi=si.UserGroupInformation(user="alice")
            )
            await applications.write(si.ApplicationRequest(new=[new]))
            await told(applications, lambda responses: responses[-1].accepted)


async def test_a_later_conversation_takes_the_place_of_the_first(system):
    async with client(system.port) as rm:
        await rm.register()
        async with (
            Conversation(system, "rm-1", lambda _: rm_pb2.Answer(state_dump="1")) as first,
            Conversation(system, "rm-1", lambda _: rm_pb2.Answer(state_dump="2")),
        ):
            error = await failure(first.reading)
            assert error.code() == grpc.StatusCode.ABORTED
            reply = await system.bus.request(subjects.question("rm-1", "state_dump"), timeout_s=5)
            assert reply.payload == b"2"


async def test_refusals_and_bad_messages(system):
    async with client(system.port) as rm:
        await rm.register()
        async with Conversation(system, "rm-1", lambda _: rm_pb2.Answer(refusal="no dump here")):
            with pytest.raises(Refused, match="no dump here"):
                await system.bus.request(subjects.question("rm-1", "state_dump"), timeout_s=5)
        async with Conversation(system, "rm-1", lambda _: rm_pb2.Answer()) as conversation:
            with pytest.raises(Refused, match="ended its conversation"):
                await system.bus.request(subjects.question("rm-1", "state_dump"), timeout_s=5)
            error = await failure(conversation.reading)
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "expected state_dump" in error.details()
        for bad, field in (
            (rm_pb2.FromResourceManager(answer=rm_pb2.Answer()), "hello"),
            (rm_pb2.FromResourceManager(hello=rm_pb2.Hello(rm_id="a b")), "rmID"),
        ):
            async with grpc.aio.insecure_channel(f"localhost:{system.port}") as channel:
                call = resource_manager_pb2_grpc.ResourceManagerStub(channel).Converse()
                await call.write(bad)
                error = await failure(call.read())
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert details(error)["BadRequest"].field_violations[0].field == field
