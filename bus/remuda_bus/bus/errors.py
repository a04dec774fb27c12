"""The errors of the bus. Callers treat the four kinds differently:

- `Refused`: the other side understood the request and refused it (a wrong expectation, a service error). Nothing
  happened.
- `Full`: a stream is at its limit and refused the message. Nothing happened; a later attempt may succeed.
- `Unanswered`: no answer came in time. After a `request` the caller may ask again. After an `append` it is **unknown**
  whether the message is stored: a caller that must not append twice has to check first, or to end.
- `Unreadable`: what was read breaks a promise (a gap in an ordered reading, a missing stream).

`HistoryChanged` is of no such kind: durable messages are gone or have changed, and no waiting helps.
"""

from __future__ import annotations

from collections.abc import Mapping


class BusError(Exception):
    """An outage or a refusal of the bus."""


class Refused(BusError):
    """The other side refused the request. `code`: as in HTTP (400 unless the responder gave one)."""

    def __init__(self, reason: str, code: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Full(BusError):
    """A stream is at its limit. `of_subject`: only the limit of the subject is reached, so other RMs have room."""

    def __init__(self, reason: str, of_subject: bool = False) -> None:
        super().__init__(reason)
        self.of_subject = of_subject


class Unanswered(BusError):
    """No answer came in time, or the connection broke."""


class NoResponders(Unanswered):
    """The server reports that no process subscribes to the subject. Nothing happened."""


class Unreadable(BusError):
    """A stream, a consumer or a message cannot be read as promised."""


class ConsumerGone(Unreadable):
    """The durable consumer was deleted, or replaced by one with other metadata. `metadata`: that of the one that is
    there instead; None: there is none, or its metadata is not known."""

    def __init__(self, reason: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.metadata = metadata


class UnsuitableServer(BusError):
    """The NATS server is too old, or does not take messages of the size that is needed."""


class LogTrimmed(Unreadable):
    """The log was trimmed beyond the position from which it was to be read."""


class HistoryChanged(Exception):
    """A stream is shorter than, or differs from, what has been read of it or is known of it.

    Not a BusError: a loop that waits for the end of an outage must not catch it. All services stop their work for the
    RM (`rms.halts`)."""
