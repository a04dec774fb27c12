"""The records of all RMs, in memory, as the watch of the bucket RMS delivers them. Pure.

The registry may be some milliseconds behind the bucket. Code that needs the newest record reads it from the bucket
(`record_store`).
"""

from __future__ import annotations

from collections.abc import Iterator

from remuda_rmproxy.records.rm_record import RmRecord, State


class RmRegistry:
    def __init__(self) -> None:
        self._records: dict[str, RmRecord] = {}

    def update(self, rm_id: str, value: bytes | None) -> RmRecord | None:
        """Stores an entry of the bucket; None: the entry was removed. Raises what RmRecord.decode raises; the RM has no
        record then.
        """
        self._records.pop(rm_id, None)
        if value is None:
            return None
        record = self._records[rm_id] = RmRecord.decode(value)
        return record

    def get(self, rm_id: str) -> RmRecord | None:
        return self._records.get(rm_id)

    def __len__(self) -> int:
        return len(self._records)

    def in_state(self, state: State) -> Iterator[RmRecord]:
        return (record for record in list(self._records.values()) if record.state == state)
