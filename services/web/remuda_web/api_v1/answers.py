"""Answers as JSON with an entity tag."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from remuda_web import entity_tags


def tagged(request: Request, found: object) -> Response:
    """JSON with an entity tag; 304 if the client has it."""
    body = json.dumps(found, ensure_ascii=False).encode(errors="surrogatepass")
    headers = {"ETag": entity_tags.entity_tag(body), "Cache-Control": "no-cache"}
    if entity_tags.matches(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
