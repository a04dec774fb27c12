"""When requests were published, until the callbacks that they cause are published too: for the latency that an RM sees,
and for links between traces. Kept in memory: requests that an earlier process has forwarded are not measured."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from remuda_bus.metrics import OTHERS, rm_label
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy import limits, metrics

ANSWERED: Final = "answered"
ALLOCATED: Final = "allocated"
WAITING: Final = "waiting"
# Facts that answer an item of a request. Asks are answered when they are rejected, and allocated later.
ANSWERS: Final = frozenset(
    {
        "ask_rejected", "application_accepted", "application_rejected", "node_added", "node_rejected",
        "allocation_rejected", "existing_allocation_rejected",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a callback. `traceparent`: of the decision about the request; "": the request is not traced.
    `reason`: why a waiting ask waits.
    """

    answer: str
    published_ns: int
    traceparent: str
    reason: str = ""


@dataclass(slots=True)
class _Times:
    requests: dict[int, int] = field(default_factory=dict)  # sequence in REQUESTS: when it was published, in ns
    # The last request of each append, and the sequence in INBOX up to which its commands are.
    appends: deque[tuple[int, int]] = field(default_factory=deque)
    asks: dict[tuple[str, str], Cause] = field(default_factory=dict)  # by application and allocation key

    def decided(self, request_seq: int) -> int:
        """When the request was published; 0: unknown. Earlier requests without a decision will have none."""
        published_ns = self.requests.get(request_seq, 0)
        self.end(request_seq)
        return published_ns

    def handled(self, inbox_seq: int) -> None:
        """The core has handled the inbox up to here. A request that it had handled before has no decision."""
        while self.appends and self.appends[0][1] <= inbox_seq:
            self.end(self.appends.popleft()[0])

    def end(self, request_seq: int) -> None:
        while self.requests and (first := next(iter(self.requests))) <= request_seq:
            del self.requests[first]


class RequestTimes:
    def __init__(self) -> None:
        self._by_rm: dict[str, _Times] = {}
        self._handled: dict[str, int] = {}  # by RM: the sequence in INBOX up to which commits are known
        self._asks = 0

    def forwarded(self, rm_id: str, request_seq: int, published_ns: int) -> None:
        """Records that a request is about to be appended to the inbox. `published_ns`: 0 when it is not known."""
        own = self._by_rm.get(rm_id)
        if own is None:
            own = self._by_rm[rm_id] = _Times()
            if rm_label(rm_id) != OTHERS:
                metrics.UNDECIDED.labels(rm_id).set_function(lambda: self.undecided_s(rm_id))
        if len(own.requests) < limits.MEASURED_REQUESTS:
            own.requests[request_seq] = published_ns or time.time_ns()

    def appended(self, rm_id: str, request_seq: int, inbox_seq: int) -> None:
        """Records that the requests up to `request_seq` are in the inbox, up to `inbox_seq`: also requests that an
        earlier process has appended, which the core does not decide again.
        """
        own = self._by_rm.get(rm_id)
        if own is None:
            return
        if len(own.appends) >= limits.MEASURED_REQUESTS:
            own.appends.pop()
        own.appends.append((request_seq, inbox_seq))
        own.handled(self._handled.get(rm_id, 0))

    def causes(self, rm_id: str, commit: log_pb2.Commit) -> Sequence[Cause]:
        """Returns the causes of a commit's callbacks, as far as known. Called once for each commit, in order."""
        self._handled[rm_id] = handled = max(commit.inbox_seq, self._handled.get(rm_id, 0))
        own = self._by_rm.get(rm_id)
        if own is None:
            return ()
        found = self._causes(own, commit)
        own.handled(handled)
        return found

    def _causes(self, own: _Times, commit: log_pb2.Commit) -> Sequence[Cause]:
        found: list[Cause] = []
        for decision in commit.decisions:
            published_ns = own.decided(decision.request_seq) if decision.request_seq else 0
            if published_ns:
                self._answered(own, decision, published_ns, found)
            elif own.asks:
                for fact in decision.facts:
                    if fact.HasField("allocated"):
                        self._allocated(own, fact.allocated, found)
                    elif fact.HasField("ask_waiting"):
                        _waiting(own, fact.ask_waiting, found)
        return found

    def undecided_s(self, rm_id: str) -> float:
        """Returns the age of the oldest request without a decision, in seconds; 0: there is none."""
        own = self._by_rm.get(rm_id)
        if own is None or not own.requests:
            return 0.0
        return max(0.0, (time.time_ns() - next(iter(own.requests.values()))) / 1_000_000_000)

    def drop(self, rm_id: str) -> None:
        """Forgets the RM, which has no record any more."""
        self._handled.pop(rm_id, None)
        own = self._by_rm.pop(rm_id, None)
        if own is None:
            return
        self._asks -= len(own.asks)
        if rm_label(rm_id) != OTHERS:
            metrics.UNDECIDED.remove(rm_id)

    def _answered(self, own: _Times, decision: log_pb2.Decision, published_ns: int, found: list[Cause]) -> None:
        """Looks at the first facts only, so that a large request costs no more than a small one."""
        is_answered = False
        for fact in islice(decision.facts, limits.MEASURED_FACTS):
            kind = fact.WhichOneof("fact")
            if kind == "ask_accepted":
                ask = fact.ask_accepted.ask
                self._wait(own, (ask.applicationID, ask.allocationKey), published_ns, decision.traceparent)
            elif kind == "allocated":
                self._allocated(own, fact.allocated, found)
            elif kind in ANSWERS:
                is_answered = True
        if is_answered:
            found.append(Cause(ANSWERED, published_ns, decision.traceparent))

    def _wait(self, own: _Times, key: tuple[str, str], published_ns: int, traceparent: str) -> None:
        """Beyond the bounds the newest ask counts: one that waits for hours is followed by its story."""
        self._asks += key not in own.asks
        own.asks[key] = Cause(ALLOCATED, published_ns, traceparent)
        if len(own.asks) > limits.MEASURED_ASKS_OF_RM or self._asks > limits.MEASURED_ASKS:
            del own.asks[next(iter(own.asks))]
            self._asks -= 1

    def _allocated(self, own: _Times, fact: log_pb2.Allocated, found: list[Cause]) -> None:
        allocation = fact.allocation
        cause = own.asks.pop((allocation.applicationID, allocation.allocationKey), None)
        if cause is not None:
            self._asks -= 1
            found.append(cause)


def _waiting(own: _Times, fact: log_pb2.AskWaiting, found: list[Cause]) -> None:
    cause = own.asks.get((fact.application_id, fact.allocation_key))
    if cause is not None:
        found.append(Cause(WAITING, cause.published_ns, cause.traceparent, fact.reason))
