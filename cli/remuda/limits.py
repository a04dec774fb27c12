"""Every bound of the command line, with its reason. (Bounds of workloads and screens are in their modules.)"""

from __future__ import annotations

# The embedded server

# Of a message: what is larger is sent in parts.
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
# A bound for what streams may reserve, which is 99 GiB; what the disk holds is watched (below, Storage).
MAX_FILE_STORE_BYTES = 128 * 1024**3
# No stream of ours is kept in memory.
MAX_MEMORY_STORE_BYTES = 64 * 1024**2
# Beyond this Go's garbage collector works harder rather than take more. nats-server needs some 30 MiB, and under load
# what is on its way.
SERVER_MEMORY_SHARE = 0.125
SERVER_MEMORY_LEAST = 256 * 1024**2
SERVER_MEMORY_MOST = 1024**3
# A server reads the ends of its streams when it starts.
SERVER_READY_WITHIN_S = 10.0
SERVER_STOPS_WITHIN_S = 10.0

# Processes that are kept running

# Before a restart; doubles with each that follows soon.
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 5.0
# Having run this long, a process starts again with the first delay.
STEADY_AFTER_S = 10.0
# Then SIGKILL.
STOP_WITHIN_S = 10.0
# Of output; what is longer comes in pieces.
LONGEST_LINE_BYTES = 64 * 1024
# The log before it is kept as <name>.log.1.
LARGEST_LOG_BYTES = 16 * 1024 * 1024
# Until the services that have not answered are named.
READY_WITHIN_S = 30.0
# Interval of checks for a dead nats-server, and for services that are not ready yet.
LOOK_EVERY_S = 0.25

# Questions

# A server on this machine or near it answers in milliseconds.
CONNECT_WITHIN_S = 3.0
# Then a command asks whether there is a server at all. A connection takes a round trip, which is less everywhere; so a
# command without a server ends within a second of its start.
CONNECTED_USUALLY_S = 0.1
REACHED_WITHIN_S = 0.4
# Before a change of the file, which may concern thousands: what people read.
PREVIEWED_RMS = 10
# A follower that is less behind is not reported: it has not yet read the newest commit.
BEHIND_WORTH_A_WORD_S = 1.0
# From a decision of the core to its callback.
ON_ITS_WAY_S = 2.0
# `remuda declare` is the first to start: the servers may still be looking for each other.
DECLARE_WITHIN_S = 60.0
DECLARE_RETRY_S = 1.0

# Rebuilding

# A core notices at once that its RM is halted; its lease expires after six seconds.
CORE_STOPS_WITHIN_S = 10.0
# The RM is asked every two seconds.
REPORTS_WITHIN_S = 30.0

# Resuming

# A core resumes at once. One that hangs at the message loses its lease after six seconds, and its successor handles the
# message in a child process first.
RESUMES_WITHIN_S = 30.0

# Acting

# As rmproxy bounds it.
LONGEST_REASON_BYTES = 1_024

# Names from people

# Of a name that is refused, in the message that refuses it.
SHOWN_NAME_CHARACTERS = 60
# Of applications, asks, nodes: they travel inside requests; the services have bounds of their own.
LONGEST_IDENTIFIER_CHARACTERS = 1_024
LONGEST_QUEUE_CHARACTERS = 4_096
# With the rmID in brackets before it.
LONGEST_PARTITION_CHARACTERS = 130
# Part of a key and of a subject.
LONGEST_INSTANCE_CHARACTERS = 128
LONGEST_URL_CHARACTERS = 1_024
# PATH_MAX of Linux, without the final zero byte.
LONGEST_PATH_CHARACTERS = 4_095

# Messages that end a command

# People read it in a terminal: some twenty lines.
LONGEST_MESSAGE_CHARACTERS = 2_000
# Of a word in one: a path or a name longer than this is shortened.
LONGEST_WORD_CHARACTERS = 400
# Of one about wrong usage, which repeats what was typed.
LONGEST_USAGE_CHARACTERS = 300

# Completion in a shell

# Completion must feel immediate.
COMPLETE_WITHIN_S = 1.0
# Of resource managers, where one has to be named; and of names that resemble an unknown one.
NAMED_RMS = 10
SUGGESTED_NAMES = 3
# An explanation waits so long for forecasts that nobody has asked for lately. Few asks are forecast in less than 1 s.
FORECAST_WITHIN_S = 5.0
# Keys of asks that wait like the one that is shown: a line or two.
ASKS_ALIKE_NAMED = 8
# Names that a shell offers: more are no help.
COMPLETIONS = 1_000

# Storage

# A warning, early enough to act: a day of a busy system, or a tenth of a small disk.
LOW_BYTES = 10 * 1024**3
LOW_SHARE = 0.1
# Below this a write of nats-server may fail (its largest message is 8 MiB, its blocks are 8 MiB and smaller).
FULL_BYTES = 32 * 1024**2
FULL_SHARE = 0.02
STORAGE_EVERY_S = 1.0
# Of nats-server's log, at each look.
LOG_LOOK_BYTES = 256 * 1024
# A server that has failed to write may ignore SIGTERM; then it is killed. Acknowledged messages are on disk.
JAMMED_SERVER_STOPS_WITHIN_S = 2.0
# Of a stream's own limit: a warning.
STREAM_LOW_SHARE = 0.8
STORAGE_ANSWERS_WITHIN_S = 1.0

# Status, dead letters

# The service answers from memory, in milliseconds; without its answer the rest is shown.
CONFIGURATION_ANSWERS_WITHIN_S = 1.0
# The number of a version, as JSON keeps it in every language.
LARGEST_VERSION = 2**53 - 1
# The first problems of a refused configuration.
PROBLEMS_SHOWN = 3
# Faults on record of RMs that are not halted: those of a week, the newest.
FAULTS_SHOWN_S = 7 * 86_400.0
FAULTS_SHOWN = 10
# `--watch` and `remuda top`: as often as people look.
WATCH_EVERY_S = 2.0
# Of a table with `-o wide`: nothing is folded or left out.
WIDE_COLUMNS = 2_000
# Services that do not answer a ping for so long are not running: a busy one takes a second or two.
ABSENT_AFTER_S = 3.0
# `remuda top` that shows one moment counts the allocations of this time before.
RATE_OVER_S = 1.0
# Asks whose reasons `remuda top` counts, of each RM.
TOP_ASKS = 200
# Reasons it shows.
TOP_REASONS = 5
# Event records that `remuda events` shows at most; those before are in `/ws/v1/events/batch`.
EVENTS_SHOWN = 10_000
# What is kept of the history comes at once; after a gap, nothing more comes.
EVENTS_WITHIN_S = 1.0
# RMs whose cores are asked at the same time.
ASKED_AT_ONCE = 32
# The newest.
DEAD_LETTERS_SHOWN = 50
# Of the content of one, in a terminal.
DEAD_LETTER_CHARACTERS = 4_000

# Progress

# Often enough to be seen moving; in a file or a log, which keeps every line, more seldom.
PROGRESS_DRAWN_EVERY_S = 0.2
PROGRESS_LINE_EVERY_S = 5.0

# A scheduler in the program's own process

# Between two lives of a service: what it waits for has changed by then, and a loop of failures costs little.
IN_PROCESS_RESTART_S = 0.1
# Until its services answer: they are imported and read their settings, on a busy machine.
IN_PROCESS_READY_S = 30.0
IN_PROCESS_CHECK_S = 0.01
# How long `remuda dump` waits for the RM, which may have to collect its state.
DUMP_WITHIN_S = 10.0
# How long a changed log level lasts: as long as one looks at it.
LOG_LEVEL_FOR_S = 600.0

# Drafts of queues.yaml

# Far above what people write; the parser that keeps comments reads some 100,000 characters a second.
LARGEST_IMPORT_CHARACTERS = 4_000_000
LARGEST_IMPORT_BYTES = 4 * LARGEST_IMPORT_CHARACTERS
# As many as the configuration service reads. Each use of an alias counts.
MOST_IMPORTED_VALUES = 200_000
# Each round mends what the checker found in the one before; what is mended may show what was hidden behind it.
SETTLING_ROUNDS = 100
# Lines of a draft are not folded: an amount stays beside its name.
DRAFT_COLUMNS = 4_096
# Each part of a note. It quotes names and values of the source.
LONGEST_NOTE_CHARACTERS = 300

# The past

# Differences that a comparison of decisions keeps with their names; all are counted.
DIFFERENCES_KEPT = 1_000

# Keys and certificates in a Kubernetes cluster

# A CA lives as long as an installation is likely to stay. Its successor comes while both can be trusted side by side.
CA_DAYS = 3650
CA_RENEWED_BEFORE_DAYS = 1095
# Only upgrades renew certificates, and an installation may go without one for a year or two. Expired ones would end it.
CERTIFICATE_DAYS = 1095
CERTIFICATE_RENEWED_BEFORE_DAYS = 730
# Of all calls of the API server together, which may be restarting.
CLUSTER_KEYS_WITHIN_S = 120.0
CLUSTER_KEYS_RETRY_S = 0.5
CLUSTER_KEYS_LONGEST_PAUSE_S = 5.0
