"""The errors of requests to services, in words for an operator. Both are errors of the bus of the same kind."""

from __future__ import annotations

from remuda_bus.bus import Refused, Unanswered


class RequestRefused(Refused):
    """A service refuses the request. `code`: as in HTTP: 400 invalid, 404 unknown, 429 too many, 503 not now."""


class NoAnswer(Unanswered):
    """No service answers. The message says which one should, and how to look for it."""
