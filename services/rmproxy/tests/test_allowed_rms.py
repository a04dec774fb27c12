"""RMs that the setting `rms.allowed` does not name are refused at registration, and nothing of them is stored."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus import name_patterns, subjects
from remuda_bus.bus import NoResponders, Refused
from remuda_bus.memory import MemoryBus
from remuda_bus.retry import RetryPolicy, retry
from remuda_bus.settings import SettingsProblems, load
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.sessions.allowed_rms import EVERY_RM, AllowedRms
from remuda_rmproxy.settings import RmproxySettings
from remuda_rmproxy.shell import main

NAMES = st.text("abz019_:-", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("entry", "allowed", "refused"),
    [
        ("batch", "batch", "batch-2"),
        ("gpu-*", "gpu-", "a-gpu-1"),
        ("n?", "n1", "n12"),
        ("/a|bc/", "bc", "abc"),
        ("/tenant-[0-9]{1,3}/", "tenant-42", "tenant-4242"),
        ("a.b", "a.b", "a-b"),
    ],
)
def test_entries(entry: str, allowed: str, refused: str) -> None:
    AllowedRms(["other", entry]).check(allowed)
    with pytest.raises(Refused, match=rf"rmID '{refused}': not among the RMs that the setting rms.allowed names") as no:
        AllowedRms(["other", entry]).check(refused)
    assert no.value.code == 403


@given(NAMES, NAMES)
def test_a_name_allows_itself_alone(name: str, other: str) -> None:
    assert name_patterns.matches(name, other) == (name == other)


def test_no_entry_allows_no_rm_and_no_setting_all() -> None:
    EVERY_RM.check("rm-1")
    with pytest.raises(Refused):
        AllowedRms(()).check("rm-1")


def test_a_pattern_that_is_none_is_refused_at_the_start() -> None:
    assert load(RmproxySettings, None, ["rms.allowed=a*,/b{1}/"]).settings.allowed_rms == ("a*", "/b{1}/")
    assert load(RmproxySettings).settings.allowed_rms is None
    with pytest.raises(SettingsProblems, match="expected the syntax of RE2"):
        load(RmproxySettings, None, ["rms.allowed=[/(/]"])
    with pytest.raises(SettingsProblems, match="an empty one"):
        load(RmproxySettings, None, ["rms.allowed=['']"])


async def test_a_registration_that_is_refused_stores_nothing() -> None:
    bus = MemoryBus()
    working = asyncio.create_task(main(bus, RmproxySettings(instance="rmproxy-1", allowed_rms=("rm-*",))))
    request = si.RegisterResourceManagerRequest(rmID="other").SerializeToString()

    async def register() -> None:
        await bus.request(subjects.register("other"), request)

    try:
        with pytest.raises(Refused) as refused:
            await retry(register, RetryPolicy(0.01, give_up_after_s=5.0), on=NoResponders)
        assert refused.value.code == 403
        assert await bus.get(subjects.RMS.name, "other") is None
        assert await bus.last_message(subjects.INBOX.name, subjects.inbox("other")) is None
    finally:
        working.cancel()
        await asyncio.wait([working])
        await bus.close()
