"""The past use of queues and users, beside the use that was due to them, in short."""

from __future__ import annotations

from remuda_operations.queries.rows import FairShare

from ..terminal.units import amounts


def past_share(share: FairShare) -> str:
    """The queue's or user's share of the use of all siblings, and the share that is due to it: `31 of 25 %`."""
    return f"{100 * share.share:.0f} of {100 * share.target:.0f} %" if share.resource else "-"


def owes(share: FairShare) -> str:
    """The amounts by which it has used more than was due to it; and what it has used less: `gpu 2, less: vcore 4`."""
    more = {name: amount for name, amount in share.owes.items() if amount > 0}
    less = {name: -amount for name, amount in share.owes.items() if amount < 0}
    return ", ".join(filter(None, (amounts(more, ""), f"less: {amounts(less)}" if less else ""))) or "-"
