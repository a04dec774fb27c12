"""The server answers wherever a request says. That must not let a client say what it may not say itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from remuda_bus.nats import connect
from tests.system.guarded import GuardedServer
from tests.system.running import until
from tests.system.test_access import client


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GuardedServer]:
    started = GuardedServer(tmp_path)
    async with started:
        bus = await connect(started.url, "remuda-cli", access=started.access("admin"), timeout_s=5)
        await bus.declare()
        await bus.close()
        yield started


async def test_a_reply_subject_of_an_rm_leads_nowhere_but_to_itself(server: GuardedServer) -> None:
    """JetStream and services answer wherever the request says: from the account of an RM, inside that account."""
    refused: list[tuple[str, str]] = []
    async with client(server, "admin", refused) as admin, client(server, "rm-1", refused) as rm:
        astray = []

        async def hear(message: Msg) -> None:
            astray.append(message.subject)

        for subject in ("remuda.>", "$KV.>", "si.v1.rm.rm-2.>"):
            await admin.subscribe(subject, cb=hear)

        async def answer(message: Msg) -> None:
            await message.respond(b"an answer")

        await admin.subscribe("si.v1.rm.rm-1.register", cb=answer)
        await admin.flush()
        answers = await rm.subscribe("_INBOX.rm-rm-1.>")
        for kind in ("register", "allocation"):
            for reply in ("remuda.inbox.rm-2", "$KV.remuda_leaders.rm-2", "si.v1.rm.rm-2.allocation"):
                await rm.publish(f"si.v1.rm.rm-1.{kind}", b"", reply=reply)
        for kind in ("register", "allocation"):
            await rm.publish(f"si.v1.rm.rm-1.{kind}", b"", reply="_INBOX.rm-rm-1.x")
        assert (await answers.next_msg(5)).data and (await answers.next_msg(5)).data  # both paths have answered
        await admin.flush()
    assert astray == []


async def test_a_front_end_cannot_have_the_server_say_what_it_may_not(server: GuardedServer) -> None:
    """It writes to the bucket of claims. What it has written must not become a request of any operator or a command."""
    stream, key = "KV_remuda_front_ends", "$KV.remuda_front_ends.x"
    refused: list[tuple[str, str]] = []
    async with client(server, "admin", refused) as admin, client(server, "grpc", refused) as front_end:
        heard: list[tuple[str, bytes]] = []

        async def hear(message: Msg) -> None:
            heard.append((message.subject, message.data))

        await admin.subscribe("remuda.>", cb=hear)
        await admin.flush()
        await admin.request(key, b"forged", timeout=5)  # as the front end may
        for target in ("remuda.admin.root.-.rm-1.kill_application", "remuda.inbox.rm-1"):
            await front_end.publish(f"$JS.API.DIRECT.GET.{stream}.{key}", b"", reply=target)
            await front_end.publish(f"$JS.API.DIRECT.GET.{stream}", b'{"seq": 1}', reply=target)
            await front_end.publish(f"$JS.API.STREAM.MSG.GET.{stream}", b'{"seq": 1}', reply=target)
        await front_end.flush()

        async def answered() -> bool:
            return len(heard) >= 2

        await until(answered)
        await admin.flush()
        assert len(refused) == 4 and len(heard) == 2
        for subject, payload in heard:
            assert json.loads(payload)["type"].endswith("stream_msg_get_response"), subject
