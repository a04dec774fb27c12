"""Event records of facts about applications and asks."""

from __future__ import annotations

from typing import Final

from remuda_events.event_records.record import Record, Records, app, queue, request
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si


def application_accepted(fact: log_pb2.ApplicationAccepted, at_ns: int) -> Records:
    ignored = f"ignored, as it runs already: {fact.ignored}" if fact.ignored else ""
    yield app(fact.application_id, Record.ADD, Record.DETAILS_NONE, at_ns, message=ignored)
    yield queue(fact.queue, Record.ADD, Record.QUEUE_APP, at_ns, reference=fact.application_id)


def application_rejected(fact: log_pb2.ApplicationRejected, at_ns: int) -> Records:
    yield app(fact.application_id, Record.ADD, Record.DETAILS_NONE, at_ns)
    yield app(fact.application_id, Record.SET, Record.APP_REJECT, at_ns, message=fact.reason)


STATES: Final = {
    "New": Record.APP_NEW,
    "Accepted": Record.APP_ACCEPTED,
    "Starting": Record.APP_STARTING,
    "Running": Record.APP_RUNNING,
    "Completing": Record.APP_COMPLETING,
    "Completed": Record.APP_COMPLETED,
    "Rejected": Record.APP_REJECT,
    "Failing": Record.APP_FAILING,
    "Failed": Record.APP_FAILED,
    "Resuming": Record.APP_RESUMING,
    "Expired": Record.APP_EXPIRED,
}
LEAVES_ITS_QUEUE: Final = frozenset({"Completed", "Failed"})


def application_state_changed(fact: log_pb2.ApplicationStateChanged, at_ns: int) -> Records:
    detail = STATES.get(fact.state, Record.DETAILS_NONE)
    yield app(fact.application_id, Record.SET, detail, at_ns, resource=fact.allocated, message=fact.reason)
    if fact.state in LEAVES_ITS_QUEUE:
        yield queue(fact.queue, Record.REMOVE, Record.QUEUE_APP, at_ns, reference=fact.application_id)
        yield app(fact.application_id, Record.REMOVE, Record.DETAILS_NONE, at_ns, resource=fact.allocated)


def application_moved(fact: log_pb2.ApplicationMoved, at_ns: int) -> Records:
    yield queue(fact.from_queue, Record.REMOVE, Record.QUEUE_APP, at_ns, reference=fact.application_id)
    yield queue(fact.queue, Record.ADD, Record.QUEUE_APP, at_ns, reference=fact.application_id)


def application_removed(fact: log_pb2.ApplicationRemoved, at_ns: int) -> Records:
    """The fact of an application that has ended names no queue: the application left its queue when it ended."""
    if fact.queue:
        yield queue(fact.queue, Record.REMOVE, Record.QUEUE_APP, at_ns, reference=fact.application_id)
        yield app(fact.application_id, Record.REMOVE, Record.DETAILS_NONE, at_ns)


def ask_accepted(fact: log_pb2.AskAccepted | log_pb2.AskChanged, at_ns: int) -> Records:
    ask = fact.ask
    return (
        app(
            ask.applicationID, Record.ADD, Record.APP_REQUEST, at_ns,
            reference=ask.allocationKey, resource=ask.resourceAsk,
            message=f"ignored: {fact.ignored}" if fact.ignored else "",
        ),
    )  # fmt: skip


def ask_released(fact: log_pb2.AskReleased, at_ns: int) -> Records:
    detail = Record.REQUEST_TIMEOUT if fact.termination_type == si.TIMEOUT else Record.REQUEST_CANCEL
    yield app(
        fact.application_id, Record.REMOVE, detail, at_ns,
        reference=fact.allocation_key, resource=fact.resource, message=fact.message,
    )  # fmt: skip


def ask_waiting(fact: log_pb2.AskWaiting, at_ns: int) -> Records:
    message = f"{fact.reason} ({fact.asks} asks of the application)" if fact.asks > 1 else fact.reason
    yield request(
        fact.allocation_key,
        Record.NONE,
        Record.DETAILS_NONE,
        at_ns,
        reference=fact.application_id,
        message=message,
        resource=fact.resource,
    )


def preemption_started(fact: log_pb2.PreemptionStarted, at_ns: int) -> Records:
    count = len(fact.uuids)
    where = f"its group fits in {fact.domain or 'one domain'}" if fact.nodes else f"it fits on node {fact.node_id}"
    message = f"preempting {count} allocation{'s' if count > 1 else ''} so that {where}"
    yield request(
        fact.allocation_key, Record.NONE, Record.DETAILS_NONE, at_ns,
        reference=fact.application_id, message=message, resource=fact.resource,
    )  # fmt: skip


def domain_avoided(fact: log_pb2.DomainAvoided, at_ns: int) -> Records:
    yield request(
        fact.allocation_key, Record.NONE, Record.DETAILS_NONE, at_ns,
        reference=fact.application_id,
        message=f"others avoid {'/'.join(fact.domain)} for its group: {fact.missing} members found no room there yet",
    )  # fmt: skip


def domain_avoidance_ended(fact: log_pb2.DomainAvoidanceEnded, at_ns: int) -> Records:
    yield request(
        fact.allocation_key, Record.NONE, Record.DETAILS_NONE, at_ns,
        reference=fact.application_id,
        message=f"others avoid {'/'.join(fact.domain)} for its group no more: {fact.reason}",
    )  # fmt: skip


def preemption_ended(fact: log_pb2.PreemptionEnded, at_ns: int) -> Records:
    yield request(
        fact.allocation_key, Record.NONE, Record.DETAILS_NONE, at_ns,
        reference=fact.application_id, message=f"preemption has not helped: {fact.reason}",
    )  # fmt: skip
