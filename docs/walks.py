"""The content of the tables in tour.md: walks through the code, and the places that an addition changes. `docs/tour.py`
writes the tables."""

from __future__ import annotations

from typing import NamedTuple


class Hop(NamedTuple):
    function: str
    what: str


class Leg(NamedTuple):
    """The part of a walk that is in one process. `via`: how it follows from the leg before, or what begins the walk."""

    process: str
    via: str
    hops: tuple[Hop, ...]


Walk = tuple[Leg, ...]

ASK: Walk = (
    Leg(
        "resource manager",
        "",
        (
            Hop("remuda_sdk.resource_manager.requests:RequestsOfRm.ask", "encodes the asks as `AllocationRequest`s"),
            Hop(
                "remuda_sdk.resource_manager.requests:RequestPublisher.publish",
                "publishes numbered messages, and returns when they are durable",
            ),
        ),
    ),
    Leg(
        "rmproxy",
        "stream REQUESTS",
        (
            Hop("remuda_rmproxy.inbound.forwarder:Forwarder._dispatch", "queues the request for its RM"),
            Hop(
                "remuda_rmproxy.inbound.request_worker:RequestWorker.forward_some",
                "takes the first requests; each RM has a worker of its own",
            ),
            Hop(
                "remuda_rmproxy.inbound.translate:commands_of",
                "checks the request and gives the partition the scheduler's name; an invalid one becomes a dead letter",
            ),
        ),
    ),
    Leg(
        "core",
        "stream INBOX",
        (
            Hop("remuda_replication.leader:Leader._take", "reads the messages behind `state.inbox_seq`"),
            Hop("remuda_core.shell.deciding:Deciding.commit", "decides the messages one by one, for one commit"),
            Hop("remuda_core.core:Core.handle_in_steps", "decides a command, and applies each fact"),
            Hop("remuda_core.decide:decide", "finds the function for the command"),
            Hop("remuda_core.decide.ask:submit_ask", "yields `AskAccepted` or `AskRejected`"),
            Hop("remuda_core.evolve.asks:ask_accepted", "adds the pending ask to the application"),
            Hop("remuda_core.index.index:Index.apply", "changes the index, by the table of `apply.py`"),
            Hop("remuda_core.index.apply:ask_accepted", "adds the ask to its ask class"),
            Hop(
                "remuda_core.cycle.schedule:schedule",
                "begins a pass: each commit ends with the core's own command `Schedule`",
            ),
            Hop("remuda_core.cycle.schedule:place_pending", "repeats: which ask is next, which node is best?"),
            Hop(
                "remuda_core.index.partition:PartitionIndex.next_ask_class",
                "ranks queues, then applications, then asks",
            ),
            Hop("remuda_core.index.nodes:NodeIndex.best", "finds the best node that fits"),
            Hop("remuda_core.cycle.place:allocate", "makes the fact `Allocated`"),
            Hop("remuda_core.evolve.allocations:allocated", "books it on the node, in queues and limits"),
            Hop("remuda_replication.leader:Leader._append", "appends the commit when the one before it is durable"),
            Hop(
                "remuda_replication.log.writer:LogWriter.append",
                "names the parent, so that only one leader can succeed",
            ),
        ),
    ),
    Leg(
        "rmproxy",
        "stream LOG",
        (
            Hop(
                "remuda_rmproxy.outbound.callback_publisher:CallbackPublisher._publish",
                "takes the commits in force",
            ),
            Hop("remuda_rmproxy.outbound.callbacks:callbacks_of", "groups the facts of a commit into callbacks"),
            Hop(
                "remuda_rmproxy.outbound.callback_mapping:_fill_allocation",
                "turns `Allocated` into an `Allocation`, by `CALLBACK_MAPPINGS`",
            ),
            Hop(
                "remuda_rmproxy.outbound.callback_publisher:CallbackPublisher._append",
                "publishes the callbacks, with the position to resume at in their headers",
            ),
        ),
    ),
    Leg(
        "resource manager",
        "stream CALLBACKS",
        (
            Hop(
                "remuda_sdk.resource_manager.callback_consumer:CallbackConsumer._pump",
                "receives callbacks from the RM's consumer",
            ),
            Hop(
                "remuda_sdk.resource_manager.client:ResourceManager.callbacks",
                "yields each new callback, and acknowledges it later",
            ),
            Hop(
                "remuda_sdk.resource_manager.callbacks:parse_callback",
                "parses the `AllocationResponse`: the ask has its node",
            ),
        ),
    ),
)

CONFIGURATION: Walk = (
    Leg(
        "config",
        "queues.yaml is written",
        (
            Hop("remuda_config.shell.distributor:file_changes", "notices that the file may have changed"),
            Hop("remuda_config.shell.active_configuration:ActiveConfiguration.refresh", "reads the file"),
            Hop("remuda_config.shell.worker_pool:WorkerPool.load", "gives the text to a worker process"),
        ),
    ),
    Leg(
        "config worker",
        "pipe",
        (
            Hop("remuda_config.worker:handle", "limits its own processor time, and answers with all problems"),
            Hop("remuda_config.load:load", "turns the text into a `Configuration`, in four steps"),
            Hop("remuda_config.schema.yaml_document:read_yaml", "parses YAML, and keeps the line of each key"),
            Hop("remuda_config.schema:validate", "checks keys and types"),
            Hop("remuda_config.verify:verify", "checks what several keys together must satisfy"),
            Hop("remuda_config.build:build", "makes the `Configuration` of `config.proto`"),
        ),
    ),
    Leg(
        "config",
        "pipe",
        (
            Hop(
                "remuda_config.shell.active_configuration:ActiveConfiguration._activate",
                "stores the text as the active one, if it has no problems",
            ),
            Hop(
                "remuda_config.shell.distributor:Distributor._send",
                "puts `Configure` into the inbox of each RM that uses the file and lacks this text",
            ),
        ),
    ),
    Leg(
        "core",
        "stream INBOX",
        (
            Hop("remuda_core.core:Core.handle_in_steps", "decides the command"),
            Hop("remuda_core.decide.configure:configure", "refuses what running work forbids"),
            Hop("remuda_core.decide.configure:apply_queues", "yields a fact for each difference"),
            Hop("remuda_core.evolve.queues:queue_changed", "writes the new settings"),
            Hop("remuda_core.index.apply:queue_changed", "ranks again what the settings affect"),
            Hop("remuda_core.evolve.rms:configuration_applied", "records the configuration in force"),
        ),
    ),
    Leg(
        "events",
        "stream LOG",
        (
            Hop(
                "remuda_events.history.event_history:EventHistory.append_events",
                "reads the commit",
            ),
            Hop("remuda_events.event_records.queues:queue_changed", "makes an event record of it"),
            Hop("remuda_events.history.event_history:EventHistory._append", "appends it to the stream EVENTS"),
        ),
    ),
)

PREEMPTION: Walk = (
    Leg(
        "core",
        "an ask has waited for the `preemption.delay` of its queue",
        (
            Hop("remuda_core.cycle.schedule:schedule", "begins a pass: no node has room for the ask"),
            Hop("remuda_core.cycle.preempt:preempt", "is the last step of the pass"),
            Hop("remuda_core.index.preemption:Preemptors.next_ask", "finds the ask that has been due longest"),
            Hop("remuda_core.cycle.preempt:attempt", "carries a plan out, or yields `PreemptionRefused`"),
            Hop("remuda_core.cycle.preempt:plan", "checks whether the ask may preempt at all"),
            Hop("remuda_core.cycle.preempt:queue_shortfalls", "computes what its queues lack"),
            Hop(
                "remuda_core.cycle.victims:queue_eligibility",
                "finds queues that use more than their guarantee",
            ),
            Hop("remuda_core.cycle.preempt:best_node", "finds the node with the fewest victims"),
            Hop("remuda_core.cycle.victims:VictimSearch.choose", "chooses the cheapest victims of a node"),
            Hop(
                "remuda_core.cycle.preempt:carry_out", "yields `PreemptionStarted` and a `ReleaseRequested` per victim"
            ),
            Hop("remuda_core.evolve.preemption:preemption_started", "records the preemption; a timer ends it in time"),
            Hop("remuda_core.evolve.allocations:release_requested", "marks the victim, which counts until released"),
            Hop("remuda_core.evolve.nodes:node_reserved", "keeps the node for the ask"),
        ),
    ),
    Leg(
        "rmproxy",
        "stream LOG",
        (
            Hop(
                "remuda_rmproxy.outbound.callback_mapping:_fill_release",
                "turns `ReleaseRequested` into an `AllocationRelease`",
            ),
        ),
    ),
    Leg(
        "resource manager",
        "stream CALLBACKS",
        (
            Hop(
                "remuda_sdk.resource_manager.client:ResourceManager.callbacks",
                "yields the callback; the RM ends the victim",
            ),
            Hop(
                "remuda_sdk.resource_manager.callbacks:Session.confirmations",
                "collects the releases to confirm",
            ),
            Hop(
                "remuda_sdk.resource_manager.requests:RequestsOfRm.confirm",
                "publishes the confirmation",
            ),
        ),
    ),
    Leg(
        "core",
        "stream REQUESTS, rmproxy, stream INBOX",
        (
            Hop("remuda_core.decide.release:release_allocation", "yields `AllocationReleased`"),
            Hop("remuda_core.evolve.allocations:allocation_released", "frees what the victim used"),
            Hop("remuda_core.index.apply:allocation_released", "updates the node and the asks that wait for it"),
            Hop(
                "remuda_core.cycle.schedule:place_reserved",
                "begins the next pass: the reserved node has room",
            ),
            Hop("remuda_core.cycle.place:allocate", "makes the fact `Allocated`"),
            Hop("remuda_core.evolve.allocations:allocated", "books it, and ends the preemption"),
        ),
    ),
)

FAILOVER: Walk = (
    Leg(
        "standby core",
        "the leading core is killed",
        (
            Hop(
                "remuda_replication.members:Membership._watch_over",
                "asks the leading core whether it lives",
            ),
            Hop(
                "remuda_replication.lease:HolderLiveness.is_gone",
                "gets no answer twice",
            ),
            Hop(
                "remuda_replication.members:Members._see_member",
                "sees the leader's lease deleted",
            ),
            Hop("remuda_replication.members:Members._look", "finds RMs that no process leads"),
            Hop("remuda_replication.members:Members._take_from", "writes its own name into the bucket LEADERS"),
            Hop("remuda_replication.standby:Standby._lead", "begins to lead on the followed state"),
            Hop("remuda_replication.standby:Follower.catch_up", "applies the last commits of the log"),
            Hop("remuda_replication.standby:Standby._check_past", "checks that no stream has lost messages"),
            Hop(
                "remuda_replication.poison_messages:check_for_poison_message",
                "tries a message that may have killed others, in a child process",
            ),
            Hop(
                "remuda_replication.standby:Follower.close",
                "makes a writer that continues from there",
            ),
            Hop(
                "remuda_replication.leader:Leader.lead",
                "reads the inbox behind the last commit",
            ),
            Hop("remuda_core.shell.deciding:Deciding.commit", "decides the waiting ask"),
            Hop("remuda_core.index.index:Index.of", "builds the scheduling index, which a standby does not have"),
            Hop("remuda_replication.log.writer:LogWriter.append", "appends the first commit of the new leader"),
        ),
    ),
    Leg(
        "rmproxy",
        "stream LOG",
        (
            Hop(
                "remuda_rmproxy.outbound.callback_publisher:CallbackPublisher._publish",
                "reads on",
            ),
        ),
    ),
)

# An addition changes these places, in this order. A place is a `module:name`, or the path of a file.
PLACEMENT_RULE = (
    Hop("remuda_config.rules.placement:RULES", "add the name"),
    Hop(
        "remuda_config.rules.placement:_check_rule",
        "only if the rule needs a `value`: yield a problem with its path where it is missing",
    ),
    Hop(
        "remuda_core.rules.placement_rules:RULES",
        "add a function from the application (`Applicant`) to the name of a queue, or None",
    ),
    Hop("docs/semantics.md", "add the rule to the table of section 5"),
    Hop("docs/configuration.md", "add it to the values of a rule's `name`"),
    Hop("proto/remuda/v1/config.proto", "add it to the comment of `PlacementRule.name`"),
    Hop(
        "tests/golden/scenarios/placement.txt",
        "add a scenario with an application that the rule places, and one that it does not",
    ),
    Hop(
        "tests/golden/scenarios/queues_yaml.txt",
        "add the name to the problem of an unknown rule",
    ),
    Hop("tests.mutants.mutants:MUTANTS", "add a mutant that breaks the rule"),
)

NODE_SCORE = (
    Hop("remuda_config.verify:NODE_SORT_POLICIES", "add the name"),
    Hop(
        "remuda_core.index.scores:SCORES",
        "add a function of capacity, available amounts and weights, from -1 (best) to 1",
    ),
    Hop("tests.property.node_oracle:score", "compute the same score slowly"),
    Hop("tests.property.storm:Storm", "let storms draw the policy"),
    Hop("docs/semantics.md", "define in section 10 which node is best"),
    Hop("docs/configuration.md", "add it to the values of `nodesortpolicy.type`"),
    Hop(
        "remuda.history.changes:NODE_SORTS",
        "add it for `remuda replay --node-sort`, and to its help",
    ),
    Hop("tests/golden/README.md", "add it to `nodesort=`"),
    Hop("proto/remuda/v1/config.proto", "add it to the comment of `NodeSortPolicy.type`"),
    Hop(
        "tests/golden/scenarios/nodes.txt",
        "add a scenario with `partition default nodesort=NAME`",
    ),
    Hop(
        "tests/golden/scenarios/queues_yaml.txt",
        "add the name to the problem of an unknown policy",
    ),
    Hop("tests.mutants.mutants:MUTANTS", "add a mutant that breaks the score"),
)

FACT = (
    Hop("proto/remuda/v1/log.proto", "add the message, and a field of `Fact`; then `make proto`"),
    Hop("remuda_core.facts:Fact", "add a class with the same fields"),
    Hop("remuda_core.evolve:BY_FACT", "add a row, and a function that writes the state"),
    Hop("remuda_core.index.apply:BY_FACT", "only if it changes the index: add a row and a function"),
    Hop("remuda_core.wire.facts:WRITERS", "only if it embeds a message of si.v1: write and read that"),
    Hop(
        "remuda_core.snapshot.records:Record",
        "only if the state has new fields: add one with a default, also to `snapshot.proto`, `save.py` and `restore.py`",
    ),
    Hop("remuda_core.check.state:check", "only if the state has new sums: compute and compare them"),
    Hop("remuda_rmproxy.outbound.callback_mapping:CALLBACK_MAPPINGS", "only if the RM is informed: add the callback"),
    Hop(
        "remuda_events.event_records:RECORDS_BY_FACT",
        "add its event records, or to `FACTS_WITHOUT_RECORD` why there are none",
    ),
    Hop(
        "remuda_events.stories.sentences:SENTENCES",
        "add its sentence, or to `FACTS_WITHOUT_SENTENCE` why there is none",
    ),
    Hop("tests.golden.telling:TABLE", "add the line of golden scenarios, and a scenario"),
    Hop("services/events/tests/test_event_records.py", "only if it has event records: add an example to `TOLD`"),
    Hop("tests/property/long/test_days.py", "let storms reach it, or name it in `ELSEWHERE`"),
    Hop("tests/replay/recording.py", "run `python -m tests.replay.recording`"),
)

QUEUE_FIELD = (
    Hop(
        "remuda_operations.queries.rows:Queue",
        "add the field with a default, as `Public[...]` if others' queues show it",
    ),
    Hop("remuda_core.shell.views:queue", "give its value"),
    Hop(
        "proto/remuda/v1/admin.proto",
        "add it to `Queue` by the same name, with a comment, then `make proto`; or name it in `NOT_IN_MESSAGES` of"
        " `operations/tests/test_rows.py`",
    ),
)

ADDITIONS = {
    "placement rule": PLACEMENT_RULE, "node score": NODE_SCORE, "fact": FACT, "field of a queue": QUEUE_FIELD,
}  # fmt: skip
WALKS = {"ask": ASK, "configuration": CONFIGURATION, "preemption": PREEMPTION, "failover": FAILOVER}
