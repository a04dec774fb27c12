"""Counts the forwarded commands of each RM that the core has not handled yet. Pure.

The requests of an RM whose backlog is full wait in the stream REQUESTS, which has a limit for each RM.
"""

from __future__ import annotations

from collections import deque

from remuda_rmproxy import limits


class InboxBacklog:
    def __init__(self) -> None:
        self._by_rm: dict[str, _UnhandledCommands] = {}

    def record_forwarded(self, rm_id: str, inbox_seq: int, commands: int, size: int) -> None:
        """Records that commands of together `size` bytes are in the inbox, the last of them at `inbox_seq`."""
        self._by_rm.setdefault(rm_id, _UnhandledCommands()).append(inbox_seq, commands, size)

    def record_handled(self, rm_id: str, inbox_seq: int) -> None:
        """Records that the core has handled the inbox up to `inbox_seq`."""
        unhandled = self._by_rm.get(rm_id)
        if unhandled is not None:
            unhandled.remove_up_to(inbox_seq)
            if not unhandled.batches:
                del self._by_rm[rm_id]

    def is_full(self, rm_id: str) -> bool:
        unhandled = self._by_rm.get(rm_id)
        return unhandled is not None and unhandled.is_full

    def drop(self, rm_id: str) -> None:
        """Forgets the backlog of an RM: its inbox is empty, or the RM is gone."""
        self._by_rm.pop(rm_id, None)


class _UnhandledCommands:
    def __init__(self) -> None:
        self.batches: deque[tuple[int, int, int]] = deque()  # inbox sequence of the last command, commands, bytes
        self._commands = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._commands >= limits.BACKLOG_MESSAGES or self._bytes >= limits.BACKLOG_BYTES

    def append(self, inbox_seq: int, commands: int, size: int) -> None:
        """Small batches are merged, so that few of them are kept."""
        self._commands += commands
        self._bytes += size
        if self.batches:
            _, last_commands, last_size = self.batches[-1]
            is_small = (
                last_commands * limits.BACKLOG_STEPS < limits.BACKLOG_MESSAGES
                and last_size * limits.BACKLOG_STEPS < limits.BACKLOG_BYTES
            )
            if is_small:
                self.batches[-1] = (inbox_seq, last_commands + commands, last_size + size)
                return
        self.batches.append((inbox_seq, commands, size))

    def remove_up_to(self, inbox_seq: int) -> None:
        while self.batches and self.batches[0][0] <= inbox_seq:
            _, commands, size = self.batches.popleft()
            self._commands -= commands
            self._bytes -= size
