"""For any commands in any order, the invariants hold and a replayed core is the same."""

from __future__ import annotations

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from remuda_core import commands
from remuda_core.facts import Allocated, Ask
from remuda_core.state import Partition

from . import values
from .world import RM, World

numbers = st.integers(0, 999)


class Machine(RuleBasedStateMachine):
    """A number says which node, application or allocation is meant; now and then it is one that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.made = 0

    def do(self, command: commands.Command) -> None:
        for fact in self.world.handle(command):
            note(f"  {fact}")

    def new(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def partition(self, number: int) -> Partition:
        """Mostly the first."""
        known = list(self.world.state.partitions.values())
        return known[-1 if number % 7 == 6 else 0]

    def node(self, number: int) -> tuple[str, str]:
        """(partition, node ID)"""
        partition = self.partition(number)
        return partition.name, pick(sorted(partition.nodes), number) or "n0"

    def application(self, number: int) -> tuple[str, str]:
        """(partition, application ID). Where there is none, one is submitted first."""
        partition = self.partition(number)
        if not partition.applications:
            self.submit(number, number, "alice", (), False)
        return partition.name, pick(list(partition.applications), number) or "app-0"

    @initialize(
        configuration=values.configurations(),
        check_always=st.booleans(),
        nodes=st.sampled_from((3, 6, 1, 0)),
        capacity=values.capacities,
        applications=st.sampled_from((3, 5, 1, 0)),
    )
    def begin(self, configuration, check_always, nodes, capacity, applications) -> None:
        self.world = World(check_always=check_always)
        self.do(commands.Register(RM, configuration))
        for node_id in values.NODES[:nodes]:
            self.do(commands.UpdateNode(f"[{RM}]default", node_id, "CREATE", capacity=capacity))
        for number in range(applications):
            self.submit(number, number, "alice", (), False)

    @rule(configuration=values.configurations(), number=numbers)
    def configure(self, configuration, number) -> None:
        self.do(commands.Register(RM, configuration) if number % 10 == 9 else commands.Configure(configuration))

    # Nodes

    @rule(
        number=numbers,
        node_id=values.nodes,
        capacity=values.capacities,
        occupied=st.one_of(st.just({}), values.needs),
        ready=st.sampled_from(("true", "true", "true", "false")),
        action=st.sampled_from(("CREATE", "CREATE", "CREATE", "CREATE_DRAIN")),
        running=st.one_of(st.just([]), st.lists(st.tuples(numbers, values.needs), max_size=2)),
    )
    def create_node(self, number, node_id, capacity, occupied, ready, action, running) -> None:
        partition = self.partition(number).name
        existing = tuple(self.running(self.application(n)[1], (partition, node_id), need) for n, need in running)
        self.do(commands.UpdateNode(partition, node_id, action, {"ready": ready}, capacity, occupied, existing))

    @rule(
        number=numbers, capacity=st.one_of(st.none(), values.capacities), occupied=st.one_of(st.none(), values.needs),
        ready=st.sampled_from((None, None, "true", "false")),
    )  # fmt: skip
    def update_node(self, number, capacity, occupied, ready) -> None:
        attributes = {} if ready is None else {"ready": ready}
        self.do(commands.UpdateNode(*self.node(number), "UPDATE", attributes, capacity, occupied))

    @rule(
        number=numbers,
        action=st.sampled_from(("DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION", "?")),
    )
    def act_on_node(self, number, action) -> None:
        self.do(commands.UpdateNode(*self.node(number), action))

    # Applications

    @rule(
        number=numbers, queue=numbers, user=st.sampled_from(("alice", "bob")),
        groups=st.sampled_from(((), ("dev",), ("ops",), ("qa", "dev"))), at_once=st.booleans(),
    )  # fmt: skip
    def submit(self, number, queue, user, groups, at_once) -> None:
        partition = self.partition(number)
        leaves = sorted(path for path, queue in partition.queues.items() if queue.leaf)
        tags = {"application.stateaware.disable": "true"} if at_once else {}
        self.do(
            commands.SubmitApplication(
                partition.name, f"app-{number % 7}", pick(leaves, queue) or "root.a", user, groups, tags
            )
        )

    @rule(number=numbers, queue=st.sampled_from(values.PATHS), force=st.booleans())
    def submit_anywhere(self, number, queue, force) -> None:
        tags = {"application.create.force": "true"} if force else {}
        self.do(commands.SubmitApplication(self.partition(number).name, f"app-{number % 7}", queue, "alice", tags=tags))

    @rule(number=numbers, whole=st.booleans())
    def end_application(self, number, whole) -> None:
        """Itself, or all it holds."""
        named = self.application(number)
        self.do(commands.RemoveApplication(*named) if whole else commands.ReleaseAllocation(*named, ""))

    # Asks

    @rule(
        number=numbers, key=values.keys, need=values.needs, count=st.integers(0, 4), priority=values.priorities,
        node_id=st.one_of(st.none(), st.none(), st.none(), values.nodes),
    )  # fmt: skip
    def ask(self, number, key, need, count, priority, node_id) -> None:
        tags = {} if node_id is None else {"si/requiredNode": node_id}
        self.do(commands.SubmitAsk(Ask(*self.application(number), key, need, count, priority, tags=tags)))

    @rule(number=numbers, how_many=st.integers(2, 12), vary=st.booleans(), priority=values.priorities)
    def ask_much(self, number, how_many, vary, priority) -> None:
        """Many at once: alike, or each of another size."""
        for _ in range(how_many):
            key = self.new("m")
            need = {"vcore": 1, "memory": 1 + self.made % 7 if vary else 1}
            self.do(commands.SubmitAsk(Ask(*self.application(number), key, need, 1, priority)))

    @rule(number=numbers, key=numbers)
    def release_ask(self, number, key) -> None:
        partition, app_id = self.application(number)
        application = self.world.state.partitions[partition].applications.get(app_id)
        known = pick(list(application.asks), key) if application is not None else None
        self.do(commands.ReleaseAsk(partition, "" if key % 9 == 8 else app_id, "" if key % 9 == 7 else known or "k0"))

    # Allocations

    def running(self, app_id: str, node: tuple[str, str], need: dict[str, int]) -> Allocated:
        return Allocated(node[0], app_id, self.new("r"), self.new("uuid-"), node[1], need)

    @rule(number=numbers, node=numbers, need=values.needs)
    def recover(self, number, node, need) -> None:
        self.do(commands.RecoverAllocation(self.running(self.application(number)[1], self.node(node), need)))

    @rule(numbers=st.lists(numbers, min_size=1, max_size=4), again=st.booleans())
    def release(self, numbers, again) -> None:
        for number in numbers:
            everything = [a.fact for p in self.world.state.partitions.values() for a in p.allocations.values()]
            if everything:
                fact = everything[number % len(everything)]
                for _ in range(1 + again):
                    self.do(commands.ReleaseAllocation(fact.partition, fact.application_id, fact.uuid))

    # The core's own

    @rule(limit=st.sampled_from((100, 1, 2, 5)), how=st.sampled_from(("at once", "one by one", "like replayed")))
    def schedule(self, limit, how) -> None:
        if how == "at once":
            self.do(commands.Schedule(limit))
        elif how == "like replayed":
            self.world.decides_like_replayed(limit)
        else:
            for _ in range(min(limit, 6)):
                for fact in self.world.schedule_one():
                    note(f"  {fact}")

    @rule(jump_ms=st.sampled_from(values.JUMPS_MS))
    def tick(self, jump_ms) -> None:
        self.world.now_ms += jump_ms
        self.do(commands.Tick())
        self.do(commands.CleanQueues())

    def teardown(self) -> None:
        if self.world.log:
            self.world.finish()


def pick(known: list[str], number: int) -> str | None:
    """One of those there are; None if there is none, or if it is time to ask for something that is not there."""
    return known[number % len(known)] if known and number % 11 != 10 else None


TestCore = Machine.TestCase
