"""Every bound of rmproxy, with its reason."""

from __future__ import annotations

from typing import Final

from remuda_bus.retry import RetryPolicy

# Records of RMs, including RMs that are gone (default of `rms.most`). Each RM has a log and callbacks, and some
# kilobytes in every process. Without a bound, a client could register under ever new names.
RMS: Final = 10_000
# Time from the deregistration of an RM to the removal of its data (default of `rms.forget_after_days`).
FORGET_AFTER_DAYS: Final = 7.0
# How often rmproxy looks for RMs to remove.
FORGET_INTERVAL_S: Final = 60.0
# A first registration that the core has not decided for this long is removed. An RM that is still there registers again
# every few seconds.
REGISTRATION_ABANDONED_S: Final = 3_600.0

# An RM is lost when this many announced heartbeats in a row are missing: one is lost in transit now and then.
LOST_AFTER_INTERVALS: Final = 3
# An RM is gone after this long without a heartbeat, unless it announces another timeout: longer than an upgrade of the
# RM or a reboot of its machine takes.
HEARTBEAT_TIMEOUT_S: Final = 600.0
# Intervals that an RM may announce. A shorter one costs work without a use; a longer one notices nothing in time.
HEARTBEAT_INTERVAL_RANGE_S: Final = (0.05, 3_600.0)
# How often the liveness of RMs is evaluated: a fraction of the shortest sensible heartbeat interval.
LIVENESS_INTERVAL_S: Final = 0.1
# Obsolete entries in the heap of RMs to evaluate, beyond the number of RMs, before they are dropped.
LIVENESS_HEAP_SLACK: Final = 100
# Reports of connection states to cores that are in progress at the same time: each takes a round trip.
CONNECTION_REPORTS_AT_ONCE: Final = 64
# Callback cursors that are compared with the log at the same time, and how often at most for one RM.
CURSOR_CHECKS_AT_ONCE: Final = 8
CURSOR_CHECK_INTERVAL_S: Final = 1.0
# When this process has not evaluated the liveness for this long, it was stopped or starved, and missing heartbeats do
# not count. It is shorter than a lease: a process that is stopped for longer loses the lease before it can report.
MONITOR_STALL_S: Final = 1.0
# "back" is reported again at this interval: an rmproxy that was cut off may have reported "lost" much too late. A pause
# by mistake lasts no longer, and two commands a minute do not matter.
BACK_REPORT_INTERVAL_S: Final = 30.0
# How often an RM is asked to register and report. The RM may not be running yet, and the request is very rare.
REPORT_REQUEST_INTERVAL_S: Final = 2.0

# An RM with so many unacknowledged callbacks receives no more: they are some seconds' worth under full load, and 100
# such RMs leave room in the stream CALLBACKS for all others.
UNACKNOWLEDGED_MESSAGES: Final = 10_000
# The same in bytes: callbacks of large commits have up to a megabyte each.
UNACKNOWLEDGED_BYTES: Final = 64_000_000
# The number of unacknowledged callbacks is read after so many new ones, and at these intervals while publishing waits:
# less often for an RM that takes long.
ACKNOWLEDGED_CHECK_MESSAGES: Final = 1_000
ACKNOWLEDGED_CHECK: Final = RetryPolicy(0.25, longest_pause_s=1.0)

# Requests that are read or forwarded together: the core works on the first while the next are read.
FORWARD_BATCH_MESSAGES: Final = 1_000
FORWARD_BATCH_BYTES: Final = 256_000
# Requests of one RM in memory: a few batches. Further requests stay in the stream REQUESTS.
QUEUE_MESSAGES: Final = 2_000
QUEUE_BYTES: Final = 4_000_000
# Requests of all RMs in memory.
ALL_QUEUES_BYTES: Final = 128_000_000
# Requests of one RM that wait in REQUESTS: those of a million asks. Further requests are refused. All RMs share 8 GiB.
WAITING_BYTES: Final = 256_000_000
# Refused requests that become dead letters at a time: a part of an atomic batch.
REFUSED_AT_ONCE: Final = 500
# Senders without a record whose requests wait: as many as there may be RMs. Without accounts, a client may use any
# name.
UNKNOWN_SENDERS_TRACKED: Final = 10_000
# An RM without requests in memory may have one of up to this size, so that no RM waits for others with large requests.
SMALL_REQUEST_BYTES: Final = 64_000
# Memory of a request beside its payload: subject, headers and objects.
REQUEST_OVERHEAD_BYTES: Final = 1_000
# RMs whose deferred requests are read at the same time: each needs a consumer on the server.
DEFERRED_READS_AT_ONCE: Final = 16
# A deferred request arrives within this time, or another process has forwarded and deleted it.
DEFERRED_READ_TIMEOUT_S: Final = 1.0
# An inbox that refuses for this long has no room for this RM. The RM's requests are deferred then.
INBOX_APPEND_TIMEOUT_S: Final = 2.0
# After an outage, a full inbox or an exception.
FORWARD_RETRY: Final = RetryPolicy(0.5)
# Commands of an RM in its inbox that the core has not handled: seconds of its work. Further requests wait in REQUESTS.
BACKLOG_MESSAGES: Final = 20_000
# Measuring from publish to callback: requests of an RM without a decision, asks without an allocation, of an RM and of
# all (some 300 bytes each), and facts of a decision that are looked at, so that a large one costs no more.
MEASURED_REQUESTS: Final = 1_000
MEASURED_ASKS_OF_RM: Final = 2_000
MEASURED_ASKS: Final = 100_000
MEASURED_FACTS: Final = 100
# Traces of asks that a commit's callbacks are linked with.
LINKED_TRACES: Final = 32
# Reasons to wait that the span of a commit's callbacks shows.
TRACED_REASONS: Final = 8
BACKLOG_BYTES: Final = 64_000_000
# Entries that the account of these commands has at most.
BACKLOG_STEPS: Final = 20
# How often the newest commit of an RM with a full backlog is read.
BACKLOG_CHECK_INTERVAL_S: Final = 0.25
# After a crash, the next process forwards again what was forwarded since requests were last deleted.
TRIM_REQUESTS_INTERVAL_S: Final = 0.1
# Requests behind one that waits are deleted RM by RM, with a call for each: only when one has waited for this long, and
# of so many RMs at a time.
TRIM_PER_RM_AFTER_S: Final = 1.0
TRIM_PER_RM_AT_ONCE: Final = 100
# Bytes of a command around the request in it: position, part, tags.
COMMAND_OVERHEAD_BYTES: Final = 64

# Facts in one callback: the RM works on the first callback while the next are on their way.
CALLBACK_ITEMS: Final = 2_000
# Callbacks in one atomic batch (the limit of the server), and their bytes, which are held in memory.
BATCH_MESSAGES: Final = 1_000
BATCH_BYTES: Final = 16_000_000
APPEND_TIMEOUT_S: Final = 2.0
# After an outage, or when the stream is full.
PUBLISH_RETRY: Final = RetryPolicy(0.5)
# After a log that cannot be read although nothing shows that it has changed: an operator has to look.
UNREADABLE_RETRY: Final = RetryPolicy(5.0)
# How often acknowledged callbacks are deleted: it costs a request for each RM.
TRIM_CALLBACKS_INTERVAL_S: Final = 10.0
TRIM_CALLBACKS_AT_ONCE: Final = 16
# RMs whose newest callback and log are opened at the same time after a start: a few requests each.
OPENINGS_AT_ONCE: Final = 32

# Questions to one RM that wait for its answers. More would only wait at the RM.
QUESTIONS_AT_ONCE: Final = 256
# Questions to one RM that wait for those: more than the core keeps open. The oldest give way, whose time is over first.
QUESTIONS_WAITING: Final = 2_000
# The RM names so many victims that must not go, at most; those of a whole node.
SPARED_KEYS: Final = 1_000
ANSWERS_PER_MESSAGE: Final = 500
# Reason of a refused placement: it is stored in the log and shown to people.
PREDICATE_REASON_CHARACTERS: Final = 500
# An answer about some hundred nodes: a kilobyte for each, and it fits into a message of the inbox.
BATCH_ANSWER_BYTES: Final = 512_000
# While the RM does not listen for questions: it may be about to connect. The deadline of the question ends the retries.
QUESTION_RETRY: Final = RetryPolicy(0.2)

# How long a registration waits for the core: a core takes over within seconds, and reads a configuration in one.
CORE_TIMEOUT_S: Final = 10.0
# A process may have to start for a configuration, which takes seconds on a busy machine. An RM waits for both: 20 s.
CONFIGURATION_TIMEOUT_S: Final = 8.0
# Registrations and deregistrations of one RM: how many are answered at the same time, each for up to 18 seconds; how
# many a second on average, and at once. An RM in a crash loop registers once a second.
REGISTRATIONS_AT_ONCE: Final = 8
REGISTRATIONS_PER_S: Final = 10.0
REGISTRATIONS_BURST: Final = 100
# Names whose rate is tracked: more than register within the time in which a rate recovers.
RATES_TRACKED: Final = 20_000
# Questions that the configuration service answers at the same time: each may use a processor for seconds.
RESOLUTIONS_AT_ONCE: Final = 4

# Look-ups of groups that wait for a directory at the same time, in all and for one RM: a look-up takes milliseconds,
# and a thread that waits takes 100 kB.
LOOKUP_THREADS: Final = 16
LOOKUPS_PER_RM: Final = 4
# A look-up may fail by chance, but after so many in a row no request waits for the directory any more, until one of the
# look-ups that are made at this interval has succeeded.
LOOKUPS_FAILED_BEFORE_PAUSE: Final = 3
LOOKUP_AGAIN_S: Final = 1.0
# Defaults of `groups`: a user who changes groups waits for minutes anyway; one who was just added waits no longer than
# people do; a directory is back within a day.
GROUPS_TIMEOUT_S: Final = 2.0
GROUPS_KNOWN_S: Final = 300.0
GROUPS_UNKNOWN_S: Final = 60.0
GROUPS_LAST_KNOWN_S: Final = 86_400.0
# Users whose groups are remembered: those of a large site; some 1 kB each.
GROUPS_CACHED: Final = 100_000
# The reason of a rejected application is stored in the log.
GROUPS_PROBLEM_CHARACTERS: Final = 500
# The part of a message that is reserved for the groups of one application: a quarter, where a message takes little.
GROUPS_SHARE_OF_MESSAGE: Final = 4
# Tag and length of a group.
AROUND_GROUP_BYTES: Final = 4
# What a command adds to a reason why an item is refused: the tag and the length.
AROUND_REASON_BYTES: Final = 8
# Groups in groups: deeper nesting is a mistake.
NESTED_GROUPS_DEPTH: Final = 16

# The reason of a dead letter quotes the request.
DEAD_LETTER_REASON_CHARACTERS: Final = 500
# Stored bytes of the request. An RM may have 1,000 dead letters, in a stream of 1 GiB for all RMs.
DEAD_LETTER_BYTES: Final = 64_000
# After an outage, without end: a dead letter must not be lost.
DEAD_LETTER_RETRY: Final = RetryPolicy(0.5)
# Callbacks about dead letters of an RM that CALLBACKS holds: more than an RM reads that does not acknowledge them, and
# with all RMs less than the stream takes. Of senders without a record nothing deletes them.
DEAD_LETTER_CALLBACKS: Final = 1_000
DEAD_LETTER_CALLBACKS_OF_UNKNOWN: Final = 10_000
# They are counted after so many new ones: a count is a request to the server.
DEAD_LETTER_CALLBACKS_COUNTED_EVERY: Final = 100
# A start of publishing may read them all; the server has them at hand.
DEAD_LETTER_CALLBACKS_READ_WITHIN_S: Final = 5.0

# Actions of one operator: how many are answered at the same time, each for up to ten seconds; how many a second on
# average, and at once. A script drains a rack.
ACTIONS_AT_ONCE: Final = 8
ACTIONS_PER_S: Final = 10.0
ACTIONS_BURST: Final = 100
# Actions of all operators: a quarter of what a process answers at the same time, so registrations have room.
ALL_ACTIONS_AT_ONCE: Final = 250
# A request holds a queue path, an ID, a reason and some words.
ACTION_BYTES: Final = 16_384

# Requests of one cluster of Peloton: its one engine sends one after the other, some in each turn.
GUESTS_AT_ONCE: Final = 4
GUESTS_PER_S: Final = 50.0
GUESTS_BURST: Final = 200
