"""A long, busy day out of a seed: commands that mostly mean something in the state there is.

Where hypothesis looks for the smallest example, this one looks for the state that takes hundreds of commands to get
into. A failing run is reduced to the commands that are needed (`shortened`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random

import msgspec

from remuda_core import commands
from remuda_core.commands import Command
from remuda_core.facts import Allocated, Ask
from remuda_core.rules import connection
from remuda_core.settings import ChildTemplate, Configuration, Limit, PartitionSettings, PlacementRule, QueueSettings
from remuda_core.state import Partition, Queue

from .answers import answer
from .operators import Operators
from .world import RM, World

RULES = (
    (),
    (PlacementRule("provided", create=True), PlacementRule("fixed", create=True, value="c")),
    (
        PlacementRule("provided"),
        PlacementRule("user", create=True, parent=PlacementRule("fixed", create=True, value="users")),
    ),
    (PlacementRule("provided"), PlacementRule("fixed", create=True, value="root.a.dyn")),
)
DECLARATIONS = ("predicates", "preemption_predicates")
JUMPS_MS = (1, 1_000, 1_000, 5_000, 31_000, 301_000, 86_400_000 * 3 + 1)


class Storm(Operators):
    """`sizes`: how many different amounts asks have; `nodes`: how many there are at most; `administered`: how often
    operators act, of some 80 commands."""

    def __init__(self, seed: int, administered: int = 3) -> None:
        self.random = random = Random(seed)
        self.administered, self.guests = administered, 8 if seed % 7 == 3 else 0
        self.world = World(check_always=random.random() < 0.5)
        self.sizes, self.nodes = random.choice((1, 2, 5, 5, 40)), random.choice((2, 6, 6, 30, 150))
        self.room = random.choice((1, 3))
        self.limited = random.choice((0.0, 0.2, 0.6))  # of the queues
        self.wild = random.choice((0.0, 0.02, 0.1, 0.3))  # of configurations and registrations
        # Applications of queues that are guaranteed much would take it from others; or most applications are gangs.
        mood = random.random()
        self.contended, self.gangs = mood < 0.3, mood > 0.8
        if self.contended:
            self.nodes, self.room, self.limited, self.wild = random.choice((2, 4)), 2, 0.0, random.choice((0.0, 0.01))
            self.sizes = random.choice((1, 3, 5))
        declared = random.choice(((), (), (), ("predicates",), ("preemption_predicates",), DECLARATIONS))
        if self.contended and random.random() < 0.3:
            declared = ("preemption_predicates",)
        self.declared = dict.fromkeys(declared, "true")
        self.declared |= {"predicates": "batch"} if seed % 5 == 0 and "predicates" in declared else {}
        self.silent = random.choice((0.0, 0.0, 0.01))  # how often the RM is not heard of
        self.pack = "application" if seed % 3 == 0 else ""  # not drawn: older seeds mean what they meant
        self.quotas = {"quota.preemption.delay": ("5s", "1ms")[seed % 2]} if seed % 4 < 2 else {}
        self.lowered = 0.05 if seed % 16 in (4, 5) else 0.0  # how often maxima are lowered to less than queues use
        self.last: Configuration | None = None

    def run(self, steps: int) -> Iterator[Command]:
        """Each command once it is about to be handled."""
        yield from self.handle(commands.Register(RM, self.configuration(), extra_config=self.declared))
        for number in range(self.random.randint(1, self.nodes)):
            yield from self.handle(self.node(f"n{number}"))
        for _ in range(steps):
            yield from self.handle(self.next())

    def handle(self, command: Command) -> Iterator[Command]:
        yield command
        apply(self.world, command)

    def next(self) -> Command:
        if self.random.random() < (self.silent if self.world.state.rm_state == connection.RUNNING else 0.1):
            return self.connection()
        if self.lowered and self.last is not None and self.random.random() < self.lowered:
            return commands.Configure(self.below_usage(self.last))
        if self.random.random() < self.wild:
            return self.seldom()
        if self.declared and self.random.random() < 0.3:
            return self.answer()
        weights = (24, 20, 12, 6, 3, 2, 1, 1, 14) if self.contended else (30, 12, 12, 6, 5, 4, 2, 2, 3)
        act = self.random.choices(
            (
                self.ask,
                self.schedule,
                self.release,
                self.submit,
                self.on_node,
                self.release_ask,
                self.remove,
                self.recover,
                self.tick,
                self.administer,
            ),
            (*weights, self.administered),
        )[0]
        return act()

    # Objects

    def resource(self, low: int, high: int, gpu: float = 0.1) -> dict[str, int]:
        amounts = {"vcore": self.random.randint(low, high), "memory": self.random.randint(low, high)}
        if self.random.random() < gpu:
            amounts["gpu"] = self.random.randint(0, 2)
        if self.random.random() < 0.05:
            amounts.pop(self.random.choice(list(amounts)))
        return amounts

    # Commands

    def ask(self) -> Command:
        partition, random = self.partition(), self.random
        app_id = self.application(partition)
        application = partition.applications.get(app_id)
        if application is None and random.random() < 0.9:
            return self.submit()
        key = self.new("k")
        if application is not None and application.asks and random.random() < 0.15:
            key = random.choice(list(application.asks))
        need = {"vcore": 1 + random.randrange(self.sizes) % 5, "memory": 1 + random.randrange(self.sizes)}
        if random.random() < 0.03:
            need = self.resource(0, 9)
        tags = {"si/requiredNode": self.some(list(partition.nodes), "n")} if random.random() < 0.05 else {}
        priority, timeout_ms = random.choice((0, 0, 0, 1, 2, -1)), random.choice((0, 0, 0, 0, 5_000, -1))
        group, placeholder = "", False
        if application is not None and application.placeholder_ask and random.random() < 0.8:
            group, placeholder = random.choice(("tg-1", "tg-2", "")), random.random() < 0.5
            need = {"vcore": 2, "memory": 2} if random.random() < 0.8 else need
        count = 0 if random.random() < 0.02 else random.choice((1, 1, 1, 2, 5))
        if self.gangs and application is not None and application.placeholder_ask and random.random() < 0.8:
            group, tags, need = "tg-1", tags if random.random() < 0.3 else {}, {"vcore": 2, "memory": 2}
            asked = sum(g.count for g in application.task_groups.values())
            placeholder = 2 * asked < application.placeholder_ask["vcore"]
            count = min(count or 1, application.placeholder_ask["vcore"] // 2)
        willing = random.choice((None, (False, False), (True, False), (True, True), (True, True), (False, True)))
        if self.contended:
            willing = (random.random() < 0.9, True)
            if application is not None and application.queue.path == "root.a":
                count, priority = 5, min(priority, 0)
        allow_self, allow_other = willing or (None, None)
        return commands.SubmitAsk(
            Ask(
                partition.name, app_id, key, need, count, priority, timeout_ms, tags, group, placeholder,
                random.random() < 0.1, allow_self, allow_other,
            )
        )  # fmt: skip

    def schedule(self) -> Command:
        return commands.Schedule(self.random.choice((1, 1, 1, 2, 5, 1_000)))

    def answer(self) -> Command:
        return answer(self.random, self.partition())

    def release(self) -> Command:
        partition = self.partition()
        if partition.allocations and self.random.random() < 0.95:
            going = [uuid for uuid, allocation in partition.allocations.items() if allocation.releasing]
            asked_for = going and self.random.random() < (0.9 if self.contended else 0.6)
            allocation = partition.allocations[self.random.choice(going if asked_for else list(partition.allocations))]
            uuid = "" if self.random.random() < 0.05 else allocation.fact.uuid
            confirmed = allocation.releasing if self.random.random() < 0.9 else 0
            return commands.ReleaseAllocation(partition.name, allocation.application.id, uuid, confirmed)
        return commands.ReleaseAllocation(partition.name, self.application(partition), "")

    def release_ask(self) -> Command:
        partition = self.partition()
        app_id = self.application(partition)
        application = partition.applications.get(app_id)
        key = self.some(list(application.asks) if application else [], "k")
        return commands.ReleaseAsk(
            partition.name, "" if self.random.random() < 0.1 else app_id, "" if self.random.random() < 0.1 else key
        )

    def recover(self) -> Command:
        partition = self.partition()
        return commands.RecoverAllocation(self.running(partition, self.some(list(partition.nodes), "n")))

    def running(self, partition: Partition, node_id: str) -> Allocated:
        return Allocated(
            partition.name, self.application(partition), self.new("r"), self.new("uuid-"), node_id, self.resource(0, 4),
            task_group=self.random.choice(("", "", "tg-1")), placeholder=self.random.random() < 0.2,
        )  # fmt: skip

    def submit(self) -> Command:
        partition, random = self.partition(), self.random
        leaves = [path for path, queue in partition.queues.items() if queue.leaf]
        queue = random.choice((*leaves, *leaves, *leaves, *partition.queues, "root.c", "root.a.dyn", "x", ""))
        tags = {}
        if random.random() < 0.2:
            tags["application.create.force"] = "true"
        if random.random() < 0.2:
            tags["application.stateaware.disable"] = "true"
        if random.random() < 0.1:
            tags["namespace.resourcequota"] = json.dumps({"resources": {"vcore": {"value": random.randint(-1, 20)}}})
        if self.contended and random.random() < 0.5:
            queue = random.choice(("root.a", "root.a", *leaves))
        app_id, timeout_ms = self.application_id(random.randint(0, 9)), random.choice((0, 0, 0, 60_000, -1))
        gang = {"vcore": 2 * random.randint(1, 4), "memory": 2 * random.randint(1, 4)} if random.random() < 0.5 else {}
        if self.gangs and gang:
            gang["memory"] = gang["vcore"]
        return commands.SubmitApplication(
            partition.name,
            app_id,
            queue,
            random.choice(("alice", "alice", "bob", "carol")),
            tuple(random.sample(("dev", "ops", "qa"), random.choice((0, 1, 2)))),
            tags,
            timeout_ms,
            gang,
            random.choice(("Hard", "Soft")),
        )

    def remove(self) -> Command:
        partition = self.partition()
        return commands.RemoveApplication(partition.name, self.application(partition))

    def tick(self) -> Command:
        self.world.now_ms += self.random.choice(JUMPS_MS[: 6 if self.contended else None])
        return Later(self.world.now_ms)

    def node(self, node_id: str) -> Command:
        partition, random = self.partition(), self.random
        action = random.choices(("CREATE", "CREATE_DRAIN"), (9, 1))[0]
        running = tuple(
            self.running(partition, node_id)
            for _ in range(random.choice((0, 0, 0, 1, 2)) * bool(partition.applications))
        )
        occupied = self.resource(0, 2) if random.random() < 0.2 else {}
        capacity = random.choice(
            ({"vcore": 8 * self.room, "memory": 8 * self.room}, self.resource(3, 12 * self.room, 0.3))
        )
        return commands.UpdateNode(partition.name, node_id, action, {}, capacity, occupied, running)

    def on_node(self) -> Command:
        partition, random = self.partition(), self.random
        if len(partition.nodes) < self.nodes and random.random() < 0.3:
            return self.node(f"n{random.randint(0, self.nodes)}")
        node_id = self.some(list(partition.nodes), "n")
        node = partition.nodes.get(node_id)
        if node is not None and not node.schedulable and random.random() < 0.6:
            if node.draining:
                return commands.UpdateNode(partition.name, node_id, "DRAIN_TO_SCHEDULABLE")
            return commands.UpdateNode(partition.name, node_id, "UPDATE", {"ready": "true"})
        action = random.choices(("UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION"), (6, 2, 1, 1))[0]
        if action != "UPDATE":
            return commands.UpdateNode(partition.name, node_id, action)
        capacity = self.resource(1, 12 * self.room, 0.3) if random.random() < 0.6 else None
        occupied = self.resource(0, 3) if random.random() < 0.3 else None
        ready = {"ready": random.choice(("true", "false"))} if random.random() < 0.3 else {}
        return commands.UpdateNode(partition.name, node_id, "UPDATE", ready, capacity, occupied)

    def seldom(self) -> Command:
        if self.random.random() < 0.1:
            rm_id = RM if self.random.random() < 0.8 else "another"
            resync = {"resync": self.random.choice(("report", "replay"))}
            return commands.Register(rm_id, self.configuration(), extra_config=self.declared | resync)
        return commands.Configure(self.altered() if self.random.random() < 0.7 else self.configuration())

    def altered(self) -> Configuration:
        """The configuration there is, but for one thing about some queues: an index that is there has to follow."""
        if self.last is None:
            return self.configuration()
        change = self.random.choice(
            ("max", "guaranteed", "properties", "limits", "max_applications", "child_template", "parent", "queues")
        )
        partitions = tuple(
            msgspec.structs.replace(each, root=self.changed(each.root, change, 0)) for each in self.last.partitions
        )
        self.last = msgspec.structs.replace(self.last, checksum=self.new("sum-"), partitions=partitions)
        return self.last

    def below_usage(self, configuration: Configuration) -> Configuration:
        """The configuration with maxima of half of what some queues use."""
        partitions = []
        for each in configuration.partitions:
            there = self.world.state.partitions.get(f"[{RM}]{each.name}")
            queues = there.queues if there is not None else {}
            partitions.append(msgspec.structs.replace(each, root=self.lowered_below(each.root, "root", queues)))
        self.last = msgspec.structs.replace(configuration, checksum=self.new("sum-"), partitions=tuple(partitions))
        return self.last

    def lowered_below(self, queue: QueueSettings, path: str, queues: Mapping[str, Queue]) -> QueueSettings:
        """Root has no maximum."""
        is_lowered = path != "root" and path in queues and self.random.random() < 0.6
        used = queues[path].allocated if is_lowered else {}
        half = {name: amount // 2 for name, amount in used.items() if amount > 1}
        children = tuple(self.lowered_below(child, f"{path}.{child.name}", queues) for child in queue.queues)
        return msgspec.structs.replace(queue, max={**queue.max, **half}, queues=children)

    def changed(self, queue: QueueSettings, change: str, depth: int) -> QueueSettings:
        queue = msgspec.structs.replace(
            queue, queues=tuple(self.changed(child, change, depth + 1) for child in queue.queues)
        )
        if self.random.random() < 0.4 and (depth or change not in ("max", "guaranteed")):  # root has none
            new = {
                "max": self.maximum,
                "guaranteed": lambda: self.guaranteed(queue.name),
                "properties": self.properties,
                "limits": self.limits,
                "max_applications": self.max_applications,
                "child_template": self.template,
                "parent": lambda: depth == 0 or self.random.random() < 0.2,
                "queues": lambda: queue.queues[: self.random.choice((-1, None))] if depth else queue.queues,
            }
            return msgspec.structs.replace(queue, **{change: new[change]()})
        return queue

    def connection(self) -> Command:
        """It is silent, and back; one that has deregistered is back when it registers."""
        heard = (connection.LOST, connection.GONE, connection.BACK, connection.DEREGISTERED)
        weights = (6, 2, 1, 1) if self.world.state.rm_state == connection.RUNNING else (1, 1, 12, 0)
        if self.world.state.registered is None or self.random.random() < 0.1:
            replay = {"resync": self.random.choice(("report", "replay"))}
            return commands.Register(RM, self.configuration(), extra_config=self.declared | replay)
        return commands.RmConnection(self.random.choices(heard, weights)[0], "silent")

    # Configurations

    def configuration(self) -> Configuration:
        names = ("default",) if self.contended or self.random.random() < 0.7 else ("default", "other")
        partitions = tuple(self.settings(name) for name in names)
        compatibility = self.random.choice(("none", "none", "yunikorn-1.4"))
        self.last = Configuration(self.new("sum-"), partitions, compatibility, source="storm")
        return self.last

    def settings(self, name: str) -> PartitionSettings:
        random = self.random
        top = ("a", "b", "c") if self.contended else random.sample(("a", "b", "c"), random.randint(1, 3))
        below = tuple(self.queue(child, {"a": 0, "b": 1, "c": 1}[child] if self.contended else 2) for child in top)
        root = QueueSettings(
            "root",
            parent=True,
            submit_acl="*",
            admin_acl="admin",
            max_applications=self.max_applications(),
            properties=self.properties() | self.quotas,
            child_template=self.template(),
            limits=self.limits(),
            queues=below,
        )
        weights = random.choice(
            ({"vcore": 1.0, "memory": 1.0}, {"vcore": 4.0, "memory": 1.0}, {"gpu": 1.0, "vcore": 0.0})
        )
        return PartitionSettings(
            name, root, random.choice(("fair", "binpacking")), weights,
            self.contended or random.random() < 0.6, random.choice(RULES), pack=self.pack if self.made % 4 else "",
            quota_preemption_enabled=bool(self.quotas), preemption_threshold=random.choice((0, 0, 50)),
            preemption_interval_ms=random.choice((0, 1)),
        )  # fmt: skip

    def queue(self, name: str, depth: int) -> QueueSettings:
        random = self.random
        below = random.sample(("a", "b", "c"), random.choice((0, 0, 1, 2))) if depth else []
        return QueueSettings(
            name,
            random.random() < 0.2,
            self.guaranteed(name),
            {} if self.contended else self.maximum(),
            self.max_applications(),
            self.properties(),
            child_template=self.template(),
            limits=self.limits(),
            queues=tuple(self.queue(child, depth - 1) for child in below),
        )

    def guaranteed(self, name: str) -> dict[str, int]:
        if self.contended:
            much = {"vcore": 60, "memory": 60}
            return {} if name == "a" else self.random.choice(({}, {"vcore": 2, "memory": 2}, much, much))
        return self.resource(0, 12) if self.random.random() < 0.5 else {}

    def maximum(self) -> dict[str, int]:
        return self.resource(3, 20 * self.room) if self.random.random() < 0.35 else {}

    def template(self) -> ChildTemplate | None:
        if self.random.random() < 0.8:
            return None
        return ChildTemplate(self.max_applications(), self.properties(), {}, self.maximum())

    def max_applications(self) -> int:
        return self.random.randint(1, 4) if self.random.random() < self.limited else 0

    def limits(self) -> tuple[Limit, ...]:
        """The configuration service would refuse some of them; the core holds what it is given."""
        random = self.random
        if random.random() >= self.limited:
            return ()
        named = [Limit((user,), (), *self.most()) for user in ("alice", "bob") if random.random() < 0.4]
        named += [Limit((), (group,), *self.most()) for group in ("dev", "ops") if random.random() < 0.4]
        random.shuffle(named)
        named += [Limit(("*",), (), *self.most())] if random.random() < 0.4 else []
        named += [Limit((), ("*",), *self.most())] if random.random() < 0.3 else []
        return tuple(named)

    def most(self) -> tuple[dict[str, int], int]:
        amounts = self.resource(2, 15 * self.room) if self.random.random() < 0.7 else {}
        return amounts, self.random.randint(1, 3) if self.random.random() < 0.4 else 0

    def properties(self) -> dict[str, str]:
        random = self.random
        choices = {
            "application.sort.policy": ("fifo", "fair", "fair", "stateaware", "stateaware"),
            "application.sort.priority": ("enabled", "disabled"),
            "priority.policy": ("default", "fence"),
            "priority.offset": ("0", "1", "-1", "2147483647"),
            "preemption.policy": ("default", "default", "fence", "disabled"),
            "preemption.delay": ("1ms", "5s"),
        }
        often = 0.1 if self.contended else 0.35
        return {key: random.choice(values) for key, values in choices.items() if random.random() < often} | (
            {"preemption.delay": "1ms"} if self.contended else {}
        )


class Later(commands.Tick, frozen=True):  # type: ignore[misc]  # a msgspec.Struct is frozen like its base
    """A Tick at this time. `ticks`: off, the time alone has come, and the Tick is late."""

    now_ms: int
    ticks: bool = True


def apply(world: World, command: Command) -> None:
    if isinstance(command, Later):
        world.now_ms = command.now_ms
        if command.ticks:
            world.handle(commands.Tick())
            world.handle(commands.CleanQueues())
    elif isinstance(command, commands.Schedule) and command.limit == 1:
        world.schedule_one()
    elif isinstance(command, commands.Schedule) and command.limit == 2:
        world.decides_like_replayed(3)
    else:
        world.handle(command)


def storm(seed: int, steps: int, administered: int = 3) -> World:
    """Returns the world after the commands. Raises an error with the commands that led to it."""
    return played(Storm(seed, administered), seed, steps)


def played(weather: Storm, seed: int, steps: int) -> World:
    """As `storm`."""
    done: list[Command] = []
    try:
        done.extend(weather.run(steps))
        weather.world.finish()
    except Exception as error:  # noqa: BLE001 - an assertion, or whatever else it trips over
        few = shortened(done, attempt(done) or error)
        trouble = attempt(few)
        told = "\n".join(map(repr, few))
        raise AssertionError(f"seed {seed}: {type(trouble).__name__}: {trouble}\n{told}") from trouble
    return weather.world


def attempt(done: Sequence[Command]) -> Exception | None:
    world = World()
    try:
        for command in done:
            apply(world, command)
        world.finish()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is handed back
        return error
    return None


def preemptor_kind(error: Exception | None) -> tuple[type, str]:
    """A rough key of an error: an error with another key is not the one searched for."""
    return type(error), str(error)[:20]


def shortened(done: Sequence[Command], error: Exception) -> list[Command]:
    """Without the commands that are not needed for an error like this one."""
    few = list(done)
    size = len(few) // 2
    while size:
        start = 0
        while start < len(few):
            less = few[:start] + few[start + size :]
            if preemptor_kind(attempt(less)) == preemptor_kind(error):
                few = less
            else:
                start += size
        size //= 2
    return few
