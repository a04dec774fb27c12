"""Answers to the scheduler's predicate requests (000, Predicates)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.status_codes import REFUSED

Handler = Callable[[Any], Any]


# Keys of extraConfig at the registration (000, extraConfig).
PREDICATES = "predicates"  # the scheduler asks the RM before it places an ask: "true", or "batch"
PREEMPTION_PREDICATES = "preemption_predicates"  # the scheduler asks the RM before it preempts
BATCH = "batch"


async def serve_predicates(
    bus: Bus, rm_id: str, declared: MutableMapping[str, str], may: Handler | None, may_many: Handler | None,
    may_preempting: Handler | None,
) -> None:  # fmt: skip
    """Declare the predicates that have handlers, and answer questions about those that are declared. A declared
    predicate without a handler is always true."""
    if may_many is not None:
        declared[PREDICATES] = BATCH
    elif may is not None:
        declared[PREDICATES] = "true"
    if may_preempting is not None:
        declared[PREEMPTION_PREDICATES] = "true"
    kind = declared.get(PREDICATES, "").lower()
    answers: dict[str, Callable[[Message], Awaitable[bytes]]] = {}
    if kind == "true":
        answers["predicates"] = partial(answer_predicates, may)
    elif kind == BATCH:
        answers["batch_predicates"] = partial(answer_batch, may_many)
    if declared.get(PREEMPTION_PREDICATES, "").lower() == "true":
        answers["preemption_predicates"] = partial(answer_preemption_predicates, may_preempting)
    for name, answer in answers.items():
        await bus.serve(subjects.question(rm_id, name), answer, name)


async def answer_state_dump(handler: Callable[[], Any], message: Message) -> bytes:
    """Answer with the text that the handler returns."""
    text = handler()
    if inspect.isawaitable(text):
        text = await text
    return str(text).encode()


async def answer_batch(handler: Handler | None, message: Message) -> bytes:
    """Answer a BatchPredicatesRequest with the verdicts that the handler returns. Without a handler, every node is
    accepted."""
    request = predicates_pb2.BatchPredicatesRequest.FromString(message.payload)
    if handler is None:
        verdicts: Any = [predicates_pb2.NodeVerdict(node_id=node_id, accepted=True) for node_id in request.node_ids]
    else:
        verdicts = handler(request)
        if inspect.isawaitable(verdicts):
            verdicts = await verdicts
    return predicates_pb2.BatchPredicatesResponse(verdicts=verdicts).SerializeToString()


async def answer_predicates(handler: Handler | None, message: Message) -> bytes:
    """Answer a PredicatesArgs with an empty reply. Raises Refused with the reason that the handler returns. Without a
    handler, every node is accepted."""
    if handler is not None:
        _refuse_if(await _answer_of(handler, si.PredicatesArgs.FromString(message.payload)))
    return b""


async def answer_preemption_predicates(handler: Handler | None, message: Message) -> bytes:
    """Answer a PreemptionPredicatesArgs. A handler returns the response, or the reason of a refusal: then this raises
    Refused."""
    args = si.PreemptionPredicatesArgs.FromString(message.payload)
    answer = None if handler is None else await _answer_of(handler, args)
    if isinstance(answer, si.PreemptionPredicatesResponse):
        return answer.SerializeToString()
    _refuse_if(answer)
    return si.PreemptionPredicatesResponse(success=True, index=args.startIndex).SerializeToString()


async def _answer_of(handler: Handler, args: Any) -> Any:
    answer = handler(args)
    return await answer if inspect.isawaitable(answer) else answer


def _refuse_if(reason: Any) -> None:
    if reason:
        raise Refused(str(reason), REFUSED)
