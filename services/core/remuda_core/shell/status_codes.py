"""Status codes of refused questions (header `Nats-Service-Error-Code` of a reply). They have the meaning they have in
HTTP."""

from __future__ import annotations

from typing import Final

NOT_FOUND: Final = 404
BUSY: Final = 429
UNAVAILABLE: Final = 503
