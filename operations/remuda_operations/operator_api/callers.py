"""Callers: in whose name a method is called, and what they may read. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remuda_operations.operators import Operator


def _none(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Caller:
    """`operator`: None if the transport knows of none; then the caller may not act. `reads_all`: as every operator.
    `reads_rm`: whether the caller may read the state of this RM, as the RM itself may. A transport knows these from
    keys, certificates or accounts; a request never states them."""

    operator: Operator | None = None
    reads_all: bool = False
    reads_rm: Callable[[str], bool] = _none


READER = Caller(reads_all=True)
