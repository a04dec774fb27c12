"""Requests to the configuration service: queries, and changes in the name of an operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, NoResponders, Refused, Unanswered
from remuda_bus.nats import Access

from .. import limits
from ..errors import UserError
from .operators import user_of_the_system

Document = dict[str, Any]


async def query(bus: Bus, kind: str, request: Mapping[str, Any]) -> Document:
    """The reply of `remuda.api.config.<kind>`. Raises UserError."""
    return await _ask(bus, subjects.configuration_query(kind), request)


async def change(bus: Bus, verb: str, request: Mapping[str, Any]) -> Document:
    """The reply of a change: with `problems` alone when the text has some. Raises UserError."""
    if Access.from_environment().seed is not None:
        subject = subjects.own_configuration_change(verb)
    else:
        operator = user_of_the_system()
        subject = subjects.configuration_change(operator.token, operator.groups_token, verb)
    try:
        return await _ask(bus, subject, request)
    except NoResponders:
        raise UserError(
            "no configuration service takes the change: `remuda status` shows which services run; where keys are in "
            "use, it takes the key of an operator (`remuda operator add`)"
        ) from None
    except Unanswered as error:
        raise UserError(
            f"{error}. Whether the change was made is not known; `remuda config history` shows it"
        ) from None


async def _ask(bus: Bus, subject: str, request: Mapping[str, Any]) -> Document:
    payload = json.dumps(request, ensure_ascii=False).encode(errors="surrogatepass")
    try:
        reply = await bus.request(subject, payload, timeout_s=limits.CONFIGURATION_CHANGES_WITHIN_S)
    except Refused as refused:
        raise UserError(refused.reason) from None
    except ValueError as error:
        raise UserError(str(error)) from None
    answer: Document = json.loads(reply.payload)
    return answer
