"""`remuda action RM [ID]`: what was decided about the actions of operators.

Exit codes, of one action: 0 accepted, 1 refused, 3 not decided as far as the core remembers.
"""

from __future__ import annotations

import msgspec

from remuda_operations.queries import core as queries
from remuda_operations.queries.rows import Action

from ..client.connections import answered
from ..errors import Undecided, UserError
from ..terminal.output import console, table_of


def outcomes(url: str, rm: str, action_id: str | None, as_json: bool) -> None:
    """Raises UserError, Undecided."""
    found = answered(url, lambda bus: queries.outcomes(bus, rm, action_id))
    if as_json:
        print(msgspec.json.encode(found).decode())
    elif found:
        console.print(table_of("action", "operator", "does", "to", "outcome", "why", rows=map(_cells, found)))
    if action_id is None:
        return
    if not found:
        raise Undecided(f"action {action_id} in {rm}: no decision is known; the core remembers the last 1,000 of an RM")
    if all(one.outcome == "refused" for one in found):
        raise UserError(f"action {action_id} in {rm} is refused: {found[0].refusal}")


def _cells(one: Action) -> list[str]:
    what = f"{one.kind} {one.priority}" if one.kind == "ChangeAskPriority" else one.kind
    forced = (f"by force: {rule}" for rule in one.overridden or ())
    why = "; ".join(filter(None, (one.refusal or "", *forced, one.reason)))
    return [one.action_id.partition("/")[2], one.operator, what, one.target, one.outcome, why]
