"""Event records of facts about queues, partitions and resource managers.

No type of record names a partition or a resource manager: its records are about the root queue.
"""

from __future__ import annotations

from datetime import UTC, datetime

from remuda_events.event_records.record import Record, Records, plain_partition, queue
from remuda_proto.remuda.v1 import log_pb2


def queue_added(fact: log_pb2.QueueAdded, at_ns: int) -> Records:
    yield queue(fact.queue, Record.ADD, Record.DETAILS_NONE if fact.managed else Record.QUEUE_DYNAMIC, at_ns)


def queue_changed(fact: log_pb2.QueueChanged, at_ns: int) -> Records:
    if "type" in fact.changed:
        message = f"leaf queue: {'true' if fact.leaf else 'false'}"
        yield queue(fact.queue, Record.SET, Record.QUEUE_TYPE, at_ns, message=message)
    if "config" in fact.changed:
        detail = Record.QUEUE_CONFIG if fact.managed else Record.QUEUE_DYNAMIC
        yield queue(fact.queue, Record.SET, detail, at_ns)
    if "max" in fact.changed:
        yield queue(fact.queue, Record.SET, Record.QUEUE_MAX, at_ns, resource=fact.config.max)
    if "guaranteed" in fact.changed:
        yield queue(fact.queue, Record.SET, Record.QUEUE_GUARANTEED, at_ns, resource=fact.config.guaranteed)


def queue_draining(fact: log_pb2.QueueDraining, at_ns: int) -> Records:
    yield queue(fact.queue, Record.SET, Record.QUEUE_CONFIG, at_ns, message="draining: true")


def queue_drain_overdue(fact: log_pb2.QueueDrainOverdue, at_ns: int) -> Records:
    """Names the applications and the administrators, so that these can act."""
    more = "" if fact.applications <= len(fact.application_ids) else " and others"
    administrators = "; ".join(fact.admin_acls) or "nobody"
    what = f"{fact.applications} applications: {', '.join(fact.application_ids)}{more}"
    message = f"draining since {_at(fact.since_ms)}, {what}; administered by {administrators}"
    detail = Record.QUEUE_CONFIG
    yield queue(fact.queue, Record.NONE, detail, at_ns, resource=fact.allocated, message=message)


def quota_exceeded(fact: log_pb2.QuotaExceeded, at_ns: int) -> Records:
    message = f"above its maximum since {_at(fact.since_ms)}, preempted at {_at(fact.preempt_at_ms)}"
    yield queue(fact.queue, Record.NONE, Record.QUEUE_MAX, at_ns, resource=fact.above, message=message)


def quota_preempted(fact: log_pb2.QuotaPreempted, at_ns: int) -> Records:
    """A queue that cannot give back enough is tried each minute, which is no news."""
    if fact.uuids:
        message = f"above its maximum, {len(fact.uuids)} allocations are preempted"
        message += f": {fact.reason}" if fact.reason else ""
        yield queue(fact.queue, Record.NONE, Record.QUEUE_MAX, at_ns, resource=fact.above, message=message)


def quota_excess_ended(fact: log_pb2.QuotaExcessEnded, at_ns: int) -> Records:
    message = f"nothing above its maximum is to be preempted: {fact.reason}"
    yield queue(fact.queue, Record.NONE, Record.QUEUE_MAX, at_ns, message=message)


def quota_lent(fact: log_pb2.QuotaLent, at_ns: int) -> Records:
    detail = Record.QUEUE_GUARANTEED if fact.guaranteed else Record.QUEUE_MAX
    reason = f": {fact.reason}" if fact.reason else ""
    message = f"lent to {fact.borrower} until {_at(fact.until_ms)}, by {fact.operator}{reason}"
    yield queue(fact.lender, Record.NONE, detail, at_ns, resource=fact.amounts, message=message)


def quota_loan_ended(fact: log_pb2.QuotaLoanEnded, at_ns: int) -> Records:
    message = f"given back by {fact.borrower}: {fact.reason}"
    yield queue(fact.lender, Record.NONE, Record.QUEUE_MAX, at_ns, message=message)


def budget_period_began(fact: log_pb2.BudgetPeriodBegan, at_ns: int) -> Records:
    used = ", ".join(f"{name} {amount.value} h" for name, amount in sorted(fact.used.resources.items()))
    message = f"the period of its budget is over, used: {used or 'nothing'}; the next one ends at {_at(fact.until_ms)}"
    yield queue(fact.queue, Record.NONE, Record.QUEUE_MAX, at_ns, message=message)


def _at(at_ms: int) -> str:
    """A time for people; in milliseconds if it is no time of the calendar."""
    try:
        return datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def queue_restored(fact: log_pb2.QueueRestored, at_ns: int) -> Records:
    yield queue(fact.queue, Record.SET, Record.QUEUE_CONFIG, at_ns, message="draining: false")


def queue_held(fact: log_pb2.QueueHeld, at_ns: int) -> Records:
    message = f"held: true, by {fact.operator}{f': {fact.reason}' if fact.reason else ''}"
    yield queue(fact.queue, Record.SET, Record.QUEUE_CONFIG, at_ns, message=message)


def queue_resumed(fact: log_pb2.QueueResumed, at_ns: int) -> Records:
    yield queue(fact.queue, Record.SET, Record.QUEUE_CONFIG, at_ns, message=f"held: false, by {fact.operator}")


def queue_removed(fact: log_pb2.QueueRemoved, at_ns: int) -> Records:
    yield queue(fact.queue, Record.REMOVE, Record.DETAILS_NONE if fact.managed else Record.QUEUE_DYNAMIC, at_ns)


def partition_added(fact: log_pb2.PartitionAdded, at_ns: int) -> Records:
    yield queue("root", Record.ADD, Record.DETAILS_NONE, at_ns, message=f"partition {plain_partition(fact.partition)}")


def partition_changed(fact: log_pb2.PartitionChanged, at_ns: int) -> Records:
    yield queue("root", Record.SET, Record.QUEUE_CONFIG, at_ns, message=f"partition {plain_partition(fact.partition)}")


def partition_draining(fact: log_pb2.PartitionDraining, at_ns: int) -> Records:
    message = f"partition {plain_partition(fact.partition)}, draining: true"
    yield queue("root", Record.SET, Record.QUEUE_CONFIG, at_ns, message=message)


def partition_removed(fact: log_pb2.PartitionRemoved, at_ns: int) -> Records:
    yield queue(
        "root", Record.REMOVE, Record.DETAILS_NONE, at_ns, message=f"partition {plain_partition(fact.partition)}"
    )


def rm_paused(fact: log_pb2.RmPaused, at_ns: int) -> Records:
    message = f"the resource manager is Paused, nothing new is allocated: {fact.reason}"
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message=message)


def rm_resumed(fact: log_pb2.RmResumed, at_ns: int) -> Records:
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message="the resource manager is Running again")


def rm_stopped(fact: log_pb2.RmStopped, at_ns: int) -> Records:
    what = "deregistered, nothing is known of it any more" if fact.deregistered else "nothing new is allocated"
    message = f"the resource manager is Stopped, {what}: {fact.reason}"
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message=message)


def window_opened(fact: log_pb2.WindowOpened, at_ns: int) -> Records:
    message = f"window {fact.window} of the calendar is in force, from {_at(fact.from_ms)} to {_at(fact.until_ms)}"
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message=message)


def window_closed(fact: log_pb2.WindowClosed, at_ns: int) -> Records:
    message = f"window {fact.window} of the calendar is over"
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message=message)
