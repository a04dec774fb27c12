"""Trials: whether an ask runs in the next passes if some steps are carried out before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from .. import facts
from ..core import Core
from ..explain.explanations import Explanations
from ..facts import Constraint
from ..limits import WHAT_IF_PASSES
from ..preview.passes import Played, play
from ..state import Partition, PendingAsk
from .quotas import Dimension, of_node, of_quotas
from .steps import Step, carry_out

T = TypeVar("T")
# Does work on a copy of the core, and returns what the work returns.
OnCopy = Callable[[Callable[[Core], bytes]], bytes]


class Ask(msgspec.Struct, frozen=True):
    """`partition`: the name in the state."""

    partition: str
    application: str
    key: str

    def of(self, core: Core) -> tuple[Partition, PendingAsk]:
        partition = core.state.partitions[self.partition]
        return partition, partition.applications[self.application].asks[self.key]


class Unchanged(msgspec.Struct, frozen=True):
    """What happens without a change. `runs`: the ask does. `constraints`: what is in its way after the passes."""

    runs: bool
    constraints: list[Constraint]


class Amounts(msgspec.Struct, frozen=True):
    """`quotas`: None: one that is in the way cannot be changed."""

    quotas: list[Dimension] | None
    node: list[Dimension]


class GivenUp(Exception):
    """There were too many trials."""


class Trials:
    """At most `most` trials. Each one plays on a copy of its own."""

    def __init__(self, on_copy: OnCopy, ask: Ask, now_ms: int, most: int) -> None:
        self._on_copy = on_copy
        self._ask = ask
        self._now_ms = now_ms
        self._most = most
        self.made = 0

    def unchanged(self) -> Unchanged:
        def work(core: Core) -> Unchanged:
            played = play(core, WHAT_IF_PASSES, self._now_ms)
            partition = core.state.partitions[self._ask.partition]
            application = partition.applications.get(self._ask.application)
            left = application.asks.get(self._ask.key) if application is not None else None
            if self._ran(played) or left is None:
                return Unchanged(self._ran(played), [])
            if core.state.rm_state == "Running":
                core.index.of(core.state, partition)
            return Unchanged(False, Explanations(core.state, core.index).of(partition, left))

        return self._on(work, Unchanged)

    def runs(self, steps: Sequence[Step]) -> bool:
        """Raises GivenUp."""

        def work(core: Core) -> bool:
            decided = self._carry_out(core, steps)
            return self._got_a_node(decided) or self._ran(play(core, WHAT_IF_PASSES, self._now_ms))

        return self._on(work, bool)

    def amounts(self, steps: Sequence[Step], node_id: str) -> Amounts:
        """The amounts that can be changed beside these steps. Raises GivenUp."""

        def work(core: Core) -> Amounts:
            self._carry_out(core, steps)
            partition, ask = self._ask.of(core)
            return Amounts(of_quotas(partition, ask), of_node(partition, ask, node_id))

        return self._on(work, Amounts)

    def _on(self, work: Callable[[Core], T], kind: type[T]) -> T:
        if self.made >= self._most:
            raise GivenUp
        self.made += 1
        return msgspec.msgpack.decode(self._on_copy(lambda core: msgspec.msgpack.encode(work(core))), type=kind)

    def _carry_out(self, core: Core, steps: Sequence[Step]) -> list[facts.Fact]:
        partition = core.state.partitions[self._ask.partition]
        return carry_out(core, partition, (self._ask.application, self._ask.key), steps, self._now_ms)

    def _ran(self, played: Played) -> bool:
        wanted = (self._ask.partition, self._ask.application, self._ask.key)
        return any((one.partition, one.application, one.key) == wanted for one in played.placements)

    def _got_a_node(self, decided: Sequence[facts.Fact]) -> bool:
        wanted = (self._ask.partition, self._ask.application, self._ask.key)
        return any(
            (one.partition, one.application_id, one.allocation_key) == wanted
            for one in decided
            if isinstance(one, facts.Allocated)
        )
