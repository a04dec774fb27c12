"""What is always true of a state, and a state as plain values.

Tests check after every command; an operator may do so at any time. What is kept beside the facts (sums, counts of
priorities, the scheduling index) is counted anew and compared. Knows nothing of commands: whatever led here, this has
to hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from operator import itemgetter
from typing import Any

import msgspec

from .check_asks import check_asks
from .check_index import check_index
from .evolve.pending import mapped_priority
from .facts import TIMEOUT, Allocated, Fact, PredicateAsked, PreemptionStarted, ReplacementStarted
from .index.index import Index
from .limits import ANSWER_WITHIN_MS, REFUSALS_LAST_MS, REJECTED_APPLICATIONS, RELEASE_OVERDUE_MS
from .rules import lifecycle, limits
from .rules.required_node import required_node
from .rules.resource import Items, Resource, items_of, show, total_of
from .sizes import check_sizes
from .state import Alarm, Application, Node, Partition, PendingAsk, Queue, State, TaskGroup, after

# A state as values


def dump(state: State) -> dict[str, Any]:
    """All that the facts determine, and nothing else: no index, no stream positions, no clock. Sums have no zeros."""
    return {
        "rm_id": state.rm_id,
        "registration": state.registration,
        "registered": state.registered,
        "rm_state": state.rm_state,
        "configuration": state.configuration,
        "next_seq": state.next_seq,
        "next_allocation": state.next_allocation,
        "next_question": state.next_question,
        "alarms": sorted(state.timers),
        "partitions": {name: _partition(partition) for name, partition in state.partitions.items()},
    }


def digest(state: State) -> str:
    """SHA-256 of the dump, in hexadecimal. Equal states have equal digests, in whatever order maps were filled."""
    return sha256(msgspec.json.encode(dump(state), order="deterministic")).hexdigest()


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "settings": partition.settings,
        "draining": partition.draining,
        "total": _sum(partition.total),
        "queues": {path: _queue(queue) for path, queue in partition.queues.items()},
        "nodes": {node_id: _node(node) for node_id, node in partition.nodes.items()},
        "applications": {app_id: _application(application) for app_id, application in partition.applications.items()},
        "rejected": [{"fact": r.fact, "at_ms": r.at_ms} for r in partition.rejected.values()],
        "allocations": {
            uuid: {
                "fact": a.fact,
                "at_ms": a.at_ms,
                "asked_seq": a.asked_seq,
                "releasing": a.releasing,
                "releasing_ms": a.releasing_ms,
                "overdue": a.overdue,
                "by_preemption": a.by_preemption,
                "replaced": a.replaced,
                "ask_over": a.ask_over,
            }
            for uuid, a in partition.allocations.items()
        },
        "questions": [question.fact for _, question in sorted(partition.questions.items())],
        "preemptions": sorted(
            (app_id, key, p.node.id, p.uuids, p.at_ms, p.question) for (app_id, key), p in partition.preemptions.items()
        ),
        "preemption_refused_ms": partition.preemption_refused_ms,
    }


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        "leaf": queue.leaf,
        "managed": queue.managed,
        "settings": queue.settings,
        "draining_since_ms": queue.draining_since_ms,
        "children": sorted(queue.children),
        "applications": sorted(queue.applications),
        "allocated": _sum(queue.allocated),
        "asked": _sum(queue.asked),
        "preempting": _sum(queue.preempting),
        "refusals": sorted(queue.refusals.items()),
        "priorities": sorted(queue.priorities.items()),
        "priority": queue.priority,
        "running": queue.running,
        "trackers": sorted((t.kind, t.name, _sum(t.used), t.running, t.members) for t in queue.trackers.values()),
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "attributes": node.attributes,
        "capacity": node.capacity,
        "occupied": node.occupied,
        "draining": node.draining,
        "kept_by_preemption": node.kept_by_preemption,
        "allocated": _sum(node.allocated),
        "allocations": sorted(node.allocations),
        "arriving": sorted(node.arriving),
    }


def _application(application: Application) -> dict[str, Any]:
    return {
        "queue": application.queue.path,
        "user": application.user,
        "groups": application.groups,
        "tags": application.tags,
        "seq": application.seq,
        "at_ms": application.at_ms,
        "execution_timeout_ms": application.execution_timeout_ms,
        "placeholder_ask": application.placeholder_ask,
        "gang_scheduling_style": application.gang_scheduling_style,
        "state": application.state,
        "state_at_ms": application.state_at_ms,
        "log": application.log,
        "states_left_out": application.states_left_out,
        "asks": {
            key: {
                "ask": a.ask,
                "pending": a.pending,
                "seq": a.seq,
                "at_ms": a.at_ms,
                "reservations": tuple(a.reservations),
                "asked": a.asked,
                **_refused(a),
                "preempted_at_ms": a.preempted_at_ms,
                "waiting": sorted((a.waiting or {}).items()),
            }
            for key, a in application.asks.items()
        },
        "allocations": sorted(application.allocations),
        "allocated": _sum(application.allocated),
        "allocated_placeholder": _sum(application.allocated_placeholder),
        "placeholders": application.placeholders,
        "placeholders_until_ms": application.placeholders_until_ms,
        "task_groups": {name: _task_group(group) for name, group in application.task_groups.items()},
        "replacements": {
            uuid: {
                "fact": r.fact,
                "placeholder": r.placeholder.fact.uuid,
                "ask": _ask(r.pending),
                "question": r.question,
            }
            for uuid, r in application.replacements.items()
        },
        "resumed": application.resumed,
        "priorities": sorted(application.priorities.items()),
        "priority": application.priority,
        "runs": application.runs,
        "claims": application.claims,
    }


def _refused(ask: PendingAsk) -> dict[str, Any]:
    return {"refused": sorted(ask.refused), "refusal": ask.refusal, "refused_at_ms": ask.refused_at_ms}


def _ask(pending: PendingAsk) -> dict[str, Any]:
    return {"ask": pending.ask, "seq": pending.seq, "at_ms": pending.at_ms}


def _task_group(group: TaskGroup) -> dict[str, Any]:
    return {
        "min_resource": group.min_resource,
        "count": group.count,
        "replaced": group.replaced,
        "timed_out": group.timed_out,
        "coming": group.coming,
        "leaving": group.leaving,
        "free": list(group.free.uuids()),
    }


def _sum(resource: Resource) -> Items:
    return items_of(resource)


# What is always true


def check(state: State, index: Index | None = None, *, grown: bool = True) -> None:
    """AssertionError that says what is wrong. `grown`: what a state holds is counted, too, which takes as long as all
    the rest; what has grown is still there the next time."""
    if grown:
        check_sizes(state, index)
    for name, partition in state.partitions.items():
        assert partition.name == name, f"partition {name}: it calls itself {partition.name}"
        assert partition.yunikorn_1_4 == state.yunikorn_1_4, f"partition {name}: other rules than asked"
        _check_queues(partition)
        _check_applications(partition)
        _check_allocations(partition)
        _check_questions(state, partition)
        _check_gangs(partition)
        _check_sums(partition)
        _check_priorities(partition)
        _check_limits(partition)
        _check_timers(state, partition)
        _check_preemption(state, partition)
        _check_held(partition)
        if index is not None and (found := index.find(partition)) is not None:
            check_index(partition, found)


def _check_queues(partition: Partition) -> None:
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
        for app_id, application in queue.applications.items():
            assert partition.applications.get(app_id) is application, (
                f"queue {path}: its application {app_id} is not in the partition"
            )


def _check_applications(partition: Partition) -> None:
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


def _check_allocations(partition: Partition) -> None:
    """On exactly one node, in one application, and in the partition."""
    for uuid, allocation in partition.allocations.items():
        fact, name = allocation.fact, f"allocation {uuid}"
        assert fact.uuid == uuid, f"{name}: it calls itself {fact.uuid}"
        assert partition.nodes.get(fact.node_id) is allocation.node, (
            f"{name}: its node {fact.node_id} is not in the partition"
        )
        assert allocation.node.allocations.get(uuid) is allocation, f"{name} is not on its node {fact.node_id}"
        assert partition.applications.get(fact.application_id) is allocation.application, (
            f"{name}: {fact.application_id} is not in the partition"
        )
        assert allocation.application.allocations.get(uuid) is allocation, (
            f"{name} is not in its application {fact.application_id}"
        )
    holders: tuple[Node | Application, ...] = (*partition.nodes.values(), *partition.applications.values())
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


def _check_questions(state: State, partition: Partition) -> None:
    asked: Counter[tuple[str, str]] = Counter()
    alarms = frozenset(state.timers) if partition.questions or partition.refused else frozenset()
    for number, question in partition.questions.items():
        fact, name = question.fact, f"question {number}"
        assert fact.question == number < state.next_question, f"{name}: it calls itself {fact.question}"
        assert partition.nodes.get(fact.node_id) is question.node, f"{name}: node {fact.node_id} is not there"
        assert partition.applications.get(fact.application_id) is question.application, (
            f"{name}: {fact.application_id} is not in the partition"
        )
        asked[fact.application_id, fact.allocation_key] += 1
        alarm = Alarm(fact.answer_by_ms, "predicate", partition.name, fact.application_id, str(number))
        assert alarm.at_ms <= state.now_ms or alarm in alarms, f"{name}: nothing ends it"
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
        alarm = Alarm(due_ms, "refusals", partition.name, pending.application.id, key)
        assert due_ms <= state.now_ms or alarm in alarms, f"ask {key}: its refusals last for ever"


def _held(partition: Partition, on: Node | Application) -> Iterator[Resource]:
    """What is held there until the RM answers."""
    return (q.fact.resource for q in partition.questions.values() if on in (q.node, q.application))


def _check_gangs(partition: Partition) -> None:
    """What is kept about placeholders is what the allocations and asks say."""
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
                f"{name}: nobody knows of question {replacement.question}"
            )
            assert asked or placeholder.releasing, f"{name}: {uuid} waits for a release nobody asked for"
            assert partition.nodes.get(replacement.fact.node_id) is replacement.node, f"{name}: {uuid} has no node"
            assert not replacement.elsewhere or uuid in replacement.node.arriving, f"{name}: {uuid} has no room kept"
        for group in application.task_groups.values():
            _check_task_group(application, group, f"{name}, task group {group.name}")
        for allocation in application.allocations.values():
            replacing = allocation.replacement
            assert replacing is None or application.replacements.get(replacing.fact.uuid) is replacing, (
                f"{name}: {allocation.fact.uuid} is replaced by nothing"
            )
        assert bool(application.placeholders_until_ms) == bool(application.placeholders), (
            f"{name}: {application.placeholders} placeholders until {application.placeholders_until_ms}"
        )


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


def _check_sums(partition: Partition) -> None:
    _same(partition.total, total_of(node.capacity for node in partition.nodes.values()), f"{partition.name}: total")
    for node in partition.nodes.values():
        held = [a.fact.resource for a in node.allocations.values()]
        held += [arriving.fact.resource for arriving in node.arriving.values()]
        held += _held(partition, node)
        _same(node.allocated, total_of(held), f"node {node.id}: allocated")
    for application in partition.applications.values():
        real = [a.fact.resource for a in application.allocations.values() if not a.fact.placeholder]
        held = [*real, *_held(partition, application)]
        _same(application.allocated, total_of(held), f"application {application.id}: allocated")
        placeholders = [a.fact.resource for a in application.allocations.values() if a.fact.placeholder]
        _same(application.allocated_placeholder, total_of(placeholders), f"application {application.id}: placeholders")
        assert application.placeholders == len(placeholders), (
            f"application {application.id}: {application.placeholders} placeholders, counted anew {len(placeholders)}"
        )
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        allocated = [m.allocated for m in members] + [a.allocated_placeholder for a in queue.applications.values()]
        _same(queue.allocated, total_of(allocated), f"queue {queue.path}: allocated")
        _same(queue.asked, total_of(a.pending for a in queue.applications.values()), f"queue {queue.path}: asked")


def _same(kept: Resource, counted: Resource, what: str) -> None:
    assert items_of(kept) == items_of(counted), f"{what} {show(kept)}, counted anew {show(counted)}"


def _check_priorities(partition: Partition) -> None:
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


def _check_limits(partition: Partition) -> None:
    """Who counts where, and for how much, counted anew."""
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
        completing = application.state == lifecycle.COMPLETING  # what it holds then are placeholders nobody wants
        holds = application.claims or (application.allocations and not completing)
        assert application.runs or not holds, f"{what} holds something and does not count as running"
        assert not application.runs or not completing, f"{what} is Completing and running"
        for tracker in application.trackers:
            assert tracker.queue.trackers.get((tracker.kind, tracker.name)) is tracker, f"{what}: a tracker is lost"
            members[tracker.queue.path, tracker.kind, tracker.name].append(application)
    for queue in partition.queues.values():
        running = sum(a.runs for a in alive if queue in a.queue.path_to_root)
        assert queue.running == running, f"queue {queue.path}: {queue.running} running, counted anew {running}"
        for (kind, name), tracker in queue.trackers.items():
            counted, what = members.pop((queue.path, kind, name), []), f"queue {queue.path}, {kind} {name}"
            assert counted and tracker.members == len(counted), (
                f"{what}: {tracker.members} members, counted {len(counted)}"
            )
            running = sum(a.runs for a in counted)
            assert tracker.running == running, f"{what}: {tracker.running} running, counted anew {running}"
            used = [r for a in counted for r in (a.allocated, a.allocated_placeholder)]
            _same(tracker.used, total_of(used), f"{what}: used")
    assert not members, f"trackers that are in no queue: {sorted(members)}"


def _check_timers(state: State, partition: Partition) -> None:
    alarms = frozenset(state.timers)
    for application in partition.applications.values():
        completing = application.state == lifecycle.COMPLETING and application.placeholders  # waits for these, then
        if application.state in lifecycle.TIMEOUTS and not completing:
            due_ms = after(application.state_at_ms, lifecycle.lasts_ms(application.state, state.timing))
            assert Alarm(due_ms, "state", partition.name, application.id, "") in alarms, (
                f"application {application.id}: no timer ends {application.state} at {due_ms}"
            )
        due_ms = application.placeholders_until_ms
        if due_ms > state.now_ms:
            assert Alarm(due_ms, "placeholder", partition.name, application.id, "") in alarms, (
                f"application {application.id}: nothing ends its placeholders at {due_ms}"
            )
        due_ms = after(application.state_at_ms, application.execution_limit_ms)
        if application.state == lifecycle.RUNNING and application.execution_limit_ms and due_ms > state.now_ms:
            assert Alarm(due_ms, "execution", partition.name, application.id, "") in alarms, (
                f"application {application.id}: nothing ends its execution at {due_ms}"
            )
    for uuid, allocation in partition.allocations.items():
        due_ms = after(allocation.at_ms, allocation.fact.execution_timeout_ms)
        if due_ms > state.now_ms and not allocation.releasing:
            alarm = Alarm(due_ms, "execution", partition.name, allocation.application.id, uuid)
            assert alarm in alarms, f"allocation {uuid}: nothing ends its execution at {due_ms}"


def _check_held(partition: Partition) -> None:
    """A place is kept for an ask exactly while others are preempted for it and that node is reserved for it."""
    held = [p for p in partition.preemptions.values() if p.held]
    for preemption in partition.preemptions.values():
        kept = preemption.node.reservation is preemption.pending
        assert preemption.held == kept, f"preemption for {preemption.pending.ask.allocation_key}: held is not {kept}"
    for application in partition.applications.values():
        counted = total_of(p.pending.ask.resource for p in held if p.pending.application is application)
        _same(application.held, counted, f"application {application.id}: held")
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        _same(queue.held, total_of(m.held for m in members), f"queue {queue.path}: held")
        for tracker in queue.trackers.values():
            counting = [p.pending for p in held if tracker in p.pending.application.trackers]
            _same(tracker.held, total_of(p.ask.resource for p in counting), f"{tracker}: held")


def _check_preemption(state: State, partition: Partition) -> None:
    for queue in partition.queues.values():
        allocations = [a for a in partition.allocations.values() if queue in a.application.queue.path_to_root]
        counted = total_of(a.fact.resource for a in allocations if a.preempting)
        _same(queue.preempting, counted, f"queue {queue.path}: preempting")
    alarms = frozenset(state.timers)
    for (app_id, key), preemption in partition.preemptions.items():
        name = f"preemption for {app_id}/{key}"
        pending = preemption.pending
        assert partition.applications[app_id].asks.get(key) is pending, f"{name}: there is no such ask"
        assert pending.preemption is preemption, f"{name}: the ask knows of another"
        assert pending.preempted_at_ms == preemption.at_ms, f"{name}: the ask knows of another time"
        assert partition.nodes.get(preemption.node.id) is preemption.node, f"{name}: its node is not there"
        due_ms = preemption.at_ms + RELEASE_OVERDUE_MS
        alarm = Alarm(due_ms, "preemption", partition.name, app_id, key)
        if preemption.question:
            due_ms = preemption.at_ms + ANSWER_WITHIN_MS
            alarm = Alarm(due_ms, "predicate", partition.name, app_id, str(preemption.question))
        assert alarm in alarms or due_ms <= state.now_ms, f"{name}: nothing ends it"
    for uuid, a in partition.allocations.items():
        alarm = Alarm(a.releasing_ms + RELEASE_OVERDUE_MS, "release", partition.name, a.application.id, uuid)
        assert not a.releasing or a.overdue or alarm in alarms, f"allocation {uuid}: nothing tells if it is overdue"
    under_way = {p.pending for p in partition.preemptions.values()}
    for application in partition.applications.values():
        for key, pending in application.asks.items():
            assert (pending.preemption is not None) == (pending in under_way), (
                f"ask {application.id}/{key}: its preemption is not the partition's"
            )


# What is true of decisions


def check_decision(state: State, facts: Iterable[Fact]) -> None:
    """After one command: what it allocated, or asked the RM about, has room. What is too much already may stay; nothing
    new may add to it."""
    for fact in facts:
        if isinstance(fact, Allocated | PredicateAsked):
            _check_allocated(state.partitions[fact.partition], fact)
        elif isinstance(fact, ReplacementStarted):
            _check_place(state.partitions[fact.allocation.partition], fact)
        elif isinstance(fact, PreemptionStarted):
            _check_preempted(state.partitions[fact.partition], fact)


def _check_allocated(partition: Partition, fact: Allocated | PredicateAsked) -> None:
    what = f"allocation {fact.application_id}/{fact.allocation_key}"
    node, application = partition.nodes[fact.node_id], partition.applications[fact.application_id]
    queue = application.queue
    tags = fact.tags if isinstance(fact, Allocated) else application.asks[fact.allocation_key].ask.tags
    assert node.takes(required_node(tags)), f"{what} was placed on {node.id}, which does not take it"
    available = node.available()
    for name, amount in fact.resource.items():
        left = available.get(name, 0)
        assert amount <= 0 or left >= 0, f"{what} was placed on {node.id}, which lacks {name}={-left} now"
        for above in queue.path_to_root:
            used, maximum = above.allocated.get(name, 0), above.settings.max.get(name)
            assert amount <= 0 or maximum is None or used <= maximum, (
                f"{what}: queue {above.path} now has {name}={used}, its maximum is {maximum}"
            )
        for tracker in application.trackers:
            used, maximum = tracker.used.get(name, 0), tracker.limit.max_resources.get(name)
            assert amount <= 0 or maximum is None or used <= maximum, (
                f"{what}: {tracker.kind} {tracker.name} now has {name}={used} in queue {tracker.queue.path}, "
                f"the limit is {maximum}"
            )


def _check_preempted(partition: Partition, fact: PreemptionStarted) -> None:
    """No queue that is not above the ask, too, has less than its guaranteed of what it loses. On the one node an ask
    may have, only priority counts."""
    what = f"preemption for {fact.application_id}/{fact.allocation_key}"
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    victims = [partition.allocations[uuid] for uuid in fact.uuids]
    if required_node(pending.ask.tags):
        for victim in victims:
            assert victim.node.id == fact.node_id, f"{what}: {victim.fact.uuid} is on another node"
            assert victim.fact.priority <= pending.ask.priority, f"{what}: {victim.fact.uuid} has a higher priority"
        return
    own = set(pending.application.queue.path_to_root)
    for victim in victims:
        for queue in victim.application.queue.path_to_root:
            for name, due in queue.settings.guaranteed.items():
                left = queue.allocated.get(name, 0) - queue.preempting.get(name, 0)
                assert queue in own or not victim.fact.resource.get(name) or left >= due, (
                    f"{what}: queue {queue.path} keeps {name}={left}, its guaranteed is {due}"
                )


def _check_place(partition: Partition, fact: ReplacementStarted) -> None:
    """Nothing has to be free on the placeholder's own node."""
    real, placeholder = fact.allocation, partition.allocations[fact.placeholder]
    what = f"replacement {real.application_id}/{real.allocation_key}"
    node = partition.nodes[real.node_id]
    assert node.takes(required_node(real.tags)), f"{what} was placed on {node.id}, which does not take it"
    assert placeholder.fact.task_group == real.task_group, f"{what}: the place is of another task group"
    for name, amount in real.resource.items():
        assert amount <= placeholder.fact.resource.get(name, 0), f"{what} is larger than its place: {name}={amount}"
        assert node is placeholder.node or node.available().get(name, 0) >= 0, f"{what}: {node.id} lacks {name}"
