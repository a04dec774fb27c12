"""`remuda_sdk.api.blocking`, with a scheduler in the process of the test."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api import ResourceManagerCallback, blocking, connect
from tests.system.recording_rm import asks, nodes, registration, releases, submission
from tests.system.running import QUEUES


class Rm(ResourceManagerCallback):
    """Ends each allocation at once, from within the callback."""

    def __init__(self, scheduler: blocking.BlockingScheduler) -> None:
        self._scheduler = scheduler
        self.threads: set[str] = set()
        self.asked: list[str] = []
        self.events: list[si.EventRecord] = []
        self.done = threading.Event()
        self._released = 0

    def update_allocation(self, response: si.AllocationResponse) -> None:
        self.threads.add(threading.current_thread().name)
        if response.new:
            self._scheduler.update_allocation(releases(response.new))
        self._released += len(response.released)
        if self._released == 10:
            self.done.set()

    def predicates(self, args: si.PredicatesArgs) -> str | None:
        self.threads.add(threading.current_thread().name)
        self.asked.append(args.allocationKey)
        return None

    def send_event(self, events: Sequence[si.EventRecord]) -> None:
        self.events += events


def test_session_without_asyncio() -> None:
    with blocking.connect("local:") as scheduler:
        rm = Rm(scheduler)
        scheduler.register_resource_manager(registration(QUEUES), rm)
        scheduler.update_node(nodes("n1"))
        scheduler.update_application(submission())
        scheduler.update_allocation(asks(*(f"k{number}" for number in range(10))))
        assert rm.done.wait(20)
        scheduler.wait(timeout_s=0)
    assert sorted(set(rm.asked)) == sorted(f"k{number}" for number in range(10))
    assert len(rm.threads) == 2
    assert threading.current_thread().name not in rm.threads
    assert rm.events


def test_errors_reach_the_caller() -> None:
    class Failing(ResourceManagerCallback):
        def update_node(self, response: si.NodeResponse) -> None:
            raise LookupError("no such node here")

    with blocking.connect("local:") as scheduler:
        with pytest.raises(ValueError, match="rmID ''"):
            scheduler.update_node(nodes("n1"))
        scheduler.register_resource_manager(registration(QUEUES), Failing())
        scheduler.update_node(nodes("n1"))
        with pytest.raises(LookupError, match="no such node here"):
            scheduler.wait(20)


@pytest.mark.parametrize("url", ["", "here", "http://127.0.0.1", "local://x", "nats:4222"])
def test_unknown_url_is_refused(url: str) -> None:
    for connecting in (connect, blocking.connect):
        with pytest.raises(ValueError, match="expected local:"):
            connecting(url)
