"""The life of a resource manager (semantics section 14): one table, nothing else changes a state.

Read a row as: in this state, when that is heard of the connection, become this. What is not in the table does not
happen. Registering makes an RM Running from whatever state.
"""

from __future__ import annotations

from typing import Final

INIT: Final = "init"  # has never registered
RUNNING: Final = "Running"
PAUSED: Final = "Paused"  # nothing new is allocated, nothing is lost
STOPPED: Final = "Stopped"  # the same, for longer; or it has deregistered, and nothing is known of it any more

LOST: Final = "lost"
BACK: Final = "back"
GONE: Final = "gone"
DEREGISTERED: Final = "deregistered"

TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    (RUNNING, LOST): PAUSED,
    (RUNNING, GONE): STOPPED,
    (PAUSED, GONE): STOPPED,
    (PAUSED, BACK): RUNNING,
    (STOPPED, BACK): RUNNING,
    (RUNNING, DEREGISTERED): STOPPED,
    (PAUSED, DEREGISTERED): STOPPED,
    (STOPPED, DEREGISTERED): STOPPED,
}

# How an RM that registers again is brought up to date (extraConfig["resync"]).
RESYNC: Final = "resync"
REPORT: Final = "report"  # what was known is dropped, it reports everything anew
REPLAY: Final = "replay"  # everything stays as it is; it is told what it has missed
