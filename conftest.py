"""Fixtures of all tests: a real nats-server of their own, up within a tenth of a second, and a connection to it with
all streams declared. The logging configuration of a command ends with its test. And the cost of work, counted in calls.

How long hypothesis searches: HYPOTHESIS_PROFILE=long for a night, otherwise what a change has to pass; =mutants for
what only has to fail, where no smaller example is looked for."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings

from remuda.embedded import NatsServer
from remuda_bus.nats import NatsBus, connect
from remuda_proto.si.v1 import si_pb2 as si
from tests.patience import PATIENCE

# Thousands of tests and modules stay until the end. A search for cycles among them takes a third of collection's time.
gc.set_threshold(100_000, 50, 50)


def _nice(increment: int) -> int:
    """Does nothing: processes of tests, and children of these, run at one priority. On a busy machine, work at the
    lowest one takes minutes for a tenth of a second."""
    return os.getpriority(os.PRIO_PROCESS, 0)


os.nice = _nice

# Read when grpc is imported. Its handlers abort the children that tests fork (nats-server, a core's snapshots) while
# another thread is in gRPC. No child uses gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["REMUDA_GRPC_PORT"] = "0"  # several systems run at the same time
os.environ["REMUDA_WEB_PORT"] = "0"

_IGNORED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile(
    "ci", max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=_IGNORED, derandomize=True
)
settings.register_profile(
    "long", max_examples=2_000, stateful_step_count=80, deadline=None, suppress_health_check=_IGNORED
)
settings.register_profile("mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Files that take longest. They are played first, so that no process waits for one of them in the end.
LONGEST = (
    "tests/property/test_laws.py",
    "tests/property/test_ledger.py",
    "tests/property/test_backfill.py",
    "tests/property/test_leaving.py",
    "tests/property/test_group_preemption.py",
    "cli/tests/test_history.py",
    "tests/identity/test_replay.py",
    "tests/property/test_reservations.py",
    "cli/tests/test_commands.py",
    "tests/property/test_core.py",
    "integrations/peloton/tests/test_reports_in_ranges.py",
    "services/config/tests/test_schema.py",
    "services/config/tests/test_versions.py",
    "tests/system/test_standby.py",
    "cli/tests/system/test_load.py",
    "tests/system/test_scheduler_api.py",
    "cli/tests/system/test_status.py",
    "tests/system/test_peloton_keys.py",
    "cli/tests/system/test_up.py",
    "tests/system/test_operator_api.py",
    "replication/tests/system/test_malformed_messages.py",
    "tests/system/test_web_page.py",
)


# A law plays hundreds of cases, which may take minutes on a busy machine.
LAW_S = 600


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    assert all((Path(__file__).parent / path).exists() for path in LONGEST)
    ranks = {path: rank for rank, path in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))
    for item in items:
        if item.nodeid.startswith("tests/property/"):
            item.add_marker(pytest.mark.timeout(LAW_S))
    if PATIENCE != 1.0:
        for item in items:
            _lengthen(item, float(config.getini("timeout")))


def _lengthen(item: pytest.Item, usual_s: float) -> None:
    """A test has REMUDA_PATIENCE times as long before it counts as endless, too."""
    mark = item.get_closest_marker("timeout")
    item.add_marker(pytest.mark.timeout((mark.args[0] if mark else usual_s) * PATIENCE), append=False)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture(autouse=True)
def _logs_as_they_are() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    connected = await connect(server.url, "test", timeout_s=5 * PATIENCE)
    await connected.declare()
    yield connected
    await connected.close()


Cost = Callable[[Callable[[], object]], float]


@pytest.fixture
def cost() -> Cost:
    """CPU that work takes, as a multiple of writing and reading a thousand plain allocations. A slow or busy host slows
    both, so they are measured in turn, and the best of each counts."""

    def of(work: Callable[[], object]) -> float:
        pairs = [(_cpu_s(_plain_allocations), _cpu_s(work)) for _ in range(15)]
        plain_s, work_s = (min(times) for times in zip(*pairs, strict=True))
        return work_s / plain_s

    return of


def _plain_allocations() -> None:
    size = si.Resource(resources={"vcore": si.Quantity(value=100), "memory": si.Quantity(value=2**30)})
    new = [si.Allocation(allocationKey=f"k{n}", UUID=f"u{n}", resourcePerAlloc=size) for n in range(1_000)]
    written = si.AllocationResponse(new=new).SerializeToString()
    assert len([one.UUID for one in si.AllocationResponse.FromString(written).new]) == 1_000


def _cpu_s(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
