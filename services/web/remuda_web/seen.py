"""The part of a source that the caller of a request may see."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from remuda_web.callers import caller_of
from remuda_web.restricted import RestrictedSource
from remuda_web.source import Source


def source_for(request: Request, source: Source) -> Source:
    caller = caller_of(request)
    if caller.reads_all or caller.operator is None:
        return source
    return RestrictedSource(source, caller.operator)


async def sees_use(request: Request, source: Source, rm: str) -> Callable[[str, str, str], bool] | None:
    """A predicate of a partition, a queue and a user: whether the caller sees what the user has used in the queue;
    None: the caller sees all use. Raises Unreadable."""
    seen = source_for(request, source)
    return await seen.sees_use(rm) if isinstance(seen, RestrictedSource) else None


async def sees_queue(request: Request, source: Source, rm: str, partition: str, path: str) -> bool:
    """Raises Unreadable."""
    seen = source_for(request, source)
    return not isinstance(seen, RestrictedSource) or await seen.sees_queue(rm, partition, path)
