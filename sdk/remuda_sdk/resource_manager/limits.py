"""Every bound of the SDK, with its reason. (The RM chooses the retry time and the heartbeat interval:
`ResourceManager.connect`.)"""

from __future__ import annotations

from remuda_bus.retry import RetryPolicy

# Asks, nodes or releases per message. The scheduler works on the first message while the next ones are sent.
MAX_ITEMS = 1_000

# Callbacks that wait in memory: this many batches of this many messages. One more batch is being fetched and one is
# being processed. All others wait at the server.
BATCH_MESSAGES = 256
WAITING_BATCHES = 2
# Acknowledgements are sent together at this interval, and at once when no message waits. After a crash, unacknowledged
# callbacks are delivered again.
ACKNOWLEDGE_EVERY_S = 0.02
# Confirmed releases, so that a repeated callback is not confirmed twice: far more than are unconfirmed at a time.
REMEMBERED_CONFIRMATIONS = 100_000
# Cached Resource messages, by size of ask: an RM seldom uses more than some dozens.
REMEMBERED_SIZES = 4_096

# Heartbeats that report the callback cursor of an RM that has not declared a heartbeat interval. They cost little.
POSITION_REPORT_INTERVAL_S = 5.0
# Commits whose hash the callback cursor keeps for comparison. Repeated callbacks are recent ones.
REMEMBERED_COMMITS = 1_000

# After a consumer that is gone and could not be made again yet, because no rmproxy answers: soon at first, because a
# take-over takes a moment, then seldom enough for thousands of RMs. Without end: the RM loses nothing meanwhile.
RESUME_RETRY = RetryPolicy(0.2, longest_pause_s=5.0)
# Between a consumer that was made again and joining it: something that deletes it again and again must not keep rmproxy
# busy.
RESUMED_PAUSE_S = 0.1

# A registration finds no rmproxy for a moment after a start or a take-over. It is sent again for so long at most
# (shorter when `register_within_s` is).
RESPONDERS_TIMEOUT_S = 3.0
RESPONDERS_RETRY = RetryPolicy(0.1)
