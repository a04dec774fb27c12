"""The line of each kind of fact in a scenario: one table. Some have a line only where a scenario asks to `show`
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from remuda_config import Invalid
from remuda_core import facts
from remuda_core.check import digest
from remuda_core.decide.names import plain
from remuda_core.explain import Explanations, Positions, holders_of
from remuda_core.rules.predicate_class import CLASS_TAG
from remuda_core.rules.resource import show
from remuda_core.settings import QueueSettings
from remuda_core.shell.views import history
from remuda_core.trials.play import copy_of
from remuda_core.trials.what_if import Ask, search
from remuda_core.wire.facts import WRITERS
from remuda_events.event_records import records_of
from remuda_events.stories.story import SCHEDULER_COMMANDS, Story, StoryTarget
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1.si_pb2 import EventRecord
from tests.property.sufficient import check_smallest, check_sufficient
from tests.property.world import World

from .language import Line, Notes

TERMINATIONS: Final = {1: "STOPPED_BY_RM", 2: "TIMEOUT", 3: "PREEMPTED_BY_SCHEDULER", 4: "PLACEHOLDER_REPLACED"}

START_MS: Final = World().now_ms
ALWAYS: Final = "always"
# Other names for `show`.
GROUPS: Final = ("states", "asks", "nodes", "queues", "partitions", "windows", "preemption", "time", "events")


def key(fact: Any) -> str:
    return f"{fact.application_id}/{fact.allocation_key}".rstrip("/")


def ignored(fact: Any) -> str:
    return f" ignored: {fact.ignored}" if fact.ignored else ""


def span(fact: facts.WindowPlanned | facts.WindowOpened) -> str:
    """Seconds since the scenario began."""
    return f"from {(fact.from_ms - START_MS) / 1000:.10g} s to {(fact.until_ms - START_MS) / 1000:.10g} s"


def promised(fact: Any) -> str:
    """Times of scenarios begin with 0."""
    return f" by {(fact.promised_ms - START_MS) / 1000:.10g} s" if fact.promised_ms else ""


def on_devices(fact: Any) -> str:
    return "".join(f" {name}:{names}" for name, names in sorted(fact.devices.items()))


def accepted(fact: facts.ApplicationAccepted) -> str:
    ignored = f", ignored: {fact.ignored}" if fact.ignored else ""
    return f"Accepted {fact.application_id} in {fact.queue}{ignored}"


def released(fact: facts.AllocationReleased) -> str:
    known = "" if fact.reported else ", the RM knows"
    return f"Released {key(fact)} {fact.node_id} {TERMINATIONS[fact.termination_type]}: {fact.message}{known}"


def queue_added(fact: facts.QueueAdded) -> str:
    kind = f"{'' if fact.managed else 'dynamic '}{'leaf' if fact.leaf else 'parent'}"
    return f"Queue {fact.queue} added, {kind}{resources(fact.config)}"


def queue_changed(fact: facts.QueueChanged) -> str:
    return f"Queue {fact.queue} changed: {', '.join(fact.changed)};{resources(fact.config)}".rstrip(";")


def resources(queue: QueueSettings) -> str:
    return "".join(f" {what}={show(r)}" for what, r in (("guaranteed", queue.guaranteed), ("max", queue.max)) if r)


def verdicts(fact: facts.PredicatesAnswered) -> str:
    given = zip(fact.node_ids, fact.until_ms, fact.reasons, strict=True)
    told = (f"{node}{f' no: {why}' if why else ' yes'}{' for a time' if until else ''}" for node, until, why in given)
    return f"Verdicts {', '.join(told)}"


def action_taken(fact: facts.ActionTaken) -> str:
    force = f" by force: {'; '.join(fact.overridden)}" if fact.overridden else ""
    return f"{'Repeated' if fact.repeated else 'Taken'} {fact.action.kind} of {fact.action.operator}{force}"


def action_refused(fact: facts.ActionRefused) -> str:
    how = "Repeated refusal of" if fact.repeated else "Refused unless forced" if fact.soft else "Refused"
    return f"{how} {fact.action.kind} of {fact.action.operator}: {fact.refusal}"


Tell = Callable[[Any], str]
TABLE: Final[dict[type[facts.Fact], tuple[str, Tell]]] = {
    facts.RmRegistered: ("partitions", lambda f: f"Registered {f.rm_id}, time {f.registration}"),
    facts.RmPaused: (ALWAYS, lambda f: f"Paused: {f.reason}"),
    facts.RmResumed: (ALWAYS, lambda f: "Running again"),
    facts.RmStopped: (ALWAYS, lambda f: f"Stopped{', deregistered' if f.deregistered else ''}: {f.reason}"),
    facts.RegistrationRefused: (ALWAYS, lambda f: f"Rejected registration of {f.rm_id}: {f.reason}"),
    facts.ConfigurationApplied: ("partitions", lambda f: f"Configuration {f.checksum} holds"),
    facts.ConfigurationRefused: (ALWAYS, lambda f: f"Rejected configuration {f.checksum}: {f.reason}"),
    facts.PartitionAdded: ("partitions", lambda f: f"Partition {plain(f.partition)} added"),
    facts.PartitionChanged: ("partitions", lambda f: f"Partition {plain(f.partition)} changed"),
    facts.PartitionDraining: ("partitions", lambda f: f"Partition {plain(f.partition)} draining"),
    facts.PartitionRemoved: ("partitions", lambda f: f"Partition {plain(f.partition)} removed"),
    facts.QueueAdded: ("queues", queue_added),
    facts.QueueChanged: ("queues", queue_changed),
    facts.QueueDraining: ("queues", lambda f: f"Queue {f.queue} draining"),
    facts.QueueDrainOverdue: (
        ALWAYS,
        lambda f: (
            f"Queue {f.queue} still draining: {', '.join(f.application_ids)} of {', '.join(f.users)}, "
            f"{show(f.allocated)}; admins {'; '.join(f.admin_acls) or 'none'}"
        ),
    ),
    facts.QueueRestored: ("queues", lambda f: f"Queue {f.queue} restored"),
    facts.QueueRemoved: ("queues", lambda f: f"Queue {f.queue} removed"),
    facts.NodeAdded: ("nodes", lambda f: f"Node {f.node_id} added{', draining' if f.draining else ''}"),
    facts.NodeRejected: (ALWAYS, lambda f: f"Rejected node {f.node_id}: {f.reason}"),
    facts.NodeChanged: (
        "nodes",
        lambda f: f"Node {f.node_id} changed: capacity {show(f.capacity)} occupied {show(f.occupied)}",
    ),
    facts.NodeDraining: (
        "nodes",
        lambda f: f"Node {f.node_id} draining{f', {f.running} still run there' if f.running else ''}",
    ),
    facts.WindowPlanned: (
        "windows",
        lambda f: f"Window {f.window} comes {span(f)}" if f.until_ms else f"Window {f.window} comes no more",
    ),
    facts.WindowOpened: (ALWAYS, lambda f: f"Window {f.window} opened, {span(f)}"),
    facts.WindowClosed: (ALWAYS, lambda f: f"Window {f.window} closed"),
    facts.NodeLeaving: ("nodes", lambda f: f"Node {f.node_id} leaves at {(f.from_ms - START_MS) / 1000:.10g} s"),
    facts.NodeSchedulable: (
        "nodes",
        lambda f: f"Node {f.node_id} {'still draining' if f.draining else 'schedulable'}",
    ),
    facts.NodeRemoved: ("nodes", lambda f: f"Node {f.node_id} removed"),
    facts.NodeReserved: (ALWAYS, lambda f: f"Reserved {f.node_id} for {key(f)}{promised(f)}"),
    facts.PromiseChanged: (ALWAYS, lambda f: f"Promised {f.node_id} to {key(f)}{promised(f)}: {f.cause}"),
    facts.NodeUnreserved: (ALWAYS, lambda f: f"Unreserved {f.node_id}: {f.reason}"),
    facts.ApplicationAccepted: ("states", accepted),
    facts.ApplicationRejected: (ALWAYS, lambda f: f"Rejected {f.application_id}: {f.reason}"),
    facts.TimePassed: ("time", lambda f: f"Passed {f.until_ms}"),
    facts.RejectionForgotten: ("states", lambda f: f"Forgotten rejection of {f.application_id}"),
    facts.ApplicationStateChanged: ("states", lambda f: f"State {f.application_id} {f.state}"),
    facts.ApplicationRemoved: ("states", lambda f: f"Removed {f.application_id}"),
    facts.ActionTaken: (ALWAYS, action_taken),
    facts.ActionRefused: (ALWAYS, action_refused),
    facts.ApplicationMoved: (ALWAYS, lambda f: f"Moved {f.application_id} from {f.from_queue} to {f.queue}"),
    facts.QueueHeld: (ALWAYS, lambda f: f"Held {f.queue}"),
    facts.QueueResumed: (ALWAYS, lambda f: f"Resumed {f.queue}"),
    facts.AskAccepted: (
        "asks",
        lambda f: f"Pending {key(f.ask)} x{f.ask.max_allocations} {show(f.ask.resource)}{ignored(f)}",
    ),
    facts.AskChanged: (
        "asks",
        lambda f: f"Changed {key(f.ask)} x{f.ask.max_allocations} {show(f.ask.resource)}{ignored(f)}",
    ),
    facts.AskRejected: (ALWAYS, lambda f: f"Rejected ask {key(f)}: {f.reason}"),
    facts.AskReleased: ("asks", lambda f: f"Withdrawn {key(f)} x{f.pending}"),
    facts.AskWaiting: (
        ALWAYS,
        lambda f: f"Waiting {key(f)}{f' and {f.asks - 1} more' if f.asks > 1 else ''}: {f.reason}",
    ),
    facts.AskOutstanding: ("asks", lambda f: f"Outstanding {key(f)}"),
    facts.Allocated: (
        ALWAYS,
        lambda f: f"Allocated {key(f)} {f.node_id}{' placeholder' if f.placeholder else ''}{on_devices(f)}",
    ),
    facts.ReplacementStarted: (
        ALWAYS,
        lambda f: (
            f"Replacing {f.placeholder_key} by {key(f.allocation)} on {f.allocation.node_id}{on_devices(f.allocation)}"
        ),
    ),
    facts.PlaceholderReplaced: (
        ALWAYS,
        lambda f: (
            f"Allocated {key(f.allocation)} {f.allocation.node_id} in place of {f.placeholder_key}"
            f"{on_devices(f.allocation)}"
        ),
    ),
    facts.ReplacementCancelled: (ALWAYS, lambda f: f"Not replacing by {key(f)}: {f.reason}"),
    facts.AllocationRecovered: (
        ALWAYS,
        lambda f: f"Recovered {key(f.allocation)} {f.allocation.node_id}{on_devices(f.allocation)}",
    ),
    facts.WorkMeasured: (
        ALWAYS,
        lambda f: f"Measured {f.resource}={','.join(map(str, f.shares))}, vcore={f.cpu_of_device} for a device",
    ),
    facts.DomainAvoided: (
        ALWAYS,
        lambda f: f"Avoiding {'/'.join(f.domain)} for {key(f)}, {f.missing} missing",
    ),
    facts.DomainAvoidanceEnded: (
        ALWAYS,
        lambda f: f"Not avoiding {'/'.join(f.domain)} for {key(f)}: {f.reason}",
    ),
    facts.DevicesAssigned: (ALWAYS, lambda f: f"Assigned{on_devices(f)} to {f.uuid}"),
    facts.ExistingAllocationRejected: (
        ALWAYS,
        lambda f: (
            f"Rejected allocation {key(f.allocation)}, which occupies {show(f.allocation.resource)} of "
            f"{f.allocation.node_id}: {f.reason}"
        ),
    ),
    facts.RejectedAllocationForgotten: (
        ALWAYS,
        lambda f: f"No longer occupied {show(f.resource)} of {f.node_id} by {key(f)}: {f.reason}",
    ),
    facts.GuestKept: (ALWAYS, lambda f: f"Kept guest {key(f.allocation)} {f.allocation.node_id}"),
    facts.AllocationRejected: (ALWAYS, lambda f: f"Rejected allocation {key(f)}: {f.reason}"),
    facts.AllocationReleased: (ALWAYS, released),
    facts.ReleaseRequested: (ALWAYS, lambda f: f"Asked to release {key(f)} {TERMINATIONS[f.termination_type]}"),
    facts.PredicateAsked: (ALWAYS, lambda f: f"Asked {f.kind} {key(f)} {f.node_id}{on_devices(f)}"),
    facts.PredicateRefused: (ALWAYS, lambda f: f"Refused {key(f)} {f.node_id}: {f.reason}"),
    facts.PredicateWithdrawn: (ALWAYS, lambda f: f"Not asked any more {key(f)} {f.node_id}: {f.reason}"),
    facts.PredicatesAsked: (
        ALWAYS,
        lambda f: f"Asked about {f.tags.get(CLASS_TAG, key(f))} on {','.join(f.node_ids)}",
    ),
    facts.PredicatesAnswered: (ALWAYS, verdicts),
    facts.VerdictsExpired: (ALWAYS, lambda f: f"Expired verdicts on {','.join(f.node_ids)}"),
    facts.ReplacementAsked: (ALWAYS, lambda f: f"Asked replace {key(f)} {f.node_id}"),
    facts.PreemptionAsked: (
        ALWAYS,
        lambda f: f"Asked preempt {key(f)} {f.node_id} for {','.join(f.victim_keys)}",
    ),
    facts.PreemptionAnswered: (
        ALWAYS,
        lambda f: (
            f"{'Allowed' if f.success else 'Refused'} preemption {key(f)} {f.node_id}: {f.reason or 'yes'}"
            + (f"; spares {len(f.spared)}" if f.spared else "")
        ),
    ),
    facts.RefusalsForgotten: (ALWAYS, lambda f: f"Forgotten what was refused {key(f)}"),
    facts.ReleaseOverdue: (
        ALWAYS,
        lambda f: f"Overdue {key(f)} {f.node_id}: the RM was asked for its release {TERMINATIONS[f.termination_type]}",
    ),
    facts.PreemptionStarted: (
        ALWAYS,
        lambda f: (
            f"Preempting for {key(f)} on {', '.join(f.nodes) or f.node_id}{f.domain and f' in {f.domain}'}, "
            f"{len(f.uuids)} victim{'s' if len(f.uuids) > 1 else ''}"
        ),
    ),
    facts.PreemptionEnded: (ALWAYS, lambda f: f"Preemption for {key(f)} ended: {f.reason}"),
    facts.QuotaExceeded: (
        ALWAYS,
        lambda f: f"Exceeded {f.queue} by {show(f.above)}, preempted in {f.delay_ms / 1_000:g} s",
    ),
    facts.QuotaPreempted: (
        ALWAYS,
        lambda f: (
            f"Preempting what {f.queue} has above its maximum, {show(f.above)}: "
            f"{len(f.uuids)} victim{'s' if len(f.uuids) != 1 else ''}{f.reason and f', {f.reason}'}"
        ),
    ),
    facts.QuotaLent: (
        ALWAYS,
        lambda f: (
            f"Lent {f.lender} to {f.borrower}: {show(f.amounts)}{' guaranteed' * f.guaranteed} until {f.until_ms}"
        ),
    ),
    facts.QuotaLoanEnded: (ALWAYS, lambda f: f"Loan of {f.lender} to {f.borrower} ended: {f.reason}"),
    facts.BudgetPeriodBegan: (
        ALWAYS,
        lambda f: (
            f"Period of the budget of {f.queue} is over, {show(f.used)} h were used, the next ends at {f.until_ms}"
        ),
    ),
    facts.QuotaExcessEnded: (ALWAYS, lambda f: f"Excess of {f.queue} ended: {f.reason}"),
    facts.PreemptionRefused: ("preemption", lambda f: f"Cannot preempt for {key(f)}: {f.reason}"),
    facts.ReleaseIgnored: (ALWAYS, lambda f: f"Ignored release of {key(f)}: {f.message}"),
}


def explained(notes: Notes, line: Line) -> Iterator[str]:
    """Of one ask: what is in its way, since when that was told, and its place in the order."""
    partition = notes.world.state.partitions[notes.partition(line)]
    name = line.one("app/key")
    application, _, key = name.partition("/")
    line.done()
    ask = partition.applications[application].asks[key]
    since = ask.waiting or {}
    for c in Explanations(notes.world.state, notes.world.core.index).of(partition, ask):
        seconds = (notes.world.state.now_ms - since[c.key]) / 1_000 if c.key in since else None
        yield f"Blocked {name}{'' if seconds is None else f' for {seconds:g} s'}: {c.reason}"
    position = Positions(notes.world.core.index).of(ask)
    turns = "".join(f"; {turn.queue} is {turn.place} of {turn.among}" for turn in position.turns if turn.among)
    yield f"Place of {name}: {position.ahead} of {position.waiting} go before it{turns}"


def what_if(notes: Notes, line: Line) -> Iterator[str]:
    """Of one ask: who holds what it waits for, what was in its way before, and what would let it run."""
    core, partition_name = notes.world.core, notes.partition(line)
    name = line.one("app/key")
    application, _, key = name.partition("/")
    line.done()
    sought = Ask(partition_name, application, key)
    partition, ask = sought.of(core)
    constraints = Explanations(core.state, core.index).of(partition, ask)
    for constraint in constraints:
        held = holders_of(partition, ask, constraint)
        if held.rows:
            rows = (f"{one.application}{'/' * bool(one.key)}{one.key} {one.amount or ''}".strip() for one in held.rows)
            yield f"Waits for {' '.join(filter(None, constraint.key))}, held by {', '.join(rows)}"
    for over in history(ask, constraints):
        what = " ".join(filter(None, (over.constraint, over.where, over.resource)))
        ended = f"{(over.ended_ms - over.since_ms) / 1_000:g} s" if over.ended_ms else "until now"
        yield f"Before {what}: {ended}"
    before = digest(core.state)
    found = search(core, sought, lambda work: work(copy_of(core)), notes.world.now_ms)
    assert digest(core.state) == before, "a search changes nothing"
    if found.runs:
        yield f"Runs without a change: {name}"
    for change in found.changes:
        yield f"Runs if {' and '.join(map(str, change.steps))}: {name}"
        check_sufficient(core, sought, change.steps, notes.world.now_ms)
        check_smallest(core, sought, change.steps, notes.world.now_ms)
    if not found.runs and not found.changes:
        yield f"Runs with none of the changes that were tried: {name}"


def story(notes: Notes, line: Line) -> Iterator[str]:
    """As `remuda story` tells it."""
    sought = StoryTarget.parse(line.one("ID"))
    line.done()
    first = Story(sought)
    if any(told(notes, first)):
        yield from told(notes, Story(first.restart_as or sought))


def told(notes: Notes, story: Story) -> Iterator[str]:
    for seq, ((now_ms, happened), command) in enumerate(zip(notes.world.log, notes.causes, strict=True), start=1):
        commit = log_pb2.Commit(now_ms=now_ms)
        decision = commit.decisions.add(command=command, inbox_seq=0 if command in SCHEDULER_COMMANDS else seq)
        for fact in happened:
            WRITERS[type(fact)](fact, decision.facts.add())
        for each in story.lines_of(seq, commit):
            yield f"After {each.at_ms - START_MS:,} ms, {each.text} [{each.cause}]"


def given(notes: Notes, line: Line, shown: set[str]) -> Iterator[str]:
    """A queues.yaml: what its configuration led to, or all that is wrong with it."""
    try:
        yield from tell(notes.read_file(line), shown)
    except Invalid as invalid:
        yield from (f"Problem in {problem}" for problem in invalid.problems)


def tell(happened: Iterable[facts.Fact], shown: set[str]) -> Iterator[str]:
    for fact in happened:
        group, line = TABLE[type(fact)]
        if group == ALWAYS or group in shown:
            yield line(fact)
        if "events" in shown:
            yield from events(fact)


def events(fact: facts.Fact) -> Iterator[str]:
    """The records that people and the RM read in the event history."""
    written = log_pb2.Fact()
    WRITERS[type(fact)](fact, written)
    for record in records_of(written, 0):
        kind, change = EventRecord.Type.Name(record.type), EventRecord.ChangeType.Name(record.eventChangeType)
        detail = EventRecord.ChangeDetail.Name(record.eventChangeDetail)
        about = f"{record.objectID} {record.referenceID}".rstrip()
        yield f"Event {kind} {change} {detail} {about}{': ' if record.message else ''}{record.message}"
