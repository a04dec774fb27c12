"""The resolver of groups: its cache, its time-outs, and what happens while the directory does not answer."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_proto import bounds
from remuda_rmproxy import limits
from remuda_rmproxy.groups import os_directory
from remuda_rmproxy.groups.group_cache import CacheTimes, GroupCache
from remuda_rmproxy.groups.group_resolver import GroupResolver
from remuda_rmproxy.groups.resolution import DirectoryEntry, DirectoryError, Resolution, UnusableAnswer, groups_of

TIMES = CacheTimes(known_s=10, unknown_s=2, last_known_s=100)
TIMEOUT_S = 0.1


class Directory:
    """`hanging`: users for whom it does not answer until it is `freed`."""

    def __init__(self) -> None:
        self.hanging: set[str] = set()
        self.freed = threading.Event()
        self.error: Exception | None = None
        self.asked: list[str] = []
        self.now_s = 0.0
        self.resolver = GroupResolver(self.look_up, GroupCache(TIMES), TIMEOUT_S, lambda: self.now_s)

    def look_up(self, user: str) -> DirectoryEntry | None:
        self.asked.append(user)
        if "*" in self.hanging or user in self.hanging:
            self.freed.wait()
        if self.error is not None:
            raise self.error
        return None if user == "nobody" else DirectoryEntry(f"{user}s", ["all"])

    async def resolve(self, *users: str, rm_id: str = "rm-1") -> list[Resolution]:
        found = await self.resolver.resolve(rm_id, users)
        return [found[user] for user in users]


@pytest.fixture
def directory() -> Iterator[Directory]:
    directory = Directory()
    yield directory
    directory.freed.set()


async def test_answers_count_for_some_time(directory: Directory) -> None:
    assert await directory.resolve("ann", "nobody") == [Resolution(("anns", "all")), Resolution()]
    assert not directory.resolver.must_wait(["ann", "nobody"]) and directory.resolver.must_wait(["bob"])
    directory.now_s = 5
    await directory.resolve("ann", "nobody")
    assert sorted(directory.asked) == ["ann", "nobody", "nobody"]  # that a user has no groups counts for less long
    directory.now_s = 10
    await directory.resolve("ann")
    assert directory.asked.count("ann") == 2


async def test_a_user_is_looked_up_once_at_a_time(directory: Directory) -> None:
    await asyncio.gather(*(directory.resolve("ann", rm_id=f"rm-{number}") for number in range(20)))
    assert directory.asked == ["ann"]


async def test_a_look_up_that_hangs_delays_others_by_nothing(directory: Directory) -> None:
    directory.hanging = {"slow"}
    waiting = asyncio.create_task(directory.resolve("slow"))
    async with asyncio.timeout(TIMEOUT_S):
        assert await directory.resolve("ann", rm_id="rm-2") == [Resolution(("anns", "all"))]
        assert await directory.resolve("bob") == [Resolution(("bobs", "all"))]  # another user of the same RM
    [slow] = await waiting
    assert slow.problem == (
        "the groups of user 'slow' could not be resolved: no answer within 0.1 s; submit the application again"
    )
    directory.freed.set()  # the answer that comes late is remembered
    async with asyncio.timeout(5):
        while directory.resolver.must_wait(["slow"]):  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.01)
    assert await directory.resolve("slow") == [Resolution(("slows", "all"))]


async def test_a_directory_that_hangs_costs_an_rm_a_few_time_outs_and_no_more(directory: Directory) -> None:
    directory.hanging = {"*"}
    began = time.monotonic()
    for number in range(200):
        [found] = await directory.resolve(f"user-{number}")
        assert "no answer within 0.1 s" in found.problem
    assert time.monotonic() - began < 10 * TIMEOUT_S * limits.LOOKUPS_FAILED_BEFORE_PAUSE
    assert not directory.resolver.must_wait(["another"]) and len(directory.asked) <= limits.LOOKUPS_FAILED_BEFORE_PAUSE
    directory.hanging = set()
    directory.freed.set()
    directory.now_s = limits.LOOKUP_AGAIN_S
    async with asyncio.timeout(5):
        while (await directory.resolve("back"))[0].problem:
            directory.now_s += limits.LOOKUP_AGAIN_S
            await asyncio.sleep(0.01)


async def test_known_groups_count_on_while_the_directory_is_away(directory: Directory) -> None:
    await directory.resolve("ann")
    directory.error, directory.now_s = DirectoryError("away"), 50
    assert await directory.resolve("ann") == [Resolution(("anns", "all"))]
    [unknown] = await directory.resolve("bob")
    assert "could not be resolved: away; submit" in unknown.problem
    directory.now_s = 101
    [forgotten] = await directory.resolve("ann")
    assert forgotten.problem


async def test_an_answer_that_cannot_be_used_is_no_outage(directory: Directory) -> None:
    await directory.resolve("ann")
    directory.error, directory.now_s = UnusableAnswer("two entries"), 20
    for _ in range(2 * limits.LOOKUPS_FAILED_BEFORE_PAUSE):
        [found] = await directory.resolve("ann")
        assert "two entries" in found.problem
    directory.error = None
    assert await directory.resolve("ann") == [Resolution(("anns", "all"))]


async def test_any_exception_of_a_library_is_one_of_the_directory(directory: Directory) -> None:
    directory.error = RuntimeError("odd")
    [found] = await directory.resolve("ann")
    assert "RuntimeError: odd" in found.problem


def test_the_cache_is_bounded() -> None:
    cache = GroupCache(TIMES, 3)
    for number in range(10):
        cache.put(f"user-{number}", ("a",), number)
    assert [cache.last_known(f"user-{number}", 9) for number in (6, 7)] == [None, ("a",)]


@given(st.text(max_size=20) | st.none(), st.lists(st.text(max_size=20) | st.sampled_from(["a", "b", "c.d"])))
def test_groups_are_what_the_core_takes(primary: str | None, others: list[str]) -> None:
    from remuda_proto.names import GROUP

    try:
        groups = groups_of("user", DirectoryEntry(primary, others))
    except UnusableAnswer:
        assert primary is not None and not GROUP.matches(primary)
        return
    assert all(map(GROUP.matches, groups)) and len(set(groups)) == len(groups)
    assert primary is None or groups[0] == primary
    assert set(groups) >= {one for one in others if GROUP.matches(one)}


def test_too_many_groups() -> None:
    names = [f"group-{number}" for number in range(bounds.GROUPS.most + 1)]
    with pytest.raises(UnusableAnswer, match="groups"):
        groups_of("user", DirectoryEntry(None, names))


def test_the_operating_system() -> None:
    me = pwd.getpwuid(os.geteuid())
    found = os_directory.look_up(me.pw_name)
    assert found is not None and found.primary == grp.getgrgid(me.pw_gid).gr_name
    assert found.primary not in found.others
    for name in ("no-such-user", "", "a\0b", "x" * 10_000):
        assert os_directory.look_up(name) is None
