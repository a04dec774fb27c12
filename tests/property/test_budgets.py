"""Victims that the RM spares: an ask that could preempt others does, and never preempts what is spared.

The RM here keeps budgets, as that of Kubernetes does. The oracle is plain: of equal victims, a node will do if as many
of its allocations as are needed may go together.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remuda_core import commands, facts
from remuda_core.check import check
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel

PARTITION = "[rm-1]default"
BUDGETS = ("", "x", "y")  # "": none
LEAST_MS = 30_000


class World:
    """Nodes that are full of allocations of one vcore each, and an ask that needs `need` of them. `racks`: each of
    these nodes is a rack of nodes with an allocation each, and a group of `need` members needs one of the racks."""

    def __init__(self, nodes: list[list[str]], allowed: dict[str, int], need: int, *, racks: bool = False) -> None:
        self.core, self.now_ms, self.allowed = Core("rm-1"), 1_000, allowed
        self.budget_of: dict[str, str] = {}
        self.node_of: dict[str, str] = {}
        queues = (QueueSettings("a", guaranteed={"vcore": need}), QueueSettings("b"))
        root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
        levels = (TopologyLevel("rack", "rack"),) if racks else ()
        configuration = Configuration("1", (PartitionSettings("default", root, topology=levels),))
        declared = {"preemption_predicates": "true"}
        self.do(commands.Register("rm-1", configuration, extra_config=declared))
        self.do(commands.SubmitApplication(PARTITION, "app-b", "root.b", "bob"))
        for number, budgets in enumerate(nodes):
            if not racks:
                self._add_full_node(f"n{number}", budgets, need, {})
            for place, budget in enumerate(budgets) if racks else ():
                self._add_full_node(f"n{number}-{place}", [budget], 1, {"rack": f"r{number}"})
        self.do(commands.SubmitApplication(PARTITION, "app-a", "root.a", "ann"))
        tags = {"remuda/topology.required": "rack"} if racks else {}
        size, count = (1, need) if racks else (need, 1)
        ask = Ask(PARTITION, "app-a", "k", {"vcore": size}, count, tags=tags, allow_preempt_other=True)
        self.do(commands.SubmitAsk(ask))

    def _add_full_node(self, name: str, budgets: list[str], need: int, attributes: dict[str, str]) -> None:
        capacity = {"vcore": max(len(budgets), need)}
        self.do(commands.UpdateNode(PARTITION, name, "CREATE", attributes, capacity))
        for place, budget in enumerate(budgets):
            key = f"{name}-{place}"
            self.budget_of[key], self.node_of[key] = budget, name
            self.do(commands.SubmitAsk(Ask(PARTITION, "app-b", key, {"vcore": 1}, 1)))
        free = need - len(budgets)  # so that the node has no room that nothing holds
        if free > 0:
            self.do(commands.SubmitAsk(Ask(PARTITION, "app-b", f"{name}-free", {"vcore": free}, 1)))
            self.budget_of[f"{name}-free"], self.node_of[f"{name}-free"] = "never", name
        self.do(commands.Schedule(100))

    def do(self, command: commands.Command) -> list[facts.Fact]:
        found = self.core.handle(command, self.now_ms)
        check(self.core.state, self.core.index)
        return found

    def preempted(self) -> list[str]:
        """Play until the ask preempts, or nothing more happens. The keys of its victims."""
        for _ in range(3):
            self.now_ms += LEAST_MS
            self.do(commands.Tick())
            asked = self.do(commands.Schedule(100))
            while questions := [fact for fact in asked if isinstance(fact, facts.PreemptionAsked)]:
                (question,) = questions
                spared = self.spared(question.node_id, question.victim_keys)
                asked = self.do(
                    commands.AnswerPredicate(PARTITION, question.question, not spared, spared=tuple(spared))
                )
            if victims := [fact.allocation_key for fact in asked if isinstance(fact, facts.ReleaseRequested)]:
                return victims
        return []

    def spared(self, node: str, victims: tuple[str, ...]) -> list[str]:
        left = {**self.allowed, "": 100, "never": 0}
        above = []
        for key in victims:
            left[self.budget_of[key]] -= 1
            if left[self.budget_of[key]] < 0:
                above.append(key)
        others = (key for key, where in self.node_of.items() if where == node and key not in victims)
        return above + [key for key in others if left[self.budget_of[key]] < 1] if above else []


@given(
    st.lists(st.lists(st.sampled_from(BUDGETS), min_size=1, max_size=5), min_size=1, max_size=4),
    st.fixed_dictionaries({"x": st.integers(0, 2), "y": st.integers(0, 2)}),
    st.integers(1, 3),
    st.booleans(),
)
def test_law_no_budget_is_violated_and_a_choice_that_violates_none_is_found(
    nodes: list[list[str]], allowed: dict[str, int], need: int, racks: bool
) -> None:
    """For an ask that needs a node, and for a group that needs a rack."""
    world = World(nodes, allowed, need, racks=racks)
    victims = world.preempted()
    for budget, most in allowed.items():
        assert sum(world.budget_of[key] == budget for key in victims) <= most
    assert not any(world.budget_of[key] == "never" for key in victims)

    def may_go(budgets: list[str]) -> int:
        return sum(min(budgets.count(name), allowed.get(name, 100)) for name in BUDGETS)

    assert bool(victims) == any(may_go(budgets) >= need for budgets in nodes)
