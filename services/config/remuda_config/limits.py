"""Every bound of the configuration service, with its reason. (Bounds of users and groups: `rules/user_limits.py`.)"""

from __future__ import annotations

from typing import Final

# A text of queues.yaml. It may come from any RM.

# Far above any real text.
MAX_TEXT_BYTES: Final = 4_000_000
# A queue with quotas and limits has about 20 values; 80,000 values take a second to read. Each use of an alias counts:
# a text of one kilobyte may expand to gigabytes.
MAX_NODES: Final = 200_000
# Each partition of an RM has queues, nodes and an index in the core. Checked while the text is read.
MAX_PARTITIONS: Final = 100
# The core evaluates the rules one after the other for each application.
MAX_RULES: Final = 100
# Users and groups in the limits of one queue or partition. Each application is compared with all of them.
MAX_LIMITED_NAMES: Final = 10_000
# A path of 64 queues has 130 levels of YAML.
MAX_DEPTH: Final = 200
# Protobuf messages nest at most 100 deep, and each queue is one level.
MAX_QUEUE_DEPTH: Final = 64
# Resources on devices of a partition. The core sorts the devices of each of them when a node changes.
MAX_DEVICE_RESOURCES: Final = 8
# The amount of a device with the node sort policy `fragmentation`. The core keeps a number for every amount.
MAX_PRICED_UNIT: Final = 10_000
# Levels of a topology: the core counts what fits in each domain on the path of a node that changes. And the name of the
# attribute of a level.
MAX_TOPOLOGY_LEVELS: Final = 8
MAX_ATTRIBUTE_BYTES: Final = 256
# Windows of a calendar: the core compares each node that comes with all of them. The queues that nodes are kept for:
# the core keeps a number for each of them at every node. Queues with settings in windows, in all, also those that only
# inherit them: each is in every version of the partition's settings. Days on which a window does not come.
MAX_WINDOWS: Final = 100
MAX_KEPT_QUEUES: Final = 8
MAX_QUEUES_IN_WINDOWS: Final = 1_000
MAX_SKIPPED_DAYS: Final = 366
# Placement rules in a chain of parents. Protobuf messages nest at most 100 deep.
MAX_RULE_CHAIN: Final = 16

# The answer to a text.

# Problems of one text.
MAX_PROBLEMS: Final = 1_000
# The message of one problem. It quotes parts of the text.
MAX_MESSAGE_CHARACTERS: Final = 500
# Reserved in a message beside the configuration: headers, JSON quoting, names.
ROOM_FOR_THE_REST_BYTES: Final = 64 * 1024

# Worker processes, which read texts.

# Worker processes at the same time. A second one reads the texts of other RMs while one text takes long.
WORKERS: Final = 2
# Only one text above this size is read at a time, so that large texts leave a worker to small ones. A text of 64 kB has
# some 8,000 values, far more than most configurations.
LARGE_TEXT_BYTES: Final = 64_000
# Processor time for the text of an RM. rmproxy waits 5 s for the answer.
LOAD_CPU_S: Final = 4
# Processor time for the file, which comes from an operator: several times what MAX_NODES values take.
LOAD_FILE_CPU_S: Final = 60
# How much longer a worker may take than its processor time: it starts within a second, and the machine may be busy.
LOAD_TIMEOUT_S: Final = 30.0
# A worker may end for other reasons than its text, so the text is read once more by another one.
LOAD_ATTEMPTS: Final = 2
# An idle worker ends at once.
WORKER_STOPS_WITHIN_S: Final = 1.0
# Address space of a worker. MAX_NODES values take 200 MB.
WORKER_MEMORY_BYTES: Final = 512 * 1024 * 1024
# Leaders on the same machine come first: an operator waits a second for a change, an ask some milliseconds.
WORKER_NICENESS: Final = 10

# Answers kept until the RM is registered: twice the RMs of one system. An RM whose registration is refused leaves its
# answer behind. An RM whose answer is dropped too early is sent the file's text once more.
ANSWERS_KEPT: Final = 10_000

# Versions. How many are kept: `remuda_bus.subjects`.

# Texts of RMs that are kept until their registration is accepted. An RM that registers with a text is on record within
# seconds. Beyond this, the version of the oldest one is not kept.
AWAITED_TEXTS_BYTES: Final = 64_000_000
# Why a version was made: a few sentences, or a link.
VERSION_MESSAGE_CHARACTERS: Final = 1_000
# Changes listed with a version. All others are found by comparing the two texts.
CHANGES_KEPT: Final = 200
# Keys set or unset by one request. The text is parsed for each; a script that changes more sends a text.
MAX_EDITS: Final = 50
# The deadline of a staged change: shorter, and no operator can confirm it; longer, and it is forgotten.
STAGE_MIN_MS: Final = 1_000
STAGE_MAX_MS: Final = 7 * 86_400_000
# How often the clock is compared with the deadline of a staged change.
STAGE_CHECK_INTERVAL_S: Final = 1.0
# The age of an answer by which the file is written. A staged change ends after STAGE_MIN_MS at the earliest.
IN_FORCE_S: Final = 1.0
# Between attempts to roll back a staged change that failed.
RETRY_S: Final = 5.0

# The file.

# Network file systems, and folders that appear and disappear, report no changes.
FILE_CHECK_INTERVAL_S: Final = 5.0
# One save of an editor is several events, within milliseconds. A text that is read too early is read once more.
FILE_SETTLE_MS: Final = 100
