"""From publish to callback: what is measured, what links it, and that neither grows without end."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from remuda_bus import subjects, tracing
from remuda_bus.memory import MemoryBus
from remuda_bus.metrics import REGISTRY
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogReader, LogWriter
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.callback_publisher import CallbackPublisher
from remuda_rmproxy.records.request_times import ALLOCATED, ANSWERED, WAITING, Cause, RequestTimes

RM = "rm-1"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-aaaaaaaa77b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def accepted(commit: log_pb2.Commit, request_seq: int, *keys: str, trace: str = "") -> log_pb2.Commit:
    decision = commit.decisions.add(request_seq=request_seq, traceparent=trace)
    for key in keys:
        ask = decision.facts.add().ask_accepted.ask
        ask.applicationID, ask.allocationKey = "app", key
    return commit


def allocated(commit: log_pb2.Commit, *keys: str) -> log_pb2.Commit:
    decision = commit.decisions.add(command="Schedule")
    for key in keys:
        allocation = decision.facts.add().allocated.allocation
        allocation.applicationID, allocation.allocationKey = "app", key
    return commit


def test_an_ask_is_measured_to_its_first_allocation() -> None:
    times = RequestTimes()
    times.forwarded(RM, 7, 1_000)
    times.forwarded(RM, 8, 2_000)
    assert times.undecided_s(RM) > 1e9, "since 1970"
    assert times.causes(RM, accepted(log_pb2.Commit(), 7, "k", "later", trace=TRACE)) == []
    rejected = log_pb2.Commit()
    rejected.decisions.add(request_seq=8).facts.add().ask_rejected.reason = "no"
    assert times.causes(RM, allocated(rejected, "k")) == [Cause(ANSWERED, 2_000, ""), Cause(ALLOCATED, 1_000, TRACE)]
    assert times.undecided_s(RM) == 0.0
    assert times.causes(RM, allocated(log_pb2.Commit(), "k", "unknown")) == [], "measured already, or never asked"
    assert [one.published_ns for one in times.causes(RM, allocated(log_pb2.Commit(), "later"))] == [1_000]


def test_an_ask_that_waits_is_told_with_its_reason() -> None:
    times = RequestTimes()
    times.forwarded(RM, 7, 1_000)
    times.causes(RM, accepted(log_pb2.Commit(), 7, "k", trace=TRACE))
    commit = log_pb2.Commit()
    waiting = commit.decisions.add(command="Schedule").facts.add().ask_waiting
    waiting.application_id, waiting.allocation_key, waiting.reason = "app", "k", "no node fits"
    assert times.causes(RM, commit) == [Cause(WAITING, 1_000, TRACE, "no node fits")]
    assert times.causes(RM, allocated(log_pb2.Commit(), "k")) == [Cause(ALLOCATED, 1_000, TRACE)]


def test_a_request_without_a_decision_is_passed() -> None:
    """The core drops a duplicate without a word."""
    times = RequestTimes()
    for seq in (7, 8, 9):
        times.forwarded(RM, seq, seq)
    times.causes(RM, accepted(log_pb2.Commit(), 8))
    assert list(times._by_rm[RM].requests) == [9]


def test_a_request_that_was_handled_before_is_not_undecided() -> None:
    """An rmproxy that was restarted forwards it again, because it was not deleted yet, and the core does not decide it
    again. The commits that the publisher has read before show that, or the next one does."""
    times = RequestTimes()
    times.causes(RM, log_pb2.Commit(inbox_seq=20))
    for seq in (7, 8, 9):
        times.forwarded(RM, seq, seq)
    times.appended(RM, 8, 20)  # the server has them already, and answers with their place
    assert list(times._by_rm[RM].requests) == [9]
    times.appended(RM, 9, 21)
    assert times.undecided_s(RM) > 0
    times.causes(RM, log_pb2.Commit(inbox_seq=21))  # a commit without a decision
    assert times.undecided_s(RM) == 0.0
    times.forwarded(RM, 10, 10)
    times.causes(RM, log_pb2.Commit(inbox_seq=22))  # read before the answer to the append
    times.appended(RM, 10, 22)
    assert times.undecided_s(RM) == 0.0


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEASURED_ASKS_OF_RM", 5)
    monkeypatch.setattr(limits, "MEASURED_ASKS", 8)
    monkeypatch.setattr(limits, "MEASURED_REQUESTS", 3)
    times = RequestTimes()
    for rm in ("a", "b"):
        for seq in range(1, 10):
            times.forwarded(rm, seq, seq)
        assert len(times._by_rm[rm].requests) == 3
        times.causes(rm, accepted(log_pb2.Commit(), 1, *(f"k{number}" for number in range(20))))
    assert (len(times._by_rm["a"].asks), len(times._by_rm["b"].asks), times._asks) == (5, 3, 8)
    assert list(times._by_rm["b"].asks) == [("app", f"k{number}") for number in (17, 18, 19)]
    assert (REGISTRY.get_sample_value("remuda_rmproxy_undecided_seconds", {"rm": "a"}) or 0.0) > 1
    times.drop("a")
    assert times._asks == 3
    assert REGISTRY.get_sample_value("remuda_rmproxy_undecided_seconds", {"rm": "a"}) is None


def test_a_large_request_costs_no_more_than_a_small_one() -> None:
    times = RequestTimes()
    times.forwarded(RM, 1, 1)
    times.causes(RM, accepted(log_pb2.Commit(), 1, *(f"k{number}" for number in range(10_000))))
    assert times._asks == limits.MEASURED_FACTS


async def test_callbacks_link_to_the_traces_of_their_asks() -> None:
    """A pass allocates asks of several requests: each of their traces leads to the callback, and back."""
    exporter = InMemorySpanExporter()
    tracing.setup_for_test(exporter, "rmproxy")
    try:
        spans = {one.name: one for one in await published(exporter)}
    finally:
        tracing.shutdown()
    callback, answer = spans["rmproxy.callback"], spans["rmproxy.answer"]
    assert f"{callback.context.trace_id:032x}" == TRACE.split("-")[1]
    assert [f"{link.context.trace_id:032x}" for link in callback.links] == [OTHER.split("-")[1]]
    assert f"{answer.context.trace_id:032x}" == OTHER.split("-")[1]
    assert [link.context.span_id for link in answer.links] == [callback.context.span_id]


async def published(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, ...]:
    bus, times = MemoryBus(), RequestTimes()
    times.forwarded(RM, 1, 1)
    times.forwarded(RM, 2, 2)
    reader = await LogReader.open(bus, RM)
    commit = accepted(log_pb2.Commit(epoch=1), 1, "k1", trace=TRACE)
    allocated(accepted(commit, 2, "k2", trace=OTHER), "k1", "k2")
    await LogWriter(bus, RM, reader.position).append(commit, {subjects.TRACEPARENT: TRACE})

    async def decided(rm_id: str, decision: log_pb2.Decision) -> None: ...

    publisher = CallbackPublisher(bus, RM, decided, lambda entries, asked: None, lambda: False, times=times)
    running = asyncio.create_task(publisher.run())
    try:
        async with asyncio.timeout(5):
            while len(exporter.get_finished_spans()) < 2:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.001)
    finally:
        running.cancel()
        await bus.close()
    return exporter.get_finished_spans()
