"""Pages of queries: tokens for the next page. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from remuda_web.problems import Problem
from remuda_web.source import LISTS


def token_of(after: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(after, separators=(",", ":")).encode()).decode().rstrip("=")


def after_of(token: str) -> Any:
    """Raises Problem."""
    try:
        found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise Problem(400, f"after={token[:64]!r}: expected the `next` of the page before")
    return found


def page(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of a core, with its rows in `rows` and a token in `next`."""
    following = answer.pop("next", None)
    rows = answer.pop(LISTS[kind])
    return {**answer, "rows": rows, "next": None if following is None else token_of(following)}
