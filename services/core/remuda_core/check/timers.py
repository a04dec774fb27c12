"""Every application state, execution and queue above its maximum that has a time-out has its timer."""

from __future__ import annotations

from ..rules import lifecycle
from ..state import Partition, State, Timer, after


def check_timers(state: State, partition: Partition) -> None:
    timers = frozenset(state.timers)
    for queue in partition.queues.values():
        assert queue.draining or not queue.drain_report_ms, f"queue {queue.path} is reported and does not drain"
        due_ms = queue.drain_report_ms
        if due_ms > state.now_ms:
            timer = Timer(due_ms, "draining", partition.name, "", queue.path)
            assert timer in timers, f"queue {queue.path}: nothing reports at {due_ms} that it still drains"
        if queue.excess is not None and queue.excess.preempt_at_ms > state.now_ms:
            timer = Timer(queue.excess.preempt_at_ms, "quota", partition.name, "", queue.path)
            assert timer in timers, f"queue {queue.path}: nothing preempts what is above its maximum"
    for application in partition.applications.values():
        completing = application.state == lifecycle.COMPLETING and application.placeholders  # waits for their release
        if application.state in lifecycle.TIMEOUTS and not completing:
            due_ms = after(application.state_at_ms, lifecycle.lasts_ms(application.state, state.timing))
            assert Timer(due_ms, "state", partition.name, application.id, "") in timers, (
                f"application {application.id}: no timer ends {application.state} at {due_ms}"
            )
        due_ms = application.placeholders_until_ms
        if due_ms > state.now_ms:
            assert Timer(due_ms, "placeholder", partition.name, application.id, "") in timers, (
                f"application {application.id}: nothing ends its placeholders at {due_ms}"
            )
        due_ms = after(application.state_at_ms, application.execution_limit_ms)
        if application.state == lifecycle.RUNNING and application.execution_limit_ms and due_ms > state.now_ms:
            assert Timer(due_ms, "execution", partition.name, application.id, "") in timers, (
                f"application {application.id}: nothing ends its execution at {due_ms}"
            )
    for node in partition.nodes.values():
        if node.reservation is not None:
            due_ms = after(node.reserved_ms, state.timing.reservation_timeout_ms)
            timer = Timer(due_ms, "reservation", partition.name, node.reservation.ask.application_id, node.id)
            assert due_ms <= state.now_ms or timer in timers, f"node {node.id}: nothing ends its reservation"
    for uuid, allocation in partition.allocations.items():
        due_ms = after(allocation.at_ms, allocation.fact.execution_timeout_ms)
        if due_ms > state.now_ms and not allocation.releasing:
            timer = Timer(due_ms, "execution", partition.name, allocation.application.id, uuid)
            assert timer in timers, f"allocation {uuid}: nothing ends its execution at {due_ms}"
