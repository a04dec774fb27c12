"""Every bound of the Kubernetes front end, with its reason."""

from __future__ import annotations

from remuda_bus.retry import RetryPolicy
from remuda_proto import bounds

# Credentials

# The kubelet renews a token file when a fifth of its hour is left. One read a minute costs nothing.
TOKEN_FILE_READ_EVERY_S = 60.0
# A token of a command is renewed this long before it expires, so that no call carries one that expires on its way.
TOKEN_RENEWED_BEFORE_S = 30.0
# Commands ask a cloud for a token. A command that hangs holds up every call.
COMMAND_WITHIN_S = 30.0

# Calls

# More connections bind no faster (bench/README.md, Pods on Kubernetes).
CONNECTIONS = 50
# Bindings at once. The others wait in order.
BINDINGS_AT_ONCE = 40
# Events, conditions, deletions and placeholders at once: less than bindings, because they use the same API server.
WRITES_AT_ONCE = 10
NOTES_AT_ONCE = 4
# While there are bindings, and for this time after them, each of those that write events and conditions pauses as long
# before the next one: 20 a second together. They cost half a binding each.
NOTES_WAIT_S = 0.2
# A call takes milliseconds; the API server ends its own after 60 s. A lost connection is noticed by then.
CALL_WITHIN_S = 30.0
# An answer of the API server that fails is quoted up to here.
REASON_CHARACTERS = 1_000

# Lists and watches

# Objects per page of a list: the API server answers a page from memory, and others are served between two pages.
LIST_PAGE = 500
# The first minor version of Kubernetes 1 that, by default, can begin a watch with all objects, without pages.
STREAMS_SINCE = 32
# The API server ends a watch after this time, so that its clients spread over API servers.
WATCH_S = 300
# A watch without an answer for this long after its end is a lost connection.
WATCH_SILENCE_S = 30.0
# The longest line of a watch: etcd stores no object above 1.5 MiB, and JSON may be twice as long as what is stored.
LINE_BYTES = 8 * 1024 * 1024
# A reflector that fails tries again after 0.2 s, doubled up to 10 s, each time shortened by chance up to the half.
REFLECTOR_FIRST_RETRY_S = 0.2
REFLECTOR_LONGEST_RETRY_S = 10.0
# Objects of a controller that was not installed at the start are looked for again after this time.
OPTIONAL_RETRY_S = 60.0
# Calls without which a process cannot start are repeated until they succeed.
START_RETRY = RetryPolicy(0.5, longest_pause_s=10.0)

# Forecasts

# The scheduler forecasts starts once a minute while somebody asks. An event tells the start of a pod again when it has
# changed by a quarter of what was left, and after so many sweeps (of a second): people read events.
FORECASTS_EVERY_S = 60.0
FORECAST_SWEEPS = 300
FORECAST_SHARE = 4

# Bindings

# A binding that the API server did not answer is sent again for two minutes. Then the scheduler decides about the pod
# anew.
BINDING_RETRY = RetryPolicy(0.25, longest_pause_s=5.0, give_up_after_s=120.0)
# Other writes are dropped sooner: events and conditions are for people.
WRITE_RETRY = RetryPolicy(0.5, longest_pause_s=5.0, give_up_after_s=30.0)
# A deletion that the API server refuses, such as by a policy, is tried again after so many sweeps (of a second).
DELETION_SWEEPS = 5
# The scheduler asks about a victim that was spared after a minute again, when it has found no other one. So after this
# time in sweeps (of a second), with the policy `last`, a budget may be violated; the time is forgotten after ten more.
SPARED_SWEEPS = 55
SPARED_KEPT_SWEEPS = 600
# The first minor versions of Kubernetes 1 with policy/v1: budgets, and evictions.
BUDGETS_SINCE = 21
EVICTIONS_SINCE = 22
# A pod whose binding fails is asked for again at once, and after a pause when that repeats.
PUT_OFF = RetryPolicy(1.0, longest_pause_s=10.0)
# Deletions and new placeholders decide about resources. They are repeated until they succeed.
DELETION_RETRY = RetryPolicy(0.5, longest_pause_s=5.0)
# Bindings to one node in a row that the API server refused. Then the node is reported as not ready, until it changes.
FAILED_BINDINGS = 3

# Events and conditions

# Waiting events and conditions. Above it, the oldest are dropped: a binding is worth more than its event.
WAITING_WRITES = 10_000
# Characters of a message of an event: the API server refuses longer ones.
EVENT_CHARACTERS = 1_023
# Of the name of an object in the name of its event; and of the name of a process: the API server refuses more.
EVENT_NAME_CHARACTERS = 200
INSTANCE_CHARACTERS = 128
# The same event within this time is counted at the first one. As client-go does: tools show such a series as one line.
EVENT_SERIES_S = 360
# An object gets so many events at once, then one in this time. As client-go does.
EVENT_BURST = 25
EVENT_EVERY_S = 300
# Events and objects remembered for this.
EVENTS_REMEMBERED = 4_096

# Messages

# Characters of a quantity or a number of seconds, as users write them: int64 has 19 digits.
QUANTITY_CHARACTERS = 64
# A level, a group or a size in the tags of an ask, as annotations have them: more than the scheduler takes.
TOPOLOGY_CHARACTERS = 512
# Names of pull secrets in the tag of an application.
PULL_SECRETS_CHARACTERS = 4_096
# Pods in the report of a node: a node is one element of a message, and the server accepts 1 MB. The others are reported
# after it.
EXISTING_BYTES = 256 * 1024

# Applications

# Kubernetes bounds a label, and with it an application ID, at this length.
APPLICATION_ID_CHARACTERS = 63
# Times that a rejected ask or report is sent again with its application, which may have completed meanwhile.
RESUBMISSIONS = 3
# Task groups of a gang, and members of all of them: above, the definition is refused. Each member is a pod, and 10,000
# manifests take 0.2 s and 50 MB.
TASK_GROUPS = 100
GANG_MEMBERS = 10_000
# Of a user or group that a placeholder runs as: Kubernetes accepts no larger number.
LARGEST_ID = 2**31 - 1
# Parts of the name of a placeholder: a name has at most 63 characters.
PLACEHOLDER_APPLICATION_CHARACTERS = 28
PLACEHOLDER_GROUP_CHARACTERS = 20
PLACEHOLDER_SUFFIX_CHARACTERS = 10

# Predicates

# Shapes of pods whose nodes are remembered: pods of one template have one shape. 150 MB with 5,000 nodes.
SHAPES = 200
# Asks that predicates refused are sent again this often at most, when pods have come or gone.
SWEEP_EVERY_S = 1.0
# Classes of which a pod is remembered, so that a question about a pod that has gone meanwhile has an answer. 20 MB.
PREDICATE_CLASSES = 10_000
# A refusal because of pods that are there holds for this time, in ms. Then the scheduler asks again.
VERDICT_AMONG_PODS_MS = 5_000
# Of a pod with a class of its own: an hour, because the next attempt has another class.
VERDICT_OF_ONE_POD_MS = 3_600_000
# An agreement without an allocation expires after so many sweeps: the scheduler waits 5 s for an answer.
AGREEMENT_SWEEPS = 10

# Plugin mode

# The first minor versions of Kubernetes 1 with scheduling gates, and with nominated nodes that are tried first.
GATES_SINCE = 27
NOMINATIONS_SINCE = 35
# The default scheduler scores all nodes of a cluster with fewer, so that a preferred node is among them.
ALL_NODES_SCORED_BELOW = 100
# Times in sweeps follow.

# Without a binding after this time, the default scheduler has not found the pod to fit. Its own back-off is 10 s.
APPROVAL_SWEEPS = 30
# An approval that the default scheduler has not asked about is written again: it may have missed the change.
APPROVAL_REPEAT_SWEEPS = 5
# So long, a pod that does not fit on its node is tried there again: what stands before it is on its way, or goes.
MISFIT_SWEEPS = 10
# A pod is kept off a node that the default scheduler refused for it, so that another node gets its turn.
UNFIT_SWEEPS = 60
# Reads of a pod whose patch met a newer version of it.
GATE_ATTEMPTS = 4
# A filter request holds the names of all nodes and one pod: 5,000 nodes are 1.3 MB at most.
EXTENDER_REQUEST_BYTES = 16 * 1024 * 1024

# Configuration

# Of a text in a ConfigMap, unpacked. The scheduler accepts no longer one.
CONFIGURATION_BYTES = bounds.CONFIGURATION_BYTES
# Settings of the RM in ConfigMaps. The front end adds some; the scheduler accepts 256 of 65,536 bytes together.
EXTRA_SETTINGS = 240
EXTRA_SETTINGS_BYTES = 60_000

# Leases

# A lease that its holder has not renewed for this time may be taken, in s. The holder tries every 2 s and gives up
# after 10 s, so that there are not two, even with clocks of different speed. Kubernetes' own programs do the same.
LEASE_S = 15
LEASE_TRY_EVERY_S = 2.0
LEASE_RENEWED_WITHIN_S = 10.0

# Restart

# What the scheduler knows is read within this time. Else everything is reported afresh.
KEPT_STATE_WITHIN_S = 60.0
KEPT_STATE_RETRY_S = 0.2

# Admission webhook

# The API server waits so long, and then refuses the pod (managed namespaces) or goes on without the webhook.
WEBHOOK_WITHIN_S = 5
# A review holds an object and its former version: etcd stores none above 1.5 MiB.
REVIEW_BYTES = 8 * 1024 * 1024
# The scheduler's check of a configuration has to answer before the API server gives up.
VALIDATION_WITHIN_S = 4.0
# Random bytes that make the name of an application its own.
UNIQUE_BYTES = 8
# Renewed when a third of the time is left. A certificate is valid a little earlier than made: clocks differ.
CERTIFICATE_DAYS = 90
CA_DAYS = 365
CLOCK_SKEW_MINUTES = 5
CERTIFICATE_CHECK_S = 3_600.0
# A registration that others have changed is put back after this time, and at most so often.
REGISTRATION_PAUSE_S = 2.0

# Claims of devices

# Pods that may use one claim at once: the API server refuses more.
CLAIM_CONSUMERS = 256
# Reads of a claim whose write met a newer version of it.
CLAIM_ATTEMPTS = 5

# Metrics

# Namespaces with series of their own, and queues of each: a series is 1 kB here and more in Prometheus.
METRIC_NAMESPACES = 200
METRIC_QUEUES = 10
# Pods are counted at intervals, in sweeps: 20,000 take 20 ms.
METRIC_SWEEPS = 10

# Volumes

# The first minor versions of Kubernetes 1 that report storage capacities: as a beta, and for good. Before, no scheduler
# looks at them.
STORAGE_CAPACITIES_BETA_SINCE = 21
STORAGE_CAPACITIES_SINCE = 24

# The time until the claims of a pod that was placed count as not bound: a provisioner may take minutes for a volume.
VOLUME_BIND_TIMEOUT_S = 600.0

# The heartbeat: after three intervals without one, nothing is allocated for the cluster.
HEARTBEAT_S = 5.0
