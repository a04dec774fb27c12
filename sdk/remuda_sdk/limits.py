"""Every bound of the SDK, with its reason. (How long an outage is borne, and how often the heart beats, is for the RM
to say: `ResourceManager.connect`.)"""

from __future__ import annotations

# Asks, nodes, releases per message: the scheduler works on the first while the next are on their way.
MAX_ITEMS = 1_000

# Callbacks that were fetched and wait to be taken: this many batches of this many messages, one more on its way in and
# one being worked on. The rest waits at the server.
BATCH_MESSAGES = 256
WAITING_BATCHES = 2
# Acknowledgements are sent together, unless nothing more is there. What was not acknowledged comes again after a crash.
ACKNOWLEDGE_EVERY_S = 0.02
# Releases that were confirmed, so that none is confirmed twice when it is told again: far more than are under way.
REMEMBERED_CONFIRMATIONS = 100_000
# Sizes of asks whose message is kept: there are seldom more than some dozens.
REMEMBERED_SIZES = 4_096

# An RM whose heart does not beat says so often up to where it was told; it costs next to nothing.
WITNESS_EVERY_S = 5.0
# Commits whose hash is kept, to compare with: what is told again was told just before.
REMEMBERED_COMMITS = 1_000
