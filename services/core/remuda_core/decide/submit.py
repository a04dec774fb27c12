"""SubmitApplication, RemoveApplication (000, ApplicationRequest; semantics sections 5 and 7)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from remuda_proto import bounds
from remuda_proto.bounds import MESSAGE_BYTES, shortened, shown
from remuda_proto.names import GROUP, USER

from .. import facts
from ..commands import RemoveApplication, SubmitApplication
from ..cycle.transitions import transition
from ..facts import Fact, Tags
from ..limits import ENDED_APPLICATIONS, REJECTED_APPLICATIONS
from ..rules import lifecycle
from ..rules.placement import FORCE_CREATE_TAG, RECOVERY_QUEUE, NotPlaced, place, to_recovery_queue
from ..rules.placement_rules import Applicant
from ..rules.quota import MAX_TAG, NO_QUOTA, BadQuota, Quota, quota_of
from ..rules.resource import problem_of_resource
from ..settings import QueueSettings
from ..state import Partition, Queue, State
from . import names
from .allocation import freed, recovered_now
from .ask import nothing_is_asked
from .gang import problem_of_gang
from .quota import settle_quotas


def submit_application(state: State, command: SubmitApplication, now_ms: int) -> Iterator[Fact]:
    partition = state.partitions.get(command.partition)
    problem = command.refused or problem_of_application(partition, command)
    if partition is None or problem is not None:
        yield from rejected(partition, command, problem or "")
        return
    ignored, runs = list[str](), runs_already(partition, command)

    def is_ignored(problem: str | None) -> bool:
        """Whether the problem, if there is one, only concerns the start of an application that has started before."""
        if problem and runs:
            ignored.append(problem)
        return runs or not problem

    if not is_ignored(command.groups_problem):
        yield from rejected(partition, command, command.groups_problem)
        return
    who = Applicant(command.queue, command.user, command.groups, command.tags)
    placed = place(partition.settings, partition.queues, who, runs=runs)
    if isinstance(placed, NotPlaced):
        if not is_ignored(placed.reason):
            yield from rejected(partition, command, placed.reason)
            return
        placed = to_recovery_queue(partition.queues)
    quota, problem = NO_QUOTA, None
    if placed.queue != RECOVERY_QUEUE:
        quota, problem = acceptable_quota(partition, command.tags)
    problem = problem or problem_of_gang(
        partition, placed.queue, leaf_settings(partition, placed.queue, quota), command.placeholder_ask
    )
    if problem is not None and not is_ignored(problem):
        yield from rejected(partition, command, problem)
        return
    for path in placed.missing:
        leaf = path == placed.queue
        settings = dynamic_queue(partition, path, leaf)
        yield facts.QueueAdded(partition.name, path, leaf, False, with_quota(settings, quota) if leaf else settings)
    if not placed.missing and quota is not NO_QUOTA:
        yield from changed_quota(partition, partition.queues[placed.queue], quota, now_ms)
    yield from forget_ended(partition, now_ms)
    yield facts.ApplicationAccepted(
        partition.name, command.application_id, placed.queue, command.user, command.groups, command.tags,
        command.execution_timeout_ms, command.placeholder_ask, command.gang_scheduling_style,
        shortened("; ".join(ignored), MESSAGE_BYTES),
    )  # fmt: skip
    yield from recovered_now(partition, command.application_id, now_ms)


def runs_already(partition: Partition, command: SubmitApplication) -> bool:
    """Whether work of the application runs, as the RM says (000, `application.create.force`) or an existing allocation
    that has been reported."""
    forced = command.tags.get(FORCE_CREATE_TAG, "").lower() == "true"
    return forced or bool(partition.rejected_allocations.of_application(command.application_id))


def acceptable_quota(partition: Partition, tags: Tags) -> tuple[Quota, str | None]:
    """The quota in the tags; or none, and why that in the tags is not acceptable."""
    try:
        quota = quota_of(tags)
    except BadQuota as bad:
        return NO_QUOTA, str(bad)
    problem = partition.names.problem_of_new_names(f"tag {MAX_TAG}", quota.max)
    return (quota, None) if problem is None else (NO_QUOTA, problem)


def problem_of_application(partition: Partition | None, command: SubmitApplication) -> str | None:
    if problem := bounds.problem_of_application(  # first, so that later checks are cheap
        command.application_id, command.queue, command.user, command.groups, command.tags, command.gang_scheduling_style
    ):
        return problem
    if partition is None:
        return f"partition {shown(names.plain(command.partition))} does not exist"
    if partition.draining:
        return f"partition {shown(names.plain(command.partition))} is no longer configured"
    known = partition.applications.get(command.application_id)
    if known is not None and not known.terminal:
        return f"application {shown(command.application_id)} exists already"
    if not USER.matches(command.user):
        return f"user {shown(command.user)}, expected {USER.expected}"
    for group in command.groups:
        if not GROUP.matches(group):
            return f"group {shown(group)}, expected {GROUP.expected}"
    return problem_of_resource(command.placeholder_ask, "placeholderAsk")


def rejected(partition: Partition | None, command: SubmitApplication, reason: str) -> Iterator[Fact]:
    """Reject an application. The state keeps a record of the last REJECTED_APPLICATIONS, except those with names that
    are too long, as long as records of ended applications."""
    named = (command.application_id, command.queue, command.user)
    short = not any(bounds.exceeds(name, bounds.ID_BYTES) for name in named)
    recorded = short and partition is not None and command.application_id != ""
    if recorded and partition is not None and command.application_id not in partition.rejected:
        while len(partition.rejected) >= REJECTED_APPLICATIONS:
            yield facts.RejectionForgotten(partition.name, next(iter(partition.rejected)))
    application_id, queue, user = map(names.identity, named)
    groups = () if bounds.problem_of_texts("groups", command.groups, bounds.GROUPS) else command.groups
    yield facts.ApplicationRejected(
        names.identity(command.partition), application_id, reason, recorded, queue, user, groups
    )


def forget_ended(partition: Partition, now_ms: int) -> Iterator[Fact]:
    """While there are too many ended applications, each submission removes two of them."""
    for _ in range(2):
        if len(partition.ended) < ENDED_APPLICATIONS:
            return
        oldest = partition.ended.first()
        yield from transition(partition, oldest, lifecycle.EXPIRE, now_ms)
        yield facts.ApplicationRemoved(partition.name, oldest.id, "")


def dynamic_queue(partition: Partition, path: str, leaf: bool) -> QueueSettings:
    """The settings of a dynamic queue. A leaf has those of the nearest template above it (semantics section 6). A
    parent has none, because the maximum of a template is meant for each leaf, not for their sum."""
    parent_path, _, name = path.rpartition(".")
    while parent_path not in partition.queues:
        parent_path = parent_path.rpartition(".")[0]
    template = next(
        (q.settings.child_template for q in partition.queues[parent_path].path_to_root if q.settings.child_template),
        None,
    )
    if template is None or not leaf:
        return QueueSettings(name)
    return QueueSettings(
        name, False, template.guaranteed, template.max, template.max_applications, template.properties,
        budget=template.budget,
    )  # fmt: skip


def leaf_settings(partition: Partition, path: str, quota: Quota) -> QueueSettings:
    """The settings of the leaf once the application with the quota is in it."""
    queue = partition.queues.get(path)
    if queue is not None and queue.managed:
        return queue.settings
    return with_quota(queue.settings if queue is not None else dynamic_queue(partition, path, True), quota)


def with_quota(settings: QueueSettings, quota: Quota) -> QueueSettings:
    """The quota of the application replaces that of the template."""
    return replace(settings, guaranteed=quota.guaranteed or settings.guaranteed, max=quota.max or settings.max)


def changed_quota(partition: Partition, queue: Queue, quota: Quota, now_ms: int) -> Iterator[Fact]:
    """The last application with a quota sets that of its dynamic queue. Configured queues keep their own."""
    settings = with_quota(queue.settings, quota)
    if not queue.managed and settings != queue.settings:
        changed = tuple(
            name for name in ("max", "guaranteed") if getattr(settings, name) != getattr(queue.settings, name)
        )
        yield facts.QueueChanged(partition.name, queue.path, queue.leaf, queue.managed, settings, changed)
        yield from settle_quotas(partition, (queue,), now_ms)


def remove_application(state: State, command: RemoveApplication, now_ms: int) -> Iterator[Fact]:
    """Withdraw all asks and release all allocations, each with an acknowledgement. Unknown and ended applications are
    ignored."""
    partition = state.partitions.get(command.partition)
    application = partition.applications.get(command.application_id) if partition is not None else None
    if partition is None or application is None or application.terminal:
        return
    message, holds = f"application {application.id} was removed", bool(application.allocations)
    yield from nothing_is_asked(partition, application, facts.STOPPED_BY_RM, message)
    for allocation in list(application.allocations.values()):
        yield freed(allocation, facts.STOPPED_BY_RM, message, reported=True)
    if application.state != lifecycle.NEW:
        yield from transition(partition, application, lifecycle.COMPLETE, now_ms)
    if application.state == lifecycle.COMPLETING and not holds:
        yield from transition(partition, application, lifecycle.COMPLETE, now_ms)
    yield facts.ApplicationRemoved(partition.name, application.id, application.queue.path)
