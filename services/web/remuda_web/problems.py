"""Errors as problem details (RFC 9457), with the members `field`, `value` and `expected` where they are known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from remuda_bus.bus import BusError, Refused
from remuda_bus.status_codes import UNAVAILABLE
from remuda_proto.bounds import shown

TYPE: Final = "application/problem+json"
# Refusals of a field: "rm is 'a b', expected the rmID ...", "message: expected ...", "uuid 'x': expected ...". The name
# of the query may stand before.
_REFUSED: Final = re.compile(
    r"(?:\w+: )?(?P<field>[a-z][\w.]*)(?: is (?P<is>.+?), |:? ?(?P<at>'.*?'|\d\S*)?: )expected (?P<expected>.+)"
)


_TITLES: Final = {one.value: one.phrase for one in HTTPStatus}


class Problem(Exception):
    """`status`: of HTTP. `detail`: for people; names field, value and what was expected. `more`: further members."""

    def __init__(self, status: int, detail: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.more = more or {}


def answer(status: int, detail: str, more: Mapping[str, Any] | None = None) -> Response:
    """`status`: also one that HTTP does not know, which a service of another version might send."""
    title = _TITLES.get(status, "Error")
    found = {"type": "about:blank", "title": title, "status": status, "detail": detail, **(more or {})}
    return Response(json.dumps(found), status, media_type=TYPE)


def problem_of(errors: Iterable[Mapping[str, Any]]) -> Problem:
    """The problem for errors of pydantic. Its members name the first error."""
    found = [
        {"field": ".".join(str(part) for part in one["loc"]), "value": shown(one.get("input")), "expected": one["msg"]}
        for one in errors
    ]
    detail = "; ".join(f"{one['field']}={one['value']}: {one['expected']}" for one in found)
    return Problem(400, detail, found[0] if found else None)


def refused(error: BusError) -> Problem:
    """The problem to answer when a service has refused a request, or when none has answered."""
    if not isinstance(error, Refused):
        return Problem(UNAVAILABLE, str(error))
    match = _REFUSED.fullmatch(error.reason)
    if match is None:
        return Problem(error.code, error.reason)
    value = match["is"] or match["at"]
    named = {"field": match["field"], "expected": match["expected"], **({"value": value} if value else {})}
    return Problem(error.code, error.reason, named)
