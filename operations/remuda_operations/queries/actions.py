"""Requests of operators for actions, on the subjects of `remuda_bus.subjects.administration`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, NoResponders, Refused, Unanswered
from remuda_bus.status_codes import FORBIDDEN
from remuda_operations.operators import Operator
from remuda_operations.queries.errors import NoAnswer, RequestRefused

# rmproxy answers within ten seconds, decided or not. Without an answer, the same request is sent again for
# ACTION_DECIDED_WITHIN_S.
ACTION_TIMEOUT_S = 12.0
ACTION_DECIDED_WITHIN_S = 24.0
# Another rmproxy takes over within a second.
RMPROXY_TAKES_OVER_WITHIN_S = 3.0
RMPROXY_RETRY_S = 0.25


class Outcome(msgspec.Struct):
    """`outcome`: accepted, refused or undecided. `repeated`: the action was decided before. `overridden`: the soft
    rules that it breaks by force. `soft`: force would have allowed it."""

    outcome: str
    action_id: str
    reason: str = ""
    repeated: bool = False
    overridden: list[str] = []
    soft: bool = False


async def request(
    bus: Bus, operator: Operator | None, rm: str, action: str, action_id: str, fields: Mapping[str, object]
) -> Outcome:
    """Ask for an action and wait for the decision. Asks again, with the same ID, if rmproxy does not answer.

    `operator`: in whose name; None: the NATS server knows the operator by the key of this connection. Raises
    RequestRefused if the request is invalid or the key is not that of an operator, NoAnswer if no rmproxy runs."""
    payload = json.dumps({"action_id": action_id, **fields}).encode()
    subject = subject_of(operator, rm, action)
    now = asyncio.get_running_loop().time
    deadline, take_over = now() + ACTION_DECIDED_WITHIN_S, now() + RMPROXY_TAKES_OVER_WITHIN_S
    while True:
        try:
            reply = await bus.request(subject, payload, timeout_s=ACTION_TIMEOUT_S)
            return msgspec.json.decode(reply.payload, type=Outcome)
        except Refused as refused:
            reason = refused.reason
            if refused.code == FORBIDDEN:
                reason += ": this key is not that of an operator (`remuda operator add` makes one)"
                if operator is not None:
                    reason += f", nor of a front end that may act as {operator.name} (`remuda operator front-end`)"
            raise RequestRefused(reason, refused.code) from None
        except NoResponders:
            if now() >= take_over:
                raise NoAnswer(
                    f"no rmproxy takes the request ({subject}): `remuda status` shows which services run; where keys "
                    "are in use, it takes the key of an operator (`remuda operator add`)"
                ) from None
            await asyncio.sleep(RMPROXY_RETRY_S)
        except Unanswered as error:
            if now() >= deadline:
                return Outcome("undecided", action_id, f"no answer within {ACTION_DECIDED_WITHIN_S:g} s ({error})")


def subject_of(operator: Operator | None, rm: str, action: str) -> str:
    if operator is None:
        return subjects.own_administration(rm, action)
    return subjects.administration(operator.token, operator.groups_token, rm, action)
