"""The answer to an operator's request: what the core decided. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from remuda_proto.remuda.v1 import log_pb2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an operator's action. `undecided`: no decision came in time; the command may be in the inbox, and
    asking again with the same action ID is safe. `repeated`: the action was decided before. `overridden`: the soft
    rules that the action breaks by force. `soft`: force would have allowed it.
    """

    outcome: Literal["accepted", "refused", "undecided"]
    action_id: str
    reason: str = ""
    repeated: bool = False
    overridden: tuple[str, ...] = ()
    soft: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def outcome_of(decision: log_pb2.Decision, action_id: str) -> Outcome:
    """Returns the outcome that a decision of the core states, under the action ID that the operator named."""
    for fact in decision.facts:
        match fact.WhichOneof("fact"):
            case "action_taken":
                taken = fact.action_taken
                return Outcome("accepted", action_id, "", taken.repeated, tuple(taken.overridden))
            case "action_refused":
                refused = fact.action_refused
                return Outcome("refused", action_id, refused.refusal, refused.repeated, soft=refused.soft)
    return Outcome("refused", action_id, "the core has not handled the action and gave no reason")
