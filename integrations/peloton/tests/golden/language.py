"""The words of the scenarios of Peloton's resource manager: notes become commands, facts become lines (`telling`).
README.md beside this file describes them. Lines are read as those of the scheduler's scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, get_type_hints
from unittest.mock import patch

import msgspec

from remuda_peloton import commands
from remuda_peloton.check import check
from remuda_peloton.core import Core
from remuda_peloton.decide import admission
from remuda_peloton.facts import Fact
from remuda_peloton.limits import LOOKS_PER_LEAF
from remuda_peloton.rules.hosts import Host, Placement
from remuda_peloton.rules.pools import InvalidPool, KindConfig, PoolConfig, find_by_path
from remuda_peloton.rules.resources import KINDS, Vector, vector
from remuda_peloton.rules.task import Task
from remuda_peloton.settings import Settings
from remuda_peloton.state import State
from remuda_peloton.wire.snapshots import digest
from tests.golden.language import Line

from .telling import ALWAYS, GROUPS, TABLE, amounts

TYPES: Final = get_type_hints(Settings)


class Notes:
    """A resource manager, and the lines that are carried out on it. The state is checked after each."""

    def __init__(self, bounds: ExitStack) -> None:
        self._bounds = bounds
        self.settings: dict[str, Any] = {}
        self._core: Core | None = None
        self.now_ms = 1_000
        self._log: list[tuple[int, list[Fact]]] = []
        self._shown: set[str] = set()
        self._described: list[commands.DescribedPool] = []

    @property
    def core(self) -> Core:
        if self._core is None:
            self._core = Core(Settings(**self.settings))
        return self._core

    @property
    def state(self) -> State:
        return self.core.state

    def carry_out(self, line: Line) -> list[str]:
        """What happened, in lines."""
        if line.word not in WORDS:
            raise line.wrong(f"expected one of {', '.join(WORDS)}")
        told = list(WORDS[line.word](self, line))
        line.done()
        return told

    def finish(self) -> None:
        """The log alone gives the same state."""
        replayed = self._replayed()
        check(replayed.state)
        assert digest(replayed.state) == digest(self.state)

    def _replayed(self) -> Core:
        replayed = Core(self.core.settings)
        for now_ms, happened in self._log:
            replayed.replay(happened, now_ms)
        return replayed

    def _do(self, command: commands.Command) -> tuple[list[str], Any]:
        happened, answer = self.core.handle(command, self.now_ms)
        self._log.append((self.state.now_ms, happened))
        check(self.state)
        lines = (TABLE[type(fact)] for fact in happened)
        told = zip(lines, happened, strict=True)
        return [tell(fact) for (group, tell), fact in told if group in (ALWAYS, *self._shown)], answer

    # One per word

    def set(self, line: Line) -> Iterator[str]:
        if self._core is not None:
            raise line.wrong("expected before everything else")
        for name in list(line.values):
            self.settings[name] = msgspec.convert(line.take(name), TYPES[name], strict=False)
        yield from ()

    def bound(self, line: Line) -> Iterator[str]:
        """`bound looks=2`: so many gangs of a leaf does a pass look at, instead of LOOKS_PER_LEAF."""
        self._bounds.enter_context(patch.object(admission, "LOOKS_PER_LEAF", line.number("looks", LOOKS_PER_LEAF)))
        yield from ()

    def show(self, line: Line) -> Iterator[str]:
        for name in line.names:
            if name not in GROUPS:
                raise line.wrong(f"{name}: expected some of {', '.join(GROUPS)}")
        self._shown = set(line.names)
        yield from ()

    def capacity(self, line: Line) -> Iterator[str]:
        slack = float(line.take("slack", "0"))
        yield from self._do(commands.SetCapacity(_vector(line), slack))[0]

    def pool(self, line: Line) -> Iterator[str]:
        """The ID of a pool is its name."""
        path = line.one("path")
        force = line.flag("force")
        config = self._config(line, path)
        command = commands.UpdatePool(config, force) if config.id in self.state.pools else commands.CreatePool(config)
        told, answer = self._do(command)
        yield from told
        if isinstance(answer, InvalidPool):
            yield f"Refused {config.id}: {answer}"

    def _config(self, line: Line, path: str) -> PoolConfig:
        above, _, name = path.strip("/").rpartition("/")
        parent = find_by_path("/" + above, self.state.configs())
        pool_id = line.take("id", name)
        controllers, slack = line.take("controllers"), line.take("slack")
        kinds = {
            kind: {field: line.take(f"{kind}.{field}") for field in ("reservation", "limit", "share", "type")
                   if f"{kind}.{field}" in line.values}
            for kind in KINDS
        }  # fmt: skip
        return PoolConfig(
            pool_id, name, parent or f"no pool {above}",
            tuple(
                msgspec.convert({"kind": kind, **one}, KindConfig, strict=False) for kind, one in kinds.items() if one
            ),
            controller_limit_percent=float(controllers) if controllers else None,
            slack_limit_percent=float(slack) if slack else None,
        )  # fmt: skip

    def delete(self, line: Line) -> Iterator[str]:
        told, answer = self._do(commands.DeletePool(line.one("path")))
        yield from told
        if isinstance(answer, InvalidPool):
            yield f"Refused: {answer}"

    def describe(self, line: Line) -> Iterator[str]:
        """A pool of the next `apply`."""
        path = line.one("path")
        self._described.append(commands.DescribedPool(path, self._config(line, path)))
        yield from ()

    def apply(self, line: Line) -> Iterator[str]:
        """All pools are as `describe` has said since the last one."""
        described, self._described = tuple(self._described), []
        told, answer = self._do(commands.ApplyPools(described))
        yield from told
        if isinstance(answer, InvalidPool):
            at = answer.details["at"]
            yield f"Refused {at}: {answer}" if at else f"Refused: {answer}"
        else:
            yield f"Applied: {', '.join(answer) or 'nothing has changed'}"

    def enqueue(self, line: Line) -> Iterator[str]:
        pool, host, count = line.take("pool"), line.take("on"), 1
        if line.names and line.names[-1].startswith("x"):
            count = int(line.names.pop()[1:])
        flags = {name: name in line.names for name in ("nonpreemptible", "revocable", "controller", "stateless")}
        names = [name for name in line.names if name not in flags]
        priority, resource = line.number("priority", 0), line.resource()
        gang = tuple(
            Task(
                name.partition(".")[0], name, vector(resource), priority, not flags["nonpreemptible"],
                flags["revocable"], flags["controller"], 2 if flags["stateless"] else 1, hostname=host,
            )
            for name in _several(names, count)
        )  # fmt: skip
        told, answer = self._do(commands.EnqueueGangs(pool, (gang,)))
        yield from told
        if not answer.pool_found:
            yield f"Refused: there is no pool {pool}"
        for failure in answer.failures:
            yield f"Refused {failure.task.mesos_id} {failure.code}: {failure.message}"

    def dequeue(self, line: Line) -> Iterator[str]:
        limit = int(line.names[0]) if line.names else 1_000
        told, gangs = self._do(commands.DequeueGangs(limit, line.number("type", 0)))
        yield from told
        if not gangs:
            yield "Found no gang"

    def place(self, line: Line) -> Iterator[str]:
        """`place t1.1 t2.1 on=h1`, or several placements: `place t1.1@h1 t2.1@h2`"""
        host = line.take("on")
        by_host = [name.partition("@")[::2] for name in line.names]
        if host:
            placements = [Placement(host, _pairs(line.names))]
        else:
            placements = [Placement(where, _pairs([name])) for name, where in by_host]
        told, refused = self._do(commands.SetPlacements(tuple(placements)))
        yield from told
        for _, why in refused:
            yield f"Refused placement: {why}"

    def fail(self, line: Line) -> Iterator[str]:
        failed = (commands.FailedPlacement(_pairs(line.names), line.take("reason", "no host")),)
        yield from self._do(commands.SetPlacements(failed=failed))[0]

    def launch(self, line: Line) -> Iterator[str]:
        told, placements = self._do(commands.GetPlacements(int(line.names[0]) if line.names else 1_000))
        yield from told
        for one in placements:
            yield f"Launch {' '.join(run for _, run in one.tasks)} on {one.hostname}"

    def event(self, line: Line) -> Iterator[str]:
        """`event RUNNING t1.1 offset=5`"""
        state, *ids = line.names or [""]
        offset = line.number("offset", 0)
        events = tuple(commands.TaskEvent(offset, run, f"TASK_{state}") for run in ids)
        told, acknowledged = self._do(commands.NotifyTaskUpdates(events))
        yield from told
        yield f"Purge up to {acknowledged}"

    def update(self, line: Line) -> Iterator[str]:
        state, *ids = line.names
        updates = tuple(commands.StateUpdate(run.partition(".")[0], run, state) for run in ids)
        yield from self._do(commands.UpdateTasksState(updates))[0]

    def kill(self, line: Line) -> Iterator[str]:
        told, unknown = self._do(commands.KillTasks(tuple(line.names)))
        yield from told
        for task in unknown:
            yield f"Unknown {task}"

    def candidates(self, line: Line) -> Iterator[str]:
        told, found = self._do(commands.GetPreemptibleTasks(line.number("limit", 100)))
        yield from told
        for one in found:
            yield f"Preempt {one.run_id}: {one.reason}"

    def recover(self, line: Line) -> Iterator[str]:
        pool, state, host = line.take("pool"), line.take("state", "RUNNING"), line.take("on")
        flags = {name: name in line.names for name in ("nonpreemptible", "controller", "stateless")}
        (run,), priority = [name for name in line.names if name not in flags], line.number("priority", 0)
        task = Task(
            run.partition(".")[0], run, _vector(line), priority, not flags["nonpreemptible"],
            controller=flags["controller"], hostname=host, type=2 if flags["stateless"] else 1,
        )  # fmt: skip
        started_ms = 0 if state in ("LAUNCHED", "STARTING") else self.now_ms
        yield from self._do(commands.RecoverRuns((commands.RecoveredRun(task, pool, state, started_ms),)))[0]

    def restart(self, line: Line) -> Iterator[str]:
        """Another process goes on, from the log alone."""
        self._core = self._replayed()
        yield from ()

    def reconcile(self, line: Line) -> Iterator[str]:
        """`reconcile host=h1 as_of=-30s t1.1 t2.1`, `reconcile pool=a from=t1 below=t5 ...`: all runs that are there"""
        host, pool = line.take("host"), line.take("pool")
        age = line.take("as_of")
        as_of_ms = self.now_ms - line.duration_ms(age.removeprefix("-")) if age else self.now_ms
        within = line.take("from", ""), line.take("below", "")
        reports = (commands.Report(host or pool, tuple(line.names), within),)
        command = commands.ReconcileHosts if host else commands.ReconcilePools
        told, answer = self._do(command(as_of_ms, reports))
        yield from told
        yield from (f"Unknown {run_id}" for run_id in answer.unknown)

    def reserve(self, line: Line) -> Iterator[str]:
        """`reserve t1.1 on=h1`"""
        host = line.take("on")
        command = commands.ReserveHosts(tuple(commands.Reservation(host, *pair) for pair in _pairs(line.names)))
        told, refused = self._do(command)
        yield from told
        yield from (f"Refused reservation of {one.run_id}: {why}" for one, why in refused)

    def hosts(self, line: Line) -> Iterator[str]:
        draining, slack = line.flag("draining"), float(line.take("slack", "0"))
        names, capacity = line.one("names of hosts").split(","), _vector(line)
        yield from self._do(commands.PutHosts(tuple(
            Host(name, capacity, slack, draining=draining) for name in names
        )))[0]  # fmt: skip

    def rank(self, line: Line) -> Iterator[str]:
        yield from self._do(commands.RankHosts(tuple(line.names)))[0]

    def again(self, line: Line) -> Iterator[str]:
        """A pass of its own: `admit`, `calculate`, `preempt x5`."""
        command = {"admit": commands.Admit, "calculate": commands.CalculateEntitlements, "preempt": commands.Preempt}
        times = int(line.names.pop()[1:]) if line.names else 1
        for _ in range(times):
            yield from self._do(command[line.word]())[0]

    def tick(self, line: Line) -> Iterator[str]:
        self.now_ms += line.duration_ms(line.one("duration"))
        yield from self._do(commands.Tick())[0]

    def held(self, line: Line) -> Iterator[str]:
        """What a pool holds and wants."""
        pool = self.state.pools[line.one("pool")]
        slack = f", slack {amounts(pool.allocation.slack)}" if any(pool.allocation.slack) else ""
        wants = amounts(tuple(a + b for a, b in zip(pool.demand, pool.slack_demand, strict=True)))  # type: ignore[arg-type]
        yield f"Held in {pool.config.id} {amounts(pool.allocation.total)}{slack}; wanted {wants}"

    def on(self, line: Line) -> Iterator[str]:
        """The runs on a host."""
        name = line.one("name of a host")
        yield f"On {name}: {' '.join(self.state.hosts.get(name, {})) or 'nothing'}"

    def pending(self, line: Line) -> Iterator[str]:
        """The gangs of each queue of a pool."""
        pool = self.state.pools[line.one("pool")]
        for name, queue in pool.queues.items():
            if queue:
                yield f"Waiting in {name}: {' '.join(str(number) for number in queue)}"
        if not any(pool.queues.values()):
            yield f"Waiting in {pool.config.id}: nothing"


def _pairs(run_ids: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name.partition(".")[0], name) for name in run_ids)


def _several(names: list[str], count: int) -> list[str]:
    """`t1.1 x3`: t1-1.1, t1-2.1, t1-3.1."""
    if count == 1:
        return names
    return [
        f"{task}-{n}.{run}" for name in names for task, _, run in (name.partition("."),) for n in range(1, count + 1)
    ]


def _vector(line: Line) -> Vector:
    return vector({kind: float(line.take(kind)) for kind in KINDS if kind in line.values})


WORDS: Final[dict[str, Callable[[Notes, Line], Iterator[str]]]] = {
    "set": Notes.set, "bound": Notes.bound, "show": Notes.show, "capacity": Notes.capacity, "pool": Notes.pool,
    "delete": Notes.delete, "describe": Notes.describe, "apply": Notes.apply,
    "enqueue": Notes.enqueue, "dequeue": Notes.dequeue, "place": Notes.place, "fail": Notes.fail,
    "launch": Notes.launch, "event": Notes.event, "update": Notes.update, "kill": Notes.kill,
    "candidates": Notes.candidates, "recover": Notes.recover, "restart": Notes.restart, "reconcile": Notes.reconcile,
    "hosts": Notes.hosts, "rank": Notes.rank, "reserve": Notes.reserve,
    "admit": Notes.again, "calculate": Notes.again, "preempt": Notes.again, "tick": Notes.tick, "held": Notes.held,
    "on": Notes.on, "pending": Notes.pending,
}  # fmt: skip
