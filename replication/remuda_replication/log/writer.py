"""Appends commits to the log of one RM, as its leader."""

from __future__ import annotations

import asyncio

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError, Headers, NoResponders, Refused, Unanswered
from remuda_bus.streams.history_check import digest_of
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log.chain import Position, split_commit


class LostLeadership(BusError):
    """A commit was refused, or it is unknown whether it was written. Its leader must not decide anything further."""


class LogWriter:
    """Appends the commits of the leader of one RM, one append at a time. `position`: the last commit in force, which is
    the parent of the next one. `last_seq`: the stream sequence of the last message on the subject, valid or void
    (`LogReader.last_seq` after `read_to_end()`)."""

    def __init__(self, bus: Bus, rm_id: str, position: Position, last_seq: int | None = None) -> None:
        self._bus = bus
        self._subject = subjects.log(rm_id)
        self._limit = bus.max_payload - limits.HEADER_ROOM_BYTES
        self._last_seq = position.seq if last_seq is None else last_seq
        self._lost: str | None = None
        self.position = position

    async def append(self, commit: log_pb2.Commit, headers: Headers | None = None) -> Position:
        """Append a commit and return its position once it is durable and in force. Fills in parent, parent_hash, part
        and more.

        Raises LostLeadership, and from then on always; Full or NoResponders, after which the same commit may be tried
        again; FactTooLarge."""
        if self._lost is not None:
            raise LostLeadership(self._lost)
        parts = list(split_commit(commit, self._limit))
        tip = self.position
        for number, part in enumerate(parts):
            part.parent, part.parent_hash = tip.seq, tip.hash
            part.part, part.more = number, number < len(parts) - 1
            payload = part.SerializeToString()
            tip = Position(await self._write(payload, headers), digest_of(payload))
        self.position = tip
        return tip

    async def _write(self, payload: bytes, headers: Headers | None) -> int:
        try:
            self._last_seq = await self._bus.append(
                self._subject, payload, headers, expect_last=self._last_seq, timeout_s=limits.APPEND_TIMEOUT_S
            )
        except Refused as error:
            self._lost = f"{self._subject}: another process has written after {self._last_seq} ({error.reason})"
            raise LostLeadership(self._lost) from error
        except NoResponders:
            raise  # no stream has received it, so nothing is in doubt
        except Unanswered as error:
            self._lost = (
                f"{self._subject}: whether the commit after {self._last_seq} was written is not known ({error})"
            )
            raise LostLeadership(self._lost) from error
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                self._lost = f"{self._subject}: an append was cancelled"
            raise
        return self._last_seq
