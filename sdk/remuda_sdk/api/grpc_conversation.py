"""The stream of `remuda.v1.ResourceManager`: the scheduler's questions, scheduling states, events and dead letters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc

from remuda_proto.remuda.v1 import resource_manager_pb2 as rm_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api.grpc_reopening import Metadata, OpenChannel, Receive, ReopenedStream, Report
from remuda_sdk.resource_manager.callbacks import DeadLetter

SERVICE: Final = "/remuda.v1.ResourceManager"


class GrpcConversation(ReopenedStream):
    """`questions`: by their kind, what answers them. `events`: the RM has declared events. `opened`: is set when the
    front end sends the RM what it has for it."""

    def __init__(
        self,
        hello: rm_pb2.Hello,
        questions: Mapping[str, Callable[..., Awaitable[Any]]],
        open_channel: OpenChannel,
        metadata: Metadata,
        receive: Receive,
        report: Report,
    ) -> None:
        super().__init__(f"{SERVICE}/Converse", open_channel, metadata, receive, report)
        self._hello = hello
        self._questions = questions
        self._writing = asyncio.Lock()  # gRPC takes one message at a time
        self._answering: set[asyncio.Task[None]] = set()
        self.opened = asyncio.Event()

    async def _exchange(self, call: Any) -> None:
        try:
            await call.write(rm_pb2.FromResourceManager(hello=self._hello).SerializeToString())
            await call.initial_metadata()
            self.opened.set()
            while (payload := await call.read()) is not grpc.aio.EOF:
                await self._take(call, rm_pb2.ToResourceManager.FromString(payload))
        finally:
            for task in self._answering:
                task.cancel()

    async def _take(self, call: Any, message: rm_pb2.ToResourceManager) -> None:
        match message.WhichOneof("message"):
            case "question":
                task = asyncio.get_running_loop().create_task(self._answer(call, message.question))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case "container":
                await self._receive("container", message.container)
            case "event":
                await self._receive("event", [message.event])
            case "dead_letter":
                record = message.dead_letter
                await self._receive("dead_letter", DeadLetter(record.message, int(record.referenceID or 0)))

    async def _answer(self, call: Any, question: rm_pb2.Question) -> None:
        answer = rm_pb2.Answer(number=question.number)
        kind = question.WhichOneof("question") or ""
        ask = self._questions.get(kind)
        try:
            if ask is None:
                answer.refusal = f"the RM has no answer to {kind}"
            elif kind == "state_dump":
                answer.state_dump = await ask()
            else:
                _set(answer, kind, await ask(getattr(question, kind)))
        except Exception as error:  # noqa: BLE001 - the front end gets it, and the person that reads the refusal
            answer.refusal = f"{type(error).__name__}: {error}"
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it has ended: a refusal
            async with self._writing:
                await call.write(rm_pb2.FromResourceManager(answer=answer).SerializeToString())


def _set(answer: rm_pb2.Answer, kind: str, given: Any) -> None:
    """`given`: the response to a question of this kind, or the reason of a refusal."""
    if kind == "batch_predicates":
        answer.batch_predicates.verdicts.extend(given)
    elif isinstance(given, si.PreemptionPredicatesResponse):
        answer.preemption_predicates.CopyFrom(given)
    elif given:
        answer.refusal = str(given)
    elif kind == "preemption_predicates":
        answer.preemption_predicates.success = True
