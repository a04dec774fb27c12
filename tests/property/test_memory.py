"""Storms in queues that remember, against the oracle and all invariants; and the laws of accounts (semantics 23)."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.check import digest
from remuda_core.check.dump import dump
from remuda_core.core import Core
from remuda_core.facts import Allocated, AllocationReleased, Ask
from remuda_core.index import leaves
from remuda_core.index.moments import Moment
from remuda_core.limits import RANKED_LAZILY
from remuda_core.rules import decay
from remuda_core.rules.decay import EPOCH
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Account, AccountKey, Accounts
from remuda_core.state.accounts import QUEUE, USER

from .memory_oracle import rounded, weighs
from .memory_storm import MemoryStorm
from .storm import played
from .world import RM, World

PARTITION = f"[{RM}]default"
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@given(seed=st.integers(0, 10**6), lazily=st.sampled_from((0, RANKED_LAZILY)))
def test_a_storm(seed: int, lazily: int) -> None:
    """`lazily`: up to how many members of a leaf are ranked again only when they come first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaves, "RANKED_LAZILY", lazily)
        played(MemoryStorm(seed), seed, 80)


# Accounts and the log

# (jump in ms, user of the ask that is submitted; None: an allocation is released, if there is one)
Days = list[tuple[int, str | None]]
jumps = st.sampled_from((0, 1, 999, 60_000, 3_600_000, 86_400_000, 70 * 3_600_000, 200 * 3_600_000))
days: st.SearchStrategy[Days] = st.lists(st.tuples(jumps, st.sampled_from(("alice", "bob", None))), max_size=25)


def opened(half_life: str) -> World:
    world = World()
    leaf = QueueSettings("a", properties={"application.sort.policy": "fair-users"})
    root = QueueSettings("root", parent=True, queues=(leaf,), submit_acl="*", properties={"fair.half-life": half_life})
    world.handle(commands.Register(RM, Configuration("x", (PartitionSettings("default", root),))))
    world.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 1_000, "memory": 10**12}))
    for user in ("alice", "bob"):
        world.handle(commands.SubmitApplication(PARTITION, user, "root.a", user))
        world.handle(
            commands.SubmitAsk(Ask(PARTITION, user, "never", {"vcore": 2_000}))
        )  # so that it does not complete
    return world


def live(world: World, some: Days, often: bool = False) -> None:
    """`often`: look at the state between the commands, and let time pass in small parts."""
    for number, (jump_ms, user) in enumerate(some):
        for part in (jump_ms // 3, jump_ms - jump_ms // 3) if often else (jump_ms,):
            world.now_ms += part
            if often:
                world.handle(commands.Tick())
                world.core = world.restored()
                world.handle(commands.Schedule(10))
        if user is not None:
            resource = {"vcore": number % 5 + 1, "memory": (number % 3) * 10**9 + 7}
            world.handle(commands.SubmitAsk(Ask(PARTITION, user, f"k{number}", resource)))
            world.handle(commands.Schedule(10))
        elif allocations := world.state.partitions[PARTITION].allocations:
            first = next(iter(allocations.values())).fact
            world.handle(commands.ReleaseAllocation(PARTITION, first.application_id, first.uuid))


@given(days, st.sampled_from(("1m", "1h", "168h")))
def test_an_account_is_the_integral_over_the_log(some: Days, half_life: str) -> None:
    """Exactly: what is rounded away is of before the landmark."""
    world = opened(half_life)
    live(world, some)
    world.now_ms += 12_345
    running: dict[str, tuple[int, Allocated]] = {}
    sums: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)

    def over(uuid: str, at_ms: int) -> None:
        since_ms, fact = running.pop(uuid)
        for name, amount in fact.resource.items():
            weight = weighs(at_ms, half_life_ms) - weighs(since_ms, half_life_ms)
            sums[fact.application_id, name] += amount * weight
            sums["", name] += amount * weight

    half_life_ms = {"1m": MINUTE, "1h": HOUR, "168h": 168 * HOUR}[half_life]
    for at_ms, facts in world.log:
        for fact in facts:
            if isinstance(fact, Allocated):
                running[fact.uuid] = at_ms, fact
            elif isinstance(fact, AllocationReleased):
                over(fact.uuid, at_ms)
    for uuid in list(running):
        over(uuid, world.now_ms)
    epoch = world.now_ms // (EPOCH * half_life_ms)
    for user in ("", "alice", "bob"):
        kind, name = (USER, user) if user else (QUEUE, "")
        account = world.state.accounts.find(AccountKey(PARTITION, "root.a", kind, name))
        assert account is not None
        values = account.values(world.now_ms)
        for resource in ("vcore", "memory"):
            expected = sums[user, resource] / Fraction(2) ** (EPOCH * epoch)
            assert values.get(resource, 0) == expected.__floor__(), f"{user or 'queue'}: {resource}"


@given(days, st.sampled_from(("1m", "1h")))
def test_accounts_do_not_depend_on_ticks_passes_and_restarts(some: Days, half_life: str) -> None:
    once, often = opened(half_life), opened(half_life)
    live(once, some)
    live(often, some, often=True)
    assert dump(once.state)["accounts"] == dump(often.state)["accounts"]
    assert digest(once.replayed(over_the_wire=True).state) == digest(once.state)


# Means and shares

spans = st.lists(st.tuples(st.integers(0, 300 * HOUR), st.integers(0, 10 * HOUR), st.integers(1, 10**12)), max_size=6)


def account_of(some: list[tuple[int, int, int]], half_life_ms: int = HOUR) -> Account:
    account = Account(half_life_ms, 0)
    changes = [change for at, lasts, amount in some for change in ((at, amount), (at + lasts, -amount))]
    for at_ms, amount in sorted(changes):
        account.settle(at_ms)
        account.book({"vcore": amount}, 1)
    return account


def mean(account: Account, at_ms: int) -> Fraction:
    assert account.decay is not None
    whole = account.decay.at(at_ms, account.decay.epoch(at_ms))
    return Fraction(account.values(at_ms).get("vcore", 0), whole)


@given(spans, st.integers(0, 100 * HOUR))
def test_a_mean_without_use_never_rises_and_halves(some: list[tuple[int, int, int]], later: int) -> None:
    account = account_of(some)
    now = 320 * HOUR
    assert mean(account, now + later) <= mean(account, now)
    halved = mean(account, now + HOUR) * 2
    same_epoch = (now + HOUR) // (EPOCH * HOUR) == now // (EPOCH * HOUR)
    assert halved == mean(account, now) or not same_epoch


@given(spans, st.integers(0, 300 * HOUR), st.integers(0, HOUR), st.integers(1, 10**9))
def test_more_use_never_lowers_a_mean(some: list[tuple[int, int, int]], at: int, lasts: int, amount: int) -> None:
    assert mean(account_of([*some, (at, lasts, amount)]), 320 * HOUR) >= mean(account_of(some), 320 * HOUR)


@given(spans, spans, st.integers(0, 1_000), st.integers(0, 1_000))
def test_looking_far_ahead_present_use_decides(
    some: list[tuple[int, int, int]], others: list[tuple[int, int, int]], used: int, used_there: int
) -> None:
    """The order by present use is the limit of the order by the past."""
    now = 320 * HOUR
    shares = []
    for spans_of, amount in ((some, used), (others, used_there)):
        account = account_of(spans_of)
        account.settle(now)
        account.book({"vcore": amount}, 1)
        shares.append(Moment(HOUR, 200 * HOUR, now).share(account, {"vcore": 1_000}))
    if used != used_there:
        assert (shares[0] < shares[1]) == (used < used_there)


@given(spans, st.integers(0, 200 * HOUR))
def test_a_share_without_use_keeps_its_place(some: list[tuple[int, int, int]], later: int) -> None:
    account = account_of(some)
    before, after = (Moment(HOUR, 300_000, at).share(account, {"vcore": 7}) for at in (320 * HOUR, 320 * HOUR + later))
    assert before == after


# (past, since how many epochs it is over, what is due)
ended = st.tuples(
    st.integers(1, 2**200) | st.integers(1, 3), st.integers(0, 20), st.sampled_from((1, 3, 10**12, 10**18))
)


@given(ended, ended)
def test_shares_of_all_epochs_compare_like_numbers(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    now, places, numbers = 40 * EPOCH * HOUR, [], []
    for value, epochs, due in (one, other):
        account = Account(0, 0)
        account.restore(HOUR, now - epochs * EPOCH * HOUR, {"vcore": value})
        account.used["vcore"] = 0
        places.append(Moment(HOUR, 300_000, now).share(account, {"vcore": due}))
        numbers.append(rounded(Fraction(value, due) * 2 ** (EPOCH * (40 - epochs))))
    assert (places[0] < places[1], places[0] == places[1]) == (numbers[0] < numbers[1], numbers[0] == numbers[1])


@given(spans, st.sampled_from((MINUTE, DAY, 168 * HOUR)))
def test_another_half_life_keeps_the_mean(some: list[tuple[int, int, int]], half_life_ms: int) -> None:
    account = account_of(some)
    before = mean(account, 320 * HOUR)
    account.change_half_life(half_life_ms, 320 * HOUR)
    assert abs(mean(account, 320 * HOUR) - before) <= Fraction(1, 2**60)
    account.change_half_life(0, 320 * HOUR)
    assert not account.past


def test_a_pass_ranks_by_its_own_time_whatever_came_before_it() -> None:
    """No tick and no other fact tells that b, which nothing has touched, has used more than a by now."""
    core, hour = Core(RM), HOUR
    queues = tuple(QueueSettings(name) for name in "abc")
    root = QueueSettings("root", parent=True, queues=queues, submit_acl="*", properties={"fair.half-life": "1h"})
    core.handle(commands.Register(RM, Configuration("x", (PartitionSettings("default", root),))), 0)
    core.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 100}), 0)
    for name in "abc":
        core.handle(commands.SubmitApplication(PARTITION, name, f"root.{name}", "alice"), 0)

    def ask(name: str, key: str, vcore: int, now_ms: int) -> None:
        core.handle(commands.SubmitAsk(Ask(PARTITION, name, key, {"vcore": vcore})), now_ms)

    def placed(now_ms: int) -> list[str]:
        facts = core.handle(commands.Schedule(1), now_ms)
        return [fact.application_id for fact in facts if isinstance(fact, Allocated)]

    ask("a", "k", 4, 0)
    assert placed(0) == ["a"]
    core.handle(
        commands.ReleaseAllocation(PARTITION, "a", next(iter(core.state.partitions[PARTITION].allocations))), hour
    )
    ask("b", "k", 1, hour)
    assert placed(hour) == ["b"]
    for name in "abc":
        ask(name, "waits", 1, hour)
    assert placed(hour + 10_000) == ["c"]  # all asks have waited long enough to reserve a node by then
    assert placed(12 * hour) == ["a"]


# Published examples


def test_published_examples() -> None:
    """HTCondor's manual: 100 cores for 48 h with a half-life of a day are 75. Kueue, KEP-4136: 8 CPU for 10 min, then
    5, at 60 min; and the penalty of 1,000 CPU, which is the mean of 5 min ahead."""
    clock = decay.of(DAY)
    start = 1_000 * DAY
    account = Account(DAY, start)
    account.book({"vcore": 100}, 1)
    assert round(account.means(start + 2 * DAY)["vcore"], 3) == 75.0
    assert clock.at(start, clock.epoch(start)) * 2 == clock.at(start + DAY, clock.epoch(start))
    for half_life_ms, expected in ((30 * MINUTE, 3.944941), (HOUR, 2.683693), (168 * HOUR, 0.022642)):
        account = Account(half_life_ms, start)
        account.book({"vcore": 8}, 1)
        account.settle(start + 10 * MINUTE)
        account.book({"vcore": 3}, -1)
        assert round(account.means(start + HOUR)["vcore"], 6) == expected
    account = Account(168 * HOUR, start)
    account.book({"vcore": 1_000}, 1)
    assert abs(account.means(start + 5 * MINUTE)["vcore"] - 0.343764) < 1e-4


# Bounds


def test_idle_accounts_are_bounded() -> None:
    """Those whose use ended first make room; and an account is forgotten once nothing of its past is left."""
    accounts = Accounts()

    def use(user: str, at_ms: int) -> AccountKey:
        key = AccountKey(PARTITION, "root.a", USER, user)
        account = accounts.join(key, HOUR, at_ms)
        account.book({"vcore": 1}, 1)
        account.settle(at_ms + 1)
        account.book({"vcore": 1}, -1)
        accounts.leave(account, at_ms + 1)
        return key

    first = use("first", 0)
    assert accounts.find(first) is not None
    use("later", 1_023 * HOUR)
    assert accounts.find(first) is not None, "1,023 half-lives later"
    use("last", 1_025 * HOUR)
    assert accounts.find(first) is None
    assert len(accounts) == 2
