"""Strategies: configurations and other values, small enough that they meet each other."""

from __future__ import annotations

from hypothesis import strategies as st

from remuda_core.settings import ChildTemplate, Configuration, Limit, PartitionSettings, PlacementRule, QueueSettings

NAMES = ("a", "b", "c")
PATHS = ("root.a", "root.b", "root.c", "root.a.a", "root.a.b", "root.b.a", "root.a.a.a", "a", "b", "nowhere", "")
RESOURCES = ("vcore", "memory", "gpu")
KEYS = tuple(f"k{n}" for n in range(8))
NODES = tuple(f"n{n}" for n in range(8))
JUMPS_MS = (0, 1, 1_000, 31_000, 31_000, 301_000, 86_400_000 * 3 + 1)

Resources = st.SearchStrategy[dict[str, int]]

priorities = st.sampled_from((0, 0, 0, 1, 2, -1, 7))
keys = st.sampled_from(KEYS)
nodes = st.sampled_from(NODES)


def resource(low: int, high: int) -> st.SearchStrategy[dict[str, int]]:
    """Mostly vcore and memory, seldom something else."""
    one = st.integers(low, high)
    both = st.fixed_dictionaries({"vcore": one, "memory": one})
    return st.one_of(
        both, both, both, st.fixed_dictionaries({"vcore": one}), st.dictionaries(st.sampled_from(RESOURCES), one)
    )


capacities = st.one_of(resource(2, 10), resource(2, 10), resource(0, 10))
needs = st.one_of(resource(1, 3), resource(1, 3), resource(0, 5))
maxima: Resources = st.one_of(st.just({}), st.just({}), resource(3, 15), resource(0, 12))
guarantees: Resources = st.one_of(st.just({}), resource(0, 6))

properties = st.fixed_dictionaries(
    {},
    optional={
        "application.sort.policy": st.sampled_from(("fifo", "fair", "stateaware")),
        "application.sort.priority": st.sampled_from(("enabled", "disabled")),
        "priority.policy": st.sampled_from(("default", "fence")),
        "priority.offset": st.sampled_from(("0", "1", "-1", "5", "2147483647")),
    },
)
max_applications = st.sampled_from((0, 0, 0, 1, 2))
templates = st.one_of(st.none(), st.builds(ChildTemplate, max_applications, properties, guarantees, maxima))
limits: st.SearchStrategy[tuple[Limit, ...]] = st.sampled_from(
    (
        (),
        (),
        (),
        (Limit(("alice",), (), {"vcore": 3}), Limit(("*",), (), {"memory": 4}, 1)),
        (Limit((), ("ops", "dev"), {"vcore": 4, "memory": 9}),),
        (Limit(("*",), (), {"vcore": 2}), Limit((), ("dev",), {"vcore": 0}), Limit((), ("*",), {"memory": 3}, 1)),
        (Limit(("bob",), ("dev",), {}, 1), Limit(("*",), (), {"vcore": 5})),
    )
)


@st.composite
def queues(draw: st.DrawFn, name: str, depth: int) -> QueueSettings:
    below = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2)) if depth else []
    return QueueSettings(
        name,
        parent=draw(st.sampled_from((False, False, True))),
        guaranteed=draw(guarantees),
        max=draw(maxima),
        max_applications=draw(max_applications),
        properties=draw(properties),
        child_template=draw(templates),
        limits=draw(limits),
        queues=tuple(draw(queues(child, depth - 1)) for child in below),
    )


rules = st.sampled_from(
    (
        (),
        (PlacementRule("provided", create=True), PlacementRule("fixed", create=True, value="c")),
        (
            PlacementRule("provided"),
            PlacementRule("user", create=True, parent=PlacementRule("fixed", create=True, value="b")),
        ),
        (PlacementRule("provided"), PlacementRule("fixed", create=True, value="root.a.dyn")),
    )
)


@st.composite
def partition_settings(draw: st.DrawFn, name: str) -> PartitionSettings:
    top = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3))
    below = tuple(draw(queues(child, 2)) for child in top)
    root = QueueSettings(
        "root", parent=True, submit_acl="*", max_applications=draw(max_applications), properties=draw(properties),
        child_template=draw(templates), limits=draw(limits), queues=below,
    )  # fmt: skip
    weights = draw(
        st.sampled_from(({"vcore": 1.0, "memory": 1.0}, {"vcore": 4.0, "memory": 1.0}, {"gpu": 1.0, "vcore": 0.0}))
    )
    return PartitionSettings(
        name, root, draw(st.sampled_from(("fair", "binpacking"))), weights, placement_rules=draw(rules)
    )


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    names = draw(st.sampled_from((("default",), ("default",), ("default", "other"))))
    return Configuration(
        f"sum-{draw(st.integers(0, 10**6))}",
        tuple(draw(partition_settings(name)) for name in names),
        draw(st.sampled_from(("none", "none", "yunikorn-1.4"))),
        source="drawn",
    )
