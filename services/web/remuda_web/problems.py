"""Errors as problem details (RFC 9457)."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

TYPE: Final = "application/problem+json"


class Problem(Exception):
    """`status`: of HTTP. `detail`: for people; names field, value and what was expected."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def answer(status: int, detail: str) -> Response:
    shown = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(json.dumps(shown), status, media_type=TYPE)
