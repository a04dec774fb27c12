"""The position of the newest callback of an RM that comes from the log: publishing resumes behind it.

The headers of the callback hold the position. So there is no second record of it that could disagree with the
callbacks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from remuda_bus import subjects
from remuda_bus.bus import Bus, Headers, HistoryChanged
from remuda_bus.log import START, Position
from remuda_bus.untrusted import Malformed, number_in


@dataclass(frozen=True, slots=True)
class PublishedPosition:
    """`commit` and `fact` (its index in the commit): the last fact of the callback. `callback_seq`: the sequence of the
    callback in CALLBACKS. The default: nothing has been published."""

    commit: Position = START
    fact: int = -1
    callback_seq: int = 0

    def __str__(self) -> str:
        return f"{self.commit.seq}.{self.fact}"


def position_in(headers: Headers, callback_seq: int) -> PublishedPosition:
    """Raises Malformed."""
    return PublishedPosition(Position.of(headers), number_in(headers, subjects.LOG_FACT), callback_seq)


async def read_published_position(bus: Bus, rm_id: str) -> PublishedPosition:
    """Callbacks about dead letters do not come from the log and hold no position. Raises HistoryChanged when the newest
    callback was not written by rmproxy: where to resume is not known then."""
    newest = await asyncio.gather(
        *(bus.last_message(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS)
    )
    try:
        positions = [
            position_in(message.headers, message.seq)
            for message in newest
            if message is not None and subjects.LOG_SEQ in message.headers
        ]
    except Malformed as problem:
        raise HistoryChanged(f"the newest callback is none of ours: {problem}") from None
    return max(positions, key=lambda one: (one.commit.seq, one.fact), default=PublishedPosition())
