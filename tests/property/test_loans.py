"""Loans between queues (semantics 27): after the last one settings are those never lent, and no timer is left."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remuda_core import actions, commands
from remuda_core.facts import ActionTaken, Ask
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings

from .world import RM, World

PARTITION = f"[{RM}]default"
PATHS = ("root.a", "root.b", "root.p.c", "root.p.d")
MINUTE = 60_000
# What happens, the lender and the borrower, an amount, and minutes.
Step = tuple[str, int, int, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(("lend", "lend", "lend", "guarantee", "end", "time", "time", "configure", "register", "ask")),
        st.integers(0, 3), st.integers(0, 3), st.integers(1, 6), st.integers(1, 90),
    ),
    max_size=25,
)  # fmt: skip


def configuration(a: int, b: int, without_d: bool = False) -> Configuration:
    delay = {"quota.preemption.delay": "1m"}
    leaves = [
        QueueSettings(name, guaranteed={"vcore": least}, max={"vcore": most}, properties=delay)
        for name, least, most in (("a", a // 2, a), ("b", 0, b), ("c", 2, 8), ("d", 1, 9))
    ]
    parent = QueueSettings("p", parent=True, queues=tuple(leaves[2:3] if without_d else leaves[2:]))
    root = QueueSettings("root", True, submit_acl="*", admin_acl="joe", queues=(*leaves[:2], parent))
    partition = PartitionSettings("default", root, quota_preemption_enabled=True)
    return Configuration(f"{a} {b} {without_d}", (partition,))


def act(world: World, action: actions.Action) -> bool:
    command = commands.Administer("joe", (), False, "", f"id-{len(world.log)}", False, PARTITION, action)
    return any(isinstance(fact, ActionTaken) for fact in world.handle(command))


def settings(world: World) -> dict[str, Any]:
    queues = world.state.partitions[PARTITION].queues
    return {path: (queue.settings, queue.draining) for path, queue in queues.items()}


@given(steps)
def test_after_the_last_loan_all_is_as_if_nothing_was_lent(chosen: list[Step]) -> None:
    world, never = World(), World()
    last = configuration(6, 4)
    for one in (world, never):
        one.handle(commands.Register(RM, last))
    lent: dict[tuple[str, str], tuple[int, bool, int]] = {}
    for what, lender, borrower, amount, minutes in chosen:
        pair = PATHS[lender], PATHS[borrower]
        if what in ("lend", "guarantee"):
            until_ms = world.now_ms + minutes * MINUTE
            guaranteed = what == "guarantee"
            if act(world, actions.LendQuota(*pair, {"vcore": amount}, guaranteed, until_ms)):
                lent[pair] = amount, guaranteed, until_ms
        elif what == "end":
            assert act(world, actions.EndLoan(*pair)) == (pair in lent)
            lent.pop(pair, None)
        elif what == "time":
            world.now_ms += minutes * MINUTE
            never.now_ms = world.now_ms
            for one in (world, never):
                one.handle(commands.Tick())
            lent = {key: loan for key, loan in lent.items() if loan[2] > world.now_ms}
        elif what in ("configure", "register"):
            last = configuration(amount, 4, minutes > 60)
            for one in (world, never):
                one.handle(commands.Configure(last) if what == "configure" else commands.Register(RM, last))
            there = {(key.lender, key.borrower) for key in world.state.loans}
            assert there <= lent.keys()
            lent = {key: loan for key, loan in lent.items() if key in there}
        else:
            world.handle(commands.SubmitApplication(PARTITION, f"app-{len(world.log)}", pair[0], "ann"))
            world.handle(commands.SubmitAsk(Ask(PARTITION, f"app-{len(world.log) - 1}", "k", {"vcore": 1}, amount)))
        assert {(key.lender, key.borrower): (loan.amounts["vcore"], loan.guaranteed, loan.until_ms)
                for key, loan in world.state.loans.items()} == lent  # fmt: skip
        for path, queue in world.state.partitions[PARTITION].queues.items():
            base = never.state.partitions[PARTITION].queues[path].settings
            for kind, is_guarantee in (("max", False), ("guaranteed", True)):
                more = sum(
                    loan[0] * ((key[1] == path) - (key[0] == path))
                    for key, loan in lent.items()
                    if loan[1] == is_guarantee
                )
                expected = getattr(base, kind).get("vcore", 0) + more
                assert getattr(queue.settings, kind).get("vcore", 0) == expected, f"{kind} of {path}"
                assert expected >= 0
    world.now_ms += 90 * MINUTE
    never.now_ms = world.now_ms
    for one in (world, never):
        one.handle(commands.Tick())
    assert not world.state.loans
    assert not [timer for timer in world.state.timers if timer.kind == "loan"]
    assert {path: str(one) for path, one in settings(world).items()} == {
        path: str(one) for path, one in settings(never).items()
    }
    world.finish()
