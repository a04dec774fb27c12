"""Requests to the configuration service: queries, and changes in the name of an operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, NoResponders, Refused, Unanswered
from remuda_operations.operators import Operator
from remuda_operations.queries.errors import NoAnswer, RequestRefused

Document = dict[str, Any]


async def query(bus: Bus, kind: str, request: Mapping[str, Any]) -> Document:
    """The reply of `remuda.api.config.<kind>`. Raises RequestRefused, NoAnswer."""
    return await _ask(bus, subjects.configuration_query(kind), request)


async def change(bus: Bus, operator: Operator | None, verb: str, request: Mapping[str, Any]) -> Document:
    """The reply of a change: with `problems` alone when the text has some. `operator`: as in `actions.request`. Raises
    RequestRefused; NoAnswer, which says whether the change may have been made."""
    if operator is None:
        subject = subjects.own_configuration_change(verb)
    else:
        subject = subjects.configuration_change(operator.token, operator.groups_token, verb)
    try:
        return await _ask(bus, subject, request)
    except NoResponders:
        raise NoAnswer(
            "no configuration service takes the change: `remuda status` shows which services run; where keys are in "
            "use, it takes the key of an operator (`remuda operator add`)"
        ) from None
    except Unanswered as error:
        raise NoAnswer(f"{error}. Whether the change was made is not known; `remuda config history` shows it") from None


async def _ask(bus: Bus, subject: str, request: Mapping[str, Any]) -> Document:
    payload = json.dumps(request, ensure_ascii=False).encode(errors="surrogatepass")
    try:
        reply = await bus.request(subject, payload, timeout_s=limits.CONFIGURATION_CHANGE_TIMEOUT_S)
    except Refused as refused:
        raise RequestRefused(refused.reason, refused.code) from None
    except ValueError as error:
        raise RequestRefused(str(error)) from None
    answer: Document = json.loads(reply.payload)
    return answer
