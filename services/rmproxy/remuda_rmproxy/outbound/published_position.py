"""The position of the newest callback of an RM that comes from the log: publishing resumes behind it.

The headers of the callback hold the position. So there is no second record of it that could disagree with the
callbacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from remuda_bus import subjects
from remuda_bus.bus import Bus, Headers, HistoryChanged, Message, Unanswered
from remuda_bus.untrusted import Malformed, number_in
from remuda_replication.log import START, Position
from remuda_rmproxy import limits

DEAD_LETTER = "dead_letter"


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
    """Raises HistoryChanged when the newest callback was not written by rmproxy: where to resume is not known then."""
    newest = await asyncio.gather(
        *(bus.last_message(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS)
    )
    position = _newest_position(message for message in newest if message is not None)
    dead_letter = newest[subjects.CALLBACK_KINDS.index(DEAD_LETTER)]
    if dead_letter is None or subjects.LOG_SEQ in dead_letter.headers or dead_letter.seq < position.callback_seq:
        return position
    behind = _newest_position(await _dead_letters(bus, rm_id, position.callback_seq, dead_letter.seq))
    return behind if behind.callback_seq else position


def _newest_position(callbacks: Iterable[Message]) -> PublishedPosition:
    """Callbacks that do not come from the log hold no position. Raises HistoryChanged."""
    try:
        positions = [
            position_in(message.headers, message.seq) for message in callbacks if subjects.LOG_SEQ in message.headers
        ]
    except Malformed as problem:
        raise HistoryChanged(f"the newest callback is none of ours: {problem}") from None
    return max(positions, key=lambda one: (one.commit.seq, one.fact), default=PublishedPosition())


async def _dead_letters(bus: Bus, rm_id: str, after: int, last: int) -> list[Message]:
    """Callbacks about dead letters come from the log, when the core has refused a configuration, or from the forwarder
    of requests. So one without a position may be behind one with it. The CALLBACKS sequences are `after`, exclusive,
    to `last`. Raises Unanswered."""
    reader = await bus.read(subjects.CALLBACKS.name, subjects.callback(rm_id, DEAD_LETTER), after)
    found: list[Message] = []
    try:
        while not found or found[-1].seq < last:
            batch = await reader.batch(timeout_s=limits.DEAD_LETTER_CALLBACKS_READ_WITHIN_S)
            if not batch:
                raise Unanswered(f"no callback {last} of {rm_id!r} in {subjects.CALLBACKS.name}")
            found += batch
    finally:
        await reader.close()
    return found
