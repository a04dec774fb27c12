"""The reference's rules of recovery, in the place of ours (see reference_rules.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from remuda_core.commands import UpdateNode
from remuda_core.decide import node as nodes
from remuda_core.decide import submit
from remuda_core.decide.allocation import problem_of_existing
from remuda_core.state import Partition, State


@contextmanager
def reject_nodes_with_bad_allocations() -> Iterator[None]:
    """One existing allocation that cannot be booked rejects the node, and with it all other allocations there."""
    create = nodes.create

    def strict(state: State, partition: Partition, command: UpdateNode, now_ms: int) -> Iterator[Any]:
        reported: set[str] = set()
        for allocation in command.existing_allocations:
            if problem_of_existing(partition, allocation) or allocation.uuid in reported:
                yield nodes.rejected(command, "an existing allocation cannot be booked")
                return
            reported.add(allocation.uuid)
        yield from create(state, partition, command, now_ms)

    with patch.object(nodes, "create", strict):
        yield


def reject_what_could_not_start() -> AbstractContextManager[object]:
    """An application is checked in the same way whether its work runs or not."""
    return patch.object(submit, "runs_already", lambda *_: False)
