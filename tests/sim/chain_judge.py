"""Judges the messages of a log by themselves, independently of the services: which commit is in force."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from remuda_bus.bus import Message
from remuda_replication.log import Position, join_parts

from .story import Story


class ChainJudge:
    """`voided`: messages that are no part of the chain."""

    def __init__(self, commit_class: type[Any], story: Story) -> None:
        self.voided = 0
        self._commit_class = commit_class
        self._story = story
        self._head = Position()
        self._tip = Position()
        self._parts: list[Any] = []

    def judge(self, message: Message) -> Any | None:
        """The commit that is in force with this message; None: it is void, or a part of what is to come."""
        part = self._commit_class.FromString(message.payload)
        tip = self._tip if part.part else self._head
        if (part.parent, part.parent_hash) != (tip.seq, tip.hash) or (part.part and part.part != len(self._parts)):
            self.voided += 1
            self._story.tell(f"void at {message.seq}: it hangs on {part.parent}, the head is {self._head.seq}")
            return None
        self._parts = [*(self._parts if part.part else ()), part]
        self._tip = Position(message.seq, sha256(message.payload).digest())
        if part.more:
            return None
        self._head, parts, self._parts = self._tip, self._parts, []
        return join_parts(parts)
