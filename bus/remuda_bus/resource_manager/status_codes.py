"""Status codes of refused requests (header `Nats-Service-Error-Code` of a reply). They have the meaning they have in
HTTP."""

from __future__ import annotations

from typing import Final

REFUSED: Final = 409
INTERNAL: Final = 500  # from here on, the request itself was not refused
WRONG_CONFIGURATION: Final = 422  # of a registration
OUTAGE: Final = 503
