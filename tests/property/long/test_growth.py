"""No container grows without need: long days of work, each with other settings. At any moment all that a core holds is
bounded by what is alive; at the end, with everything released, next to nothing is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest

from remuda_core import commands
from remuda_core.check import check, digest
from remuda_core.check.sizes import alive, check_sizes, sizes
from remuda_core.commands import Command
from remuda_core.core import Core
from remuda_core.facts import Ask, Fact
from remuda_core.settings import Configuration, Limit, PartitionSettings, PlacementRule, QueueSettings, Timing
from remuda_core.state import Application, Partition

RM = "rm"
STEPS = 2_500
# So few leftovers are allowed that a leak of one entry in some steps shows on such a short day.
FEW = 4
ENDED = 20

SETTINGS = (
    "no reservations", "stateaware", "fair", "gangs", "preemption", "predicates", "waiting head", "one application",
    "two partitions", "limits", "other sizes", "nodes come and go",
)  # fmt: skip
MATRIX = [
    (), *((each,) for each in SETTINGS), SETTINGS[1:2] + SETTINGS[3:],
    *(tuple(Random(seed).sample(SETTINGS, 5)) for seed in range(8)),
]  # fmt: skip


class Day:
    def __init__(self, settings: tuple[str, ...], seed: int = 0) -> None:
        self.random, self.settings, self.core = Random(seed), settings, Core(RM)
        self.now_ms, self.numbers = 1_000, count()
        self.log: list[tuple[int, list[Fact]]] = []

    def handle(self, command: Command) -> list[Fact]:
        facts = self.core.handle(command, self.now_ms)
        self.log.append((self.now_ms, facts))
        return facts

    @property
    def partition(self) -> Partition:
        return self.random.choice(list(self.core.state.partitions.values()))

    def begin(self) -> None:
        extra = {"reservation.disabled": "true"} if "no reservations" in self.settings else {}
        if "predicates" in self.settings:
            extra |= {"predicates": "true", "preemption_predicates": "true"}
        self.handle(commands.Register(RM, self.configuration(), extra_config=extra))
        for partition in self.core.state.partitions.values():
            for i in range(6):
                self.handle(self.node(partition, f"n{i}"))
            for queue in ("root.a", "root.b"):
                self.handle(self.submit(partition, f"long-{queue}", queue))
                if "waiting head" in self.settings:
                    large = {"vcore": 9, "memory": 9}
                    self.handle(commands.SubmitAsk(Ask(partition.name, f"long-{queue}", "head", large, priority=99)))

    def configuration(self) -> Configuration:
        policy = next((each for each in ("stateaware", "fair") if each in self.settings), "fifo")
        properties = {"application.sort.policy": policy, "preemption.delay": "1s"}
        each_user = Limit(("*",), (), {"vcore": 6}, 2)
        limits = (each_user,) if "limits" in self.settings else ()
        due = {"vcore": 20, "memory": 20} if "preemption" in self.settings else {}
        queues = tuple(
            QueueSettings(name, False, due if name == "b" else {}, {"vcore": 30}, 0, properties, limits=limits)
            for name in "ab"
        )
        dynamic = QueueSettings("dyn", parent=True, properties=properties)
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(*queues, dynamic))
        rules = (
            PlacementRule("provided"),
            PlacementRule("user", create=True, parent=PlacementRule("fixed", value="root.dyn")),
        )
        names = ("default", "other") if "two partitions" in self.settings else ("default",)
        timing = Timing(ended_ms=600_000, completing_ms=1_000)
        partitions = tuple(PartitionSettings(name, root, placement_rules=rules) for name in names)
        return Configuration(f"{next(self.numbers)}", partitions, timing=timing)

    def node(self, partition: Partition, node_id: str) -> Command:
        capacity = {"vcore": 8, "memory": 8 + self.random.randint(0, 3)}
        return commands.UpdateNode(partition.name, node_id, "CREATE", {}, capacity)

    def submit(self, partition: Partition, app_id: str, queue: str = "") -> Command:
        gang = {"vcore": 4, "memory": 4} if "gangs" in self.settings and "fair" not in self.settings else {}
        timeout_ms = self.random.choice((0, 60_000)) if not app_id.startswith("long") else 0
        queue = queue or self.random.choice(("root.a", "root.b", "root.c"))
        user = f"u{self.random.choice((1, 2, next(self.numbers)))}"
        return commands.SubmitApplication(
            partition.name, app_id, queue, user, execution_timeout_ms=timeout_ms, placeholder_ask=gang
        )

    def ask(self, application: Application, partition: Partition) -> Command:
        random, number = self.random, next(self.numbers)
        need = {"vcore": random.randint(1, 3), "memory": random.randint(1, 3)}
        if "other sizes" in self.settings:
            need |= {random.choice(("memory", f"r{number}")): random.choice((0, number % 900))}
        priority = random.choice((0, 0, 1, number)) if "other sizes" in self.settings else random.choice((0, 0, 1))
        group, placeholder = "", False
        if application.placeholder_ask and random.random() < 0.7:
            group, placeholder = random.choice(("tg", f"tg-{number // 8}")), random.random() < 0.5
            need = {"vcore": 1, "memory": 1}
        tags = {"si/requiredNode": random.choice(("n0", "n1"))} if random.random() < 0.05 else {}
        return commands.SubmitAsk(
            Ask(
                partition.name, application.id, f"k{number}", need, random.choice((1, 1, 3)), priority,
                random.choice((0, 0, 86_400_000 + number)), tags, group, placeholder, False, True, True,
            )
        )  # fmt: skip

    def work(self) -> Iterator[None]:
        for _ in range(STEPS):
            for command in self.step():
                self.handle(command)
            yield

    def step(self) -> list[Command]:
        random, partition = self.random, self.partition
        going = [a for a in partition.applications.values() if not a.terminal]
        asks = [(a, key) for a in going for key in a.asks if key != "head"]
        what = random.random()
        if len(asks) > 40 or (asks and what < 0.15):
            application, key = random.choice(asks)
            return [commands.ReleaseAsk(partition.name, application.id, key)]
        if what < 0.45:
            of = [a for a in going if a.id.startswith("long")] if "one application" in self.settings else going
            return [self.ask(random.choice(of or going), partition)] if going else []
        if what < 0.6 and partition.allocations:
            allocation = random.choice(
                [a for a in partition.allocations.values() if a.releasing] or list(partition.allocations.values())
            )
            return [
                commands.ReleaseAllocation(
                    partition.name, allocation.application.id, allocation.fact.uuid, allocation.releasing
                )
            ]
        if what < 0.65:
            short = [a for a in going if not a.id.startswith("long")]
            if len(short) > 8:
                return [commands.RemoveApplication(partition.name, random.choice(short).id)]
            return [self.submit(partition, f"app-{next(self.numbers)}")]
        if what < 0.75:
            questions = [*partition.questions, *partition.replacements_asked]
            questions += [p.question for p in partition.preemptions.values() if p.question]
            return [commands.AnswerPredicate(partition.name, q, random.random() < 0.7, "no") for q in questions]
        if what < 0.8 and "nodes come and go" in self.settings:
            if len(partition.nodes) > 6:
                gone = random.choice([node for node in partition.nodes if node not in ("n0", "n1")])
                return [commands.UpdateNode(partition.name, gone, "DECOMISSION")]
            return [self.node(partition, f"node-{next(self.numbers):06}")]
        if what < 0.9:
            self.now_ms += random.choice((10, 100, 1_000, 3_000))
            cleaned = [commands.CleanQueues()] if random.random() < 0.3 else []
            return [commands.Tick(), *cleaned]
        return [commands.Schedule(random.choice((1, 1_000)))]

    def end(self) -> None:
        """All is released, and all that lasts is over."""
        for partition in self.core.state.partitions.values():
            for application in list(partition.applications.values()):
                self.handle(commands.RemoveApplication(partition.name, application.id))
        for _ in range(3):
            self.now_ms += 86_400_000
            self.handle(commands.Tick())
            self.handle(commands.CleanQueues())
            self.handle(commands.Schedule(1_000))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("remuda_core"):
            for limit, value in (("LEFTOVERS", FEW), ("ENDED_APPLICATIONS", ENDED), ("TASK_GROUPS_KEPT", FEW)):
                if hasattr(module, limit):
                    monkeypatch.setattr(module, limit, value)


@pytest.mark.parametrize("settings", MATRIX, ids=lambda settings: ", ".join(settings) or "plain")
def test_a_long_day(settings: tuple[str, ...]) -> None:
    day = Day(settings)
    day.begin()
    state = day.core.state
    day.handle(commands.Schedule(1_000))
    for number, _ in enumerate(day.work()):
        if number % 50 == 0:
            check(state, day.core.index)
            for partition in state.partitions.values():
                going = len(partition.applications) - len(partition.ended)
                assert len(partition.ended) <= ENDED + going
    replayed = Core(RM)
    for now_ms, facts in day.log:
        replayed.replay(facts, now_ms)
    assert digest(replayed.state) == digest(state)
    day.end()
    check_sizes(state, day.core.index)
    left = alive(state) - sum(len(p.nodes) + len(p.queues) for p in state.partitions.values())
    assert left == 0
    fresh = Core(RM)
    for partition in state.partitions.values():  # what a core that has done nothing holds
        for node in partition.nodes.values():
            assert not node.allocations and node.reservation is None
    assert sum(sizes(state, day.core.index).values()) < sum(sizes(fresh.state, fresh.index).values()) + 1_500
