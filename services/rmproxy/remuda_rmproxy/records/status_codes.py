"""Status codes of refused requests (header `Nats-Service-Error-Code` of a reply). They have the meaning they have in
HTTP."""

from __future__ import annotations

from typing import Final

INVALID: Final = 400
FORBIDDEN: Final = 403
NOT_REGISTERED: Final = 404
SUPERSEDED: Final = 409
UNPROCESSABLE: Final = 422
TOO_MANY: Final = 429
OUTAGE: Final = 503
