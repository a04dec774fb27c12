"""Every bound of the bus, with its reason. Those of streams and buckets stand with them, in `subjects.py`."""

from __future__ import annotations

from remuda_bus.retry import RetryPolicy

# Messages

# The server's own limit of an atomic batch.
BATCH_MESSAGES = 1_000
# A reader of the stream works on the first batch while the next one is sent.
BATCH_BYTES = 256_000
# The part of a payload that is left free for the headers of its message.
HEADER_ROOM_BYTES = 4_096
# The part of a commit that is left free for parent, parent_hash, part and the like.
CHAIN_ROOM_BYTES = 128
# Tag and length of a decision or a fact; of an element of a split request, with its names.
AROUND_FACT_BYTES = 8
AROUND_ELEMENT_BYTES = 24
# Commits whose positions a chain keeps. A commit with an older parent is rare, and void anyway.
REMEMBERED_COMMITS = 1_000

# Input from other processes

# A number in a header or an answer: JetStream's sequences have 63 bits and no sign.
LARGEST_NUMBER = 2**63 - 1
# Codes of micro services follow those of HTTP by custom, but any process may write the header.
LARGEST_ERROR_CODE = 99_999
# A malformed value in an error message.
SHOWN_CHARACTERS = 64
# The reason of a refusal, sent and received: as long as a list of problems of a configuration gets, and small for a
# message even at four bytes per character.
REASON_CHARACTERS = 16_000

# Reading and consuming

# Messages per pull request. The next one is sent when fewer than PULL_BELOW_MESSAGES are requested or buffered. So a
# consumer buffers at most PULL_MESSAGES, or four times the largest message.
PULL_MESSAGES = 1_000
PULL_BELOW_MESSAGES = 500
# The expiry of a pull request. The server may still answer the requests of a lost connection, and those messages are
# lost. So a new subscription pulls only when the former requests have expired. The server requires at least two
# heartbeat intervals.
PULL_TIMEOUT_S = 1.0
# The server redelivers a message that is not acknowledged by then. A third of it is the interval of progress reports.
ACK_WAIT_S = 30.0
# Unacknowledged messages beyond which a consumer receives no more: far more than any consumer of remuda has.
MAX_ACK_PENDING_MESSAGES = 100_000
# The server sends heartbeats to consumers. After MISSED_HEARTBEATS of them, the reader creates another consumer: in a
# cluster the server of a consumer may fail while that of the connection works, and nothing else shows it. (Flow control
# bounds the buffer of a reader: the server waits until messages were taken.)
HEARTBEAT_INTERVAL_S = 0.5
MISSED_HEARTBEATS = 3
# Of the requests that open a consumer. They are retried soon: in a cluster whose leaders change, a request may get no
# answer at all.
OPEN_TIMEOUT_S = 2.0
# After a consumer, a watch or a stream that could not be opened. An outage of the bus is waited out separately
# (`Connection.until_up`), so a short fixed pause is enough.
OPEN_RETRY = RetryPolicy(0.2)
# After the creation of a stream that another process creates at the same time: its leader is elected within this time.
STREAM_CREATED_RETRY = RetryPolicy(0.2, give_up_after_s=2.0)
# Readers of single subjects of a stream that have a consumer each. More of them share one consumer of the whole stream:
# the server bounds the consumers of a stream over all processes, and each costs it. A process that reads a few subjects
# does not receive all others.
OWN_CONSUMERS = 8
# Readers that fetch missing messages at the same time: enough to keep a server busy, few enough that 5,000 readers do
# not all fetch at once after an outage.
FETCHES_AT_ONCE = 16
# In one answer to such a fetch.
FETCH_MESSAGES = 1_000
FETCH_BYTES = 1_000_000
# Buffered by all readers of a stream together. Beyond it, the reader that has waited longest drops its buffer and
# fetches it again.
BUFFERED_BYTES = 64_000_000
# The memory of a buffered message, beside its payload.
MESSAGE_OVERHEAD_BYTES = 1_000
# After a halt or a fault that could not be stored. It is retried without end: a halt must not be lost.
RECORD_RETRY = RetryPolicy(0.5)
# A core stops leading a halted RM at once, or its lease expires. Checked at this interval.
CORE_RELEASE_TIMEOUT_S = 15.0
CORE_RELEASE_CHECK_INTERVAL_S = 0.25
# Services learn of a halt within milliseconds. After this time none of them reads the messages that forgetting deletes.
HALT_SETTLE_S = 1.0
# The text of a recorded exception, shown to operators. It may quote a request of an RM.
FAULT_CHARACTERS = 500
# Faults of one RM, at any messages, within the window that halt it. Each has ended a process, from which the other RMs
# need a second to recover.
FAULTS_BEFORE_HALT = 3
FAULTS_WINDOW_MS = 3_600_000

# Deletions of single messages at the same time: enough to keep a server busy.
DELETES_AT_ONCE = 100

# Objects

# The chunk size of other NATS clients.
CHUNK_BYTES = 128 * 1024
# Of each chunk, for upload and download.
CHUNK_TIMEOUT_S = 5.0

# Backups

# The server scans the whole stream first.
BACKUP_START_TIMEOUT_S = 60.0
# Of each piece, and of the end. The server stores and syncs each message, and a well compressed piece holds very many.
RESTORE_TIMEOUT_S = 600.0

# Appending

# A batch takes a tenth of this on a slow disk. After this time the outcome is unknown, because a stream's leader may
# have failed with it. A batch is retried under the same message IDs. A commit is not retried: its core ends, and the
# next leader finds the outcome in the log.
APPEND_TIMEOUT_S = 2.0
# After a batch that was refused as full or got no answer: the first pause is short for a moment's outage, the longest
# is rare enough while a stream is full.
APPEND_RETRY = RetryPolicy(0.05, longest_pause_s=2.0)

# The connection

# The oldest version of nats-server that has all that is used: atomic batches, expiry of single messages, chunks of
# direct gets, consumers that are reset.
LEAST_SERVER_VERSION = (2, 14)
# The least `max_payload` of a server for services, which is nats-server's default: every message that is not split,
# because of the bounds of its fields, is smaller. Configurations and commits use what there is.
LEAST_MAX_PAYLOAD_BYTES = 1024 * 1024
# Between attempts to reconnect: five a second, because RMs wait for the scheduler.
RECONNECT_WAIT_S = 0.2
# After two unanswered pings, the connection counts as lost.
PING_INTERVAL_S = 10
# Until a closed socket has sent what it still has, and its end is agreed on. A peer that is stopped or cut off takes
# nothing more, and meanwhile the connection is not restored.
SOCKET_CLOSE_TIMEOUT_S = 1.0
# Beyond this, a publisher waits until the socket has accepted the data.
PENDING_BYTES = 32 * 1024 * 1024
# How often a lasting outage is logged.
OUTAGE_LOG_INTERVAL_S = 5.0

# Serving

# Requests that a process answers at the same time, beside endpoints with a bound of their own; further ones are refused
# with 503. A registration waits for the core for up to ten seconds; all other requests take milliseconds.
REQUESTS_AT_ONCE = 1_000
# A round trip. Requests that arrive while an endpoint is closed are still answered.
DRAIN_TIMEOUT_S = 1.0

# Leases and buckets

# Renewals within the life of a lease: two may fail before it expires.
RENEWALS_PER_TTL = 3
# After a renewal that failed. (Not a RetryPolicy: the next renewal also starts early when the entry's content changes.)
RENEWAL_RETRY_S = 0.2
# A process that waits for a lease checks its holder at this interval. Two checks without responders show that the
# holder is dead, so take-over takes half a second. A check costs both processes some 0.1 ms.
HOLDER_CHECK_INTERVAL_S = 0.25
# A holder that takes longer is busy, not dead. The lease's expiry decides.
HOLDER_CHECK_TIMEOUT_S = 1.0
# How long the marker of an expired entry is kept for watchers: far longer than an outage after which a watcher does not
# list the bucket again.
MARKER_TTL_S = 60.0

# Processes

# A service that does not stop by then is ended by force.
STOP_TIMEOUT_S = 10.0
# Of the last spans of a process. They may be lost: no service depends on the trace collector.
TRACE_EXPORT_TIMEOUT_S = 1.0
# Of the health pages: the probe of the bus, and the request. No legitimate request is larger.
PROBE_TIMEOUT_S = 2.0
HEALTH_REQUEST_TIMEOUT_S = 5.0
HEALTH_REQUEST_BYTES = 8 * 1024

# Operators

# Names of operators and of their groups: as long as an address of a person may be.
OPERATOR_NAME_CHARACTERS = 254
# Groups of an operator. They are part of the subject of each request, and nats-server takes 4,096 bytes of it.
OPERATOR_GROUPS = 64
OPERATOR_GROUPS_CHARACTERS = 2_000

# Settings

# The file `remuda.yaml`: far above any real one.
SETTINGS_BYTES = 1_000_000
# Entries of a setting that is a list: each is compared with every name.
SETTING_ENTRIES = 1_000
# Problems of one file that are reported together.
SETTINGS_PROBLEMS = 100

# Requests of people (`queries`)

# A core near the client answers in milliseconds.
QUERY_TIMEOUT_S = 5.0
# A core gives up a preview after a minute. One that plays another preview, or rests from one, is asked again.
PREVIEW_TIMEOUT_S = 70.0
PREVIEW_RETRIES_S = 60.0
PREVIEW_RETRY_S = 0.5
# rmproxy answers within ten seconds, decided or not. Without an answer, the same request is sent again until the second
# bound.
ACTION_TIMEOUT_S = 12.0
ACTION_DECIDED_WITHIN_S = 24.0
# Another rmproxy takes over within a second.
RMPROXY_TAKES_OVER_WITHIN_S = 3.0
RMPROXY_RETRY_S = 0.25
# The service reads both texts of a comparison, or reads, stores and writes a text: seconds for the largest ones.
CONFIGURATION_CHANGE_TIMEOUT_S = 90.0
# A core process or a front end, about itself.
PROCESS_QUERY_TIMEOUT_S = 2.0
# A consumer that reads a bucket once: the server deletes it so soon after. It is opened again while leaders change, but
# not for long: without a majority there is no answer.
READ_ONCE_EXPIRES_S = 1.0
READ_ONCE_RETRY = RetryPolicy(0.2, give_up_after_s=3.0)
# All current entries of a bucket: thousands on a slow machine. A bucket without a leader does not answer.
ALL_ENTRIES_WITHIN_S = 10.0
# Processes that have ended in an orderly way, of which the RMs that they led may not be taken over yet.
ENDED_MEMBERS = 100
# An only process gives back what it led when it ends: thousands of RMs, if the bus answers.
GIVES_BACK_WITHIN_S = 2.0
# Settings of streams are compared with what was declared: soon after an operator has changed one, which deletes
# messages at once only where they are over the new limit already.
STREAMS_CHECK_INTERVAL_S = 5.0
# Services that answer a ping: all within a machine's or a cluster's round trip, also on a busy machine.
PING_S = 0.3
# Where it is known which services have to answer, there is no need to wait longer than so after an answer.
PING_QUIET_S = 0.1
# Further pings, before a service counts as absent: a busy process may not answer for a second or two.
PING_AGAIN_S = (1.0, 2.0)

# The interface for operators (`operator_api`)

# Rows of a page that become messages before other work goes on: some milliseconds.
ROWS_WITHOUT_PAUSE = 50
# Clients that follow or read changes in one process: each has a consumer and a batch. A dashboard is one of them.
CHANGE_READERS = 200
# Of them, those of the clients of one RM, so that one RM does not take the places of operators and of other RMs.
CHANGE_READERS_OF_RM = 10
# Changes that a follower holds.
CHANGES_PER_BATCH = 1_000
# A follower that has no changes for its client sends the position so often. So a dead client is noticed, and one that
# resumes does not read everything again.
CHANGES_POSITION_INTERVAL_S = 5.0
# The longest wait of a request for changes: a request of the bus is answered within a bounded time.
CHANGES_WAIT_MS = 10_000
# Between two samples of metrics: each is three queries.
METRICS_INTERVAL_MS = 5_000
METRICS_LEAST_INTERVAL_MS = 1_000
METRICS_MOST_INTERVAL_MS = 3_600_000
# A story reads the whole log of an RM, at a million facts a second, beside the work of the event service.
STORY_TIMEOUT_S = 60.0
# Changes that are there arrive within this time.
CHANGES_READ_S = 0.5

# Metrics

# How often round trips to NATS and the numbers of streams are measured, and how long an answer to a ping may take.
ROUND_TRIP_EVERY_S = 15.0
ROUND_TRIP_TIMEOUT_S = 5.0
STREAM_METRICS_S = 15.0
# RMs with a label of their own in metrics. Prometheus keeps every series that it has ever seen.
METRIC_RMS = 200
# Seconds: from a decision in the core to an outage.
METRIC_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Seconds that an ask waits for its allocation: up to two hours.
METRIC_WAIT_SECONDS = (*METRIC_SECONDS, 30.0, 60.0, 300.0, 1_800.0, 7_200.0)
# Facts of a commit: of one request, of a full pass, of a request with 100,000 items.
METRIC_FACTS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0, 100_000.0, 300_000.0)
# A changed log level is reset after a day at most. Loggers of libraries that are changed at once, and their names.
LOG_LEVEL_MOST_S = 86_400.0
LOGGERS_CHANGED = 20
LOGGER_CHARACTERS = 100
# Answers of processes to a change of their log level are awaited so long.
LOG_LEVEL_ANSWERS_S = 1.0
# How often the lag of the event loop is measured.
LOOP_LAG_EVERY_S = 1.0

# Replication: leaders, standbys, snapshots

# A leader with work for longer lets other RMs of the process work, so that large messages of one delay them no longer.
TURN_S = 0.010
# Messages that the leader reads from the inbox for one commit, with the same trade-off as allocations of a pass.
COMMANDS_PER_COMMIT = 256
INBOX_BYTES_PER_COMMIT = 256_000
# A commit with so many facts, or that has taken so long, takes no further message: the RM receives nothing of a commit
# before all of it is durable.
FACTS_PER_COMMIT = 5_000
COMMIT_S = 0.050
# Between two attempts to append to a full log.
FULL_RETRY_S = 1.0
# A stream of a NATS cluster has no leader for a moment after a server fails. After this time it may be lost.
LEADERLESS_S = 3.0
LEADERLESS_RETRY_S = 0.05
# The leader waits for a wall clock that is behind by less: clocks are adjusted, and differ between machines.
CLOCKS_DIFFER_MS = 500
# Commits that a follower applies before other RMs of the process work: the largest take 10 ms each.
COMMITS_FOLLOWED_AT_ONCE = 8
# Core processes that follow an RM beside its leader (default of `core.standbys`). One tolerates the loss of a process.
STANDBYS = 1
# A core begins to follow an RM that it has not followed so far when the rule has said so for this long: a process that
# crashes is started again within it.
FOLLOWS_AFTER_S = 2.0
# A core follows an RM for so long after another was assigned: the other restores the state meanwhile, and a flapping
# core causes no restores.
FOLLOWS_ON_S = 15.0
# A lease's entry names at most so many RMs that its process could lead from now on: some 10 kB.
AWAITED_AT_ONCE = 64
# A lease that is free is left so long to the core whose turn it is.
LEFT_TO_OWNER_S = 1.0
# RMs are handed over when the same cores have been ready for so long: longer than a crashing process takes to start
# again, and a new core need not help within seconds.
SETTLED_S = 5.0
# Time after its start in which a core learns of all RMs.
READY_AFTER_S = 0.5
# The pause after an election, as a multiple of its duration.
LOOKS_APART = 4
# RMs that a process takes at the same time: more only wait for each other.
TAKES_AT_ONCE = 64
# After an outage of the bus, before an RM is taken again.
TAKE_RETRY_S = 0.2
# RMs whose snapshot is read and whose log is caught up with at the same time, when a core starts.
RESTORES_AT_ONCE = 16
# A process that is being stopped answers for at most so long; one that answers later is another of the same name.
NAMESAKE_ENDS_S = 2.0
# A leader whose append failed waits so long for the bus before it exits, to check that the log still holds the last
# durable commit: longer than a server takes to restart.
LOOK_BACK_WITHIN_S = 30.0
LOOK_BACK_RETRY_S = 0.2
# Answers take so long of a leader's time between two commits, where no other core can give them.
ANSWERS_PER_COMMIT_S = 0.005
# A snapshot is due after so many facts, which a restart replays in seconds, or after so long, so that a quiet RM has
# one, too; never sooner than SNAPSHOT_APART_S, because encoding takes seconds per 100,000 allocations.
SNAPSHOT_FACTS = 200_000
SNAPSHOT_S = 300.0
SNAPSHOT_APART_S = 20.0
# Or after so many bytes of the inbox, even without facts. INBOX holds the messages since the older of two snapshots:
# some 500 MB of its 8 GiB for an RM that sends as fast as it can. Such snapshots are written nearly at once. While one
# is written, which may take long, the leader reads no more than so many bytes.
SNAPSHOT_INBOX_BYTES = 128_000_000
SNAPSHOT_INBOX_APART_S = 1.0
READ_WHILE_WRITING_BYTES = 512_000_000
# Bytes of a message in a stream besides its payload: subject, headers, framing.
AROUND_MESSAGE_BYTES = 200
# The shortest wait: clocks round to this.
CLOCK_S = 0.001
# A state with so few objects is encoded in 2 ms, less than a fork of a large process takes.
SNAPSHOT_HERE = 300
# How long a listing of all snapshots is used: a process that starts with thousands of RMs needs it for each.
LISTING_KEPT_S = 10.0
# An idle leader checks so often whether the snapshot in work is written.
SNAPSHOT_LOOK_S = 1.0
# Digests at the same time: each takes a fork and a second of a processor.
DIGESTS_AT_ONCE = 2
# Processor time and memory of a child that tries a message: far more than the largest message takes.
TRIAL_CPU_S = 20
TRIAL_BYTES = 1024**3
# An RM is halted after so many children were killed at a message, because a child may be killed for other reasons.
TRIALS = 2
# Bytes read from a child at a time; and its niceness, so that leaders come first.
CHILD_READ_BYTES = 256 * 1024
CHILD_NICENESS = 10
# Snapshots kept per RM: the newest, and the one before in case the newest is unreadable.
SNAPSHOTS_KEPT = 2
# How long logs and inboxes are kept behind snapshots, for audits, `story`, and readers that were stopped.
REPLAY_HORIZON_S = 7 * 86_400.0
# A stream fuller than this part is trimmed regardless of the replay horizon, because a full stream stops its RMs.
TRIMMED_FROM = 0.5
# Records of a snapshot that are restored before other tasks of the process continue: 20 ms.
RECORDS_RESTORED_AT_ONCE = 1_000
