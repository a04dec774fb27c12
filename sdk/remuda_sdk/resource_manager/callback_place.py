"""The place in the log that a callback is derived from. Pure."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.untrusted import number_in

Place = tuple[int, int]  # stream sequence of the commit, index of the fact in it
NOWHERE: Place = (0, -1)


def place_of(message: Message) -> Place:
    """Raises Malformed when the headers are not numbers."""
    return number_in(message.headers, subjects.LOG_SEQ, 0), number_in(message.headers, subjects.LOG_FACT, 0)
