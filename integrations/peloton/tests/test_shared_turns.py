"""Turns of an engine of shared hosts in which nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest

from integrations.peloton.tests.test_shared_metrics import APP, KEY, NODE, ROW, Both
from remuda_peloton.sharing import GuestAllocation, Held, difference
from remuda_peloton.shell import shared_engine
from remuda_peloton.shell.partition import View
from remuda_peloton.shell.shared_engine import SharedEngine

NODES = (ROW,)


class Known(Both):
    """Says what has changed, as both sides do. `asked`: for what, in the last ListShared."""

    def __init__(self) -> None:
        super().__init__()
        self.content = 1
        self.changed = True
        self.asked = 0
        self.now_ms = 100
        self.preempted: list[str] = []

    async def view(self) -> View:
        return View(1, NODES, (8.0, 0.0, 0.0, 0.0), 0.0, self.held, self.content)

    async def __call__(self, name: str, request: Any) -> Any:
        if name == "PreemptRuns":
            self.preempted += [run.run_id for run in request.runs]
        answer = await super().__call__(name, request)
        if name == "ListShared":
            self.asked = request.since_ms
            answer.now_ms, answer.count, answer.has_pools = self.now_ms, len(self.hosts), False
            if request.since_ms:
                answer.ClearField("pools")
            if request.since_ms and not self.changed:
                answer.ClearField("hosts")
                answer.ClearField("runs")
            self.changed = False
        if name == "ShareHosts":
            self.changed = True
        return answer

    def running(self, run_id: str) -> None:
        self.run(run_id, "RUNNING", NODE)
        self.changed, self.now_ms = True, self.now_ms + 1

    def allocated(self, *keys: str, releasing: bool = False) -> None:
        held = tuple(GuestAllocation(f"u-{key}", KEY.format(key), APP, NODE, releasing) for key in keys)
        self.held, self.content = Held(frozenset({APP}), (), held), self.content + 1


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many wishes each comparison had."""
    found: list[int] = []

    def counted(wishes: Any, held: Held) -> Any:
        found.append(len(wishes))
        return difference(wishes, held)

    monkeypatch.setattr(shared_engine, "difference", counted)
    return found


async def begun(both: Known, now_s: list[float]) -> SharedEngine:
    engine = SharedEngine(both, "default", "root.peloton", refresh_s=0.0, hold_s=1.0, clock_s=lambda: now_s[0])  # type: ignore[arg-type]
    await engine.take_over(both)
    return engine


async def test_nothing_is_compared_when_nothing_has_changed(compared: list[int]) -> None:
    both = Known()
    both.running("t")
    both.allocated("t")
    engine = await begun(both, [0.0])
    for _ in range(4):
        await engine.turn(both)
    assert compared in ([1], [1, 1]) and both.asked == both.now_ms  # once more for the hosts that it has described
    turns = len(compared)
    both.running("other")
    both.allocated("t", "other")
    for _ in range(3):
        await engine.turn(both)
    assert compared[turns:] == [2]
    both.allocated("t", "other", "gone")
    await engine.turn(both)
    assert compared[turns:] == [2, 2]


async def test_what_is_left_to_be_done_is_looked_at_again(compared: list[int]) -> None:
    """A run without an allocation is preempted after a time, and one that the core wants to end again and again."""
    both, now_s = Known(), [0.0]
    both.running("t")
    engine = await begun(both, now_s)
    for _ in range(3):
        await engine.turn(both)
    assert not both.preempted and len(compared) == 3
    now_s[0] = 2.0
    await engine.turn(both)
    assert both.preempted == ["t"]
    both.allocated("t", releasing=True)
    now_s[0] = 1_000.0
    await engine.turn(both)
    now_s[0] = 2_000.0
    await engine.turn(both)
    assert both.preempted == ["t"] * 3


async def test_a_gang_that_is_held_is_looked_at_again(compared: list[int]) -> None:
    both, now_s = Known(), [0.0]
    engine = await begun(both, now_s)
    for _ in range(3):
        await engine.turn(both)
    turns = len(compared)
    both.gang("waits")
    both.changed = True
    await engine.turn(both)
    now_s[0] = 5.0
    both.changed = True
    await engine.turn(both)
    assert len(compared) > turns + 1
