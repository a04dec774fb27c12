"""Every bound of this room, with its reason."""

from __future__ import annotations

from typing import Final

# Below this, two amounts of a resource are equal (cores, devices, MB). Peloton's clients expect its arithmetic.
EPSILON: Final = 0.0009

# The largest amount of a task or a pool (cores, devices, MB). Sums of it stay finite; an infinite sum never ends, and
# makes the entitlements of other pools no numbers.
AMOUNT: Final = 1e12

# Gangs of one leaf that one admission pass looks at, so that one leaf cannot hold up the others. Peloton's number.
LOOKS_PER_LEAF: Final = 1_000

# Gangs in the ready queues of all types. Peloton's number; a gang that does not fit stays pending.
READY_GANGS: Final = 100_000

# Placements that wait for GetPlacements. Peloton's number; engines are refused beyond it.
PLACEMENTS: Final = 1_000_000

# Candidates that wait for GetPreemptibleTasks. Peloton's number; the next preemption cycle finds the rest again.
PREEMPTION_CANDIDATES: Final = 10_000

# Share of the reservation that revocable tasks may use of memory, disk and gpu, if the pool names none, in percent.
SLACK_LIMIT_PERCENT: Final = 20.0

# Rounds of pass 2 in which an entitlement is computed exactly as Peloton does. Its rounds approach the result
# geometrically, and need thousands if a child with a tiny share is the last that wants more; then the rest is computed
# at once.
ROUNDS: Final = 100

# Pools below root. Entitlements of this many take about 100 ms, during which nothing else is decided.
POOLS: Final = 10_000

# Pools of one fact about changed entitlements, 150 bytes each: a fact fits into one message of the log.
ENTITLEMENTS_PER_FACT: Final = 500

# A preemption cycle takes so long of each commit, and goes on in the next one: looking at 10,000 pools takes 20 ms, and
# choosing among 100,000 tasks of one pool as long again.
PREEMPTION_S: Final = 0.010
POOLS_PER_LOOK: Final = 50
# Tasks that are preempted in one step of it, which takes some ms. All 100,000 of a pool take seconds.
VICTIMS_PER_STEP: Final = 50

# Depth of the pool tree; each level is a step of the calculation, and paths stay readable.
POOL_DEPTH: Final = 32

# Timers handled in one commit, so that a flood of time-outs does not delay RPCs.
TIMERS_PER_TICK: Final = 10_000

# Gangs, placements and candidates of one call. Clients ask for 10 to 100; it bounds a commit.
LIMIT_PER_CALL: Final = 10_000

# Tasks of one EnqueueGangs call, so that a commit fits into a few messages. Job managers send at most 1,000.
TASKS_PER_CALL: Final = 10_000

# The largest request. EnqueueGangs of 10,000 tasks has 15 MB.
REQUEST_BYTES: Final = 32 * 1024 * 1024
# The largest response. Peloton's number; its clients are configured for it. Questions about all tasks have the largest.
RESPONSE_BYTES: Final = 256 * 1024 * 1024
# The largest request in JSON, which takes fifty times as long to read as in protobuf.
JSON_BYTES: Final = 1024 * 1024
# RPCs at the same time, of all clients: most are long polls, which cost some kB each.
RPCS_AT_ONCE: Final = 4_000
# RPCs at the same time of one caller: of one certificate, or of one address where there are no certificates. So one
# caller does not take all.
RPCS_OF_CALLER: Final = 500
# RPCs at the same time of one connection.
RPCS_OF_CONNECTION: Final = 200
# Requests of one caller that are being received at the same time. Only they have memory for their messages.
RECEIVED_AT_ONCE: Final = 16
# A request is received within this time, or its RPC ends.
RECEIVED_WITHIN_S: Final = 30.0
# Bytes of requests and responses of one caller that are under way, beyond which its RPCs are refused: a client that
# does not read what it has asked for.
BYTES_OF_CALLER: Final = 512 * 1024 * 1024
# A long poll waits at most so long. Peloton's clients ask again after 100 ms to 10 s.
LONG_POLL_S: Final = 60.0
# A client that answers no ping for KEEPALIVE_TIMEOUT_S is gone, so its RPCs end within KEEPALIVE_S more.
KEEPALIVE_S: Final = 10.0
KEEPALIVE_TIMEOUT_S: Final = 5.0
# Clients may ping as often. YARPC's do so every 10 s.
CLIENT_PING_S: Final = 5.0
# Characters of the name of a pool or a host. Paths of names stay readable, and are in every answer about a pool.
NAME_CHARACTERS: Final = 256

# Records in one piece of a snapshot (200 kB), which bounds what is in memory twice.
SNAPSHOT_RECORDS_PER_PIECE: Final = 1_000

# Bytes of an answer that takes what there is: it is in the log, and clients that want more ask again.
ANSWER_BYTES: Final = 128 * 1024

# A message of the inbox takes at most this part of the server's payload limit, so that its facts and its answer, which
# repeat it, fit into messages of the log. Larger requests are divided.
PAYLOAD_PARTS: Final = 4

# An RPC that is not answered within this time is refused: no process leads, or the log is full.
ANSWERED_WITHIN_S: Final = 30.0

# Between two admission passes while there is news: a pass over many leaves without room takes some ms.
ADMISSIONS_APART_MS: Final = 5
# A pass takes so long of each commit, and goes on in the next one: over 10,000 leaves without room it takes 0.2 s.
ADMISSION_S: Final = 0.020
# A pass takes at most this share of the time.
ADMISSION_SHARE: Final = 0.25
# Timers within this time are handled together.
TIMERS_MS: Final = 100

# Gauges of the state are set at this interval: a million tasks are counted in 60 ms.
METRICS_S: Final = 15.0
# Pools with metrics of their own, those near root first: each has 20 time series. Pools with children have the sums.
METRIC_POOLS: Final = 200
# Ports of hosts are below this.
PORTS_END: Final = 65_536

# Peloton's gRPC port, for which its clients are configured.
PORT: Final = 5394

# Gangs that an engine asks for at once. More of them would wait for the placing of others.
GANGS_PER_TURN: Final = 200
# An engine's question for gangs waits so long; then it looks at the gangs that it holds.
DEQUEUE_WITHIN_S: Final = 0.5
# Placements of one request of an engine, 150 kB, unless a gang alone has more: a request that is larger than a quarter
# of the server's payload limit is divided, and a gang with it.
PLACEMENTS_PER_REQUEST: Final = 1_000
# Partitions of resource managers with which hosts are shared: each costs a sum over its hosts.
SHARINGS: Final = 64
# Hosts that may be reserved at the same time, of all; at least one. They are idle in part, while others wait.
RESERVED_PERCENT: Final = 10
# An engine looks for hosts to reserve so often, each time for so many tasks: it looks at all hosts for each.
RESERVE_S: Final = 1.0
RESERVATIONS_PER_TURN: Final = 10
# Tasks for which an engine found no room, and that it tries again. Beyond it, they are reported at once.
HELD_TASKS: Final = 10_000
# An engine reads all hosts after this time, not only those that have changed.
ALL_HOSTS_S: Final = 60.0
# An engine asks a resource manager that does not answer again after this time.
ENGINE_RETRY_S: Final = 0.5
# An RPC of an engine may take so long.
ENGINE_RPC_S: Final = 35.0
# A hosts file is looked at so often.
HOSTS_FILE_S: Final = 1.0
# Bytes of a hosts file: 50,000 hosts.
HOSTS_FILE_BYTES: Final = 16 * 1024 * 1024
# The part of the hosts by which an engine goes on when it meets another one: the golden section. Its steps around a
# circle stay far from each other, however many they are.
ELSEWHERE: Final = 0.618
# Pools on a page of a query, and lines of a story: some 300 kB.
POOL_ROWS: Final = 400
STORY_LINES: Final = 1_000
# A story reads the whole log; one is read at a time. The client waits longer (`remuda_bus.limits.STORY_TIMEOUT_S`).
STORY_WITHIN_S: Final = 45.0
# Tasks of a gang that an explanation lists; a gang may have 10,000.
EXPLAINED_TASKS: Final = 100
# Rows of each list of a preview of pools, and tasks that an effect names: some 300 kB.
PREVIEW_ROWS: Final = 400
PREVIEW_TASKS: Final = 10
# A pools file is looked at so often; one that is refused is tried again after POOLS_RETRY_S.
POOLS_FILE_S: Final = 1.0
POOLS_RETRY_S: Final = 10.0
# Bytes of a pools file: 10,000 pools with every kind.
POOLS_FILE_BYTES: Final = 4 * 1024 * 1024
# Characters of a text in a pools file.
POOL_TEXT: Final = 256
# Changes of pools that one line of the log names.
POOL_CHANGES_SHOWN: Final = 20

# The largest amount of a queue of guests: a pool's limit may be larger than si.v1 can say.
GUEST_AMOUNT: Final = 2**62
# Characters of a queue's name, as the configuration of queues allows.
GUEST_QUEUE_CHARACTERS: Final = 64
# The engine of a shared partition. A request of so many asks takes some 200 kB with the longest IDs that Peloton makes.
GUESTS_PER_REQUEST: Final = 500
PARTITION_REQUEST_S: Final = 5.0
# The core handles a request within milliseconds; one that is so far behind is not led.
PARTITION_BEHIND_S: Final = 10.0
# Queries to the core at the same time.
PARTITION_QUERIES: Final = 16
PARTITION_POLL_S: Final = 0.02
# Code of a query about an application that is not there.
NO_SUCH_ROWS: Final = 404
# A run that stays where it is for so long after it was preempted is preempted again.
PREEMPT_AGAIN_S: Final = 5.0
