"""Which senders without a record have requests in the queue that they share. Pure."""

from __future__ import annotations

from remuda_rmproxy import limits


class UnknownSenders:
    """Of a sender that has a record later, the requests in the shared queue come first in a queue of its own. All other
    RMs must not look for any there: that takes a reading of REQUESTS."""

    def __init__(self) -> None:
        self._first_seq: dict[str, int] = {}
        self._first_untracked_seq = 0  # of the senders beyond the bound; 0: there is none

    def add(self, rm_id: str, seq: int) -> None:
        if rm_id in self._first_seq:
            return
        if len(self._first_seq) < limits.UNKNOWN_SENDERS_TRACKED:
            self._first_seq[rm_id] = seq
        else:
            self._first_untracked_seq = self._first_untracked_seq or seq

    def pop(self, rm_id: str) -> int:
        """The sender has a record: sequence of its first request in the shared queue; 0: it has none there."""
        return self._first_seq.pop(rm_id, self._first_untracked_seq)

    def clear(self) -> None:
        """The shared queue is empty."""
        self._first_seq.clear()
        self._first_untracked_seq = 0
