"""Keys of operators against a real server: name and groups are the server's word, not that of the request."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from remuda.errors import UserError
from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_bus.nats import connect
from remuda_operations.operators import Operator, request_of
from tests.system.guarded import GuardedServer
from tests.system.running import until
from tests.system.test_access import ALICE, client


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GuardedServer]:
    started = GuardedServer(tmp_path)
    async with started:
        yield started


async def test_the_server_writes_name_and_groups_of_an_operator(server: GuardedServer) -> None:
    """The server sets the name and groups; new groups count from the next request on, after one SIGHUP."""
    proxy = await connect(server.url, "remuda-rmproxy", access=server.access("rmproxy"), timeout_s=5)
    alice = await connect(server.url, "remuda-cli", access=server.access(ALICE), timeout_s=5)

    async def sender(message: Message) -> bytes:
        operator, rm_id, action = request_of(message.subject)
        return f"{operator.name} {','.join(operator.groups)} {rm_id} {action}".encode()

    await proxy.serve(subjects.administration("*", "*", "*", "hold_queue"), sender, "hold_queue")
    own = subjects.own_administration("rm-1", "hold_queue")
    assert (await alice.request(own)).payload == b"alice@example.com ops rm-1 hold_queue"
    for forged in (("bob", "-"), ("alice=40example=2Ecom", "root"), ("alice=40example=2Ecom", "ops")):
        with pytest.raises(Refused, match="may not publish"):
            await alice.request(subjects.administration(*forged, "rm-1", "hold_queue"))
    server.keys.set_groups(Operator(ALICE, ("dev", "qa.x")))
    os.kill(server.pid, signal.SIGHUP)

    async def has_new_groups() -> bool:
        return (await alice.request(own)).payload == b"alice@example.com dev,qa.x rm-1 hold_queue"

    await until(has_new_groups)
    server.keys.remove_operator(Operator(ALICE))
    os.kill(server.pid, signal.SIGHUP)

    async def thrown_out() -> bool:
        return not alice.connected

    await until(thrown_out)
    for bus in (proxy, alice):
        await bus.close()


async def test_a_reply_subject_of_an_operator_leads_nowhere_but_to_itself(server: GuardedServer) -> None:
    refused: list[tuple[str, str]] = []
    async with client(server, "admin", refused) as admin, client(server, ALICE, refused) as alice:
        astray = []

        async def hear(message: Msg) -> None:
            astray.append(message.subject)

        async def answer(message: Msg) -> None:
            await message.respond(b"an answer")

        await admin.subscribe("remuda.inbox.*", cb=hear)
        await admin.subscribe("remuda.admin.>", cb=answer)
        await admin.flush()
        answers = await alice.subscribe("_INBOX.remuda-cli.>")
        for reply in ("remuda.inbox.rm-1", "_INBOX.remuda-cli.x"):
            await alice.publish(subjects.own_administration("rm-1", "hold_queue"), b"", reply=reply)
        assert (await answers.next_msg(5)).data
        await admin.flush()
    assert astray == []


def test_a_key_is_made_once_and_its_groups_are_kept(tmp_path: Path) -> None:
    keys = GuardedServer(tmp_path, rms=(), operators=()).keys
    bob = Operator("bob", ("ops", "dev.x"))
    seed = keys.add_operator(bob)
    assert seed.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match="bob has a key already"):
        keys.add_operator(Operator("bob"))
    assert list(keys.operators()) == [bob]
    public = keys.operators()[bob]
    keys.set_groups(Operator("bob", ("qa",)))
    assert keys.operators() == {Operator("bob", ("qa",)): public}
    with pytest.raises(UserError, match="eve has no key"):
        keys.set_groups(Operator("eve", ("qa",)))
    keys.remove_operator(Operator("bob"))
    assert keys.operators() == {} and list(keys.operators_directory.iterdir()) == []
    with pytest.raises(UserError, match="bob has no key"):
        keys.remove_operator(Operator("bob"))
