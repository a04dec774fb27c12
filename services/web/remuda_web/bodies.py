"""Bodies of requests, read up to a bound."""

from __future__ import annotations

from starlette.requests import Request

from remuda_web import limits


class TooLarge(Exception):
    """The message names the bound."""


async def body_of(request: Request) -> str:
    """The text of the body. Raises TooLarge above BODY_BYTES; the rest of such a body is not read."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > limits.BODY_BYTES:
            raise TooLarge(f"the body is too large, expected at most {limits.BODY_BYTES} bytes")
    return found.decode(errors="replace")
