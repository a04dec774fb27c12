"""A resource manager with clients that do as they please, for laws: job managers, engines and a host manager."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from remuda_peloton import commands
from remuda_peloton.check import check
from remuda_peloton.core import Core
from remuda_peloton.facts import Fact
from remuda_peloton.rules.hosts import Placement
from remuda_peloton.rules.lifecycle import TERMINAL
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.resources import KINDS, Vector, percentage
from remuda_peloton.rules.task import Task
from remuda_peloton.settings import Settings
from remuda_peloton.state import State

CAPACITY: Vector = (100.0, 10.0, 1_000.0, 1_000.0)
LEAVES = ("a", "b1", "b2")
TASKS = 12


def amounts(reservation: float, limit: float, share: float = 1.0) -> tuple[KindConfig, ...]:
    """Parts of CAPACITY of every kind."""
    rows = zip(KINDS, CAPACITY, strict=True)
    return tuple(KindConfig(kind, most * reservation, most * limit, share) for kind, most in rows)


class World:
    """`log`: commits of facts, each with its time. `runs`: how often each task was enqueued."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.core = Core(settings)
        self.log: list[tuple[int, list[Fact]]] = []
        self.now_ms = 1
        self.runs: dict[str, int] = {}
        self.do(commands.SetCapacity(CAPACITY, 20.0))
        for config in (
            PoolConfig("a", "a", resources=amounts(0.4, 1.0), controller_limit_percent=25.0),
            PoolConfig("b", "b", resources=amounts(0.6, 0.8)),
            PoolConfig("b1", "b1", "b", resources=amounts(0.3, 0.8, 2.0)),
            PoolConfig("b2", "b2", "b", resources=amounts(0.2, 0.5)),
        ):
            assert isinstance(self.do(commands.CreatePool(config)), str)

    @property
    def state(self) -> State:
        return self.core.state

    def do(self, command: commands.Command) -> Any:
        facts, answer = self.core.handle(command, self.now_ms)
        self.log.append((self.state.now_ms, facts))
        check(self.state)
        return answer

    def enqueue(
        self, pool_id: str, numbers: list[int], size: float, flags: tuple[bool, bool, bool], priority: int
    ) -> Any:
        """A gang of the tasks with these numbers, each with a new run."""
        tasks = []
        for number in dict.fromkeys(numbers):
            task_id = f"t{number}"
            self.runs[task_id] = self.runs.get(task_id, 0) + 1
            cpu, gpu, memory, disk = (one * size for one in CAPACITY)
            preemptible, revocable, controller = flags
            run_id = f"{task_id}-{self.runs[task_id]}"
            tasks.append(
                Task(
                    task_id,
                    run_id,
                    (cpu, gpu, memory, disk),
                    priority,
                    preemptible=preemptible,
                    revocable=revocable,
                    controller=controller,
                    type=number % 3,
                )
            )
        return self.do(commands.EnqueueGangs(pool_id, (tuple(tasks),)))

    def place(self, limit: int, succeed: bool) -> None:
        """An engine takes gangs and places all of their tasks, or none."""
        for gang in self.do(commands.DequeueGangs(limit)):
            tasks = tuple((one.task.id, one.task.mesos_id) for one in gang)
            placements = (Placement("host-" + tasks[0][0], tasks),) if succeed else ()
            failed = () if succeed else (commands.FailedPlacement(tasks, "no host"),)
            self.do(commands.SetPlacements(placements, failed))

    def launch(self) -> None:
        for placement in self.do(commands.GetPlacements(10)):
            self.report(tuple(run_id for _, run_id in placement.tasks), "TASK_RUNNING")

    def report(self, run_ids: tuple[str, ...], mesos_state: str) -> None:
        self.do(commands.NotifyTaskUpdates(tuple(commands.TaskEvent(1, run_id, mesos_state) for run_id in run_ids)))

    def end_all(self) -> None:
        self.report(tuple(self.state.task_of), "TASK_FINISHED")
        self.do(commands.Admit())
        self.do(commands.DequeueGangs(1_000))
        self.do(commands.GetPlacements(1_000))

    def replayed(self) -> Core:
        core = Core(self.settings)
        for now_ms, facts in self.log:
            core.replay(facts, now_ms)
        return core


numbers = st.integers(0, TASKS - 1)
steps = st.one_of(
    st.tuples(
        st.just("enqueue"), st.sampled_from(LEAVES), st.lists(numbers, min_size=1, max_size=3),
        st.sampled_from((0.01, 0.1, 0.3)), st.tuples(st.booleans(), st.booleans(), st.booleans()), st.integers(0, 2),
    ),
    st.tuples(st.just("place"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("launch")),
    st.tuples(st.just("take")),
    st.tuples(st.just("kill"), numbers),
    st.tuples(st.just("end"), numbers),
    st.tuples(st.just("admit")),
    st.tuples(st.just("calculate")),
    st.tuples(st.just("preempt"), st.integers(1, 5)),
    st.tuples(st.just("wait"), st.sampled_from((1_000, 700_000, 2_000_000))),
    st.tuples(st.just("capacity"), st.sampled_from((0.3, 1.0))),
)  # fmt: skip


def take(world: World, step: tuple[Any, ...]) -> None:
    match step:
        case ("enqueue", *arguments):
            world.enqueue(*arguments)
        case ("place", limit, succeed):
            world.place(limit, succeed)
        case ("launch",):
            world.launch()
        case ("take",):
            world.do(commands.GetPlacements(10))
        case ("kill", number):
            world.do(commands.KillTasks((f"t{number}",)))
        case ("end", number):
            world.report((f"t{number}-{world.runs.get(f't{number}', 0)}",), "TASK_FAILED")
        case ("admit",):
            world.do(commands.Admit())
        case ("calculate",):
            world.do(commands.CalculateEntitlements())
        case ("preempt", cycles):
            for _ in range(cycles):
                world.do(commands.Preempt())
            world.do(commands.GetPreemptibleTasks(10))
        case ("wait", ms):
            world.now_ms += ms
            world.do(commands.Tick())
        case ("capacity", part):
            world.do(commands.SetCapacity(percentage(CAPACITY, part * 100), 20.0))
    assert all(run.state not in TERMINAL for run in world.state.runs.values())
