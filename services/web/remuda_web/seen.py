"""The source of a request: as its caller may see it."""

from __future__ import annotations

from starlette.requests import Request

from remuda_web.callers import caller_of
from remuda_web.restricted import RestrictedSource
from remuda_web.source import Source


def source_for(request: Request, source: Source) -> Source:
    caller = caller_of(request)
    if caller.reads_all or caller.operator is None:
        return source
    return RestrictedSource(source, caller.operator)
