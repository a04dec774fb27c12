"""Every bound of the core, with its reason."""

from __future__ import annotations

from typing import Final

# Allocations of one pass, which one commit holds: large enough that a synced append (0.5 ms) is a small part of it,
# small enough that a new ask waits 20 ms for a pass under full load.
ALLOCATIONS_PER_PASS: Final = 2_000
# The most that a setting may ask for: a pass, and the commit that holds it, then take a quarter of a second.
MOST_ALLOCATIONS_PER_PASS: Final = 20_000

# Steps (`PassBudget`) of one pass in all partitions (50 ms): searches take longer where nodes and asks differ. Where
# they are alike a pass reaches ALLOCATIONS_PER_PASS first.
STEPS_PER_PASS: Final = 9_000
STEPS_PER_PLACEMENT: Final = 4
# Besides: to seek what a group places next; to count anew how many members a changed node takes.
STEPS_PER_GROUP: Final = 12
STEPS_PER_CHANGED_NODE: Final = 3
STEPS_PER_QUEUE: Final = 2
# A member is ranked again because time has passed (8 us).
STEPS_PER_RANK: Final = 2
# Up to so many users or applications of a leaf queue are ranked again only when they come first, in the worst case all
# of them at once (10 ms).
RANKED_LAZILY: Final = 2_000
# Besides the branches it looks into: a search for a node begins (1 us), and the node found changes its place (4 us).
STEPS_PER_SEARCH: Final = 2

# Asks that have waited longer than the patience of their queue, and that a pass looks at beside the ask that is next
# (2 us each, once in a pass while they are blocked).
LATE_ASKS_PER_PASS: Final = 500

# Node groups that a pass checks for reservations (10 ms); the rest waits for the next pass.
# Demands without a node to reserve that one freed node wakes.
RESERVATION_WORK_PER_PASS: Final = 20_000
RESERVATION_WAKES: Final = 100

# A promise moves at most so often, and only by more than this part of what is left: people read promises. A release
# that is late is expected within the same time.
PROMISE_CHANGES_MS: Final = 60_000
PROMISE_CHANGES_SHARE: Final = 10
# Run times that are remembered of a user and a name, and such pairs in a partition (20 MB).
RUNS_KEPT: Final = 20
RUNTIMES_KEPT: Final = 10_000
# The same of all users together: what is drawn for users of whom little is known.
RUNS_KEPT_OF_ALL: Final = 500
# Waiting repeats of a partition that a forecast plays, in the order of queues; and looks at asks and nodes in one play
# (1 s).
ASKS_FORECAST: Final = 8_000
# Rows of an answer about starts; forecasts whose truth is waited for, so that later ones say how often they hold.
FORECAST_ROWS: Final = 1_000
FORECAST_ROWS_MOST: Final = 8_000
FORECASTS_OPEN: Final = 2_000
# Asks are forecast again when somebody looks and the last time is so long ago. Older forecasts than the second are not
# shown: nobody has looked for some time.
FORECASTS_EVERY_MS: Final = 60_000
FORECASTS_SHOWN_MS: Final = 300_000
# Forecasts in the background take at most this share of one processor, at the lowest priority.
FORECASTS_SHARE: Final = 0.1
FORECAST_STEPS: Final = 400_000

# Ask classes of which a pass looks whether they have the right to a node that is kept for another ask, and nodes of
# each (1 us each): some milliseconds at most, and only while nodes are kept.
CLAIMANTS_PER_PASS: Final = 500
KEPT_NODES_PER_CLAIMANT: Final = 16

# Nodes that gained room and whose asks are searched at each step, one node after the other (1 us each). When there are
# more, whatever fits them is opened instead, and closed again when no node is found for it (5 us each).
FREED_NODES: Final = 4

# The leader checks the time after each command and after so many facts. After TURN_S it lets other RMs of the process
# work, so that an RM with large messages delays them no longer.
FACTS_PER_STEP: Final = 64
# The same after so many nodes, queues, applications and asks of a scheduling index that is built: some 5 ms where nodes
# have many resource names.
INDEXED_PER_STEP: Final = 64
# A change of a queue that moves more asks than this, and at least one in REORDERED_SHARE of all asks of the partition,
# is not made at once (4 us for each): the index is built anew, in steps.
REORDERED_AT_ONCE: Final = 5_000
REORDERED_SHARE: Final = 4

# Distinct resources and tags that are read once and shared. Bounded, because RMs choose them.
SHAPES: Final = 10_000
# A leaf queue of a configuration is shared in the same way, if it is no larger: most take 100 bytes, but one may name
# thousands of users.
SHARED_LEAF_BYTES: Final = 1_000

# Between two ticks while asks wait.
TICK_MS: Final = 1_000
# A timer may be due before the next regular tick. Timers within this time are handled together.
TIMERS_MS: Final = 100

# Between two removals of unused queues: finding them checks every queue, and a queue may be used again soon.
CLEAN_QUEUES_MS: Final = 10_000

# A waiting ask is explained at most this often for the same reason (semantics section 17).
EXPLAIN_AGAIN_MS: Final = 60_000
# An ask that has waited less is not explained.
EXPLAIN_AFTER_MS: Final = 1_000
# Groups of equal asks that one tick checks, and demands for which it searches the nodes (10 ms for 10,000 nodes).
EXPLAINED_PER_TICK: Final = 200
EXPLAIN_NODES_PER_TICK: Final = 5
# Fewer where nodes are many and have many resource names: so many amounts in all take some 50 ms. One look at least.
EXPLAIN_AMOUNTS_PER_TICK: Final = 500_000

# Open questions to an RM: an answer takes 5 ms, so an RM answers all in ANSWER_WITHIN_MS.
QUESTIONS_OPEN: Final = 1_000
# A question without an answer after this time counts as refused.
ANSWER_WITHIN_MS: Final = 5_000
# An ask may use refused nodes again this long after the last refusal: the RM does not report why its answer changes.
REFUSALS_LAST_MS: Final = 30_000
# An allocation that the RM spares is no victim of the ask for so long: four attempts to preempt others instead.
SPARED_MS: Final = 60_000

# Nodes of a question about a predicate class: an RM answers for some hundred in milliseconds, and asks of one class
# seldom need more in one pass.
NODES_PER_QUESTION: Final = 500
# A look into a group of nodes, in a search for an accepted one, takes as long as ranking so many accepted nodes. And
# nodes ranked for all demands of a partition together (150 MB).
LOOKS_PER_GROUP: Final = 16
RANKED_NODES_KEPT: Final = 1_000_000
# Open questions about predicate classes. Each waits for one RM, which answers some hundred a second.
CLASS_QUESTIONS_OPEN: Final = 256
# A verdict holds at least so long, or the RM would be asked the same question for ever; and at most a day by time.
VERDICT_LASTS_LEAST_MS: Final = 1_000
VERDICT_LASTS_MOST_MS: Final = 86_400_000
# Predicate classes without asks that keep their verdicts, and verdicts of all classes (100 MB): 200 classes on 5,000
# nodes. Partitions share the verdicts evenly.
PREDICATE_CLASSES_KEPT: Final = 1_000
VERDICTS_KEPT: Final = 1_000_000

# Allocations of a node that could not be booked, in its row: so that an operator sees what they are.
REJECTED_SHOWN: Final = 20

# Preemption attempts of a pass, and allocations that they check together (30 ms).
PREEMPTIONS_PER_PASS: Final = 10
PREEMPTION_WORK_PER_PASS: Final = 50_000
# A pass that has used up its budget leaves preemption to the next pass, unless an ask has been due for so long.
PREEMPTION_PUT_OFF_MS: Final = 1_000
# Preemption attempts of a pass for asks that are bound to a node: each checks one node only.
BOUND_ATTEMPTS_PER_PASS: Final = 100
# After a failed attempt preemption rests one millisecond per so many allocations in the cluster. Checking them takes
# half of that, so preemption takes at most a third of the time.
ALLOCATIONS_PER_MS_OF_REST: Final = 1_000
# Candidate nodes that a plan compares, those with the smallest shortfall first (10 ms).
NODES_PER_PLAN: Final = 200
# Looks at a node in a plan for a group: at each in a domain, and again at each that takes a member.
NODES_PER_GROUP_PLAN: Final = 2_000
# Victims for one ask, so that an operator can read the plan.
VICTIMS_PER_PLAN: Final = 100
# Preemptions under way for one queue; further ones follow as the RM confirms releases.
PREEMPTIONS_PER_QUEUE: Final = 100
# An allocation that was placed by preemption is not preempted for so long, so that two asks do not preempt each other.
PLACED_BY_PREEMPTION_MS: Final = 600_000
# How long a failed attempt is remembered for asks of one kind: longer than any interval between attempts.
REFUSAL_KEPT_MS: Final = 3_600_000
# Kinds that are remembered in one queue: more than are tried within an interval.
REFUSALS_KEPT: Final = 10_000
# Victims in one tick for a queue above its maximum (10 ms); further ones follow in the next ticks. A queue that cannot
# give back enough is looked at again after QUOTA_RETRY_MS: what protects allocations changes rarely, and the log stays
# small.
QUOTA_VICTIMS_PER_TICK: Final = 1_000
QUOTA_RETRY_MS: Final = 60_000
# A release that the RM has not confirmed after this time is overdue: graceful termination takes 30 s, seldom minutes.
RELEASE_OVERDUE_MS: Final = 300_000

# It is reported that a queue still drains after so long, then each time after twice as long, but at least once in
# DRAIN_REPORTED_MOST_MS: administrators have to act only where jobs run long, and are reminded every day.
DRAIN_REPORTED_MS: Final = 600_000
DRAIN_REPORTED_MOST_MS: Final = 86_400_000
# Applications and users that such a report names, so that people can read it.
DRAIN_REPORT_NAMES: Final = 10

# AskOutstanding facts of one tick: an RM learns of a large backlog within minutes, and the log stays small.
OUTSTANDING_PER_TICK: Final = 1_000
# Equal asks of one application that are reported as outstanding: no autoscaler adds nodes for more at once.
OUTSTANDING_LOOKS: Final = 10_000

# The parts of a discarded state that are freed before other tasks of the process continue: less than 1 ms.
DISCARDED_AT_ONCE: Final = 1_000
# A question that this core passes on to the leader is answered between two commits.
PASSED_ON_WITHIN_S: Final = 4.0

# The list of keys, by which releases without an application find it, is built again when it holds twice the live
# entries and this many more, so that its cost per release stays constant.
KEYS_LISTED: Final = 1_000

# Allocations of one RM in all its partitions (2 GB of memory in each core). Further asks wait.
ALLOCATIONS_PER_RM: Final = 2_000_000
# Allocations on one node, those included that are about to come or that the RM is asked about: far more than a machine
# runs, and few enough to be released by one command when the node goes. Without it an ask of tiny amounts puts all
# allocations of an RM on one huge node. Further asks wait.
ALLOCATIONS_PER_NODE: Final = 10_000
# Distinct resource names of a partition's nodes and maxima: each node group has an amount for each. With so many names
# the index of 20,000 different nodes takes 0.5 s to build, in steps.
RESOURCE_NAMES_PER_PARTITION: Final = 64
# Work on devices is measured again after so many allocations and so much time: prices change with it, and the index is
# built anew. And the latest allocations that are looked at (10 ms).
MEASURE_AFTER_ALLOCATIONS: Final = 200
MEASURE_EVERY_MS: Final = 60_000
ALLOCATIONS_MEASURED: Final = 10_000
# Resources of a partition that stand on devices: for each of them every change of a node sorts its devices.
DEVICE_RESOURCES: Final = 8
# Devices of one resource on a node, as many as a ResourceSlice of Kubernetes has: each is a place of the vectors of all
# nodes. And their names: an ID of a vendor has 40 to 60 bytes, and every allocation repeats the names of its devices.
DEVICES_PER_NODE: Final = 128
DEVICE_NAME_BYTES: Final = 128

# Windows of a calendar: each is compared with every node that comes.
WINDOWS: Final = 100

# Levels of a topology, without hosts. What fits is counted in each domain on the path of a node that changes.
TOPOLOGY_LEVELS: Final = 8
# Members of a group: the first start places all of them in one pass.
GROUP_SIZE: Final = 10_000
# Shapes of members whose copies are counted in each domain; with more of them, those looked at longest ago are
# forgotten, and counted again when they are next asked about. And domains that are tried for a group with members of
# several shapes.
SHAPES_COUNTED: Final = 512
DOMAINS_TRIED: Final = 200
# Groups that have waited long for a domain, of which a pass looks whether others avoid one for them (10 us each).
GROUPS_LOOKED_AT: Final = 32

# Records of rejected applications in one partition: enough to find an error, and bounded whatever an RM sends.
REJECTED_APPLICATIONS: Final = 1_000

# State changes of an application that the state keeps, the first and the last ones. An application that is served ask
# by ask changes its state with each; the log has all changes.
FIRST_STATES: Final = 8
LAST_STATES: Final = 24

# Node groups, and ways from one to another by an allocation of some size, that the index keeps beyond a few per node:
# creating a group takes as long as finding out that it is empty, and a way takes 100 bytes.
NODE_GROUPS_KEPT: Final = 1_024
NEXT_GROUPS_KEPT: Final = 16_384

# So many needs have a bit each in what is kept of every group of nodes: a cluster has asks of some hundred shapes, and
# ANDs of integers of this length still cost little more than of short ones.
NEEDS_KEPT: Final = 256

# Numbers of demands in sets that are kept as integers: more than a cluster has shapes of asks, so that each has its
# own, and an AND of two sets still takes less than 0.1 us. And how many amounts of a resource such sets tell apart.
DEMAND_BITS: Final = 1_024
LEVELS_KEPT: Final = 256

# Spellings of one resource (order of names, names with 0) by which an index finds its demand directly.
SPELLINGS: Final = 8

# Removed entries leave a heap or list when they reach its front, or when they outnumber the live entries and are more
# than this.
LEFTOVERS: Final = 64
# Each container of the state has at most so many entries per live object, and LEFTOVERS per object that owns such a
# container.
ENTRIES_PER_THING: Final = 4
# A sum with more names removes its zeros. It keeps fewer, because finding a name is faster than inserting it.
NAMES_KEPT: Final = 32

# Accounts of users and queues that use nothing, of one RM: as many as an RM with many users has, and 40 MB at most.
IDLE_ACCOUNTS_KEPT: Final = 100_000

# Budgets of queues that are gone, of one RM: its queues come back when it registers again.
IDLE_BUDGETS_KEPT: Final = 10_000

# Queues that operators hold, and nodes that they drain, of one RM: more than its operators overlook. Both may outlive
# their queues and nodes.
HOLDS: Final = 1_000
# Loans between queues of one RM: each is looked at when a configuration is applied.
LOANS: Final = 100
DRAINS: Final = 20_000
# Outcomes of actions of operators that a repeated action_id gets again: retries come within minutes.
ACTIONS_KEPT: Final = 1_000

# Task groups without placeholders that an application keeps: far more than applications have.
TASK_GROUPS_KEPT: Final = 100

# Ended applications in one partition, for people who look them up within hours. A thousand take 1 MB.
ENDED_APPLICATIONS: Final = 10_000

# Allocations of one ask, so that pending sums stay readable.
MAX_ALLOCATIONS: Final = 2**31 - 1

# A page of an answer: far below the default payload limit of a NATS server (1 MB), and no more rows than the leader
# writes in some 10 ms.
PAGE_ROWS: Final = 1_000
PAGE_BYTES: Final = 500_000
# So many new entries are sorted into a listing one by one; more are sorted with the rest.
SORTED_IN_SINGLY: Final = 100
# The order of so few entries is not kept: sorting them takes some 30 µs.
SORTED_ANEW: Final = 100
# Listings of one RM: of its dictionaries, and of those of so many applications, queues and nodes that were asked about.
LISTINGS: Final = 64
# Kinds of asks that are compared with the devices of each node to find amounts that nobody can use: many more than
# work has. Groups that wait, of which the answer about the topology tells: the others are in the list of asks.
FRAGMENT_KINDS: Final = 64
WAITING_GROUPS: Final = 50
# Indexes and listings for answers are dropped after so long without a query; sums are computed again after SUMS_KEPT_S.
ANSWERS_KEPT_S: Final = 60.0
SUMS_KEPT_S: Final = 1.0
# Sums over all waiting asks take 1 s for a million: they are kept so many times as long as they took.
SUMS_REST: Final = 19
# Rows of each list of an overview, and the actions of operators in it: what people look at on one screen.
OVERVIEW_ROWS: Final = 50
OVERVIEW_ACTIONS: Final = 20
# A question may wait so long for a commit that it wants to see, and so many about one RM at the same time: the commits
# of operators' own actions, which come in milliseconds.
LOG_SEQ_WITHIN_S: Final = 2.0
COMMITS_AWAITED: Final = 50
# A question waits so long in all: its sender gives up after five seconds, and a core that has passed it on before that.
ANSWERED_WITHIN_S: Final = 3.0
# Answers take at most this share of a process's time, over more than ANSWER_BURST_S: a core that leads other RMs, or
# shares processors with one that does, leaves them the rest.
ANSWER_SHARE: Final = 0.5
ANSWER_BURST_S: Final = 0.2
# So many questions about one RM wait, for two seconds if all are for pages of 1,000 rows; others are refused at once.
# The leader takes so many at once along with a commit.
QUESTIONS_WAITING: Final = 200
ANSWERED_AT_ONCE: Final = 8
# For so many sizes of asks a page of explanations looks through the nodes; see EXPLAIN_NODES_PER_TICK.
PAGE_NODE_LOOKS: Final = 5

# Records in one piece of a snapshot (100 kB), which bounds what is in memory twice.
SNAPSHOT_RECORDS_PER_PIECE: Final = 1_000
# A preview plays so many passes: an operator looks some seconds ahead, and a pass of a large backlog takes 50 ms.
PREVIEW_PASSES: Final = 3
PREVIEW_PASSES_MOST: Final = 20
# Rows of each list of a preview, of which there are eight; all of them fit into a message.
PREVIEW_ROWS: Final = 50
PREVIEW_ROWS_MOST: Final = 500
PREVIEW_BYTES_PER_LIST: Final = PAGE_BYTES // 8
# Groups of which a preview explains why members wait in the end (some ms each).
PREVIEWED_GROUPS: Final = 100

# A preview places so many applications under the new rules (1 s if all of them differ).
PREVIEWED_APPLICATIONS: Final = 50_000
# Bytes of a proposed configuration: far more than one that fits into a command.
PREVIEW_CONFIGURATION_BYTES: Final = 8 * 1024**2
# Processor time and memory of each of the two children that play a preview, and the time in which both end. One with
# 50,000 allocations takes 2 s.
PREVIEW_CPU_S: Final = 20
PREVIEW_BYTES: Final = 1024**3
PREVIEW_WITHIN_S: Final = 30
# The lowest priority: whatever else runs on the machine comes first.
PREVIEW_NICENESS: Final = 19
# Previews take at most this share of time: the next one begins so much later.
PREVIEW_SHARE: Final = 0.5
# The search for a change that lets an ask run: passes of each trial, in which a reservation or a replacement begins;
# trials; candidates of one kind (applications, nodes, asks), the smallest first; amounts that are tried one by one
# before they are halved; kinds of changes together; and applications that end together.
WHAT_IF_PASSES: Final = 3
WHAT_IF_TRIALS: Final = 150
WHAT_IF_CANDIDATES: Final = 16
WHAT_IF_SCANNED: Final = 16
WHAT_IF_KINDS: Final = 3
WHAT_IF_TOGETHER: Final = 4
# A search begins no trial after so long, so that it can say what it has found.
WHAT_IF_WITHIN_S: Final = 15.0
# Applications that are looked at for who holds what an ask waits for (10 ms), and that are shown.
HOLDERS_LOOKED: Final = 20_000
HOLDERS_SHOWN: Final = 5
# Earlier reasons of one ask: those of some minutes, or of weeks if they seldom change.
REASONS_KEPT: Final = 8
# An audit checks 50,000 allocations in some seconds. It ends after so much processor time, memory and time.
AUDIT_S: Final = 60.0
AUDIT_CPU_S: Final = 120
AUDIT_BYTES: Final = 1024**3
AUDIT_WITHIN_S: Final = 600
# Between two measurements of states for metrics: as often as they are scraped. Queues and resources of each that a
# process shows, which are few thousand series and take 10 ms; asks that are looked at for it (20 ms).
METRICS_S: Final = 15.0
METRIC_QUEUES: Final = 200
METRIC_RESOURCES: Final = 8
METRIC_ASKS: Final = 50_000
# Queues of an RM with a series for the victims of quota preemption. Series of a counter stay until the process ends.
METRIC_QUOTA_QUEUES: Final = 20
