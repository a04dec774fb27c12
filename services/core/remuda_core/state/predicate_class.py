"""Asks that are equal to the RM's predicates, and the RM's verdicts about nodes for them."""

from __future__ import annotations

from collections.abc import Iterator

from .timers import NEVER_MS


class PredicateClass:
    """Stands as `PendingAsk.refused` of all asks of the class: a container of the nodes that the RM refuses for them.
    False, because it holds no refusals of one ask alone."""

    __slots__ = (
        "accepted", "answer_by_ms", "asked", "asks", "name", "question", "refusal", "refused", "until_ms",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.asks = 0  # asks of this class that are pending or in question
        # Verdicts in force: node ID -> when it ends, in ms; NEVER_MS: when the node changes.
        self.accepted: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.refusal = ""  # the last node that was refused, and why
        self.until_ms = NEVER_MS  # when a verdict ends by time: that of the timer; NEVER_MS: none does
        # The open question: its number (0: none), the nodes in it that have not changed since, and its deadline.
        self.question = 0
        self.asked: dict[str, None] = {}
        self.answer_by_ms = 0

    def __contains__(self, node_id: object) -> bool:
        """The RM refuses the node."""
        return node_id in self.refused

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[str]:
        """The refused nodes."""
        return iter(self.refused)

    @property
    def verdicts(self) -> int:
        return len(self.accepted) + len(self.refused)

    def accepts(self, node_id: str, now_ms: int) -> bool:
        """The RM has accepted the node, and the verdict is in force."""
        return self.accepted.get(node_id, 0) > now_ms

    def has_verdict(self, node_id: str) -> bool:
        return node_id in self.accepted or node_id in self.refused
