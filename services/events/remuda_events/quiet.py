"""The wait of projections of low priority until the log is quiet."""

from __future__ import annotations

import asyncio

from remuda_events import limits
from remuda_replication.log import LogEntry, LogReader


async def wait_for_quiet_log(reader: LogReader, entries: list[LogEntry]) -> None:
    """Let callbacks and further decisions come before events. Commits that arrive meanwhile are added to `entries`."""
    await asyncio.sleep(limits.CALLBACK_LEAD_S)
    loop = asyncio.get_running_loop()
    until = loop.time() + limits.MAX_DELAY_S
    more = entries
    while more and len(entries) < limits.COMMITS_AT_ONCE and loop.time() < until:
        if max(sum(len(decision.facts) for decision in entry.commit.decisions) for entry in more) < limits.BUSY_FACTS:
            return
        more = await reader.batch(limits.COMMITS_AT_ONCE, timeout_s=limits.QUIET_S)
        entries += more
