"""Parameters of requests: one that a path lacks is refused, so that no answer shows more than was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Depends, Request
from fastapi.params import Depends as Dependency

from remuda_bus.bus import Refused
from remuda_operations.queries.fields import unknown_field
from remuda_web.problems import refused


def only(known: Sequence[str]) -> list[Dependency]:
    """The dependencies of a route that raise Problem if the query of a request has a parameter that is not `known`."""

    async def check(request: Request) -> None:
        for name, value in request.query_params.items():
            if name not in known:
                raise refused(Refused(unknown_field(name, value, known)))

    return [Depends(check)]
