"""Every bound of the bus, with its reason. Those of streams and buckets stand with them, in `subjects.py`."""

from __future__ import annotations

# Messages

# What the server takes as one atomic batch: its own limit.
BATCH_MESSAGES = 1_000
# Whoever reads the stream works on the first batch while the next is on its way.
BATCH_BYTES = 256_000
# Of a payload, for the headers of its message.
HEADER_ROOM_BYTES = 4_096
# Of the part of a commit, for parent, parent_hash, part and the like.
CHAIN_ROOM_BYTES = 128
# Tag and length of a decision or fact; of an element of a request that is split, with its names.
AROUND_FACT_BYTES = 8
AROUND_ELEMENT_BYTES = 24
# Commits whose positions a chain keeps: what hangs on an older one is seldom, and void anyway.
REMEMBERED_COMMITS = 1_000

# Reading and consuming

# Messages per pull request; asked again when fewer than these are asked for or wait in the buffer. So a consumer holds
# at most this many, or four times the largest message.
ASK_FOR_MESSAGES = 1_000
ASK_BELOW_MESSAGES = 500
# A request for more ends by itself. Those of a connection that is gone are still answered, to nobody, and what they
# were given is missing: nothing is asked for anew before they are over. At least two heartbeats, says the server.
EXPIRES_S = 1.0
# What is not acknowledged by then is given to whoever asks; a third of it is the interval of "still at it".
ACK_WAIT_S = 30.0
# A consumer is given no more before something is acknowledged: far more than any of ours holds.
MAX_ACK_PENDING_MESSAGES = 100_000
# The server says that it is there; two to three of these without a word, and the reading is begun anew: in a cluster
# the server of a reading may go while ours stays, and nothing else tells us. (Flow control bounds what a reading holds
# in memory: the server waits until it was taken.)
HEARTBEAT_S = 0.5
SILENT_HEARTBEATS = 3
# What begins a reading is asked again soon: in a cluster whose leaders change, a question may get no answer at all.
BEGUN_WITHIN_S = 2.0
# Before a reading is tried again that could not be begun.
RETRY_S = 0.2
# Before the list of halts is asked for again that could not be had.
HALTS_RETRY_S = 0.5

# Objects

# As other clients make them.
CHUNK_BYTES = 128 * 1024
# Of each piece, on the way there and back.
CHUNK_WITHIN_S = 5.0

# Backups

# The server looks through the whole stream first.
BACKUP_BEGINS_WITHIN_S = 60.0
# It reads all of it again, and hands it to the servers that keep it, too.
RESTORED_WITHIN_S = 600.0

# Appending

# A batch takes a tenth of that on a slow disk. After this nobody knows, for a leader of the stream may have gone with
# it: it is tried again under the same message ID. A commit is not: its core dies of the doubt, and another one reads in
# the log what became of it.
ANSWER_WITHIN_S = 2.0
# Between tries, twice as long each time: soon enough after a moment's outage, seldom enough while a stream is full.
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0

# The connection

# Somebody waits for the scheduler: look for the server five times a second.
RECONNECT_WAIT_S = 0.2
# Two pings without an answer, and the connection counts as lost.
PING_INTERVAL_S = 10
# Beyond this, whoever publishes waits until the socket has taken it.
PENDING_BYTES = 32 * 1024 * 1024
# An outage is told this often, not at each try.
SAY_SO_EVERY_S = 5.0

# Serving

# Requests that a process answers at the same time; whoever comes then is told to try again. A registration waits for
# the core, up to ten seconds; everything else takes milliseconds.
REQUESTS_AT_ONCE = 1_000
# A round trip; who asks while an endpoint is closed would be left without an answer.
DRAIN_WITHIN_S = 1.0

# Leases and buckets

# Of a lease: two renewals may fail before it runs out.
RENEWALS_PER_TTL = 3
# Who waits for a lease asks its holder so often, and twice before it believes that it is gone: half a second until it
# takes over. Asking costs both some 0.1 ms.
ASK_HOLDER_EVERY_S = 0.25
# A holder that takes longer is busy, not gone; the lease says when it is.
HOLDER_ANSWERS_WITHIN_S = 1.0
# How long the mark stays that tells watchers of an expired entry: far longer than an outage that they would sleep
# through without listing the bucket anew.
MARKER_TTL_S = 60.0

# Processes

# What does not end by then would not end at all: the process is ended by force.
STOP_WITHIN_S = 10.0
# Of a process that ends, to whoever takes traces. They may be lost; nothing may wait for them.
LAST_SPANS_WITHIN_S = 1.0
# Whoever asks how a process is wants to know at once; so large is no such request.
PROBE_WITHIN_S = 2.0
HEALTH_REQUEST_WITHIN_S = 5.0
HEALTH_REQUEST_BYTES = 8 * 1024
