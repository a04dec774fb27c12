"""Times as the API server wants them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal


def now_text(precision: Literal["seconds", "microseconds"] = "microseconds") -> str:
    """The time now, in RFC 3339."""
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
