"""Every bound of the event publisher, with its reason."""

from __future__ import annotations

from typing import Final

# Who has something to do goes first: it catches up when they have nothing.
NICENESS: Final = 19
# The RM's callback of the same commit goes to disk first.
AFTER_THE_CALLBACK_S: Final = 0.005
# A commit of so many facts means that work is coming in: its events wait until the log is quiet for a moment, not for
# long.
BUSY_FACTS: Final = 500
QUIET_S: Final = 0.1
WAIT_AT_MOST_S: Final = 2.0
# Held in memory at a time: a commit has some thousand facts at most, a few hundred bytes each.
COMMITS_AT_ONCE: Final = 64

# What the server takes as one atomic batch.
BATCH_RECORDS: Final = 1_000
# A slow disk takes seconds for a batch; after this nobody knows, and the end of the history is looked up.
BATCH_TIMEOUT_S: Final = 30.0
# The oldest records go by themselves; if there is no room nevertheless, somebody has to make some.
FULL_PAUSE_S: Final = 5.0
# An outage; the connection says when it is over.
RETRY_S: Final = 1.0

# A bookmark saves at most the reading of so much log, and costs a write.
MARK_EVERY_S: Final = 10.0
# Behind the log by more than this is worth a word, and not more often than that.
LATE_S: Final = 10.0
SAY_SO_EVERY_S: Final = 60.0
