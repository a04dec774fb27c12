"""Calls of a ResourceManager take items one by one or in iterables, and name a wrong one before anything is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from remuda_bus.memory import MemoryBus
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from remuda_sdk.api import connect

Call = Callable[..., Awaitable[int]]


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    bus = MemoryBus()
    yield bus
    await bus.close()


@pytest.fixture
async def rm(bus: MemoryBus) -> AsyncIterator[ResourceManager]:
    async with ResourceManager.connect(bus, "rm-1", register=False) as rm:
        yield rm


ALLOCATION = si.Allocation(UUID="u", applicationID="a", allocationKey="k")
CALLS: list[tuple[str, Any, Any]] = [
    ("report_nodes", node("n1"), node("n2")),
    ("update_nodes", node("n1"), node("n2")),
    ("drain", "n1", "n2"),
    ("undrain", "n1", "n2"),
    ("decommission", "n1", "n2"),
    ("submit", application("a"), application("b")),
    ("remove", "a", "b"),
    ("ask", ask("a", "k1"), ask("a", "k2")),
    ("report_allocations", ALLOCATION, ALLOCATION),
    ("release", ALLOCATION, si.AllocationAskRelease(allocationKey="k")),
    ("confirm", si.AllocationRelease(UUID="u1"), si.AllocationRelease(UUID="u2")),
]


@pytest.mark.parametrize(("name", "one", "two"), CALLS, ids=[name for name, *_ in CALLS])
async def test_items_one_by_one_and_in_iterables(
    bus: MemoryBus, rm: ResourceManager, name: str, one: Any, two: Any
) -> None:
    call: Call = getattr(rm, name)
    seqs = [
        await call(one, two),
        await call([one, two]),
        await call((one,), two),
        await call(each for each in (one, two)),
    ]
    sent = [await bus.message_at("REQUESTS", seq) for seq in seqs]
    assert len({message.payload for message in sent if message}) == 1 and None not in sent
    assert await call() == await call([]) == 0


@pytest.mark.parametrize(("name", "one", "_"), CALLS, ids=[name for name, *_ in CALLS])
@pytest.mark.parametrize("wrong", [5, None, b"n1", {"n1": 1}, si.Quantity(value=1)])
async def test_a_wrong_item_is_named_and_nothing_is_sent(
    rm: ResourceManager, name: str, one: Any, _: Any, wrong: Any
) -> None:
    call: Call = getattr(rm, name)
    first = await call(one)
    for given in ((one, wrong), ([one, wrong],)):
        with pytest.raises(ValueError, match=rf"^{name}: .*: expected .*, one by one or in a list"):
            await call(*given)
    assert await call(one) == first + 1


@pytest.mark.parametrize("name", ["drain", "undrain", "decommission", "remove"])
async def test_an_id_is_not_empty(rm: ResourceManager, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: an ID='': expected a text that is not empty"):
        await getattr(rm, name)(["n1", ""])


async def test_a_text_is_no_list_of_messages(rm: ResourceManager) -> None:
    with pytest.raises(ValueError, match="^ask: 'k1': expected AllocationAsk"):
        await rm.ask("k1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^partition=5: expected a text"):
        await rm.drain("n1", partition=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^text=b'': expected a text"):
        await rm.update_configuration(b"")  # type: ignore[arg-type]


async def test_a_request_of_another_kind_is_refused(rm: ResourceManager) -> None:
    with pytest.raises(ValueError, match="^request=.*: expected AllocationRequest as kind 'allocation'"):
        await rm.send("allocation", si.NodeRequest())
    with pytest.raises(ValueError, match="^kind='asks': expected one of 'application', 'allocation'"):
        await rm.send("asks", si.AllocationRequest())
    with pytest.raises(ValueError, match="^request=.*: expected NodeRequest as kind 'node'"):
        await connect("nats://127.0.0.1:1").update_node(node("n1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rm_id": 5}, "rm_id=5: expected a text"),
        ({"config": b""}, "config=b'': expected a text"),
        ({"extra_config": {"a": 1}}, r"extra_config\['a'\]=1: expected a text"),
        ({"resync": "repeat"}, "resync='repeat': expected one of 'report', 'replay'"),
        ({"heartbeat_s": 0}, "heartbeat_s=0: expected seconds, at least 0.001"),
        ({"heartbeat_s": "5s"}, "heartbeat_s='5s': expected seconds"),
        ({"retry_for_s": -1}, "retry_for_s=-1: expected seconds, at least 0"),
        ({"register_within_s": None}, "register_within_s=None: expected seconds"),
        ({"connect_within_s": True}, "connect_within_s=True: expected seconds"),
    ],
)
async def test_a_wrong_argument_of_connect_is_named(bus: MemoryBus, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        ResourceManager.connect(bus, **{"rm_id": "rm-1", **given})
    if given.keys() & {"heartbeat_s", "retry_for_s", "register_within_s"}:
        with pytest.raises(ValueError, match=f"^{told}"):
            connect("nats://127.0.0.1:1", **given)
