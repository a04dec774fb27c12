"""Queries to Peloton's resource manager: pools, why tasks and gangs wait, and their stories.

Requests and replies are JSON on `remuda.api.peloton.<cluster>.<kind>` (docs/queries.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, NoResponders, Refused, Unanswered
from remuda_bus.status_codes import FORBIDDEN
from remuda_bus.subjects import own_peloton_change, peloton_change, peloton_pools
from remuda_operations.operators import Operator
from remuda_operations.queries.errors import NoAnswer, RequestRefused

_KEYS: Final = (
    "changes of pools take the key of an operator in scheduler.acl (`remuda operator add`), or that of the role admin"
)
_WITHIN_S: Final = {"story": limits.STORY_TIMEOUT_S, "preview": limits.CONFIGURATION_CHANGE_TIMEOUT_S}


async def pools(bus: Bus, cluster: str, path: str = "/") -> list[dict[str, Any]]:
    """The pool and those below it, by path."""
    return await _all(bus, cluster, "pools", "pools", path=path)


async def explain(bus: Bus, cluster: str, sought: str) -> dict[str, Any]:
    return await ask(bus, cluster, "explain", id=sought)


async def story(bus: Bus, cluster: str, sought: str) -> list[dict[str, Any]]:
    """All lines, from the beginning of the log."""
    return await _all(bus, cluster, "story", "lines", id=sought)


async def _all(bus: Bus, cluster: str, kind: str, rows: str, **request: Any) -> list[dict[str, Any]]:
    """The rows of all pages."""
    page = await ask(bus, cluster, kind, **request)
    found: list[dict[str, Any]] = page[rows]
    while "next" in page:
        page = await ask(bus, cluster, kind, **request, after=page["next"])
        found += page[rows]
    return found


async def preview_pools(bus: Bus, cluster: str, text: str) -> dict[str, Any]:
    """Preview a text that describes all pools. The answer has the lists `changes` and `effects`. Raises RequestRefused,
    NoAnswer."""
    return await ask(bus, cluster, "preview", text=text)


async def change_pools(
    bus: Bus, cluster: str, request: Mapping[str, Any], operator: Operator | None = None
) -> dict[str, Any]:
    """Change pools of a cluster, and return the changes in words. `request`: all pools as `text`; or `path` with `set`,
    values by key, or `delete`. `operator`: in whose name; None: as the administrator of the system. Raises
    RequestRefused, NoAnswer."""
    if operator is None:
        subject = peloton_pools(cluster)
    else:
        subject = peloton_change(operator.token, operator.groups_token, cluster)
    return await _answered(bus, cluster, subject, request, limits.CONFIGURATION_CHANGE_TIMEOUT_S)


async def change_pools_by_key(bus: Bus, cluster: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the name of the owner of this connection's key: an operator, whose name the server knows, or the
    administrator of the system. In the account of the services, no process subscribes to the operator's subject."""
    own = own_peloton_change(cluster)
    try:
        return await _asked(bus, own, request, limits.CONFIGURATION_CHANGE_TIMEOUT_S)
    except NoResponders:
        pass
    except Refused as refused:
        hint = f": {_KEYS}" if refused.code == FORBIDDEN and refused.reason.endswith(own) else ""
        raise RequestRefused(refused.reason + hint, refused.code) from None
    except Unanswered:
        raise _no_answer(cluster) from None
    try:
        return await change_pools(bus, cluster, request)
    except RequestRefused as refusal:
        if refusal.code == FORBIDDEN:  # the key of an operator
            raise _no_answer(cluster) from None
        raise


async def ask(bus: Bus, cluster: str, kind: str, **request: Any) -> dict[str, Any]:
    """The answer to one query. Raises RequestRefused, NoAnswer."""
    within_s = _WITHIN_S.get(kind, limits.QUERY_TIMEOUT_S)
    return await _answered(bus, cluster, subjects.peloton_query(cluster, kind), request, within_s)


async def _answered(
    bus: Bus, cluster: str, subject: str, request: Mapping[str, Any], within_s: float
) -> dict[str, Any]:
    try:
        return await _asked(bus, subject, request, within_s)
    except Refused as refused:
        raise RequestRefused(refused.reason, refused.code) from None
    except Unanswered:
        raise _no_answer(cluster) from None


async def _asked(bus: Bus, subject: str, request: Mapping[str, Any], within_s: float) -> dict[str, Any]:
    """Raises BusError."""
    answer = await bus.request(subject, json.dumps(request).encode(), timeout_s=within_s)
    found: dict[str, Any] = msgspec.json.decode(answer.payload)
    return found


def _no_answer(cluster: str) -> NoAnswer:
    return NoAnswer(
        f"no resource manager of Peloton answers for the cluster {cluster!r}; `remuda status` shows which run"
    )
