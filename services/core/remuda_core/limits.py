"""Every bound of the core, with its reason."""

from __future__ import annotations

from typing import Final

# One pass of scheduling may allocate this much before it is committed: large enough that a synced append (about 0.5 ms)
# is a small part of it, small enough that a new ask waits only some 20 ms behind a pass under full load.
ALLOCATIONS_PER_PASS: Final = 2_000

# What the leader takes out of the inbox before it decides and commits: the same balance, on the way in.
COMMANDS_PER_COMMIT: Final = 256
INBOX_BYTES_PER_COMMIT: Final = 256_000

# Time passes for the core once a second: the shortest timer of the specification is 30 s.
TICK_MS: Final = 1_000

# Queues that are not needed any more go that often: looking for them looks at every queue, and a queue that is about to
# be used again is better left where it is.
CLEAN_QUEUES_MS: Final = 10_000

# A waiting ask is explained at most this often for the same reason (semantics section 17).
EXPLAIN_AGAIN_MS: Final = 60_000
# An ask that waits for less than this is not worth a word: it is only in the queue.
EXPLAIN_AFTER_MS: Final = 1_000
# So many lines of asks are looked at in one tick, and for so many of them the nodes: looking through 10,000 nodes takes
# some 10 ms.
EXPLAIN_LINES_PER_TICK: Final = 200
EXPLAIN_NODES_PER_TICK: Final = 5

# Questions to an RM that wait for an answer: each answer takes some 5 ms, so this is far more than an RM answers
# meanwhile, and all of them are lost at once where it goes away.
QUESTIONS_OPEN: Final = 1_000
# An RM that has not answered by then has refused.
ANSWER_WITHIN_MS: Final = 5_000
# So long after the last refusal an ask may have any node again: what the RM looks at changes without a word to us.
REFUSALS_LAST_MS: Final = 30_000

# Names come from outside and are kept in memory and in every message.
NAME_LENGTH: Final = 1_024

# Records of rejected applications in one partition: enough to look up what went wrong, and an RM that sends nonsense
# for days cannot fill the memory.
REJECTED_APPLICATIONS: Final = 1_000

# One ask stands for at most this many allocations: keeps pending sums of any number of asks inside what people can
# read.
MAX_ALLOCATIONS: Final = 2**31 - 1
