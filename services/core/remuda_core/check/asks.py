"""Sums over the asks of an application, compared with those computed from the asks."""

from __future__ import annotations

from ..rules.resource import items_of
from ..state import Application


def check_asks(application: Application) -> None:
    name, asks = f"application {application.id}", application.asks
    reserving = {key: ask for key, ask in asks.items() if ask.reservations}
    assert application.reserving == reserving, f"{name}: nodes are reserved for {sorted(reserving)}"
    claims = sum(len(ask.reservations) + ask.asked for ask in asks.values())
    assert application.open_claims == claims, f"{name} has {application.open_claims} claims, counted anew {claims}"
    if (kept := application.pending_sum) is not None:
        counted = sum(ask.pending for ask in asks.values())
        assert kept.pieces == counted, f"{name}: {kept.pieces} pieces pending, counted anew {counted}"
        assert items_of(kept.amounts) == items_of(application.pending), f"{name}: {kept.amounts} pending"
