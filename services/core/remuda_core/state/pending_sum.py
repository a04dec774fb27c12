"""The sum of what an application asks for, maintained from the first time a query needs it."""

from __future__ import annotations

import msgspec

from ..rules.resource import Sums


class PendingSum(msgspec.Struct, eq=False):
    """The pending allocations of an application: their number and their resources."""

    pieces: int
    amounts: Sums
