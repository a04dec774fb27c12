"""Bodies of requests, read up to a bound."""

from __future__ import annotations

from starlette.requests import Request

from remuda_web import limits


class TooLarge(Exception):
    """The message names the bound."""


class NoText(Exception):
    """The body is not UTF-8. The message names the first wrong byte."""


async def body_of(request: Request) -> str:
    """The text of the body. Raises NoText; TooLarge above BODY_BYTES, where the rest is not read."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > limits.BODY_BYTES:
            raise TooLarge(f"the body is too large, expected at most {limits.BODY_BYTES} bytes")
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        wrong = f"byte {found[error.start]:#04x} at {error.start}"
        raise NoText(f"the body is not UTF-8 ({wrong}), expected UTF-8") from None
