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

# Requests on their way to the inbox: read so many at a time; the core works on the first while the next are read.
TAKE_MESSAGES: Final = 1_000
HOLD_BYTES: Final = 256_000
# Whoever takes over after a crash forwards again what was forwarded since they were trimmed.
TRIM_REQUESTS_EVERY_S: Final = 0.1
# Of a command, around the request in it: position, part, tags.
AROUND_BYTES: Final = 64

# Callbacks on their way to RMs. In one message: an RM works on the first while the next are on their way.
MAX_ITEMS: Final = 2_000
# In one atomic batch (the server's own limit), and held in memory for it.
BATCH_MESSAGES: Final = 1_000
BATCH_BYTES: Final = 16_000_000
APPEND_WITHIN_S: Final = 2.0
# An outage, or a stream that is full.
TELL_RETRY_S: Final = 0.5
# What all have acknowledged goes; it costs a question per RM.
TRIM_CALLBACKS_EVERY_S: Final = 10.0

# Questions to an RM that wait for its answer: it answers them one after the other or side by side, and more would only
# wait there.
ASKED_AT_ONCE: Final = 256
ANSWERS_IN_MESSAGE: Final = 500
# A refusal is kept in the log and told to people.
MAX_REASON_CHARACTERS: Final = 500
# While nobody listens for questions: the RM may be about to connect.
ASK_AGAIN_S: Final = 0.2

# How long an RM waits for its registration: a core takes over within seconds, and reads a configuration in one.
CORE_WITHIN_S: Final = 10.0
CONFIGURATION_WITHIN_S: Final = 5.0

# A dead letter quotes what an RM has sent.
DEAD_LETTER_REASON_CHARACTERS: Final = 500
DEAD_LETTER_RETRY_S: Final = 0.5
