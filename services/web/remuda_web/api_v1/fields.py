"""Fields of a request, from its body."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from remuda_web.bodies import NoText, TooLarge, body_of
from remuda_web.problems import Problem


async def fields_of(request: Request, *, has_text: bool) -> dict[str, Any]:
    """The fields of a JSON object. `has_text`: any other body is the field `text`. Raises Problem."""
    try:
        body = await body_of(request)
    except TooLarge as error:
        raise Problem(413, str(error)) from None
    except NoText as error:
        raise Problem(400, str(error)) from None
    if not body.strip():
        return {}
    is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
    if not is_json and has_text:
        return {"text": body}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"the body: {error}; expected a JSON object") from None
    if not isinstance(found, dict):
        raise Problem(400, f"the body is a {type(found).__name__}, expected a JSON object")
    return found
