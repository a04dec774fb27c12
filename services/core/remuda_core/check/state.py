"""The invariants of a state, as assertions. What is kept as a sum or a look-up is computed afresh by another way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from operator import itemgetter

from ..evolve.booking import mapped_priority
from ..evolve.windows import departures_of
from ..facts import TIMEOUT
from ..index.index import Index
from ..limits import ALLOCATIONS_PER_NODE, ANSWER_WITHIN_MS, REFUSALS_LAST_MS, REJECTED_APPLICATIONS, RELEASE_OVERDUE_MS
from ..rules import lifecycle, limits
from ..rules.leaving import leaves_at
from ..rules.required_node import is_protected
from ..rules.resource import Resource, items_of, show, total_of
from ..rules.windows import concerns
from ..state import (
    NEVER_MS,
    Application,
    Node,
    Partition,
    PredicateClass,
    Preemption,
    Queue,
    State,
    TaskGroup,
    Timer,
    after,
)
from ..timeouts import of_class_question, of_leaving, of_verdicts
from .accounts import check_accounts
from .budgets import check_budgets
from .devices import check_devices
from .guests import check_left_guests, check_unreported
from .index import check_index
from .sizes import check_sizes


def check(state: State, index: Index | None = None, *, grown: bool = True) -> None:
    """Raises AssertionError with the violated invariant. `grown`: check sizes, too, which takes as long as all other
    checks and need not be done every time, because what has grown stays."""
    if grown:
        check_sizes(state, index)
    check_left_guests(state)
    check_accounts(state)
    check_budgets(state)
    for name, partition in state.partitions.items():
        assert partition.name == name, f"partition {name}: it calls itself {partition.name}"
        assert partition.yunikorn_1_4 == state.yunikorn_1_4, f"partition {name}: other rules than asked"
        check_holds(state, partition)
        check_queues(partition)
        check_applications(partition)
        check_allocations(partition)
        check_unreported(partition)
        check_questions(state, partition)
        check_predicate_classes(state, partition)
        check_gangs(partition)
        check_sums(partition)
        check_devices(partition)
        check_priorities(partition)
        check_limits(partition)
        check_timers(state, partition)
        check_preemption(state, partition)
        check_held(partition)
        if index is not None and (found := index.find(partition)) is not None:
            check_index(partition, found, state.now_ms)


# Queues, applications, allocations


def check_queues(partition: Partition) -> None:
    found = {queue.path: queue for queue in partition.root.below()}
    assert found == partition.queues, (
        f"{partition.name}: queues {sorted(partition.queues)}, the tree has {sorted(found)}"
    )
    for path, queue in found.items():
        assert (queue.parent is None) == (path == "root"), f"queue {path}: only root has no parent"
        for name, child in queue.children.items():
            assert child.path == f"{path}.{name}" and child.name == name, (
                f"queue {path}: {child.path} stands below it as {name}"
            )
            assert child.parent is queue, f"queue {child.path}: its parent is another than {path}"
        above = queue.parent.path_to_root if queue.parent else ()
        assert queue.path_to_root == (queue, *above), (
            f"queue {path}: its path to root is {[q.path for q in queue.path_to_root]}"
        )
        assert queue.leaf or not queue.applications, (
            f"queue {path} is a parent and has applications {sorted(queue.applications)}"
        )
        if queue.leaf:
            used = [q.path for q in queue.below() if q is not queue and q.applications]
            assert not used, f"queue {path} is a leaf and there are applications below it, in {used}"
        seqs = [application.seq for application in queue.applications.values()]
        assert seqs == sorted(seqs), f"queue {path}: its applications are not in the order of submission"
        for app_id, application in queue.applications.items():
            assert partition.applications.get(app_id) is application, (
                f"queue {path}: its application {app_id} is not in the partition"
            )


def check_holds(state: State, partition: Partition) -> None:
    """Queues and nodes have the holds and drains of operators that the state keeps."""
    for path, queue in partition.queues.items():
        hold = state.holds.get((partition.name, path))
        assert queue.hold == hold, f"queue {path} is held by {queue.hold}, expected {hold}"
    for node_id, node in partition.nodes.items():
        drain = state.drains.get((partition.name, node_id))
        assert node.drained == drain, f"node {node_id} is drained by {node.drained}, expected {drain}"
        assert node.draining == node.is_drained, f"node {node_id}: draining is {node.draining}"
        assert node.leaving_ms == leaves_at(node.attributes), f"node {node_id}: leaves at {node.leaving_ms}"
        timer = of_leaving(partition.name, node)
        departures = departures_of(partition, node)
        assert node.departures == departures, f"node {node_id}: leaves {node.departures}, expected {departures}"
        assert bool(departures) == (node_id in partition.leaving), f"node {node_id}: leaves {departures}"
        of_node = tuple(w.name for w in partition.settings.calendar if concerns(w, node.id, node.attributes))
        assert node.windows == of_node, f"node {node_id}: windows {node.windows}, expected {of_node}"
        shut = {w.name for w in partition.settings.calendar if partition.is_shut_by(w)} & set(of_node)
        assert set(node.in_windows) == shut, f"node {node_id}: drained by windows {node.in_windows}, expected {shut}"
        assert timer is None or state.timers.has(timer), f"node {node_id}: nothing drains it at {node.leaves_ms}"
    assert partition.leaving.keys() <= partition.nodes.keys(), f"{partition.name}: nodes leave that are gone"


def check_applications(partition: Partition) -> None:
    times = [rejected.at_ms for rejected in partition.rejected.values()]
    assert times == sorted(times), f"{partition.name}: rejected applications are not in the order of time"
    assert len(times) <= REJECTED_APPLICATIONS, f"{partition.name}: records of {len(times)} rejected applications"
    for app_id, application in partition.applications.items():
        assert application.id == app_id, f"application {app_id}: it calls itself {application.id}"
        assert application.log[-1:] == [(application.state_at_ms, application.state)], (
            f"application {app_id}: state is not what its log ends with"
        )
        told = sum(allocation.ask_over for allocation in application.allocations.values())
        assert application.asks_over == told, f"application {app_id}: {application.asks_over} asks over, not {told}"
        if application.terminal:
            holds = [*application.asks, *application.allocations]
            assert not holds, f"application {app_id} is {application.state} and holds {holds}"
            assert (
                app_id not in application.queue.applications
                or application.queue.applications[app_id] is not application
            ), f"application {app_id} is {application.state} and still in queue {application.queue.path}"
        else:
            path = application.queue.path
            assert partition.queues.get(path) is application.queue, (
                f"application {app_id}: its queue {path} is not in the partition"
            )
            assert application.queue.applications.get(app_id) is application, (
                f"application {app_id} is not in its queue {path}"
            )
        idle = not application.asks and len(application.allocations) == application.placeholders
        assert application.state != lifecycle.COMPLETING or idle, f"application {app_id} is Completing and not idle"
        for key, pending in application.asks.items():
            name = f"ask {app_id}/{key}"
            assert (pending.ask.application_id, pending.ask.allocation_key) == (app_id, key), f"{name}: it is another's"
            assert pending.application is application, f"{name}: its application is another record"
            assert pending.pending + pending.asked > 0, f"{name}: {pending.pending} pending"
            assert (pending in partition.refused) == bool(pending.refused), f"{name}: refused by {pending.refused}"
            reserved = len(pending.reservations)
            assert pending.free == pending.pending - reserved >= 0, (
                f"{name}: {pending.free} free, of {pending.pending} with {reserved} reservations"
            )
            for node_id in pending.reservations:
                node = partition.nodes.get(node_id)
                assert node is not None and node.reservation is pending, f"{name}: {node_id} is not reserved for it"
    for node in partition.nodes.values():
        kept_for = node.reservation
        assert kept_for is None or (
            node.id in kept_for.reservations and kept_for.application.asks.get(kept_for.ask.allocation_key) is kept_for
        ), f"node {node.id}: reserved for an ask that is gone"


def check_allocations(partition: Partition) -> None:
    """Each allocation is on one node, in one application, and in the partition."""
    for uuid, allocation in partition.allocations.items():
        fact, name = allocation.fact, f"allocation {uuid}"
        assert fact.uuid == uuid, f"{name}: it calls itself {fact.uuid}"
        nodes = partition.nodes if allocation.node.reported else partition.unreported
        assert nodes.get(fact.node_id) is allocation.node, f"{name}: its node {fact.node_id} is not in the partition"
        assert allocation.node.allocations.get(uuid) is allocation, f"{name} is not on its node {fact.node_id}"
        assert partition.applications.get(fact.application_id) is allocation.application, (
            f"{name}: {fact.application_id} is not in the partition"
        )
        assert allocation.application.allocations.get(uuid) is allocation, (
            f"{name} is not in its application {fact.application_id}"
        )
    holders: tuple[Node | Application, ...] = (
        *partition.nodes.values(),
        *partition.unreported.values(),
        *partition.applications.values(),
    )
    for holder in holders:
        for uuid, allocation in holder.allocations.items():
            assert partition.allocations.get(uuid) is allocation, (
                f"{holder.id} has the allocation {uuid}, the partition has not"
            )
            assert holder in (allocation.node, allocation.application), (
                f"{holder.id} has the allocation {uuid} of another"
            )
    for application in partition.applications.values():
        if application.by_key is not None:
            known = [(key, uuid, a) for key, of_key in application.by_key.items() for uuid, a in of_key.items()]
            counted = [(a.fact.allocation_key, uuid, a) for uuid, a in application.allocations.items()]
            assert sorted(known, key=itemgetter(0, 1)) == sorted(counted, key=itemgetter(0, 1)), (
                f"application {application.id}: allocations by key"
            )

        of_key = {(key, uuid): r for key, found in application.replacements_by_key.items() for uuid, r in found.items()}
        assert of_key == {(r.fact.allocation_key, uuid): r for uuid, r in application.replacements.items()}, (
            f"application {application.id}: replacements by key"
        )
        for key in (*application.asks, *(a.fact.allocation_key for a in application.allocations.values())):
            assert partition.holders.lists(key, application.id), f"application {application.id} does not hold {key}"
    for node in partition.nodes.values():
        allocated = dict(items_of(node.allocated))  # an ask may name what no node has, if it wants 0 of it
        for resource in (node.capacity, node.occupied, allocated):
            assert partition.names.knows(resource), f"node {node.id}: names of {resource} are not known"
        rejected = total_of(one.fact.resource for one in node.rejected.values())
        assert all(node.occupied.get(name, 0) >= amount for name, amount in rejected.items()), (
            f"node {node.id}: the resources of rejected allocations are not occupied"
        )
    rejected_there = [one for node in partition.nodes.values() for one in node.rejected.values()]
    listed = partition.rejected_allocations
    assert listed.count == len(rejected_there), f"partition {partition.name}: rejected allocations"
    for one in rejected_there:
        assert listed.by_name[one.name][one.fact.node_id] is one, f"rejected allocation {one.name}: by its name"
        assert one in listed.of_application(one.fact.application_id), f"rejected allocation {one.name}: of its app"
    for queue in partition.queues.values():
        assert partition.names.knows(queue.settings.max), f"queue {queue.path}: names of its maxima are not known"


def check_asks(application: Application) -> None:
    name, asks = f"application {application.id}", application.asks
    reserving = {key: ask for key, ask in asks.items() if ask.reservations}
    assert application.reserving == reserving, f"{name}: nodes are reserved for {sorted(reserving)}"
    claims = sum(len(ask.reservations) + ask.asked for ask in asks.values())
    assert application.open_claims == claims, f"{name} has {application.open_claims} claims, counted anew {claims}"
    if (kept := application.pending_sum) is not None:
        counted = sum(ask.pending for ask in asks.values())
        assert kept.pieces == counted, f"{name}: {kept.pieces} pieces pending, counted anew {counted}"
        assert items_of(kept.amounts) == items_of(application.pending), f"{name}: {kept.amounts} pending"


# Sums and priorities


def check_sums(partition: Partition) -> None:
    check_sum(partition.total, total_of(node.capacity for node in partition.nodes.values()), f"{partition.name}: total")
    occupied = total_of(node.occupied for node in partition.nodes.values())
    check_sum(partition.occupied, occupied, f"{partition.name}: occupied")
    for node in (*partition.nodes.values(), *partition.unreported.values()):
        held = [a.fact.resource for a in node.allocations.values()]
        held += [arriving.fact.resource for arriving in node.arriving.values()]
        held += held_by_questions(partition, node)
        check_sum(node.allocated, total_of(held), f"node {node.id}: allocated")
        stay = [a.fact.resource for a in node.allocations.values() if is_protected(a.fact.tags)]
        check_sum(node.bound, total_of(stay), f"node {node.id}: bound to it")
        assert node.allocations_left == ALLOCATIONS_PER_NODE - len(held), (
            f"node {node.id}: may have {node.allocations_left} allocations more, and has {len(held)}"
        )
    for application in partition.applications.values():
        real = [a.fact.resource for a in application.allocations.values() if not a.fact.placeholder]
        held = [*real, *held_by_questions(partition, application)]
        check_sum(application.allocated, total_of(held), f"application {application.id}: allocated")
        placeholders = [a.fact.resource for a in application.allocations.values() if a.fact.placeholder]
        check_sum(
            application.allocated_placeholder, total_of(placeholders), f"application {application.id}: placeholders"
        )
        assert application.placeholders == len(placeholders), (
            f"application {application.id}: {application.placeholders} placeholders, counted anew {len(placeholders)}"
        )
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        allocated = [m.allocated for m in members] + [a.allocated_placeholder for a in queue.applications.values()]
        check_sum(queue.allocated, total_of(allocated), f"queue {queue.path}: allocated")
        check_sum(queue.asked, total_of(a.pending for a in queue.applications.values()), f"queue {queue.path}: asked")


def check_sum(kept: Resource, counted: Resource, what: str) -> None:
    assert items_of(kept) == items_of(counted), f"{what} {show(kept)}, counted anew {show(counted)}"


def check_priorities(partition: Partition) -> None:
    for application in partition.applications.values():
        counted = Counter(pending.ask.priority for pending in application.asks.values() if pending.pending)
        _counts(
            application.priorities,
            counted,
            application.priority,
            max(counted, default=0),
            f"application {application.id}",
        )
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        counted = Counter(member.priority for member in members if member.priorities)
        _counts(queue.priorities, counted, queue.priority, mapped_priority(queue), f"queue {queue.path}")


def _counts(kept: Mapping[int, int], counted: Mapping[int, int], priority: int, expected: int, what: str) -> None:
    assert kept == counted, f"{what}: priorities {dict(kept)}, counted anew {dict(counted)}"
    assert priority == expected, f"{what}: priority {priority}, counted anew {expected}"


# Limits


def check_limits(partition: Partition) -> None:
    """Compute the trackers of each application, and the usage of each tracker, again."""
    alive = [application for queue in partition.queues.values() for application in queue.applications.values()]
    members: defaultdict[tuple[str, str, str], list[Application]] = defaultdict(list)
    for application in alive:
        path_to_root, what = application.queue.path_to_root, f"application {application.id}"
        levels = [queue.settings.limits for queue in path_to_root]
        found = list(limits.applying(levels, application.user, application.groups))
        trackers = [(t.queue, t.kind, t.name, t.limit) for t in application.trackers]
        expected = [(path_to_root[level], kind, name, limit) for level, kind, name, limit in found]
        assert trackers == expected, f"{what} counts in {trackers}, expected {expected}"
        application_limits = [queue for queue in path_to_root if queue.settings.max_applications]
        gated = [t for t in application.trackers if t.limit.max_applications]
        assert application.application_limits == (*application_limits, *gated), f"{what}: its gates are others"
        check_asks(application)
        completing = application.state == lifecycle.COMPLETING  # it then holds only placeholders that are not needed
        holds = application.open_claims or (application.allocations and not completing)
        assert application.counts_as_running or not holds, f"{what} holds something and does not count as running"
        assert not application.counts_as_running or not completing, f"{what} is Completing and running"
        for tracker in application.trackers:
            assert tracker.queue.trackers.get((tracker.kind, tracker.name)) is tracker, f"{what}: a tracker is lost"
            members[tracker.queue.path, tracker.kind, tracker.name].append(application)
    for queue in partition.queues.values():
        running = sum(a.counts_as_running for a in alive if queue in a.queue.path_to_root)
        assert queue.running == running, f"queue {queue.path}: {queue.running} running, counted anew {running}"
        for (kind, name), tracker in queue.trackers.items():
            counted, what = members.pop((queue.path, kind, name), []), f"queue {queue.path}, {kind} {name}"
            assert counted and tracker.members == len(counted), (
                f"{what}: {tracker.members} members, counted {len(counted)}"
            )
            running = sum(a.counts_as_running for a in counted)
            assert tracker.running == running, f"{what}: {tracker.running} running, counted anew {running}"
            used = [r for a in counted for r in (a.allocated, a.allocated_placeholder)]
            check_sum(tracker.used, total_of(used), f"{what}: used")
    assert not members, f"trackers that are in no queue: {sorted(members)}"


# Gangs


def check_gangs(partition: Partition) -> None:
    """Raises AssertionError where the state of a gang differs from its allocations and asks."""
    for node in partition.nodes.values():
        for uuid, arriving in node.arriving.items():
            known = arriving.placeholder.application.replacements.get(uuid)
            assert known is arriving and arriving.node is node and arriving.elsewhere, (
                f"node {node.id}: {uuid} does not arrive there"
            )
    for application in partition.applications.values():
        name = f"application {application.id}"
        for uuid, replacement in application.replacements.items():
            placeholder = replacement.placeholder
            assert replacement.fact.uuid == uuid and uuid not in partition.allocations, f"{name}: {uuid} is there"
            assert placeholder.replacement is replacement, f"{name}: the placeholder of {uuid} is another's"
            assert application.allocations.get(placeholder.fact.uuid) is placeholder, f"{name}: {uuid} has no place"
            asked = replacement.question != 0
            assert not asked or partition.replacements_asked.get(replacement.question) is replacement, (
                f"{name}: question {replacement.question} is unknown"
            )
            assert asked or placeholder.releasing, f"{name}: {uuid} waits for a release that was not requested"
            assert partition.nodes.get(replacement.fact.node_id) is replacement.node, f"{name}: {uuid} has no node"
            assert not replacement.elsewhere or uuid in replacement.node.arriving, f"{name}: {uuid} has no room kept"
        for group in application.task_groups.values():
            _check_task_group(application, group, f"{name}, task group {group.name}")
        for allocation in application.allocations.values():
            replacing = allocation.replacement
            assert replacing is None or application.replacements.get(replacing.fact.uuid) is replacing, (
                f"{name}: {allocation.fact.uuid} is replaced by nothing"
            )
        _check_placeholders(application, name)


def _check_placeholders(application: Application, name: str) -> None:
    there, coming, until_ms = (
        application.placeholders,
        application.placeholders_coming,
        application.placeholders_until_ms,
    )
    anew = sum(group.coming for group in application.task_groups.values())
    assert coming == anew, f"{name}: {coming} placeholders are coming, counted anew {anew}"
    assert until_ms or not there, f"{name}: nothing ends its {there} placeholders"
    assert there or coming or not until_ms, f"{name}: without placeholders until {until_ms}"


def _check_task_group(application: Application, group: TaskGroup, what: str) -> None:
    placeholders = [
        a for a in application.allocations.values() if a.fact.placeholder and a.fact.task_group == group.name
    ]
    asks = [a for a in application.asks.values() if a.ask.placeholder and a.ask.task_group == group.name]
    coming = sum(ask.pending + ask.asked for ask in asks)
    assert group.placed == len(placeholders), f"{what}: {group.placed} placed, counted anew {len(placeholders)}"
    assert group.coming == coming, f"{what}: {group.coming} are coming, counted anew {coming}"
    leaving = sum(1 for a in placeholders if a.replacement is not None)
    assert group.leaving == leaving, f"{what}: {group.leaving} are leaving, counted anew {leaving}"
    kept_ms = [allocation.at_ms for allocation in group.free]
    assert kept_ms == sorted(kept_ms), f"{what}: the free placeholder kept longest is not the first"
    for allocation in group.free:
        uuid = allocation.fact.uuid
        assert application.allocations.get(uuid) is allocation, f"{what}: {uuid} is not there"
        assert allocation.replacement is None, f"{what}: {uuid} is being replaced"
        stays = application.state == lifecycle.RESUMING and allocation.releasing == TIMEOUT
        assert stays or not allocation.releasing, f"{what}: {uuid} is on its way out"
    lost = [
        a.fact.uuid for a in placeholders if not a.releasing and a.replacement is None and a.fact.uuid not in group.free
    ]
    assert not lost, f"{what}: nothing can replace {lost}"


# Questions to the RM


def check_questions(state: State, partition: Partition) -> None:
    asked: Counter[tuple[str, str]] = Counter()
    for number, question in partition.questions.items():
        fact, name = question.fact, f"question {number}"
        assert fact.question == number < state.next_question, f"{name}: it calls itself {fact.question}"
        assert partition.nodes.get(fact.node_id) is question.node, f"{name}: node {fact.node_id} is not there"
        assert partition.applications.get(fact.application_id) is question.application, (
            f"{name}: {fact.application_id} is not in the partition"
        )
        asked[fact.application_id, fact.allocation_key] += 1
        ends = _timed(state, partition, fact.answer_by_ms, "predicate", fact.application_id, str(number))
        assert ends, f"{name}: nothing ends it"
    kept = {
        (application.id, key): pending.asked
        for application in partition.applications.values()
        for key, pending in application.asks.items()
        if pending.asked
    }
    assert kept == asked, f"{partition.name}: asked about {kept}, counted anew {dict(asked)}"
    for pending in partition.refused:
        key = pending.ask.allocation_key
        assert pending.application.asks.get(key) is pending, f"ask {pending.application.id}/{key}: refused and gone"
        due_ms = pending.refused_at_ms + REFUSALS_LAST_MS
        ends = _timed(state, partition, due_ms, "refusals", pending.application.id, key)
        assert ends, f"ask {key}: its refusals last for ever"


def check_predicate_classes(state: State, partition: Partition) -> None:
    asks: Counter[PredicateClass] = Counter()
    for application in partition.applications.values():
        for pending in application.asks.values():
            found = pending.refused
            assert isinstance(found, PredicateClass) == partition.batch_predicates, f"{pending.ask}: {found}"
            if isinstance(found, PredicateClass):
                assert partition.predicate_classes.get(found.name) is found, f"class {found.name} is gone"
                asks[found] += 1
    for name, found in partition.predicate_classes.items():
        assert found.asks == asks[found], f"class {name}: {found.asks} asks, counted anew {asks[found]}"
        assert (name in partition.idle_classes) == (not found.asks), f"class {name}: {found.asks} asks, idle or not"
        assert not found.accepted.keys() & found.refused.keys(), f"class {name}: a node has two verdicts"
        named = {*found.accepted, *found.refused, *found.asked}
        assert named <= partition.nodes.keys(), f"class {name}: verdicts about nodes that are gone"
        earliest = min((*found.accepted.values(), *found.refused.values()), default=NEVER_MS)
        assert found.until_ms <= earliest, f"class {name}: verdicts last for ever"
        for timer in (of_class_question(partition.name, found), of_verdicts(partition.name, found)):
            assert timer is None or timer.at_ms <= state.now_ms or state.timers.has(timer), f"class {name}: no {timer}"
    open_questions = {found.question: found for found in partition.predicate_classes.values() if found.question}
    assert open_questions == partition.class_questions, "questions about classes"
    assert partition.verdicts == sum(found.verdicts for found in partition.predicate_classes.values()), "verdicts"


def held_by_questions(partition: Partition, on: Node | Application) -> Iterator[Resource]:
    """Resources that open questions have booked on the node or in the application."""
    return (q.fact.resource for q in partition.questions.values() if on in (q.node, q.application))


# Preemption


def check_held(partition: Partition) -> None:
    """Resources are held for an ask exactly while its preemption is under way and its node is reserved for it, and for
    a group while nodes are kept for it."""
    held = [p for p in partition.preemptions.values() if p.held]
    for preemption in partition.preemptions.values():
        kept = bool(preemption.nodes) or preemption.node.reservation is preemption.pending
        assert preemption.held == kept, f"preemption for {preemption.pending.ask.allocation_key}: held is not {kept}"
    for application in partition.applications.values():
        counted = total_of(p.resource for p in held if p.pending.application is application)
        check_sum(application.held, counted, f"application {application.id}: held")
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        check_sum(queue.held, total_of(m.held for m in members), f"queue {queue.path}: held")
        for tracker in queue.trackers.values():
            counting = [p for p in held if tracker in p.pending.application.trackers]
            check_sum(tracker.held, total_of(p.resource for p in counting), f"{tracker}: held")


def check_preemption(state: State, partition: Partition) -> None:
    for queue in partition.queues.values():
        allocations = [a for a in partition.allocations.values() if queue in a.application.queue.path_to_root]
        counted = total_of(a.fact.resource for a in allocations if a.preempting)
        check_sum(queue.preempting, counted, f"queue {queue.path}: preempting")
    for (app_id, key), preemption in partition.preemptions.items():
        name = f"preemption for {app_id}/{key}"
        pending = preemption.pending
        assert partition.applications[app_id].asks.get(key) is pending, f"{name}: there is no such ask"
        assert pending.preemption is preemption, f"{name}: the ask knows of another"
        assert pending.preempted_at_ms == preemption.at_ms, f"{name}: the ask knows of another time"
        assert partition.nodes.get(preemption.node.id) is preemption.node, f"{name}: its node is not there"
        if preemption.question:
            due_ms, question = preemption.at_ms + ANSWER_WITHIN_MS, str(preemption.question)
            ends = _timed(state, partition, due_ms, "predicate", app_id, question)
        else:
            ends = _timed(state, partition, preemption.at_ms + RELEASE_OVERDUE_MS, "preemption", app_id, key)
        assert ends, f"{name}: nothing ends it"
        _check_together(preemption, name)
    for uuid, a in partition.allocations.items():
        timer = Timer(a.releasing_ms + RELEASE_OVERDUE_MS, "release", partition.name, a.application.id, uuid)
        assert not a.releasing or a.overdue or state.timers.has(timer), (
            f"allocation {uuid}: no timer for an overdue release"
        )
    kept = {node for preemption in partition.preemptions.values() for node in preemption.nodes}
    assert {node for node in partition.nodes.values() if node.kept is not None} == kept, "nodes are kept for nobody"
    under_way = {ask for p in partition.preemptions.values() for ask in p.members or (p.pending,)}
    for application in partition.applications.values():
        for key, pending in application.asks.items():
            assert (pending.preemption is not None) == (pending in under_way), (
                f"ask {application.id}/{key}: its preemption is not the partition's"
            )


def _check_together(preemption: Preemption, name: str) -> None:
    """Members of a group know of its preemption, and its nodes are kept for it and reserved for nobody."""
    for ask, count in preemption.members.items():
        assert ask.preemption is preemption, f"{name}: {ask.ask.allocation_key} knows of another"
        assert ask.application.asks.get(ask.ask.allocation_key) is ask, f"{name}: a member is gone"
        assert 0 < count <= ask.pending + ask.asked, f"{name}: {count} of {ask.ask.allocation_key} are yet to come"
    for node in preemption.nodes:
        assert node.kept is preemption, f"{name}: {node.id} is not kept for it"
        assert node.reservation is None, f"{name}: {node.id} is reserved"
    assert preemption.members or not preemption.nodes, f"{name}: nodes without members"
    assert preemption.nodes or preemption.question or not preemption.members, f"{name}: members without nodes"


# Timers


def _timed(state: State, partition: Partition, due_ms: int, kind: str, application_id: str, key: str) -> bool:
    """The timer is set, or is due by now."""
    return due_ms <= state.now_ms or state.timers.has(Timer(due_ms, kind, partition.name, application_id, key))


def check_timers(state: State, partition: Partition) -> None:
    for queue in partition.queues.values():
        path, due_ms = queue.path, queue.drain_report_ms
        assert queue.draining or not due_ms, f"queue {path} is reported and does not drain"
        reported = _timed(state, partition, due_ms, "draining", "", path)
        assert reported, f"queue {path}: nothing reports at {due_ms} that it still drains"
        ends = queue.excess is None or _timed(state, partition, queue.excess.preempt_at_ms, "quota", "", path)
        assert ends, f"queue {path}: nothing preempts what is above its maximum"
    for app_id, application in partition.applications.items():
        name, since_ms = f"application {app_id}", application.state_at_ms
        completing = application.state == lifecycle.COMPLETING and application.placeholders  # waits for their release
        if application.state in lifecycle.TIMEOUTS and not completing:
            due_ms = after(since_ms, lifecycle.lasts_ms(application.state, state.timing))
            timer = Timer(due_ms, "state", partition.name, app_id, "")
            assert state.timers.has(timer), f"{name}: no timer ends {application.state} at {due_ms}"
        due_ms = application.placeholders_until_ms
        ends = _timed(state, partition, due_ms, "placeholder", app_id, "")
        assert ends, f"{name}: nothing ends its placeholders at {due_ms}"
        due_ms = after(since_ms, application.execution_limit_ms)
        limited = application.state == lifecycle.RUNNING and application.execution_limit_ms
        ends = not limited or _timed(state, partition, due_ms, "execution", app_id, "")
        assert ends, f"{name}: nothing ends its execution at {due_ms}"
    for node in partition.nodes.values():
        if node.reservation is not None:
            since_ms = node.reserved_ms if node.promise is None else max(node.reserved_ms, node.promise.promised_ms)
            due_ms = after(since_ms, state.timing.reservation_timeout_ms)
            ends = _timed(state, partition, due_ms, "reservation", node.reservation.ask.application_id, node.id)
            assert ends, f"node {node.id}: nothing ends its reservation"
    for uuid, allocation in partition.allocations.items():
        due_ms = after(allocation.at_ms, allocation.fact.execution_timeout_ms)
        ends = _timed(state, partition, due_ms, "execution", allocation.application.id, uuid)
        assert allocation.releasing or ends, f"allocation {uuid}: nothing ends its execution at {due_ms}"
