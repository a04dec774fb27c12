"""Queries to Peloton's resource manager: pools, why tasks and gangs wait, and their stories.

Requests and replies are JSON on `remuda.api.peloton.<cluster>.<kind>` (docs/queries.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Refused, Unanswered
from remuda_bus.operator_subjects import peloton_pools
from remuda_bus.queries.errors import NoAnswer, RequestRefused


async def pools(bus: Bus, cluster: str, path: str = "/") -> list[dict[str, Any]]:
    """The pool and those below it, by path."""
    page = await ask(bus, cluster, "pools", path=path)
    found: list[dict[str, Any]] = page["pools"]
    while "next" in page:
        page = await ask(bus, cluster, "pools", path=path, after=page["next"])
        found += page["pools"]
    return found


async def explain(bus: Bus, cluster: str, sought: str) -> dict[str, Any]:
    return await ask(bus, cluster, "explain", id=sought)


async def story(bus: Bus, cluster: str, sought: str) -> list[dict[str, Any]]:
    """All lines, from the beginning of the log."""
    page = await ask(bus, cluster, "story", id=sought)
    found: list[dict[str, Any]] = page["lines"]
    while "next" in page:
        page = await ask(bus, cluster, "story", id=sought, after=page["next"])
        found += page["lines"]
    return found


async def change_pools(bus: Bus, cluster: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """What has changed, in words. `request`: all pools as `text`; or `path` with `set`, values by key, or `delete`.
    Raises RequestRefused, NoAnswer."""
    return await _answered(bus, cluster, peloton_pools(cluster), request, limits.CONFIGURATION_CHANGE_TIMEOUT_S)


async def ask(bus: Bus, cluster: str, kind: str, **request: Any) -> dict[str, Any]:
    """The answer to one query. Raises RequestRefused, NoAnswer."""
    within_s = limits.STORY_TIMEOUT_S if kind == "story" else limits.QUERY_TIMEOUT_S
    return await _answered(bus, cluster, subjects.peloton_query(cluster, kind), request, within_s)


async def _answered(
    bus: Bus, cluster: str, subject: str, request: Mapping[str, Any], within_s: float
) -> dict[str, Any]:
    try:
        answer = await bus.request(subject, json.dumps(request).encode(), timeout_s=within_s)
    except Refused as refused:
        raise RequestRefused(refused.reason, refused.code) from None
    except Unanswered:
        raise NoAnswer(
            f"no resource manager of Peloton answers for the cluster {cluster!r}; `remuda status` shows which run"
        ) from None
    found: dict[str, Any] = msgspec.json.decode(answer.payload)
    return found
