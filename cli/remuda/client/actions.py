"""Requests of operators for actions, on the subjects of `remuda_bus.subjects.administration`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, NoResponders, Refused, Unanswered
from remuda_bus.nats import Access

from .. import limits
from ..errors import UserError
from .operators import user_of_the_system

FORBIDDEN = 403


class Outcome(msgspec.Struct):
    """`outcome`: accepted, refused or undecided. `repeated`: the action was decided before. `overridden`: the soft
    rules that it breaks by force. `soft`: force would have allowed it."""

    outcome: str
    action_id: str
    reason: str = ""
    repeated: bool = False
    overridden: list[str] = []
    soft: bool = False


async def request(bus: Bus, rm: str, action: str, action_id: str, fields: Mapping[str, object]) -> Outcome:
    """Ask for an action and wait for the decision. Asks again, with the same ID, if rmproxy does not answer. Raises
    UserError if the request is invalid, no rmproxy answers, or the key is not that of an operator."""
    payload = json.dumps({"action_id": action_id, **fields}).encode()
    subject = subject_of(rm, action)
    now = asyncio.get_running_loop().time
    deadline, take_over = now() + limits.ACTS_WITHIN_S, now() + limits.TAKES_OVER_WITHIN_S
    while True:
        try:
            reply = await bus.request(subject, payload, timeout_s=limits.ACTION_ANSWERS_WITHIN_S)
            return msgspec.json.decode(reply.payload, type=Outcome)
        except Refused as refused:
            if refused.code == FORBIDDEN:
                raise UserError(
                    f"{refused.reason}: this key is not that of an operator (`remuda operator add` makes one)"
                ) from None
            raise UserError(refused.reason) from None
        except NoResponders:
            if now() >= take_over:
                raise UserError(
                    f"no rmproxy takes the request ({subject}): `remuda status` shows which services run; where keys "
                    "are in use, it takes the key of an operator (`remuda operator add`)"
                ) from None
            await asyncio.sleep(limits.LOOK_EVERY_S)
        except Unanswered as error:
            if now() >= deadline:
                return Outcome("undecided", action_id, f"no answer within {limits.ACTS_WITHIN_S:g} s ({error})")


def subject_of(rm: str, action: str) -> str:
    """With a key, the server states who the operator is. Raises UserError for a user without a usable name."""
    if Access.from_environment().seed is not None:
        return subjects.own_administration(rm, action)
    operator = user_of_the_system()
    return subjects.administration(operator.token, operator.groups_token, rm, action)
