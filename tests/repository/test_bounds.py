"""Every bound in a `limits.py` has a reason, and every buffer has a bound."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "bus": ROOT / "bus/remuda_bus",
    "replication": ROOT / "replication/remuda_replication",
    "operations": ROOT / "operations/remuda_operations",
    "sdk/resource_manager": ROOT / "sdk/remuda_sdk/resource_manager",
    "core": ROOT / "services/core/remuda_core",
    "rmproxy": ROOT / "services/rmproxy/remuda_rmproxy",
    "config": ROOT / "services/config/remuda_config",
    "events": ROOT / "services/events/remuda_events",
    "grpc": ROOT / "services/grpc/remuda_grpc",
    "kubernetes": ROOT / "integrations/kubernetes/remuda_kubernetes",
    "resmgr": ROOT / "integrations/peloton/remuda_peloton",
    "web": ROOT / "services/web/remuda_web",
    "cli": ROOT / "cli/remuda",
}
# Queues without a bound of their own, and what bounds them.
BOUNDED_BY = {
    "web/event_tail.py": {"self.waiting": "EVENTS_BEHIND, in limits.py of the web service"},
    "bus/memory/bus.py": {"queue": "stands for a server, in tests"},
    "bus/nats/shared_consumer.py": {"self._live": "BUFFERED_BYTES, with what all others have not taken"},
    "bus/nats/message_buffer.py": {"self.messages": "flow control; of a pull consumer, what it asks for"},
    "sdk/resource_manager/callback_consumer.py": {"self._waiting": "one batch: the next is fetched when it is empty"},
    "kubernetes/shell/calls.py": {
        "self._bindings": "the pods of the cluster, each once",
        "self._changes": "the pods of the cluster, each once, and the members of gangs",
    },
    "core/index/ordered.py": {"self._line": "cut where it is some times longer than members are many"},
    "core/index/asks.py": {"self.best": "the asks of an application"},
    "replication/leader.py": {
        "self._questions": "REQUESTS_AT_ONCE of the process, in limits.py of the bus",
        "messages": "one batch: the next is taken when it is empty",
    },
    "replication/trial.py": {"(commit, _)": "one message, or none"},
    "grpc/resource_manager.py": {"sent": "UNCONFIRMED_MESSAGES: no event is taken beyond"},
    "grpc/requests.py": {"self._waiting": "UNSTORED_REQUESTS, UNSTORED_BYTES: a stream is not read beyond"},
    "rmproxy/inbound/inbox_backlog.py": {"self.batches": "BACKLOG_STEPS: small batches are counted as one"},
    "rmproxy/inbound/request_queue.py": {"self._waiting": "QUEUE_MESSAGES, QUEUE_BYTES, ALL_QUEUES_BYTES"},
    "rmproxy/outbound/acknowledgement_window.py": {
        "self._batches": "UNACKNOWLEDGED_MESSAGES, UNACKNOWLEDGED_BYTES"
    },
    "rmproxy/sessions/cursor_check.py": {"self._pending": "each RM once, of RMS"},
}  # fmt: skip


BOUND = re.compile(r"[A-Z_]+(: Final)? = ")


def modules(room: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(room.rglob("*.py")):
        yield path.relative_to(room).as_posix(), ast.parse(path.read_text())


def unbounded_queues(module: ast.Module) -> set[str]:
    """The names to which they are assigned."""
    found = set()
    for line in ast.walk(module):
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            if any(map(is_unbounded_queue, ast.walk(line.value))):
                found.add(ast.unparse(targets[0]))
    return found


def is_unbounded_queue(call: ast.AST) -> bool:
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] in ("Queue", "deque")
        and not call.args
        and not any(keyword.arg in ("maxsize", "maxlen") for keyword in call.keywords)
    )


@pytest.mark.parametrize("room", ROOMS)
def test_every_bound_has_a_reason(room: str) -> None:
    """A comment above it, or above the group it stands in."""
    file = ROOMS[room] / "limits.py"
    lines = file.read_text().splitlines() if file.exists() else []
    for above, line in pairwise(lines):
        assert not BOUND.match(line) or BOUND.match(above) or above.startswith("#"), f"{room}: {line}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_queue_has_a_bound(room: str) -> None:
    found = {f"{room}/{name}": unbounded_queues(module) for name, module in modules(ROOMS[room])}
    strays = {name: names - BOUNDED_BY.get(name, {}).keys() for name, names in found.items()}
    assert not {name: names for name, names in strays.items() if names}


def test_what_is_looked_for_is_found() -> None:
    text = """
x = Queue()
y = [deque()]
z = deque(maxlen=3)
"""
    module = ast.parse(text)
    assert unbounded_queues(module) == {"x", "y"}
