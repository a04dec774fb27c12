"""Every bound of rmproxy, with its reason."""

from __future__ import annotations

from typing import Final

# RMs on record, gone ones too: each has a log and callbacks, and a reading of them in every process. Whoever may
# register could otherwise do so under ever new names.
RMS: Final = 1_000

# An RM that has announced how often its heart beats may miss two beats: one is lost now and then, and a third means
# that it is not there.
SILENT_INTERVALS: Final = 3
# An RM that is silent for longer than an upgrade or the reboot of a machine takes is said to be gone, unless it has
# announced another time itself.
GONE_AFTER_S: Final = 600.0
# What an RM may announce: more often would be work for nothing, more seldom would notice nothing.
HEARTBEAT_S: Final = (0.05, 3_600.0)
# So often it is looked who is silent: a fraction of the shortest sensible interval.
JUDGE_EVERY_S: Final = 0.1
# If this process has not looked for so long, it was stopped or starved, and has heard nobody: that is nobody's silence.
# Less than a lease lasts, so whoever was stopped for longer loses it before it can call anybody silent.
NOT_LISTENED_S: Final = 1.0

# The core is told so often that an RM is there, though it should know: an rmproxy that was cut off may have told it the
# contrary, much too late. A pause by mistake lasts no longer, and a line in the log twice a minute does not matter.
BACK_AGAIN_S: Final = 30.0

# An RM that is to register and report is asked so often: it may be away, and hardly anything is as seldom.
ASK_FOR_REPORT_EVERY_S: Final = 2.0

# An RM that has so many messages unacknowledged is told nothing more until it has acknowledged some: they are some
# seconds' worth under full load, and 100 such RMs leave room in the stream CALLBACKS for all others.
UNACKNOWLEDGED_MESSAGES: Final = 10_000
# That is looked at each time so many have been added, and so often while the RM is waited for.
LOOK_EVERY_MESSAGES: Final = 1_000
LOOK_EVERY_S: Final = 0.25
