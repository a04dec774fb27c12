"""Every bound of the core, with its reason."""

from __future__ import annotations

from typing import Final

# One pass of scheduling may allocate this much before it is committed: large enough that a synced append (about 0.5 ms)
# is a small part of it, small enough that a new ask waits only some 20 ms behind a pass under full load.
ALLOCATIONS_PER_PASS: Final = 2_000

# How many node groups a pass may look at for reservations, some 10 ms; what is left over waits for the next pass.
# And how many demands without a node to reserve are woken by one node that comes free.
RESERVATION_WORK_PER_PASS: Final = 20_000
RESERVATION_WAKES: Final = 100

# Where asks of more sizes than this, and than there are leaf queues with asks, fit what a node gained, they are
# searched instead of being opened: each takes some 5 us. For at most so many nodes at a time: they are searched one by
# one.
OPEN_AT_ONCE: Final = 8
FREED_NODES: Final = 4

# What the leader takes out of the inbox before it decides and commits: the same balance, on the way in.
COMMANDS_PER_COMMIT: Final = 256
INBOX_BYTES_PER_COMMIT: Final = 256_000

# After so many facts, or a command, the leader looks at a clock, and after TURN_S it lets others of its process go on:
# an RM with large messages costs the others no more than that at a time.
FACTS_PER_STEP: Final = 64
# The same after so many nodes, queues, applications and asks of a scheduling index that is built: some 5 ms where nodes
# have many resource names.
INDEXED_PER_STEP: Final = 64
TURN_S: Final = 0.010
# A commit of so many facts, or one that has taken so long, takes in no further message: it is written and read as a
# whole, and the RM receives nothing of it before all of it is durable.
FACTS_PER_COMMIT: Final = 5_000
COMMIT_S: Final = 0.050

# A log that is full stays full until somebody makes room.
FULL_RETRY_S: Final = 1.0

# A stream of a cluster has no leader for a moment when a server goes. Longer than that, and the stream may be gone.
LEADERLESS_S: Final = 3.0
LEADERLESS_RETRY_S: Final = 0.05

# Resources come in few shapes and a thousandfold: equal ones are read once and shared. Bounded, because shapes come
# from outside.
SHAPES: Final = 10_000

# Time passes for the core at least once a second.
TICK_MS: Final = 1_000
# A wall clock that is behind by less is waited for: clocks are corrected all the time, and two machines never agree.
CLOCKS_DIFFER_MS: Final = 500
# A timer that is due earlier is not made to wait for that, but many of them are taken together.
TIMERS_MS: Final = 100

# Queues that are not needed any more go that often: looking for them looks at every queue, and a queue that is about to
# be used again is better left where it is.
CLEAN_QUEUES_MS: Final = 10_000

# A waiting ask is explained at most this often for the same reason (semantics section 17).
EXPLAIN_AGAIN_MS: Final = 60_000
# An ask that waits for less than this is not worth a word: it is only in the queue.
EXPLAIN_AFTER_MS: Final = 1_000
# So many lines of asks are looked at in one tick, and for so many sizes of asks the nodes: looking through 10,000 takes
# some 10 ms.
EXPLAIN_LINES_PER_TICK: Final = 200
EXPLAIN_NODES_PER_TICK: Final = 5

# Questions to an RM that wait for an answer: each answer takes some 5 ms, so this is far more than an RM answers
# meanwhile, and all of them are lost at once where it goes away.
QUESTIONS_OPEN: Final = 1_000
# An RM that has not answered by then has refused.
ANSWER_WITHIN_MS: Final = 5_000
# So long after the last refusal an ask may have any node again: what the RM looks at changes without a word to us.
REFUSALS_LAST_MS: Final = 30_000

# A pass makes at most so many attempts to preempt, and no more than it takes to look at so many allocations: some
# 30 ms.
PREEMPTIONS_PER_PASS: Final = 10
PREEMPTION_WORK_PER_PASS: Final = 50_000
# A pass that used up its budget leaves preemption to the next one, unless an ask has been due to preempt for so long.
PREEMPTION_PUT_OFF_MS: Final = 1_000
# Of asks that are bound to a node so many: each looks at one node only.
BOUND_ATTEMPTS_PER_PASS: Final = 100
# After an attempt that led nowhere there is none for a millisecond per so many allocations in the cluster: looking at
# them took half of that, so preemption never takes more than a third of the time.
ALLOCATIONS_PER_MS_OF_REST: Final = 1_000
# So many nodes that could do are compared, those first that lack the least: some 10 ms.
NODES_PER_PLAN: Final = 200
# One ask is not worth more: an operator should be able to read what a plan says.
VICTIMS_PER_PLAN: Final = 100
# A queue cannot have more preemptions under way: it takes back what is guaranteed to it as fast as the RM confirms.
PREEMPTIONS_PER_QUEUE: Final = 100
# What was placed by preemption is not preempted itself for so long: nobody takes turns.
PLACED_BY_PREEMPTION_MS: Final = 600_000
# How long it is remembered that nothing could be preempted for asks of one kind: longer than any interval between
# attempts.
REFUSAL_KEPT_MS: Final = 3_600_000
# Of so many kinds in a queue: more than are tried within an interval.
REFUSALS_KEPT: Final = 10_000
# The RM has this long to confirm a release that it was asked for: graceful termination takes 30 s, seldom minutes.
RELEASE_OVERDUE_MS: Final = 300_000

# So many asks for which there is no node are told of one by one in a tick: an RM hears of a large backlog within
# minutes, and the log hardly grows by it.
OUTSTANDING_PER_TICK: Final = 1_000
# Of an application's asks that are alike so many are told of: nobody adds nodes for more at once.
OUTSTANDING_LOOKS: Final = 10_000

# What a follower takes out of a log at a time: applying the largest commits takes some 10 ms each, and whatever else
# the process leads waits meanwhile.
COMMITS_FOLLOWED_AT_ONCE: Final = 8

# Core processes that follow an RM beside its leader (default of REMUDA_STANDBYS). One tolerates the loss of a process.
STANDBYS: Final = 1
# A core begins to follow an RM that it has not followed so far when the rule has said so for this long: a process that
# crashes is started again within it.
FOLLOWS_AFTER_S: Final = 2.0
# A core that need not follow an RM any more goes on for this long: the core in its place restores the state meanwhile,
# and one that flaps makes nobody restore anything.
FOLLOWS_ON_S: Final = 15.0
# A lease's entry names at most so many RMs that its process could lead from now on: some 10 kB.
AWAITED_AT_ONCE: Final = 64
# The parts of a discarded state that are freed before others of the process go on: less than 1 ms.
DISCARDED_AT_ONCE: Final = 1_000
# A question that this core passes on to the leader is answered between two commits.
PASSED_ON_WITHIN_S: Final = 4.0

# A lease that is free is left so long to the core whose turn it is.
LEFT_TO_OWNER_S: Final = 1.0
# RMs are handed over when the same cores have been ready for so long: longer than a crashing process takes to start
# again, and a new core need not help within seconds.
SETTLED_S: Final = 5.0
# So long after its start a core has heard of all RMs there are.
READY_AFTER_S: Final = 0.5
# After a look at who should lead what, the next comes no sooner than after so many times what it took.
LOOKS_APART: Final = 4
# RMs that a process takes at the same time: more only wait for each other.
TAKES_AT_ONCE: Final = 64
# After an outage of the bus, before an RM is taken again.
TAKE_RETRY_S: Final = 0.2
# RMs whose snapshot is read and whose log is caught up with at the same time, when a core starts.
RESTORES_AT_ONCE: Final = 16
# A process that was told to stop answers for so long; one that answers then is another of the same name.
NAMESAKE_ENDS_S: Final = 2.0

# A leader that is in doubt waits so long for the bus before it dies, to see whether the log still holds what was
# durable: longer than a server takes to start again.
LOOK_BACK_WITHIN_S: Final = 30.0
LOOK_BACK_RETRY_S: Final = 0.2

# Releases that name no application find it in a list of keys, which is made anew when it holds twice what is alive and
# this much more: so each costs a little, however many applications there are.
KEYS_LISTED: Final = 1_000

# Allocations of one RM, in all its partitions: some 2 GB of memory in each core. Asks wait beyond that.
ALLOCATIONS_PER_RM: Final = 2_000_000
# Allocations on one node, those included that are about to come or that the RM is asked about: far more than a machine
# runs, and an ask of tiny amounts on a huge node ends there. What one node has is released in one step when it goes.
# Asks wait beyond that.
ALLOCATIONS_PER_NODE: Final = 10_000
# Distinct resource names of a partition's nodes and maxima: each group of equal nodes has an amount for each of them.
# With so many, 20,000 nodes that all differ take 3 s to be put in order.
RESOURCE_NAMES_PER_PARTITION: Final = 64

# Records of rejected applications in one partition: enough to look up what went wrong, and an RM that sends nonsense
# for days cannot fill the memory.
REJECTED_APPLICATIONS: Final = 1_000

# Of the states that an application was in: how it began, and what it did last. One that is served ask by ask changes
# its state with each; what happened in between is in the log.
FIRST_STATES: Final = 8
LAST_STATES: Final = 24

# So many groups of nodes, and ways from one to another by an allocation of some size, are remembered beyond a few for
# each node: to make a group takes as long as to find out that it is empty, and a way some 100 bytes.
NODE_GROUPS_KEPT: Final = 1_024
WAYS_KEPT: Final = 16_384

# So many needs have a bit each in what is kept of every group of nodes: a cluster has asks of some hundred shapes, and
# ANDs of integers of this length still cost little more than of short ones.
NEEDS_KEPT: Final = 256

# In so many ways (order of the names, names with 0) of writing the same resource an index finds it at once.
WRITINGS: Final = 8

# What is over is taken out of a list when it comes to the front, and otherwise once it outnumbers what is alive and is
# more than this: clearing so few away costs less than looking for them.
LEFTOVERS: Final = 64
# A part of the state has at most so many entries for each thing that is alive, and LEFTOVERS for each of its objects:
# what is over is cleared away once it outnumbers what is alive, in some parts a little later.
ENTRIES_PER_THING: Final = 4
# A sum keeps so many names before those are removed that came to zero: to find a name is quicker than to add it.
NAMES_KEPT: Final = 32

# Task groups of an application that are remembered although no placeholder of them is left: an application has a
# handful.
TASK_GROUPS_KEPT: Final = 100

# Applications that have ended, in one partition: what people look up is hours old. A thousand take
# 1 MB.
ENDED_APPLICATIONS: Final = 10_000

# One ask stands for at most this many allocations: keeps pending sums of any number of asks inside what people can
# read.
MAX_ALLOCATIONS: Final = 2**31 - 1

# A page of an answer: far below the 1 MB that a NATS server takes unless it is told otherwise, and no more rows than
# take the leader some 10 ms.
PAGE_ROWS: Final = 1_000
PAGE_BYTES: Final = 500_000
# So many new entries are sorted into a listing one by one; more are sorted with the rest.
SORTED_IN_SINGLY: Final = 100
# The order of so few entries is not kept: sorting them takes some 30 µs.
SORTED_ANEW: Final = 100
# Listings of one RM: of its dictionaries, and of those of so many applications, queues and nodes that were asked about.
LISTINGS: Final = 64
# What is only good for answers goes after so long without a question, and sums are made anew once a second.
ANSWERS_KEPT_S: Final = 60.0
SUMS_KEPT_S: Final = 1.0
# A question may wait so long for a commit that it wants to see.
LOG_SEQ_WITHIN_S: Final = 2.0
# Answers take so long of a leader's time between two commits, where no other core can give them.
ANSWERS_PER_COMMIT_S: Final = 0.005
# Answers take at most this share of a process's time, over more than ANSWER_BURST_S: a core that leads other RMs, or
# shares processors with one that does, leaves them the rest.
ANSWER_SHARE: Final = 0.5
ANSWER_BURST_S: Final = 0.2
# So many questions wait, for two seconds if all are for pages of 1,000 rows; others are refused at once. The leader
# takes so many at once along with a commit.
QUESTIONS_WAITING: Final = 200
ANSWERED_AT_ONCE: Final = 8
# For so many sizes of asks a page of explanations looks through the nodes; see EXPLAIN_NODES_PER_TICK.
PAGE_NODE_LOOKS: Final = 5

# Snapshots are written in pieces of so many records, some 100 kB: what is in memory twice is small.
SNAPSHOT_RECORDS_PER_PIECE: Final = 1_000
RECORDS_RESTORED_AT_ONCE: Final = 1_000  # some 20 ms
# A snapshot is due after so many facts, which a restart replays in some seconds, or after so long, so that a quiet RM
# has one too. Never sooner after the last than this: writing one takes seconds of a processor per 100,000 allocations.
SNAPSHOT_FACTS: Final = 200_000
SNAPSHOT_S: Final = 300.0
SNAPSHOT_APART_S: Final = 20.0
# Or after so many bytes of the inbox whatever came of them. INBOX holds what was read since the older of two snapshots:
# some 500 MB of its 8 GiB for an RM that sends as fast as it can. Such snapshots are written nearly at once. While one
# is written, which may take long, the leader reads no more than so much.
SNAPSHOT_INBOX_BYTES: Final = 128_000_000
SNAPSHOT_INBOX_APART_S: Final = 1.0
READ_WHILE_WRITING_BYTES: Final = 512_000_000
# What a message takes in a stream beside its payload: subject, headers, its place.
AROUND_MESSAGE_BYTES: Final = 200
# Nothing is waited for in smaller steps: clocks differ by as much in how they round.
CLOCK_S: Final = 0.001
# A state of so few things is encoded in a millisecond or two, less than a fork of a large process takes.
SNAPSHOT_HERE: Final = 300
# The names of all snapshots are listed again after so long: a process that starts with thousands of RMs asks for each.
LISTING_KEPT_S: Final = 10.0
# While a snapshot is written, a leader that has nothing else to do looks so often whether it is done.
SNAPSHOT_LOOK_S: Final = 1.0
# Each takes a fork, and a child that works for a second or so.
DIGESTS_AT_ONCE: Final = 2
# A child that tries what has killed two processes: far more time and memory than the largest message takes.
TRIAL_CPU_S: Final = 20
TRIAL_BYTES: Final = 1024**3
# A message is set aside only after so many children have ended at it: something else may kill a child, too.
TRIALS: Final = 2
# What a child process has encoded is read in pieces of this size, and it gives way to whoever decides.
CHILD_READ_BYTES: Final = 256 * 1024
CHILD_NICENESS: Final = 10
# The newest, and the one before in case that one cannot be read.
SNAPSHOTS_KEPT: Final = 2
# So long logs and inboxes stay for audits, `story` and readers that were away, though snapshots make them superfluous.
REPLAY_HORIZON_S: Final = 7 * 86_400.0
# Of a stream that is fuller than this everything may go that is superfluous: a full one stops everything.
TRIMMED_FROM: Final = 0.5
