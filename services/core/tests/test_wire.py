"""Every kind of fact is written and read back the same."""

from __future__ import annotations

from inspect import get_annotations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remuda_core import facts
from remuda_core.commands import SubmitAsk
from remuda_core.facts import Allocated, Ask, Fact
from remuda_core.limits import SHAPES
from remuda_core.rules.resource import INT64_MAX, INT64_MIN
from remuda_core.settings import (
    ChildTemplate,
    Limit,
    PartitionSettings,
    PlacementFilter,
    PlacementRule,
    QueueSettings,
    Timing,
)
from remuda_core.wire import schema
from remuda_core.wire.allocations import write_ask
from remuda_core.wire.codec import CommitCodec
from remuda_core.wire.configuration import read_queue, write_queue
from remuda_core.wire.facts import read_fact
from remuda_core.wire.resources import Shared
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2

names = st.one_of(st.sampled_from(("", "a", "root.a", "[rm-1]default")), st.text(max_size=12))
some_names = st.lists(names, max_size=3).map(tuple)
int64 = st.one_of(st.integers(-3, 3), st.integers(INT64_MIN, INT64_MAX), st.sampled_from((INT64_MIN, INT64_MAX)))
int32 = st.one_of(st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1))
natural = st.integers(0, 2**63 - 1)
resources = st.dictionaries(names, int64, max_size=4)
tags = st.dictionaries(names, names, max_size=3)
kept = st.text(min_size=1, max_size=12)  # where empty means a default

limits = st.lists(st.builds(Limit, some_names, some_names, resources, natural, names), max_size=2).map(tuple)
templates = st.none() | st.builds(ChildTemplate, natural, tags, resources, resources)
filters = st.none() | st.builds(PlacementFilter, kept, some_names, some_names)
rules = st.builds(PlacementRule, names, st.booleans(), names, filters, st.none() | st.builds(PlacementRule, names))
queues = st.builds(
    QueueSettings, names, st.booleans(), resources, resources, natural, tags, names, names, templates, limits
)
weights = st.dictionaries(names, st.floats(allow_nan=False), min_size=1, max_size=3)
partitions = st.builds(
    PartitionSettings, names, queues, kept, weights, st.booleans(), st.lists(rules, max_size=2).map(tuple), limits
)

policies = st.sampled_from(((None, None), (True, True), (True, False), (False, True), (False, False)))
asks = st.builds(
    lambda policy, *values: Ask(*values, *policy),
    policies, names, names, names, resources, int32, int32, int64, tags, names, st.booleans(), st.booleans(),
)  # fmt: skip
recovered = st.builds(Allocated, names, names, names, names, names, resources, int32, tags, names, st.booleans())
allocated = st.builds(
    Allocated,
    names,
    names,
    names,
    names,
    names,
    resources,
    int32,
    tags,
    names,
    st.booleans(),
    int64,
    st.booleans(),
    st.none() | st.booleans(),
)

constraints = st.builds(facts.Constraint, names, names, names, names, int64, int64)

BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": names,
    "bool": st.booleans(),
    "Resource": resources,
    "Tags": tags,
    "tuple[str, ...]": some_names,
    "tuple[int, ...]": st.lists(int64, max_size=3).map(tuple),
    "PartitionSettings": partitions,
    "QueueSettings": queues,
    "Timing": st.builds(Timing, *[st.integers(1, 2**63 - 1)] * len(Timing.__struct_fields__)),
    "tuple[Constraint, ...]": st.lists(constraints, max_size=3).map(tuple),
    "Ask": asks,
    "Allocated": recovered,
    "Action": st.builds(facts.Action, *[names] * 10, st.integers(-(2**31), 2**31 - 1), st.booleans()),
}
# Whole numbers have many sizes on the wire.
SIZES = {1: int32, 2: int64, 3: st.integers(0, 2**32 - 1), 4: st.integers(0, 2**64 - 1), 8: st.integers(0, 4)}


def values_of(kind: type[Fact]) -> st.SearchStrategy[Fact]:
    if kind is Allocated:
        return allocated
    if kind is facts.AllocationRecovered:
        bounded = st.builds(lambda fact, bound_ms: replace(fact, execution_timeout_ms=bound_ms), recovered, int64)
        return st.builds(facts.AllocationRecovered, bounded)
    fields = getattr(log_pb2, kind.__name__).DESCRIPTOR.fields_by_name
    types = {name: of_type for base in kind.__mro__ for name, of_type in get_annotations(base).items()}
    chosen = {}
    for name in kind.__struct_fields__:
        of_type = types[name]
        chosen[name] = SIZES[fields[name].cpp_type] if of_type == "int" else BY_TYPE[of_type]
    return st.builds(kind, **chosen)


def written(fact: Fact, codec: CommitCodec | None = None) -> log_pb2.Fact:
    decision = log_pb2.Decision()
    (codec or CommitCodec()).write([fact], decision)
    return schema.Fact.FromString(decision.facts[0].SerializeToString())


@pytest.mark.parametrize("kind", facts.kinds().values(), ids=list(facts.kinds()))
@given(data=st.data())
def test_every_fact_is_read_back(kind: type[Fact], data: st.DataObject) -> None:
    fact = data.draw(values_of(kind))
    assert read_fact(written(fact)) == fact


@given(st.lists(asks, min_size=1, max_size=4))
def test_an_accepted_ask_is_copied_as_it_came(sent: list[Ask]) -> None:
    """By the codec, out of the message it came in: the same as writing it."""
    message = inbox_pb2.Command()
    for ask in sent:
        write_ask(ask, message.allocation.asks.add())
    codec = CommitCodec()
    _, read = codec.read(message)
    for command, ask in zip(read, sent, strict=True):
        assert isinstance(command, SubmitAsk) and command.ask == ask
        fact = facts.AskAccepted(command.ask)
        assert read_fact(written(fact, codec)) == fact


def test_a_fact_nobody_knows() -> None:
    with pytest.raises(ValueError, match="written by a newer one"):
        read_fact(schema.Fact())


def test_amounts_stop_at_the_bounds() -> None:
    fact = facts.NodeAdded("p", "n", {}, {"vcore": 2**70, "memory": -(2**70)}, {}, False)
    got = read_fact(written(fact))
    assert isinstance(got, facts.NodeAdded) and got.capacity == {"vcore": INT64_MAX, "memory": INT64_MIN}


def test_equal_tags_are_one_object() -> None:
    tags = {"zone": "a", "rack": "7"}
    one, other = (read_fact(written(facts.NodeAdded("p", name, tags, {}, {}, False))) for name in ("n1", "n2"))
    assert isinstance(one, facts.NodeAdded) and isinstance(other, facts.NodeAdded)
    assert one.attributes is other.attributes and one.attributes == tags


def test_what_is_shared_is_bounded() -> None:
    shared = Shared(str)
    for number in range(2 * SHAPES + 1):
        assert shared[number] == str(number)
        assert len(shared) <= SHAPES


def test_leaves_that_a_change_leaves_alone_are_one_object() -> None:
    def read(most: int) -> QueueSettings:
        leaves = (QueueSettings("a", max={"vcore": most}), QueueSettings("b", max={"vcore": 1}, properties={"k": "v"}))
        root = QueueSettings("root", parent=True, queues=(QueueSettings("team", parent=True, queues=leaves),))
        return read_queue(write_queue(root))

    (before,), (after,) = read(5).queues, read(6).queues
    assert before.queues[0] != after.queues[0]
    assert before.queues[1] is after.queues[1]


def test_large_leaves_are_not_kept() -> None:
    large = QueueSettings("a", limits=(Limit(users=tuple(f"user-{number}" for number in range(500))),))
    message = write_queue(QueueSettings("root", parent=True, queues=(large,)))
    assert read_queue(message).queues[0] == large
    assert read_queue(message).queues[0] is not read_queue(message).queues[0]
