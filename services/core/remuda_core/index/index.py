"""The scheduling index of one resource manager: an index of each partition that is scheduled here.

It is derived from the state alone, so it may be dropped and built again at any time. Standbys, auditors and queries do
not build one. Facts reach it in one place: `apply`, which the core calls beside `evolve`. The page of the package says
what is looked up, and at what cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .. import facts
from ..rules.connection import RUNNING
from ..state import Partition, State
from .apply import BY_FACT
from .build import build, build_in_steps
from .partition import PartitionIndex

# Facts that concern no partition, or end one: indexes of partitions that ended are dropped, and those that were built
# for another timing or compatibility.
OF_ALL: Final = frozenset(
    (facts.RmRegistered, facts.RmStopped, facts.ConfigurationApplied, facts.PartitionRemoved)
)  # fmt: skip


class Index:
    def __init__(self) -> None:
        self.partitions: dict[str, PartitionIndex] = {}
        # For how many new names of resources the next index of a partition has places, where one had too few.
        self._spare: dict[str, int] = {}
        self.unfinished = False  # the last pass ended before it had looked at all asks

    def of(self, state: State, partition: Partition) -> PartitionIndex:
        """The index of the partition. Built if there is none."""
        found = self.partitions.get(partition.name)
        if found is None:
            spare = self._spare.get(partition.name, 0)
            found = self.partitions[partition.name] = build(partition, state.timing, spare, state.now_ms)
        return found

    def build_in_steps(self, state: State) -> Iterator[None]:
        """Build the missing parts of the index for a pass, with pauses for other work of the host, which must not touch
        this state. A part that is incomplete when the caller gives up is lost."""
        for partition in list(state.partitions.values()) if state.rm_state == RUNNING else ():
            if partition.name not in self.partitions:
                spare = self._spare.get(partition.name, 0)
                self.partitions[partition.name] = yield from build_in_steps(
                    partition, state.timing, spare, state.now_ms
                )

    def find(self, partition: Partition) -> PartitionIndex | None:
        """The index of the partition. None: it has not been scheduled here, or not since the index was dropped."""
        return self.partitions.get(partition.name)

    def forget(self) -> None:
        """Drop the indexes of all partitions. Each is built anew when its partition is next scheduled."""
        self.partitions.clear()

    def apply(self, state: State, fact: Any, touched: Any) -> None:
        """Follow a fact that `evolve` has written into the state. `touched`: what `evolve` returned for it."""
        change = BY_FACT.get(type(fact))
        if change is not None:
            index = self.partitions.get(fact.partition)
            if index is not None:
                if index.candidates is not None:
                    index.candidates.changed = True
                    index.windows.follow(fact)
                if change(index, fact, touched):
                    self._spare[fact.partition] = index.spare
                    del self.partitions[fact.partition]
        elif type(fact) in OF_ALL:
            self._spare = {name: spare for name, spare in self._spare.items() if name in state.partitions}
            self.partitions = {
                name: index
                for name, index in self.partitions.items()
                if _holds(index, state, state.partitions.get(name))
            }


def _holds(index: PartitionIndex, state: State, partition: Partition | None) -> bool:
    return (
        index.partition is partition
        and index.timing == state.timing
        and index.raw_shares == partition.yunikorn_1_4
        and index.batch_predicates == partition.batch_predicates
    )  # fmt: skip
