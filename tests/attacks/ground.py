"""The common part of all attacks: a system with working side RMs, a hostile RM beside them, and the verdict.

Cores share RMs evenly, so with two side RMs and two cores the hostile RM has a side RM beside it in its own core.

A *spared* system runs on the same machine, with a side RM and without a hostile one. The waits of its asks during the
attack come from the machine (and from the processor time of the attack), not from resources that tenants share.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.patience import PATIENCE
from tests.tenants.hostile import Hostile, hostile
from tests.tenants.side import Side, side_rm
from tests.tenants.watched import Watched, watched

IDLE_S = 1.5  # how long the idle system is measured
AFTERMATH_S = 1.5  # an attack may work on what it has left behind
LONGER_S = 1.0 * PATIENCE  # no ask of a side RM waits so much longer than on the idle system
SIDES = ("side-1", "side-2")
ASK_EVERY_S = 0.1
SETTLED_WITHIN_S = 60.0
GROWS_MB = 256.0  # most a process may grow by in one attack
# Snapshots are taken while the attacks run.
OFTEN = {"REMUDA_SNAPSHOT_FACTS": "1000", "REMUDA_SNAPSHOT_APART_S": "1"}


class Ground:
    """`idle_s`: the longest wait of an ask on the idle system. `spared`: the side RM of the other system."""

    def __init__(self, system: Watched, sides: list[Side], spared: Side, idle_s: float) -> None:
        self.system = system
        self.sides = sides
        self.spared = spared
        self.idle_s = idle_s
        self.spoilt = False
        self._numbers = 0

    @property
    def url(self) -> str:
        return self.system.url

    @property
    def usable(self) -> bool:
        """Prepare for another attack."""
        alive = all(side.alive for side in (*self.sides, self.spared))
        return not self.spoilt and alive and not self.system.ended()

    def may_wait_s(self, began: float, longer_s: float = LONGER_S) -> float:
        """The longest wait that is allowed for asks that a side RM has submitted since then."""
        return max(self.idle_s, *self.spared.waits_s(began)) + longer_s

    @asynccontextmanager
    async def attack(self, *, longer_s: float = LONGER_S, may_end: bool = False) -> AsyncIterator[Hostile]:
        """Yields a hostile RM that is not registered yet. The verdict follows at the end of the block. `may_end`:
        processes may end, and side RMs wait for their replacement."""
        self._numbers += 1
        self.spoilt = True
        before_mb = self.system.memory_mb()
        began = time.monotonic()
        async with hostile(self.url, f"hostile-{self._numbers}") as attacker:
            yield attacker
            await asyncio.sleep(AFTERMATH_S)
        for side in self.sides:
            settled = await side.settled(SETTLED_WITHIN_S)
            assert settled, f"{side.rm_id} waits for more than {SETTLED_WITHIN_S:g} s: {side.output[-5:]}"
        if not may_end:
            assert not self.system.ended(), f"processes have ended: {self.system.ended()}"
        waited_s = max(wait for side in self.sides for wait in side.waits_s(began))
        may_s = self.may_wait_s(began, longer_s)
        waits = f"waited {waited_s:.2f} s, {self.idle_s:.2f} s when idle, {may_s - longer_s:.2f} s on the spared system"
        print(f"{attacker.rm_id}: side RMs {waits}")
        assert waited_s <= may_s, f"a side RM {waits}"
        assert await self.system.halted() <= {attacker.rm_id}
        grown = {name: mb - before_mb.get(name, mb) for name, mb in self.system.memory_mb().items()}
        assert all(mb <= GROWS_MB for mb in grown.values()), f"memory in MB grew by {grown}"
        self.spoilt = may_end


@asynccontextmanager
async def ground(data: Path) -> AsyncIterator[Ground]:
    async with watched(data / "attacked") as system, AsyncExitStack() as stack:
        other = await stack.enter_async_context(watched(data / "spared", cores=1, rmproxies=1))
        spared = await stack.enter_async_context(side_rm(other.url, "spared", ASK_EVERY_S))
        sides = [await stack.enter_async_context(side_rm(system.url, name, ASK_EVERY_S)) for name in SIDES]
        began = time.monotonic()
        await asyncio.sleep(IDLE_S)
        assert all([await side.settled(5.0) for side in sides])
        yield Ground(system, sides, spared, max(wait for side in sides for wait in side.waits_s(began)))


class Grounds:
    """One system for many attacks. After an attack that has changed the system, the next one gets a new system."""

    def __init__(self) -> None:
        self._stack: AsyncExitStack | None = None
        self._ground: Ground | None = None

    async def usable(self) -> Ground:
        if self._ground is None or not self._ground.usable:
            await self.close()
            self._stack = AsyncExitStack()
            data = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="remuda-attacks-"))
            os.environ.update(OFTEN)
            self._ground = await self._stack.enter_async_context(ground(Path(data)))
        return self._ground

    async def close(self) -> None:
        stack, self._stack, self._ground = self._stack, None, None
        if stack is not None:
            await stack.aclose()
