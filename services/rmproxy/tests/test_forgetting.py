"""Which RMs are removed, and when."""

from __future__ import annotations

from remuda_bus.memory import MemoryBus
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.forgetting import RmForgetter

START_MS = 1_000_000_000


class Clock:
    now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


def forgetter_of(registry: RmRegistry, clock: Clock) -> RmForgetter:
    bus = MemoryBus()
    return RmForgetter(bus, registry, Halts(bus, "test", clock), "test", clock, after_s=100.0)


def store(registry: RmRegistry, *records: RmRecord) -> None:
    for record in records:
        registry.update(record.rm_id, record.encode())


async def test_an_rm_is_removed_some_time_after_it_has_deregistered() -> None:
    registry, clock = RmRegistry(), Clock()
    forgetter = forgetter_of(registry, clock)
    store(
        registry,
        RmRecord("registered", state="registered"),
        RmRecord("late", state="deregistered", deregistered_ms=START_MS),
        RmRecord("soon", state="deregistered", deregistered_ms=START_MS, extra_config={"forget.after": "10s"}),
        RmRecord("undated", state="deregistered"),
        RmRecord("interrupted", state="forgetting"),
    )
    assert list(forgetter.due()) == [("interrupted", ("forgetting",))]
    clock.now_ms += 10_000
    assert dict(forgetter.due()).keys() == {"interrupted", "soon"}
    clock.now_ms += 90_000
    assert dict(forgetter.due()).keys() == {"interrupted", "soon", "late", "undated"}


async def test_a_registration_that_nothing_decides_does_not_stay_for_ever() -> None:
    registry, clock = RmRegistry(), Clock()
    forgetter = forgetter_of(registry, clock)
    store(registry, RmRecord("abandoned"), RmRecord("accepted"))
    assert list(forgetter.due()) == []
    clock.now_ms += int(limits.REGISTRATION_ABANDONED_S * 1_000) - 1
    store(registry, RmRecord("accepted", state="registered"), RmRecord("new"))
    assert list(forgetter.due()) == []
    clock.now_ms += 1
    assert list(forgetter.due()) == [("abandoned", ("registering",))]
    registry.update("abandoned", None)
    assert list(forgetter.due()) == []
    assert forgetter._registering_since_ms.keys() == {"new"}
