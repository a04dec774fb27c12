"""The conformance runner over the whole system: what is there in the end is what the core alone comes to."""

from __future__ import annotations

import asyncio

from tests.conformance import in_process, over_nats
from tests.conformance.builders import app, ask, asks, node, release, scenario
from tests.conformance.kinds import sums


async def test_over_nats_as_in_process():
    two = asks(ask("app-1", "k1", 2), ask("app-1", "k2", 3))
    played = scenario(node("n1", 10), app("app-1"), two, {"schedule": -1}, release("app-1", "$uuid:k1"), {"dump": True})
    ours = await asyncio.to_thread(over_nats.play, played, in_process.COMPATIBILITY)
    assert sums(ours.final) == sums(in_process.play(played).final)
    assert sums(ours.final)["root"] == {"allocatedResource": {"vcore": 3}, "pendingResource": {}}
    [new] = [item for step in ours.steps for callback in step.callbacks for item in callback["msg"].get("new", ())][:1]
    assert new["nodeID"] == "n1"
