"""The states of an RM (semantics section 14). TRANSITIONS and registration alone change them.

A row of TRANSITIONS is (state, event of the connection): next state. Other pairs do nothing. Registration makes an RM
Running from any state.
"""

from __future__ import annotations

from typing import Final

INIT: Final = "init"  # the RM has never registered
RUNNING: Final = "Running"
PAUSED: Final = "Paused"  # nothing is scheduled, the state is kept
STOPPED: Final = "Stopped"  # as Paused, after a longer silence; or deregistered, with its state dropped

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

# How an RM that registers again is synchronised (extraConfig["resync"]).
RESYNC: Final = "resync"
REPORT: Final = "report"  # the state is dropped, and the RM reports everything again
REPLAY: Final = "replay"  # the state is kept, and the RM receives the callbacks it has missed
