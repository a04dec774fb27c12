"""Status codes of refused requests (header `Nats-Service-Error-Code` of a reply). They have the meaning they have in
HTTP."""

from __future__ import annotations

from typing import Final

NOT_REGISTERED: Final = 404
REFUSED: Final = 409
INTERNAL: Final = 500  # from here on, the request itself was not refused
TOO_MANY: Final = 429
WRONG_CONFIGURATION: Final = 422  # of a registration
OUTAGE: Final = 503
