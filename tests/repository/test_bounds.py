"""Every bound has a name and a reason in the file `limits.py` of its distribution, and every buffer has a bound."""

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
    "bus/resource_manager": ROOT / "bus/remuda_bus/resource_manager",
    "core": ROOT / "services/core/remuda_core",
    "rmproxy": ROOT / "services/rmproxy/remuda_rmproxy",
    "config": ROOT / "services/config/remuda_config",
    "events": ROOT / "services/events/remuda_events",
    "grpc": ROOT / "services/grpc/remuda_grpc",
    "kubernetes": ROOT / "services/kubernetes/remuda_kubernetes",
    "resmgr": ROOT / "services/resmgr/remuda_resmgr",
    "web": ROOT / "services/web/remuda_web",
    "cli": ROOT / "cli/remuda",
}
# Streams and buckets stand with their bounds; what workloads and screens do by themselves stands there.
ELSEWHERE = ("limits.py", "subjects.py", "demo", "load", "screens")
# Numbers that bound nothing, by module.
NUMBERS = {
    "web/ws_v1/applications.py": {"NOTHING_PENDING", "PREEMPTED"},
    "web/ws_v1/nodes.py": {"BUCKETS"},
    "web/ws_v1/queues.py": {"NOTHING_PENDING"},
    "bus/queries/guests.py": {"TAG_BYTES"},
    "bus/nats/bus.py": {"INTERNAL"},
    "bus/nats/connection.py": {"FORBIDDEN"},
    "bus/nats/ordered_consumer.py": {"NANOSECOND"},
    "bus/nats/jetstream.py": {
        "STREAM_NOT_FOUND", "CONSUMER_NOT_FOUND", "NO_MESSAGE_FOUND", "SEQUENCE_NOT_FOUND", "STREAM_NAME_IN_USE",
        "STORE_FAILED", "TOO_MANY", "DUPLICATE_IN_PROCESS",
    },
    "bus/nats/micro_service.py": {"BUSY", "INTERNAL"},
    "bus/nats/durable_consumer.py": {"UNLIMITED_BYTES"},
    "bus/process/run.py": {"GC_THRESHOLDS"},
    "events/story_queries.py": {"BUSY", "UNAVAILABLE"},
    "bus/queries/status_codes.py": {"FORBIDDEN", "NOT_FOUND", "GONE", "TOO_LARGE", "BUSY", "UNAVAILABLE"},
    "bus/resource_manager/callback_place.py": {"NOWHERE"},
    "bus/resource_manager/status_codes.py": {"WRONG_CONFIGURATION", "REFUSED", "INTERNAL", "OUTAGE"},
    # How far structures of the index grow before they are put in order: any number would do.
    "core/index/fit_list.py": {"MOST_IN_BLOCK"},
    "core/index/fit_tree.py": {"WORTH_RENEWING"},
    "core/index/ranked_tree.py": {"MOST_CHILDREN"},
    "core/index/demand_bits.py": {"STATES", "FREED", "RESERVING"},  # positions of bits
    "core/index/queue_order.py": {"UNLIMITED", "ANY"},
    "core/facts/allocations.py": {"STOPPED_BY_RM", "TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED"},
    "core/rules/properties.py": {"PREEMPTION_DELAY_MS"},  # what a queue has that says nothing: a setting
    "core/rules/resource.py": {"INT64_MAX", "INT64_MIN"},
    "core/rules/share.py": {"ONE"},
    "bus/replication/child.py": {"STDERR"},
    "core/wire/snapshot_format.py": {"FORMAT"},
    "core/state/state.py": {"FIRST_UUID"},
    "core/state/timers.py": {"NEVER_MS"},
    "kubernetes/shim/quantities.py": {"INT64_MAX"},
    "resmgr/check/__init__.py": {"CLOSE"},
    "resmgr/rules/host_scores.py": {"BATCH"},
    "resmgr/placing/place.py": {"SPREAD_JOB"},
    "resmgr/rules/resources.py": {"ZERO"},
    "resmgr/wire/guest_gangs.py": {"INT32"},
    "resmgr/wire/guest_mapping.py": {"UNITS"},
    "resmgr/wire/snapshots.py": {"FORMAT"},
    "config/file_writer.py": {"DEFAULT_MODE"},
    "config/rules/quantity.py": {"INT64_MAX"},
    "config/shell/access.py": {"FORBIDDEN"},
    "config/shell/active_configuration.py": {"CONFLICT"},
    "config/shell/api.py": {"NOT_FOUND"},
    "config/schema/yaml_document.py": {"PARTITION_DEPTH"},  # where partitions stand in a text
    "config/schema/models.py": {"UINT64_MAX"},
    "events/history/halt_records.py": {"NS_PER_MS"},
    "events/event_records/__init__.py": {"NS_PER_MS"},
    "rmproxy/records/status_codes.py": {
        "INVALID", "FORBIDDEN", "NOT_REGISTERED", "SUPERSEDED", "UNPROCESSABLE", "TOO_MANY", "OUTAGE",
    },
    "rmproxy/outbound/callback_mapping.py": {"NANOSECONDS_PER_MS"},
    "cli/embedded/nats_server.py": {"PR_SET_PDEATHSIG"},
    "cli/local/supervisor.py": {"_PR_SET_PDEATHSIG"},
    "cli/terminal/output.py": {"SMALLEST_SCREEN"},
    "cli/local/up.py": {"REDRAW_EVERY_S"},
    "cli/show/queue_tree.py": {"MOST_NAME", "NARROW"},  # widths of columns on a screen
}  # fmt: skip
# Queues without a bound of their own, and what bounds them.
BOUNDED_BY = {
    "web/event_tail.py": {"self.waiting": "EVENTS_BEHIND, in limits.py of the web service"},
    "bus/memory/bus.py": {"queue": "stands for a server, in tests"},
    "bus/nats/shared_consumer.py": {"self._live": "BUFFERED_BYTES, with what all others have not taken"},
    "bus/nats/message_buffer.py": {"self.messages": "flow control; of a pull consumer, what it asks for"},
    "bus/resource_manager/callback_consumer.py": {"self._waiting": "one batch: the next is fetched when it is empty"},
    "kubernetes/shell/calls.py": {
        "self._bindings": "the pods of the cluster, each once",
        "self._changes": "the pods of the cluster, each once, and the members of gangs",
    },
    "core/index/lazy_ranking.py": {"self._line": "cut where it is some times longer than members are many"},
    "core/index/asks_by_turn.py": {"self.best": "the asks of an application"},
    "bus/replication/leader.py": {
        "self._questions": "REQUESTS_AT_ONCE of the process, in limits.py of the bus",
        "messages": "one batch: the next is taken when it is empty",
    },
    "bus/replication/trial.py": {"(commit, _)": "one message, or none"},
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
        if not set(ELSEWHERE) & set(path.relative_to(room).parts):
            yield path.relative_to(room).as_posix(), ast.parse(path.read_text())


def is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant():
            return isinstance(value.value, int | float) and not isinstance(value.value, bool)
        case ast.BinOp():
            return is_number(value.left) and is_number(value.right)
        case ast.UnaryOp():
            return is_number(value.operand)
        case ast.Tuple():
            return bool(value.elts) and all(map(is_number, value.elts))
    return False


def numbers(module: ast.Module) -> set[str]:
    """Constants of the module that are numbers."""
    found = set()
    for line in module.body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_number(value):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if is_number(value):
                found.add(name)
    return found


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
def test_bounds_stand_in_one_file(room: str) -> None:
    found = {f"{room}/{name}": numbers(module) for name, module in modules(ROOMS[room])}
    strays = {name: names - NUMBERS.get(name, set()) for name, names in found.items()}
    assert not {name: names for name, names in strays.items() if names}, f"they belong into limits.py of {room}"
    gone = {name: names - found.get(name, set()) for name, names in NUMBERS.items() if name.startswith(f"{room}/")}
    assert not {name: names for name, names in gone.items() if names}, "no such numbers any more"


@pytest.mark.parametrize("room", ROOMS)
def test_every_bound_has_a_reason(room: str) -> None:
    """A comment above it, or above the group it stands in."""
    lines = (ROOMS[room] / "limits.py").read_text().splitlines()
    for above, line in pairwise(lines):
        assert not BOUND.match(line) or BOUND.match(above) or above.startswith("#"), f"{room}: {line}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_queue_has_a_bound(room: str) -> None:
    found = {f"{room}/{name}": unbounded_queues(module) for name, module in modules(ROOMS[room])}
    strays = {name: names - BOUNDED_BY.get(name, {}).keys() for name, names in found.items()}
    assert not {name: names for name, names in strays.items() if names}


def test_what_is_looked_for_is_found() -> None:
    text = """
A = 5
B: Final = 2 * 1024
C = (1.0, 2)
D = "no"
E = f(3)
x = Queue()
y = [deque()]
z = deque(maxlen=3)
"""
    module = ast.parse(text)
    assert numbers(module) == {"A", "B", "C"}
    assert unbounded_queues(module) == {"x", "y"}
