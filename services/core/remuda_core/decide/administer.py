"""Administer: the actions of operators (001, Access Control Lists; semantics section 19).

Each kind of action has two functions: one yields the problems that speak against it, the other its effects. Problems
are hard or soft, and `force` acts in spite of soft ones. Outcomes are remembered by `action_id`, so that a repeated
command gets the same outcome and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace

from remuda_proto import bounds
from remuda_proto.bounds import MESSAGE_BYTES, joined, shortened, shown

from .. import actions, facts
from ..actions import (
    ChangeAskPriority,
    DrainNode,
    EndLoan,
    HoldQueue,
    KillApplication,
    LendQuota,
    MoveApplication,
    ReleaseOneAllocation,
    ResumeQueue,
    UndrainNode,
)
from ..commands import Administer
from ..cycle.place import release_requested
from ..cycle.reserve import unreserved
from ..facts import Action, Fact
from ..index.limits import held_queue
from ..limits import DRAINS, HOLDS, LOANS
from ..rules import lifecycle
from ..rules.acl import may_administer, may_submit
from ..rules.limits import applying
from ..rules.properties import FAIR, sort_policy
from ..rules.resource import Resource, problem_of_resource, show, total_of
from ..state import NEVER_MS, Application, Loan, LoanKey, Partition, Queue, State
from . import names
from .allocation import replacement_cancelled
from .ask import release_reservations
from .gang import fail
from .loans import change_queues, end_loan, problems_of_loan, without_borrowed
from .node import drained
from .predicate import withdrawn
from .quota import booked_above_quotas


def administer(state: State, command: Administer, now_ms: int) -> Iterator[Fact]:
    """Yield the outcome of the action, then its effects."""
    action = described(command)
    known = state.actions.get(command.action_id)
    if known is not None:
        yield repeated(known, action)
        return
    problem = problem_of_command(command)
    partition = state.partitions.get(command.partition)
    if problem is None and partition is None:
        problem = f"partition {shown(names.plain(command.partition))} does not exist"
    if problem is not None or partition is None or command.action is None:
        yield facts.ActionRefused(action, problem or "")
        return
    problems, effects = BY_ACTION[type(command.action)]
    act = Act(state, partition, command, now_ms)
    found = list(problems(act, command.action))
    texts = tuple(each.text for each in found)
    soft = all(each.soft for each in found)
    if found and not (soft and command.force):
        yield facts.ActionRefused(action, joined(list(texts)), soft=soft)
        return
    yield facts.ActionTaken(action, texts)
    yield from effects(act, command.action)


class Act(NamedTuple):
    """An action of an operator that is being decided, and the state and partition that it is about."""

    state: State
    partition: Partition
    command: Administer
    now_ms: int


def described(command: Administer) -> Action:
    """The action as the log has it. Names that are too long are shortened: such a command is refused."""
    action = command.action
    values = asdict(action) if action is not None else {}
    texts = {name: names.identity(value) for name, value in values.items() if isinstance(value, str)}
    return Action(
        "" if action is None else type(action).__name__,
        names.identity(command.operator),
        bounds.shortened(command.reason, bounds.MESSAGE_BYTES),
        names.identity(command.action_id),
        names.identity(command.partition),
        force=command.force,
        **{**values, **texts},
    )


def problem_of_command(command: Administer) -> str | None:
    """The reason why the command cannot be read; None if it can."""
    if command.action is None:
        return f"action is empty, expected one of {', '.join(kind.__name__ for kind in BY_ACTION)}"
    named = {"operator": command.operator, "actionID": command.action_id}
    named |= {name: value for name, value in asdict(command.action).items() if isinstance(value, str)}
    problems = (bounds.problem_of_name(field, value) for field, value in named.items())
    return next(filter(None, problems), None) or bounds.problem_of_texts("groups", command.groups, bounds.GROUPS)


def repeated(known: facts.ActionTaken | facts.ActionRefused, action: Action) -> Fact:
    """The outcome that the action had before. Another action with the same ID is refused."""
    if known.action == action:
        return replace(known, repeated=True)
    other = f"actionID {shown(action.action_id)} was used for {known.action.kind} of {known.action.operator}"
    return facts.ActionRefused(action, f"{other}, expected a new one", repeated=True)


# KillApplication and MoveApplication


def problems_of_kill(act: Act, action: KillApplication) -> Iterator[Problem]:
    application = yield from running_application(act, action.application_id)
    if application is None:
        return
    if application.state == lifecycle.FAILING:
        yield Problem(f"applicationID {shown(application.id)} is {application.state} already")


def kill_application(act: Act, action: KillApplication) -> Iterator[Fact]:
    """Withdraw the asks, and ask the RM to release the allocations. With the last release the application is
    Failed (section 7)."""
    application = act.partition.applications[action.application_id]
    yield from fail(act.partition, application, shortened(why(act.command, "killed"), MESSAGE_BYTES), act.now_ms)


def problems_of_move(act: Act, action: MoveApplication) -> Iterator[Problem]:
    application = yield from running_application(act, action.application_id)
    if application is None:
        return
    path = action.queue.lower()
    queue = act.partition.queues.get(path)
    if queue is None or not queue.leaf:
        yield Problem(
            f"queue {shown(path)} {'does not exist' if queue is None else 'is a parent'}, expected a leaf queue"
        )
        return
    yield from problems_of_access(queue, act.command)
    leaf = next((above for above in queue.path_to_root[1:] if above.leaf), None)
    if leaf is not None:
        yield Problem(f"queue {path} is below the leaf queue {leaf.path}, expected one below parents only")
    if queue is application.queue:
        yield Problem(f"applicationID {shown(application.id)} is in queue {path} already")
        return
    yield from _problems_of_target(application, queue)
    yield from _problems_of_quotas(application, queue)


def _problems_of_target(application: Application, queue: Queue) -> Iterator[Problem]:
    """Whether the queue takes the application at all."""
    draining = next((above for above in queue.path_to_root if above.draining), None)
    if draining is not None:
        yield Problem(f"queue {draining.path} is draining, expected one that takes applications")
    if not may_submit([above.settings for above in queue.path_to_root], application.user, application.groups):
        yield Problem(f"user {shown(application.user)} may not submit to queue {queue.path}")
    gang = any(application.placeholder_ask.values()) or application.task_groups
    if gang and sort_policy(queue.settings.properties) == FAIR:
        yield Problem(f"queue {queue.path} orders its applications by fair share, which gangs do not go with")
    held = held_queue(queue)
    if held is not None:
        yield Problem(f"queue {held.path} is held, the application would not go on", soft=True)


def _problems_of_quotas(application: Application, queue: Queue) -> Iterator[Problem]:
    """The maxima and limits that the application would exceed in the queue and above. Those that it counts under
    already stay as they are."""
    used = total_of((application.allocated, application.allocated_placeholder, application.held))
    new = [above for above in queue.path_to_root if above not in application.queue.path_to_root]
    for above in new:
        most = above.settings.max
        yield from _over(f"queue {above.path}", used, most, total_of((above.allocated, above.held)))
        if application.state in (lifecycle.NEW, lifecycle.ACCEPTED):
            yield from _too_small(above, application.placeholder_ask)
        if application.counts_as_running and not above.has_running_slot():
            yield _no_slot(f"queue {above.path}", above.running, above.most_running)
    levels = [above.settings.limits for above in queue.path_to_root]
    for level, kind, name, limit in applying(levels, application.user, application.groups):
        tracker = queue.path_to_root[level].trackers.get((kind, name))
        if tracker is not None and tracker in application.trackers:
            continue
        what = f"{kind} {name} in queue {queue.path_to_root[level].path}"
        there = total_of((tracker.used, tracker.held)) if tracker is not None else {}
        running = tracker.running if tracker is not None else 0
        yield from _over(what, used, limit.max_resources, there)
        if application.counts_as_running and limit.max_applications and running >= limit.max_applications:
            yield _no_slot(what, running, limit.max_applications)


def _over(what: str, used: Resource, most: Resource, there: Resource) -> Iterator[Problem]:
    for name, maximum in sorted(most.items()):
        amount, have = used.get(name, 0), there.get(name, 0)
        if amount and amount + have > maximum:
            yield Problem(
                f"{what} has {name}={have} of {maximum}, the application brings {amount}, expected at most "
                f"{max(0, maximum - have)}",
                soft=True,
            )


def _too_small(queue: Queue, placeholder_ask: Resource) -> Iterator[Problem]:
    for name, most in sorted(queue.settings.max.items()):
        if placeholder_ask.get(name, 0) > most:
            text = f"placeholderAsk: {name}={placeholder_ask[name]}, the maximum of queue {queue.path} is {most}"
            yield Problem(text, soft=True)


def _no_slot(what: str, running: int, most: int) -> Problem:
    return Problem(f"{what} has {running} running applications, expected fewer than {most}", soft=True)


def move_application(act: Act, action: MoveApplication) -> Iterator[Fact]:
    """Move the application. Allocations, asks and preemptions stay, and count in the other queue. Other reservations
    end: whether they are justified depends on the queue. In a held queue nothing is under way."""
    application, queue = act.partition.applications[action.application_id], act.partition.queues[action.queue.lower()]
    if (held := held_queue(queue)) is not None:
        yield from under_way_ends(act.partition, [application], f"queue {held.path} is held")
    for pending in sorted(application.reserving.values(), key=attrgetter("seq")):
        for node in [act.partition.nodes[node_id] for node_id in pending.reservations]:
            if not node.preempting:
                yield unreserved(node, "the application was moved")
    moved = facts.ApplicationMoved(act.partition.name, application.id, queue.path, application.queue.path)
    yield from booked_above_quotas(act.partition, queue.path_to_root, moved, act.now_ms)


# HoldQueue and ResumeQueue


def problems_of_hold(act: Act, action: HoldQueue) -> Iterator[Problem]:
    path = action.queue.lower()
    queue = act.partition.queues.get(path)
    if queue is None:
        yield Problem(f"queue {shown(path)} does not exist")
        return
    yield from problems_of_access(queue, act.command)
    if queue.hold is not None:
        yield Problem(f"queue {path} is held by {queue.hold.operator} already")
    elif len(act.state.holds) >= HOLDS:
        yield Problem(f"the resource manager has {len(act.state.holds)} held queues, expected fewer than {HOLDS}")


def hold_queue(act: Act, action: HoldQueue) -> Iterator[Fact]:
    """Hold the queue. Releases that the RM was asked for go on; all else that would start something ends."""
    queue = act.partition.queues[action.queue.lower()]
    applications = [application for below in queue.below() for application in below.applications.values()]
    yield from under_way_ends(act.partition, sorted(applications, key=attrgetter("seq")), f"queue {queue.path} is held")
    yield facts.QueueHeld(act.partition.name, queue.path, act.command.operator, act.command.reason)


def under_way_ends(partition: Partition, applications: Sequence[Application], reason: str) -> Iterator[Fact]:
    """Withdraw open questions to the RM about these applications, and end their preemptions and reservations: other
    queues get the room."""
    ids = {application.id for application in applications}
    for question in list(partition.questions.values()):
        if question.application.id in ids:
            yield withdrawn(question, reason)
    for _, replacement in sorted(partition.replacements_asked.items()):
        if replacement.fact.application_id in ids:
            yield replacement_cancelled(replacement, reason)
    for application_id, key in list(partition.preemptions):
        if application_id in ids:
            yield facts.PreemptionEnded(partition.name, application_id, key, reason)
    for application in applications:
        for pending in sorted(application.reserving.values(), key=attrgetter("seq")):  # as after a restart
            yield from release_reservations(partition, pending, reason)


def problems_of_resume(act: Act, action: ResumeQueue) -> Iterator[Problem]:
    path = action.queue.lower()
    nearest = nearest_queue(act.partition, path)
    yield from problems_of_access(nearest, act.command)
    if (act.partition.name, path) in act.state.holds:
        return
    if nearest.path != path:
        yield Problem(f"queue {shown(path)} does not exist")
    else:
        yield Problem(f"queue {path} is not held")


def nearest_queue(partition: Partition, path: str) -> Queue:
    """The queue, or the nearest one above it that exists."""
    while path not in partition.queues:
        path = path.rpartition(".")[0] or "root"
    return partition.queues[path]


def resume_queue(act: Act, action: ResumeQueue) -> Iterator[Fact]:
    yield facts.QueueResumed(act.partition.name, action.queue.lower(), act.command.operator)


# LendQuota and EndLoan


def loan_key(partition: Partition, action: LendQuota | EndLoan) -> LoanKey:
    return LoanKey(partition.name, action.queue.lower(), action.borrower.lower())


def problems_of_lending(act: Act, action: LendQuota) -> Iterator[Problem]:
    key = loan_key(act.partition, action)
    found = [act.partition.queues.get(path) for path in key[1:]]
    for path, queue in zip(key[1:], found, strict=True):
        if queue is None or not queue.managed or queue.draining or queue.parent is None:
            yield Problem(f"queue {shown(path)}, expected a configured queue below root")
        else:
            yield from problems_of_access(queue, act.command)
    if None in found or key.lender == key.borrower:
        yield from () if None in found else (Problem(f"queue {key.lender} cannot lend to itself"),)
        return
    if not action.amounts or min(action.amounts.values()) < 1 or problem_of_resource(action.amounts, "amounts"):
        yield Problem(f"amounts {shown(show(action.amounts))}, expected amounts of 1 or more")
        return
    if action.until_ms <= act.state.now_ms:
        yield Problem(f"until_ms={action.until_ms}, expected a time later than {act.state.now_ms}")
    if key in act.state.loans:
        yield Problem(f"queue {key.lender} lends to queue {key.borrower} already")
        return
    if len(act.state.loans) >= LOANS:
        yield Problem(f"the resource manager has {len(act.state.loans)} loans, expected fewer than {LOANS}")
    loan = Loan(action.amounts, action.guaranteed, action.until_ms, "", "", 0)
    settings = {path: act.partition.queues[path].settings for path in key[1:]}
    settings[key.lender] = without_borrowed(act.partition, key.lender, settings[key.lender])
    for problem in problems_of_loan(settings, key, loan, ()):  # the settings lack what is lent already
        yield Problem(problem)


def lend_quota(act: Act, action: LendQuota) -> Iterator[Fact]:
    key = loan_key(act.partition, action)
    yield facts.QuotaLent(
        *key, dict(action.amounts), action.guaranteed, action.until_ms, act.command.operator, act.command.reason
    )
    yield from change_queues(act.partition, key, act.state.loans[key], 1, act.now_ms)


def problems_of_ending(act: Act, action: EndLoan) -> Iterator[Problem]:
    """An operator who may administer one of the two queues may end the loan."""
    key = loan_key(act.partition, action)
    refused = [list(problems_of_access(nearest_queue(act.partition, path), act.command)) for path in key[1:]]
    if all(refused):
        yield from refused[0]
    if key not in act.state.loans:
        yield Problem(f"queue {shown(key.lender)} lends nothing to queue {shown(key.borrower)}")


def end_one_loan(act: Act, action: EndLoan) -> Iterator[Fact]:
    key = loan_key(act.partition, action)
    yield from end_loan(act.state, act.partition, key, why(act.command, "ended"), act.now_ms)


# ChangeAskPriority and ReleaseOneAllocation


def problems_of_priority(act: Act, action: ChangeAskPriority) -> Iterator[Problem]:
    application = yield from running_application(act, action.application_id)
    if application is None:
        return
    pending = application.asks.get(action.allocation_key)
    if pending is None:
        yield Problem(f"allocationKey {shown(action.allocation_key)} has no pending allocations")
    elif pending.ask.priority == action.priority:
        yield Problem(f"allocationKey {shown(action.allocation_key)} has priority {action.priority} already")


def change_ask_priority(act: Act, action: ChangeAskPriority) -> Iterator[Fact]:
    """Change the priority as an update by the RM does (section 8): the ask keeps its age; what is under way for it
    ends."""
    pending = act.partition.applications[action.application_id].asks[action.allocation_key]
    ask = replace(pending.ask, priority=action.priority, max_allocations=pending.pending + pending.asked)
    yield from release_reservations(act.partition, pending, "the priority of the ask was changed")
    yield facts.AskChanged(ask)


def problems_of_release(act: Act, action: ReleaseOneAllocation) -> Iterator[Problem]:
    allocation = act.partition.allocations.get(action.uuid)
    if allocation is None:
        yield Problem(f"uuid {shown(action.uuid)} does not exist")
        return
    yield from problems_of_access(allocation.application.queue, act.command)
    if allocation.releasing and not allocation.overdue:
        yield Problem(f"uuid {shown(action.uuid)} is being released already")


def release_one_allocation(act: Act, action: ReleaseOneAllocation) -> Iterator[Fact]:
    """Ask the RM to release the allocation, which counts until the RM confirms (section 15)."""
    allocation = act.partition.allocations[action.uuid]
    reason = shortened(why(act.command, "released"), MESSAGE_BYTES)
    if allocation.replacement is not None:
        yield replacement_cancelled(allocation.replacement, reason)
    yield release_requested(allocation, facts.TIMEOUT, reason)


# DrainNode and UndrainNode


def problems_of_drain(act: Act, action: DrainNode) -> Iterator[Problem]:
    yield from problems_of_nodes(act.command)
    node = act.partition.nodes.get(action.node_id)
    if node is None:
        yield Problem(f"nodeID {shown(action.node_id)} does not exist")
    elif node.drained is not None and node.drained_by_operator:
        yield Problem(f"nodeID {shown(action.node_id)} is drained by {node.drained.operator} already")
    elif action.from_ms and not act.state.now_ms < action.from_ms < NEVER_MS:
        yield Problem(
            f"from_ms {action.from_ms}: expected a later time than {act.state.now_ms} ms since 1970, or 0: at once"
        )
    elif node.drained is None and len(act.state.drains) >= DRAINS:
        yield Problem(
            f"operators drain {len(act.state.drains)} nodes of the resource manager, expected fewer than {DRAINS}"
        )


def drain_node(act: Act, action: DrainNode) -> Iterator[Fact]:
    node = act.partition.nodes[action.node_id]
    if action.from_ms:
        yield facts.NodeLeaving(act.partition.name, node.id, action.from_ms, act.command.operator, act.command.reason)
    else:
        yield from drained(act.partition, node, act.command.operator, act.command.reason)


def problems_of_undrain(act: Act, action: UndrainNode) -> Iterator[Problem]:
    yield from problems_of_nodes(act.command)
    if (act.partition.name, action.node_id) in act.state.drains:
        return
    node = act.partition.nodes.get(action.node_id)
    if node is None:
        yield Problem(f"nodeID {shown(action.node_id)} does not exist")
    else:
        by_rm = ", only by the resource manager" if node.drained_by_rm or node.left else ""
        by_rm = f", only by window {node.in_windows[0]}" if node.in_windows and not by_rm else by_rm
        yield Problem(f"nodeID {shown(action.node_id)} is not drained by an operator{by_rm}")


def undrain_node(act: Act, action: UndrainNode) -> Iterator[Fact]:
    node = act.partition.nodes.get(action.node_id)
    by_rm = node is not None and (node.drained_by_rm or node.left or bool(node.in_windows))
    yield facts.NodeSchedulable(act.partition.name, action.node_id, act.command.operator, by_rm)


# Problems of an action, and access to queues and nodes (semantics section 4)


class Problem(NamedTuple):
    """A reason against an action. `soft`: the action is possible, and `force` allows it."""

    text: str
    soft: bool = False


def problems_of_access(queue: Queue, command: Administer) -> Iterator[Problem]:
    """Yield a problem unless the operator may administer the queue by its adminacl, or by that of a queue above. That
    the operator is a scheduler administrator does not count (001)."""
    if not may_administer([above.settings for above in queue.path_to_root], command.operator, command.groups):
        groups = f" of {shown(','.join(command.groups))}" if command.groups else ""
        yield Problem(
            f"operator {shown(command.operator)}{groups} may not administer queue {queue.path}, "
            "expected a user or group in its adminacl or in that of a queue above"
        )


def problems_of_nodes(command: Administer) -> Iterator[Problem]:
    """Yield a problem unless the operator is a scheduler administrator: nodes belong to no queue."""
    if not command.scheduler_administrator:
        yield Problem(
            f"operator {shown(command.operator)} may not administer nodes, expected a scheduler administrator"
        )


def running_application(act: Act, application_id: str) -> Generator[Problem, None, Application | None]:
    """Yield the problems that keep the operator from acting on the application. Returns the application; None: there is
    nothing to act on."""
    application = act.partition.applications.get(application_id)
    if application is None:
        yield Problem(f"applicationID {shown(application_id)} does not exist")
        return None
    if application.terminal:
        state = application.state
        yield Problem(f"applicationID {shown(application_id)} is {state}, expected one that has not ended")
        return None
    yield from problems_of_access(application.queue, act.command)
    return application


def why(command: Administer, what: str) -> str:
    """The reason of an effect, for the RM and for people: "killed by alice: runs wild"."""
    return f"{what} by {command.operator}{f': {command.reason}' if command.reason else ''}"


# The problems and the effects of each kind of action.
Problems = Callable[[Act, Any], Iterable[Problem]]
Effects = Callable[[Act, Any], Iterable[Fact]]

BY_ACTION: Final[dict[type[actions.Action], tuple[Problems, Effects]]] = {
    actions.KillApplication: (problems_of_kill, kill_application),
    actions.MoveApplication: (problems_of_move, move_application),
    actions.HoldQueue: (problems_of_hold, hold_queue),
    actions.ResumeQueue: (problems_of_resume, resume_queue),
    actions.LendQuota: (problems_of_lending, lend_quota),
    actions.EndLoan: (problems_of_ending, end_one_loan),
    actions.DrainNode: (problems_of_drain, drain_node),
    actions.UndrainNode: (problems_of_undrain, undrain_node),
    actions.ChangeAskPriority: (problems_of_priority, change_ask_priority),
    actions.ReleaseOneAllocation: (problems_of_release, release_one_allocation),
}
