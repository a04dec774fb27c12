"""Changes of the configuration over a bus with keys: the server states who the operator is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from remuda_bus import subjects
from remuda_bus.bus import BusError, Refused
from remuda_bus.nats import NatsBus, connect
from remuda_config.shell import ConfigSettings, main
from remuda_operations.operators import Operator
from tests.system.guarded import GuardedServer

ALICE, EVE = "alice@example.com", "eve"
TEXT = "partitions: [{queues: [{name: root, adminacl: ' ops', queues: [{name: a, maxapplications: %d}]}]}]\n"


async def change(bus: NatsBus, subject: str, count: int) -> int:
    reply = await bus.request(subject, json.dumps({"text": TEXT % count}).encode(), timeout_s=20)
    return int(json.loads(reply.payload)["version"]["number"])


async def answers(bus: NatsBus) -> bool:
    try:
        return bool(await bus.request(subjects.configuration_query("get")))
    except BusError:
        return False


async def test_the_server_says_who_changes_the_configuration(tmp_path: Path) -> None:
    operators = (Operator(ALICE, ("ops",)), Operator(EVE))
    file = tmp_path / "queues.yaml"
    file.write_text(TEXT % 1)
    server = GuardedServer(tmp_path / "nats", operators=operators)
    async with server:
        admin = await connect(server.url, "remuda-cli", access=server.access("admin"))
        await admin.declare()
        config = await connect(server.url, "remuda-config", access=server.access("config"))
        working = asyncio.create_task(main(config, ConfigSettings(), file))
        alice = await connect(server.url, "remuda-cli", access=server.access(ALICE))
        eve = await connect(server.url, "remuda-cli", access=server.access(EVE))
        own = subjects.own_configuration_change("update")
        try:
            for _ in range(600):
                if await answers(alice):
                    break
                await asyncio.sleep(0.05)
            assert await change(alice, own, 2) == 2
            assert file.read_text() == TEXT % 2
            with pytest.raises(Refused, match="eve may not change the configuration"):
                await change(eve, own, 3)
            as_alice = subjects.configuration_change(operators[0].token, operators[0].groups_token, "update")
            with pytest.raises((Refused, BusError)):  # the server does not let it through
                await change(eve, as_alice, 3)
            found = await eve.request(subjects.configuration_query("history"))
            versions = json.loads(found.payload)["versions"]
            assert [(one["number"], one.get("by", "")) for one in versions] == [(2, ALICE), (1, "")]
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            for bus in (eve, alice, config, admin):
                await bus.close()
