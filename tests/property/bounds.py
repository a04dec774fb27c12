"""Bounds as small as a test wants them: on allocations of a node, and after how many work on devices is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from remuda_core.check import state
from remuda_core.decide import allocation, node
from remuda_core.explain import nodes as explained
from remuda_core.limits import ALLOCATIONS_PER_NODE
from remuda_core.state import application

_most = ALLOCATIONS_PER_NODE


def most_on_a_node() -> int:
    return _most


@contextmanager
def at_most_on_a_node(most: int) -> Iterator[None]:
    global _most
    before = _most
    with ExitStack() as stack:
        for module in (application, allocation, node, explained, state):
            stack.enter_context(patch.object(module, "ALLOCATIONS_PER_NODE", most))
        _most = most
        try:
            yield
        finally:
            _most = before


@contextmanager
def measured_after(allocations: int) -> Iterator[None]:
    with patch("remuda_core.cycle.measure.MEASURE_AFTER_ALLOCATIONS", allocations):
        yield
