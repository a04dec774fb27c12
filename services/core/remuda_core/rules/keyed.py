"""Maps of maps without empty ones: what is listed under each key."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


def unlist(listed: MutableMapping[K, dict[V, Any]], key: K, item: V) -> None:
    """Remove an item, and its key with the last one."""
    items = listed[key]
    del items[item]
    if not items:
        del listed[key]
