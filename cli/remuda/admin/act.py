"""`remuda kill`, `move`, `hold`, `drain` and so on: ask for an action and show what was decided.

Exit codes: 0 accepted; 1 refused, or not possible; 3 not decided yet, or not known.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from remuda_operations.queries import actions
from remuda_operations.queries.actions import Outcome

from ..client.connections import bus_at
from ..client.operators import operator
from ..errors import Undecided, UserError
from ..terminal import event_loop
from ..terminal.output import console


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at an action. `fields`: those of the action's message in `inbox.proto`. `action_id`: of an earlier
    attempt.
    """

    rm: str
    action: str
    fields: Mapping[str, str | int | Mapping[str, int]] = field(default_factory=dict)
    reason: str = ""
    partition: str = ""
    force: bool = False
    action_id: str | None = None


def act(url: str, attempt: Attempt, done: str, as_json: bool, force: str = "--force") -> None:
    """Asks for an action and prints its outcome.

    `done`: what holds once the action is accepted. `force`: the option that overrides soft rules. Raises UserError,
    Undecided.
    """
    outcome = event_loop.run(lambda: _request(url, attempt))
    if as_json:
        print(msgspec.json.encode(outcome).decode())
    what = f"{attempt.action.replace('_', ' ')} in {attempt.rm}"
    match outcome.outcome:
        case "accepted":
            if not as_json:
                console.print(f"{done}{remarks(outcome)}", markup=False, soft_wrap=True)
        case "refused":
            override = f"; {force} overrides this" if outcome.soft else ""
            raise UserError(f"{what} is refused: {outcome.reason}{override}")
        case _:
            raise Undecided(
                f"{what} is not decided yet: {outcome.reason}; to ask again: --action-id {outcome.action_id}"
            )


def remarks(outcome: Outcome) -> str:
    found = ["it was done before"] if outcome.repeated else []
    found += [outcome.reason] if outcome.reason else []
    found += [f"by force: {rule}" for rule in outcome.overridden]
    return f" ({'; '.join(found)})" if found else ""


async def _request(url: str, attempt: Attempt) -> Outcome:
    options = {"reason": attempt.reason, "partition": attempt.partition, "force": attempt.force}
    async with bus_at(url) as bus:
        action_id = attempt.action_id or secrets.token_hex(8)
        return await actions.request(
            bus, operator(), attempt.rm, attempt.action, action_id, {**attempt.fields, **options}
        )
