"""Status codes of refused requests (header `Nats-Service-Error-Code` of a reply), with their meaning in HTTP."""

from __future__ import annotations

from typing import Final

FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
GONE: Final = 410  # a position whose messages are deleted
TOO_LARGE: Final = 413
BUSY: Final = 429
UNAVAILABLE: Final = 503
