"""The log of one RM: a chain of commits.

A commit names its parent: the stream sequence of the commit that it was decided on, and the SHA-256 of that commit's
last payload. The parent's payload names its own parent, so one hash stands for the whole history. A commit whose parent
is not the head of the chain is void. Every reader judges alike, so of two leaders that write at once only one takes
effect.

A commit that is too large for one message is written in parts. It is in force when its last part is there. If the
leader ends before that, the next commit has the last complete commit as its parent, and the parts are void.

A leader that was too late explains a void message: its parent is an older commit of the same chain, or it is a further
part of a commit that was given up. Any other void message comes from a writer with another history. The reader then
raises HistoryChanged, and every service stops working for that RM
(docs/adr/log-and-chain.md, halts-and-faults.md).
"""

from remuda_replication.log.chain import START, Chain, FactTooLarge, LogEntry, Position, join_parts, split_commit
from remuda_replication.log.reader import (
    LogReader,
    check_commit,
    check_published,
    check_retained,
    first_parent,
    first_part,
)
from remuda_replication.log.writer import LogWriter, LostLeadership

__all__ = [
    "START",
    "Chain",
    "FactTooLarge",
    "LogEntry",
    "LogReader",
    "LogWriter",
    "LostLeadership",
    "Position",
    "check_commit",
    "check_published",
    "check_retained",
    "first_parent",
    "first_part",
    "join_parts",
    "split_commit",
]
