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
        await _check(handler, si.PredicatesArgs.FromString(message.payload))
    return b""


async def answer_preemption_predicates(handler: Handler | None, message: Message) -> bytes:
    """Answer a PreemptionPredicatesArgs. Raises Refused with the reason that the handler returns."""
    args = si.PreemptionPredicatesArgs.FromString(message.payload)
    if handler is not None:
        await _check(handler, args)
    return si.PreemptionPredicatesResponse(success=True, index=args.startIndex).SerializeToString()


async def _check(handler: Handler, args: Any) -> None:
    reason = handler(args)
    if inspect.isawaitable(reason):
        reason = await reason
    if reason:
        raise Refused(str(reason), REFUSED)
