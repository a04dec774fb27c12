"""Devices and prices as pure functions, and laws about them."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core.commands import Register, ReleaseAllocation, Schedule, SubmitApplication, SubmitAsk, UpdateNode
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask, NodeRejected, RegistrationRefused
from remuda_core.limits import DEVICE_NAME_BYTES, DEVICES_PER_NODE
from remuda_core.rules.devices import (
    DeviceNeed,
    choose,
    most_free,
    needs,
    never_free,
    place_name,
    problem_of_ask,
    problem_of_node,
    resource_of,
    shares_of,
)
from remuda_core.rules.prices import MUCH, Prices, common_work, fill_price, fill_table, prices_in_order
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings

UNIT = 100
PARTITION = "[rm]default"
SHARES = st.lists(st.integers(1, UNIT), max_size=5)
FREE = st.lists(st.integers(0, UNIT), max_size=6)


@given(free=FREE, share=st.integers(1, UNIT), count=st.integers(1, 3))
def test_the_tightest_devices_of_all_that_would_do(free: list[int], share: int, count: int) -> None:
    fine = [at for at, amount in enumerate(free) if amount >= share]
    sets = [(sorted(free[at] for at in chosen), chosen) for chosen in combinations(fine, count)]
    assert choose(free, share, count) == list(min(sets)[1] if sets else ())


@given(free=FREE, count=st.integers(1, 4))
def test_the_devices_with_most_free(free: list[int], count: int) -> None:
    chosen = most_free(free, count)
    assert len(chosen) == min(count, len(free))
    assert sorted((free[at] for at in chosen), reverse=True) == sorted(free, reverse=True)[: len(chosen)]


@given(amount=st.integers(0, 10**6), count=st.integers(1, 20))
def test_shares_are_as_equal_as_can_be(amount: int, count: int) -> None:
    shares = shares_of(amount, count)
    assert sum(shares) == amount and max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    ("amount", "tags", "need"),
    [
        (1, {}, (1, 1)),
        (UNIT, {}, (UNIT, 1)),
        (3 * UNIT, {}, (UNIT, 3)),
        (60, {"remuda/devices.gpu.count": "2"}, (30, 2)),
        (3 * UNIT, {"remuda/devices.gpu.count": "4"}, (75, 4)),
    ],
)
def test_needs(amount: int, tags: dict[str, str], need: tuple[int, int]) -> None:
    assert problem_of_ask({"gpu": UNIT}, {"gpu": amount}, tags) is None
    assert needs({"gpu": UNIT}, {"gpu": amount, "vcore": 1}, tags) == (DeviceNeed("gpu", *need),)


def test_what_no_devices_serve_is_more_than_any_has() -> None:
    """An ask that came before its resource stood on devices."""
    (need,) = needs({"gpu": UNIT}, {"gpu": UNIT + 1}, {})
    assert need.share > UNIT
    assert needs({"gpu": UNIT}, {"gpu": 0, "vcore": 1}, {}) == ()


def test_places_are_no_names_of_resources() -> None:
    name = place_name("gpu", 2)
    assert resource_of(name) == "gpu" and never_free(name) == place_name("gpu", 0)
    with pytest.raises(UnicodeEncodeError):
        name.encode()


@pytest.mark.parametrize(
    ("gpus", "attributes", "problem"),
    [
        (DEVICES_PER_NODE + 1, {}, "devices of gpu"),
        (1, {"remuda/devices.gpu": "x" * (DEVICE_NAME_BYTES + 1)}, "name"),
        (1, {"remuda/devices.gpu": "a=b"}, "a=b"),
        (2, {"remuda/devices.gpu": "a,"}, "''"),
        (1, {"remuda/devices.gpu.occupied": "0"}, "DEVICE=AMOUNT"),
        (1, {"remuda/devices.gpu.occupied": "0=-1"}, "DEVICE=AMOUNT"),
    ],
)
def test_what_is_wrong_with_the_devices_of_a_node(gpus: int, attributes: dict[str, str], problem: str) -> None:
    found = problem_of_node({"gpu": UNIT}, {"gpu": UNIT * gpus}, attributes)
    assert found is not None and problem in found


# Prices


@given(shares=SHARES)
def test_fill_is_monotone_and_no_more_than_there_is_and_adds_up(shares: list[int]) -> None:
    fill = fill_table(UNIT, shares)
    assert all(low <= high for low, high in pairwise(fill))
    assert all(amount <= free for free, amount in enumerate(fill))
    assert all(fill[a + b] >= fill[a] + fill[b] for a in range(UNIT) for b in range(UNIT - a))


@given(shares=st.sets(st.integers(1, 20), min_size=1, max_size=3), free=st.integers(0, 20))
def test_fill_is_the_most_of_all_sums(shares: set[int], free: int) -> None:
    sums = {0}
    for _ in range(20):
        sums |= {had + share for had in sums for share in shares if had + share <= free}
    assert fill_table(20, shares)[free] == max(sums)


@given(loss=st.integers(0, 500), worth=st.integers(0, 500), slack=st.integers(-1_000, 1_000))
def test_prices_in_order_are_those_of_every_slack(loss: int, worth: int, slack: int) -> None:
    first = next(price for price, least in prices_in_order(fill_price, loss, worth) if slack >= least)
    assert first == fill_price(loss, worth, slack)


@given(shares=SHARES, free=FREE, share=st.integers(1, UNIT - 1), cpu=st.integers(0, 50), slack=st.integers(-300, 300))
def test_the_device_of_lowest_price(shares: list[int], free: list[int], share: int, cpu: int, slack: int) -> None:
    prices, need = Prices("fragmentation", "gpu", UNIT, shares, 10), DeviceNeed("gpu", share, 1)
    ranked = [(prices.steps_of(need, level, cpu, slack), level, at) for at, level in enumerate(free) if level >= share]
    assert prices.choose(free, need, cpu, slack) == (min(ranked)[2] if ranked else -1)


@given(shares=SHARES, free=st.lists(st.integers(0, UNIT), min_size=1, max_size=4), share=st.integers(1, UNIT - 1))
def test_the_price_of_a_share_is_what_fillable_loses(shares: list[int], free: list[int], share: int) -> None:
    prices, need = Prices("fragmentation", "gpu", UNIT, shares), DeviceNeed("gpu", share, 1)
    at = prices.choose(free, need, 0, MUCH)
    if at >= 0:
        after = [amount - share * (place == at) for place, amount in enumerate(free)]
        assert prices.loss(need, free[at]) == prices.slack(0, after) - prices.slack(0, free)


def test_common_work_needs_three_per_cent() -> None:
    asks = (
        [(DeviceNeed("gpu", 50, 1), 2)] * 97 + [(DeviceNeed("gpu", 30, 1), 2)] * 3 + [(DeviceNeed("gpu", UNIT, 2), 200)]
    )
    assert common_work(UNIT, asks) == ((30, 50), UNIT * 400 // (97 * 50 + 3 * 30 + 200))
    assert common_work(UNIT, asks[:99]) == ((50,), UNIT * 198 // (97 * 50 + 2 * 30))
    assert common_work(UNIT, []) == ((), 0)


# Through the core


def core_of(node_sort: str, units: dict[str, int]) -> Core:
    core, root = Core("rm"), QueueSettings("root", True, submit_acl="*", queues=(QueueSettings("a"),))
    settings = PartitionSettings("default", root, node_sort, devices=units)
    core.handle(Register("rm", Configuration("1", (settings,))), 1_000)
    return core


def placed(core: Core, nodes: list[int], asks: list[dict[str, int]]) -> list[tuple[str, str]]:
    for number, gpus in enumerate(nodes):
        core.handle(UpdateNode(PARTITION, f"n{number}", "CREATE", capacity={"vcore": 10, "gpu": gpus}), 1_000)
    core.handle(SubmitApplication(PARTITION, "app", "root.a", "ann"), 1_000)
    for number, need in enumerate(asks):
        core.handle(SubmitAsk(Ask(PARTITION, "app", f"k{number}", need)), 1_000)
    facts = core.handle(Schedule(1_000), 1_000)
    return [(fact.allocation_key, fact.node_id) for fact in facts if isinstance(fact, Allocated)]


@given(node_sort=st.sampled_from(["fair", "binpacking"]), nodes=st.lists(st.integers(0, 3), min_size=1, max_size=4),
       sizes=st.lists(st.integers(1, 4), max_size=12))  # fmt: skip
def test_asks_without_the_resource_are_placed_as_if_it_stood_on_no_devices(
    node_sort: str, nodes: list[int], sizes: list[int]
) -> None:
    gpus, asks = [count * UNIT for count in nodes], [{"vcore": size} for size in sizes]
    assert placed(core_of(node_sort, {"gpu": UNIT}), gpus, asks) == placed(core_of(node_sort, {}), gpus, asks)


@given(node_sort=st.sampled_from(["fair", "binpacking"]), nodes=st.lists(st.integers(0, 1), min_size=1, max_size=5),
       wants=st.lists(st.booleans(), max_size=10))  # fmt: skip
def test_one_device_on_each_node_is_a_plain_resource_for_whole_asks(
    node_sort: str, nodes: list[int], wants: list[bool]
) -> None:
    gpus, asks = [count * UNIT for count in nodes], [{"vcore": 1, **({"gpu": UNIT} if gpu else {})} for gpu in wants]
    assert placed(core_of(node_sort, {"gpu": UNIT}), gpus, asks) == placed(core_of(node_sort, {}), gpus, asks)


@given(
    node_sort=st.sampled_from(["fair", "fragmentation"]),
    sizes=st.lists(st.sampled_from([20, 30, 50, 80, UNIT]), min_size=1, max_size=8),
    number=st.integers(0, 7),
)
def test_a_release_frees_exactly_the_devices_of_the_allocation(node_sort: str, sizes: list[int], number: int) -> None:
    core = core_of(node_sort, {"gpu": UNIT})
    placed(core, [3 * UNIT, UNIT], [{"vcore": 1, "gpu": size} for size in sizes])
    partition = core.state.partitions[PARTITION]
    allocation = list(partition.allocations.values())[number % len(partition.allocations)]
    fact, devices = allocation.fact, allocation.node.devices["gpu"]
    before = dict(zip(devices.room, devices.free(), strict=True))
    core.handle(ReleaseAllocation(PARTITION, "app", fact.uuid, 1), 1_000)
    after = dict(zip(devices.room, devices.free(), strict=True))
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        fact.devices["gpu"]: fact.resource["gpu"]
    }


def test_compatibility_and_devices_exclude_each_other() -> None:
    core, root = Core("rm"), QueueSettings("root", True)
    settings = PartitionSettings("default", root, devices={"gpu": 1})
    (refused,) = core.handle(Register("rm", Configuration("1", (settings,), "yunikorn-1.4")), 1_000)
    assert isinstance(refused, RegistrationRefused)
    assert refused.reason == "partition default: devices: compatibility yunikorn-1.4 has none"


def test_a_node_with_too_many_devices_is_rejected() -> None:
    core = core_of("fair", {"gpu": 1})
    (fact,) = core.handle(UpdateNode(PARTITION, "n1", "CREATE", capacity={"gpu": DEVICES_PER_NODE + 1}), 1_000)
    assert isinstance(fact, NodeRejected)
