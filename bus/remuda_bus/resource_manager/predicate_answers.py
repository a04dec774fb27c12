"""Answers to the scheduler's predicate requests (000, Predicates)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from remuda_bus.bus import Message, Refused
from remuda_bus.resource_manager.status_codes import REFUSED
from remuda_proto.si.v1 import si_pb2 as si

Handler = Callable[[Any], Any]


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
