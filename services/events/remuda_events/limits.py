"""Every bound of the event service, with its reason."""

from __future__ import annotations

from typing import Final

from remuda_bus.retry import RetryPolicy

# The core and rmproxy run first. This service catches up when they are idle.
NICENESS: Final = 19
# The callbacks of the same commit reach the disk first.
CALLBACK_LEAD_S: Final = 0.005
# A commit with so many facts means load: its events wait until no commit has arrived for QUIET_S, at most MAX_DELAY_S.
BUSY_FACTS: Final = 500
QUIET_S: Final = 0.1
MAX_DELAY_S: Final = 2.0
# Commits in memory: each has some thousand facts at most, of a few hundred bytes.
COMMITS_AT_ONCE: Final = 64

# The server's limit of an atomic batch.
BATCH_RECORDS: Final = 1_000
# A slow disk takes seconds for a batch. After this time its fate is unknown, and the end of the history is read again.
BATCH_TIMEOUT_S: Final = 30.0
# The stream deletes its oldest records itself. If it is full nevertheless, an operator has to make room.
FULL_RETRY: Final = RetryPolicy(5.0)
# Histories that are opened at the same time after a start: a few requests each.
OPENINGS_AT_ONCE: Final = 32
# After an outage or a fault: the history of the RM, a halt or a violation is retried without end.
HISTORY_RETRY: Final = RetryPolicy(1.0)
# An audit a minute finds the same violation again and again. It is told in the history this often.
VIOLATION_TOLD_EVERY_MS: Final = 3_600_000

# The clock of a core and that of the NATS server may differ by so much for a story since some time.
STORY_MARGIN_S: Final = 10.0
# Lines of a page of a story: some 300 kB.
STORY_LINES: Final = 1_000
# Stories that wait for the one that is being read: each reads a whole log.
STORIES_WAITING: Final = 10
# A story takes at most so long; the client waits longer (`remuda_bus.limits.STORY_TIMEOUT_S`).
STORY_WITHIN_S: Final = 50.0

# A bookmark costs a write, and saves the reading of at most so much log.
BOOKMARK_INTERVAL_S: Final = 10.0
# A warning is logged when the history is behind the log by more than this, and how often at most.
LAG_WARNING_S: Final = 10.0
LAG_WARNING_INTERVAL_S: Final = 60.0

# Rows of one hour of a ledger. Beyond it rows are merged with those of other applications, and beyond the double with
# all: a user who floods the scheduler with applications costs no more memory, and sums stay exact.
LEDGER_ROWS: Final = 20_000
# How long allocations that an RM has not reported again are remembered, to say how long they were not.
UNREPORTED_FOR_MS: Final = 24 * 3_600_000
# An hour is closed so long after its end if no commit comes that closes it: no core is so late.
LEDGER_CLOSES_AFTER_MS: Final = 10 * 60_000
# Meanwhile the log is quiet for at least so long.
LEDGER_QUIET_S: Final = 30.0
# A start reads the log again from the last checkpoint of the ledger: a second of work for so many facts.
LEDGER_FACTS_APART: Final = 200_000
