"""Entity tags of answers (RFC 9110, section 8.8.3). Pure."""

from __future__ import annotations

import hashlib


def entity_tag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(header: str, tag: str) -> bool:
    """Whether `If-None-Match` names the tag."""
    return header.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in header.split(","))
