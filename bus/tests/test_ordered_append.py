"""Ordered appends lose nothing and keep their order when a stream refuses and answers are lost."""

from collections.abc import Sequence

import pytest

from remuda_bus import limits, subjects
from remuda_bus.bus import Full, Message, Outgoing, Refused, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import NatsBus
from remuda_bus.retry import RetryPolicy
from remuda_bus.streams.ordered_append import append_in_order, batches


def messages(count: int, size: int = 1) -> list[Outgoing]:
    return [
        Outgoing(subjects.inbox("rm-1"), str(number).encode().ljust(size), {subjects.MSG_ID: str(number)})
        for number in range(count)
    ]


class Misbehaving(MemoryBus):
    """Raises its errors one after the other. `lost`: an append that raises Unanswered is stored nevertheless."""

    def __init__(self, *errors: Exception, lost: bool = False) -> None:
        super().__init__()
        self.errors = list(errors)
        self.lost = lost

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        if not self.errors:
            return await super().append_all(messages, timeout_s)
        error = self.errors.pop(0)
        if self.lost and isinstance(error, Unanswered):
            await super().append_all(messages, timeout_s)
        raise error


async def stored(bus: MemoryBus) -> list[bytes]:
    reader = await bus.read("INBOX", subjects.inbox("rm-1"))
    found = await reader.batch(timeout_s=0.0)
    return [message.payload for message in found]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "APPEND_RETRY", RetryPolicy(0.001, longest_pause_s=2.0))


@pytest.mark.parametrize(
    ("errors", "lost"),
    [((), False), ((Full("full"),), False), ((Unanswered("?"),), False), ((Unanswered("?"), Refused("twice")), True)],
)
async def test_all_messages_are_stored_once_and_in_order(errors: tuple[Exception, ...], lost: bool) -> None:
    bus = Misbehaving(*errors, lost=lost)
    await bus.declare()
    batch = messages(10)
    assert await append_in_order(bus, batch) == 10
    assert await stored(bus) == [message.payload for message in batch]


async def test_the_last_error_is_raised_after_the_retry_time() -> None:
    bus = Misbehaving(Full("full"), Full("still full"))
    await bus.declare()
    with pytest.raises(Full):
        await append_in_order(bus, messages(3), give_up_after_s=0.0)
    assert await stored(bus) == []


async def test_nothing_to_append() -> None:
    assert await append_in_order(MemoryBus(), []) == 0


def test_batches_are_bounded() -> None:
    many = list(batches(messages(2_500)))
    assert [len(batch) for batch in many] == [1_000, 1_000, 500]
    large = list(batches(messages(3, size=1_500_000)))
    assert [len(batch) for batch in large] == [1, 1, 1]


async def test_a_partly_stored_batch_is_completed(bus: NatsBus) -> None:
    """The stream holds a part of the batch: the rest is appended behind it, and nothing twice."""
    batch = messages(10)
    await append_in_order(bus, batch[:4])
    assert await append_in_order(bus, batch) == 10
    reader = await bus.read("INBOX", subjects.inbox("rm-1"))
    there: list[Message] = []
    while len(there) < len(batch):
        there += await reader.batch(timeout_s=5)
    assert [message.payload for message in there] == [message.payload for message in batch]
    await reader.close()
