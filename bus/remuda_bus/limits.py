"""The bounds of the bus, with their reasons. The bounds of streams and buckets stand with them, in `subjects.py`."""

from __future__ import annotations

from remuda_bus.retry import RetryPolicy

# Messages

# The server's own limit of an atomic batch.
BATCH_MESSAGES = 1_000
# A reader of the stream works on the first batch while the next one is sent.
BATCH_BYTES = 256_000
# The part of a payload that is left free for the headers of its message.
HEADER_ROOM_BYTES = 4_096
# Tag and length of an element of a split request, with the names of its field.
AROUND_ELEMENT_BYTES = 24

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
# The time limit of requests that open a consumer. They are retried soon: in a cluster whose leaders change, a request
# may get no answer at all.
OPEN_TIMEOUT_S = 2.0
# The pause after a consumer, a watch or a stream could not be opened. An outage of the bus is waited out separately
# (`Connection.until_up`), so a short fixed pause is enough.
OPEN_RETRY = RetryPolicy(0.2)
# Attempts to read a stream that another process creates at the same time: its leader is elected within this time.
STREAM_CREATED_RETRY = RetryPolicy(0.2, give_up_after_s=2.0)
# Readers of single subjects of a stream that have a consumer each. More of them share one consumer of the whole stream:
# the server bounds the consumers of a stream over all processes, and each costs it. A process that reads a few subjects
# does not receive all others.
OWN_CONSUMERS = 8
# Readers that fetch missing messages at the same time: enough to keep a server busy, few enough that 5,000 readers do
# not all fetch at once after an outage.
FETCHES_AT_ONCE = 16
# The largest answer to a fetch of missing messages.
FETCH_MESSAGES = 1_000
FETCH_BYTES = 1_000_000
# The bytes that all readers of a stream buffer together. Beyond this, the reader that has waited longest drops its
# buffer and fetches the messages again.
BUFFERED_BYTES = 64_000_000
# The memory of a buffered message, beside its payload.
MESSAGE_OVERHEAD_BYTES = 1_000

# Deletions of single messages at the same time: enough to keep a server busy.
DELETES_AT_ONCE = 100

# Objects

# The chunk size of other NATS clients.
CHUNK_BYTES = 128 * 1024
# The time limit of each chunk, for upload and download.
CHUNK_TIMEOUT_S = 5.0

# Backups

# The time until the first piece of a backup: the server scans the whole stream first.
BACKUP_START_TIMEOUT_S = 60.0
# The time limit of each piece of a restored stream, and of its end. The server stores and syncs each message, and a
# well compressed piece holds very many.
RESTORE_TIMEOUT_S = 600.0

# Appending

# The time limit of an append. A batch takes a tenth of this on a slow disk. After this time the outcome is unknown,
# because a stream's leader may have failed with it. A batch is retried under the same message IDs. A commit is not
# retried: its core ends, and the next leader finds the outcome in the log.
APPEND_TIMEOUT_S = 2.0
# Retries of a batch that was refused as full or got no answer: the first pause is short for a moment's outage, the
# longest is rare enough while a stream is full.
APPEND_RETRY = RetryPolicy(0.05, longest_pause_s=2.0)

# The connection

# The oldest version of nats-server that has all that is used: atomic batches, expiry of single messages, chunks of
# direct gets, consumers that are reset.
LEAST_SERVER_VERSION = (2, 14)
# The pause between attempts to reconnect: five a second, because RMs wait for the scheduler.
RECONNECT_WAIT_S = 0.2
# The interval of pings. After two unanswered pings, the connection counts as lost.
PING_INTERVAL_S = 10
# The time limit for the end of a closed socket, which first sends what it still has. A peer that is stopped or cut off
# takes nothing more, and meanwhile the connection is not restored.
SOCKET_CLOSE_TIMEOUT_S = 1.0
# The data that waits for the socket. Beyond this, a publisher waits until the socket has accepted the data.
PENDING_BYTES = 32 * 1024 * 1024
# How often a lasting outage is logged.
OUTAGE_LOG_INTERVAL_S = 5.0

# Serving

# Requests that a process answers at the same time, beside endpoints with a bound of their own; further ones are refused
# with 503. A registration waits for the core for up to ten seconds; all other requests take milliseconds.
REQUESTS_AT_ONCE = 1_000
# The time for a round trip when an endpoint is closed: requests that have arrived are still answered.
DRAIN_TIMEOUT_S = 1.0

# Buckets

# How long the marker of an expired entry is kept for watchers: far longer than an outage after which a watcher does not
# list the bucket again.
MARKER_TTL_S = 60.0

# Processes

# The time limit for exporting the last spans of a process. They may be lost: no service depends on the trace collector.
TRACE_EXPORT_TIMEOUT_S = 1.0

# Settings

# The size of the file `remuda.yaml`: far above any real file.
SETTINGS_BYTES = 1_000_000
# Entries of a setting that is a list: each is compared with every name.
SETTING_ENTRIES = 1_000
# Problems of one file that are reported together.
SETTINGS_PROBLEMS = 100

# Requests of people (`queries`)

# A core near the client answers in milliseconds.
QUERY_TIMEOUT_S = 5.0
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

# The interface for operators (`operator_api`)

# A story reads the whole log of an RM, at a million facts a second, beside the work of the event service.
STORY_TIMEOUT_S = 60.0

# Metrics

# The longest time until the server answers a ping.
ROUND_TRIP_TIMEOUT_S = 5.0
# RMs with a label of their own in metrics. Prometheus keeps every series that it has ever seen.
METRIC_RMS = 200
# Seconds: from a decision in the core to an outage.
METRIC_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
