"""Dead letters in metrics."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_bus.metrics import OTHERS
from remuda_rmproxy import metrics
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord


def counted(label: str) -> float:
    return next(
        (one.value for family in metrics.DEAD_LETTERS.collect() for one in family.samples
         if one.labels == {"rm": label} and one.name.endswith("_total")), 0.0,
    )  # fmt: skip


async def test_senders_without_a_record_share_a_label() -> None:
    """They cost the RMs on record no label of their own."""
    registry = RmRegistry()
    registry.update("known", RmRecord("known").encode())
    letters, before = DeadLetters(MemoryBus(), registry), counted(OTHERS)
    sent = [Message(subjects.request(rm, "node"), b"", {}, seq) for seq, rm in enumerate(("known", "x", "y"), 1)]
    await letters.write(sent[1], "x", "not registered", {})
    await letters.write_all(sent, "too many")
    assert (counted("known"), counted(OTHERS) - before, counted("x"), counted("y")) == (1, 3, 0, 0)
