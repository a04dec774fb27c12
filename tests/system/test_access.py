"""Unknown clients are refused, and every role has exactly its permissions, on a server with the shipped configuration.

The permissions of each role are repeated here by hand, so that a mistake in remuda.access.permissions shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from remuda.access.permissions import ROLES
from remuda_bus import subjects
from remuda_bus.bus import Message, Refused, Unanswered
from remuda_bus.nats import Access, connect
from remuda_bus.nats.patched_client import PatchedClient
from remuda_core.check import digest
from remuda_core.shell.machine import CoreMachine
from remuda_operations.operators import Operator
from remuda_replication.snapshots import Snapshots
from services.core.tests.test_snapshots import RM, SETTINGS, Lead, restored, tell
from tests.system.guarded import EXPIRED, GuardedServer, make_certificates
from tests.system.peloton_permissions import PELOTON
from tests.system.running import until

REFUSED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')

ALICE = "alice@example.com"  # an operator with a key of her own, in the group ops

# Subjects, and the roles that may publish to them. Services that answer requests of other services and of RMs are not
# listed for the answers.
MAY_PUBLISH = PELOTON | {
    "si.v1.rm.rm-1.register": {"rm-1", "grpc"},
    "si.v1.rm.rm-1.allocation": {"rm-1", "grpc"},
    "si.v1.rm.rm-1.application": {"rm-1", "grpc"},
    "si.v1.rm.rm-1.node": {"rm-1", "grpc"},
    "si.v1.rm.rm-1.configuration": {"rm-1", "grpc"},
    "si.v1.rm.rm-1.heartbeat": {"rm-1", "grpc"},
    "si.v1.rm.rm-1.deregister": {"rm-1"},
    "si.v1.rm.rm-2.register": {"grpc"},
    "si.v1.rm.rm-2.allocation": {"grpc"},
    "si.v1.rm.rm-2.heartbeat": {"grpc"},
    "si.v1.rm.rm-2.deregister": set(),
    "si.v1.rm.rm-1.callback.allocation": {"rmproxy"},
    "si.v1.rm.rm-1.callback.dead_letter": {"rmproxy"},
    "si.v1.rm.rm-2.callback.allocation": {"rmproxy"},
    "si.v1.rm.rm-1.callback.event": {"events"},
    "si.v1.rm.rm-1.predicates": {"rmproxy"},
    "si.v1.rm.rm-1.preemption_predicates": {"rmproxy"},
    "si.v1.rm.rm-1.batch_predicates": {"rmproxy"},
    "si.v1.rm.rm-1.state_dump": {"rmproxy", "operator"},
    "remuda.inbox.rm-1": {"rmproxy", "config"},
    "remuda.inbox.rm-2": {"rmproxy", "config"},
    "remuda.log.rm-1": {"core"},
    "remuda.dead.rm-1": {"rmproxy"},
    "remuda.api.config.resolve": {"rmproxy", "operator"},
    "remuda.api.config.history": {"operator", ALICE, "grpc", "web"},
    "remuda.api.web.web-1": {"operator"},
    "remuda.api.core.rm-1.queues": {"operator", ALICE, "rm-1", "grpc", "web"},
    "remuda.api.core.rm-2.queues": {"operator", ALICE, "grpc", "web"},
    "remuda.api.core.rm-1.preview": {"operator", ALICE, "grpc", "web"},
    "remuda.api.core.rm-1.whatif": {"operator", ALICE, "grpc", "web"},
    "remuda.api.core.rm-1.eta": {"operator", ALICE, "grpc", "web"},
    "remuda.api.core.rm-1.forecasts": {"operator", ALICE, "rm-1", "grpc", "web"},
    "remuda.api.story.rm-1": {"operator", "grpc", "web"},
    "remuda.api.admin.ListNodes": {"operator", ALICE},
    "remuda.api.metrics.GetSystem": {"operator", ALICE},
    "remuda.api.admin.KillApplication": {"operator", ALICE},
    "remuda.operate.alice=40example=2Ecom.ops.KillApplication": set(),
    "remuda.operate.bob.-.KillApplication": set(),
    "remuda.configuration.alice=40example=2Ecom.ops.update": {"grpc", "web"},
    "remuda.configuration.bob.-.update": {"web"},
    "remuda.api.lease.member.core-1": {"core", "operator"},
    "remuda.api.lease.rmproxy": {"rmproxy", "operator"},
    "remuda.api.lease.events": {"events", "operator"},
    "remuda.api.lease.archive": {"archive", "operator"},
    "remuda.administer.rm-1.kill_application": {ALICE},
    "remuda.administer.rm-2.drain_node": {ALICE},
    "remuda.admin.alice=40example=2Ecom.ops.rm-1.kill_application": {"grpc", "web"},
    "remuda.admin.alice=40example=2Ecom.root.rm-1.kill_application": {"web"},
    "remuda.admin.bob.-.rm-1.drain_node": {"web"},
    "$KV.remuda_rms.rm-1": {"rmproxy"},
    "$KV.remuda_leaders.rm-1": {"core", "rmproxy"},
    "$KV.remuda_leases.member.a": {"core"},
    "$KV.remuda_leases.rmproxy": {"rmproxy"},
    "$KV.remuda_leases.events": {"events"},
    "$KV.remuda_leases.archive": {"archive"},
    "$KV.remuda_configurations.file": {"config"},
    "$KV.remuda_configurations.rm.rm-1": {"config", "rmproxy"},
    "$KV.remuda_forgotten.life": {"rmproxy"},
    "$KV.remuda_front_ends.rm-1": {"grpc"},
    "remuda.api.grpc.grpc-1": {"operator", "grpc", "web"},
    "$JS.API.CONSUMER.INFO.CALLBACKS.rm-rm-2": {"rmproxy", "grpc", "operator"},
    "$JS.API.CONSUMER.MSG.NEXT.CALLBACKS.rm-rm-2": {"rmproxy", "grpc"},
    "$KV.remuda_event_bookmarks.rm-1": {"events", "rmproxy"},
    "$KV.remuda_halts.rm-1": {"core", "rmproxy", "events"},
    "$KV.remuda_faults.rm-1.REQUESTS": {"core", "rmproxy", "events"},
    "$O.remuda_snapshots.C.x.y": {"core", "rmproxy"},
    "$JS.API.STREAM.CREATE.X": set(),
    "$JS.API.STREAM.UPDATE.LOG": set(),
    "$JS.API.STREAM.DELETE.LOG": set(),
    "$JS.API.STREAM.PURGE.LOG": {"core", "rmproxy"},
    "$JS.API.STREAM.PURGE.INBOX": {"core", "rmproxy"},
    "$JS.API.STREAM.PURGE.REQUESTS": {"rmproxy"},
    "$JS.API.STREAM.PURGE.CALLBACKS": {"rmproxy"},
    "$JS.API.STREAM.PURGE.EVENTS": {"rmproxy"},
    "$JS.API.STREAM.PURGE.KV_remuda_leases": set(),
    "$JS.API.STREAM.MSG.DELETE.LOG": set(),
    "$JS.API.STREAM.MSG.DELETE.REQUESTS": {"rmproxy"},
    "$JS.API.STREAM.SNAPSHOT.LOG": set(),
    "$JS.API.STREAM.RESTORE.LOG": set(),
    "$JS.API.STREAM.LEADER.STEPDOWN.LOG": set(),
    "$JS.API.DIRECT.GET.LOG": {"core", "rmproxy", "events", "archive", "shadow"},
    "$JS.API.DIRECT.GET.INBOX": {"core", "rmproxy", "archive", "shadow"},
    "$JS.API.DIRECT.GET.CALLBACKS": {"core", "rmproxy"},
    "$JS.API.DIRECT.GET.EVENTS": {"core", "rmproxy", "events", "grpc", "web"},
    "$JS.API.DIRECT.GET.KV_remuda_front_ends": set(),
    "$JS.API.DIRECT.GET.KV_remuda_leases.$KV.remuda_leases.rmproxy": set(),
    "$JS.API.DIRECT.GET.DEAD_LETTERS": {"operator", "rmproxy", "web"},
    "$JS.API.STREAM.MSG.GET.KV_remuda_configurations": {"config", "rmproxy"},
    "$JS.API.CONSUMER.CREATE.INBOX": {"core", "archive", "shadow"},
    "$JS.API.CONSUMER.CREATE.LOG": {"core", "rmproxy", "events", "archive", "shadow"},
    "$JS.API.CONSUMER.CREATE.REQUESTS": {"rmproxy"},
    "$JS.API.CONSUMER.CREATE.CALLBACKS.rm-rm-1.si.v1.rm.rm-1.callback.*": {"rmproxy"},
    "$JS.API.CONSUMER.DELETE.CALLBACKS.rm-rm-2": {"rmproxy"},
    "$JS.remuda.API.CONSUMER.INFO.CALLBACKS.rm-rm-1": {"rm-1"},
    "$JS.remuda.API.CONSUMER.RESET.CALLBACKS.rm-rm-1": {"rm-1"},
    "$JS.remuda.API.CONSUMER.MSG.NEXT.CALLBACKS.rm-rm-1": {"rm-1"},
    "$JS.remuda.API.CONSUMER.MSG.NEXT.CALLBACKS.rm-rm-2": set(),
    "$JS.remuda.API.CONSUMER.CREATE.CALLBACKS.rm-rm-1.si.v1.rm.rm-1.callback.*": set(),
    "$JS.remuda.API.STREAM.INFO.LOG": set(),
    "$JS.ACK.CALLBACKS.rm-rm-1.1.1.1.1.0": {"rm-1", "grpc"},
    "$JS.ACK.CALLBACKS.rm-rm-2.1.1.1.1.0": {"grpc"},
    "$SYS.REQ.SERVER.PING": set(),
}
MAY_SUBSCRIBE = {
    ">": set(),
    "$JS.>": set(),
    "$KV.>": set(),
    "$SYS.>": set(),
    "_INBOX.>": set(),
    "_INBOX.remuda-rmproxy.>": {"rmproxy"},
    "_INBOX.remuda-core.>": {"core"},
    "_INBOX.rm-rm-1.>": {"rm-1"},
    "_INBOX.rm-rm-2.>": set(),
    "_R_.>": set(),
    "remuda.>": set(),
    "remuda.inbox.*": set(),
    "remuda.admin.*.*.*.kill_application": {"rmproxy"},
    "remuda.admin.*.*.*.forget_rm": {"rmproxy"},
    "remuda.guest.*.*.allocation": {"rmproxy"},
    "remuda.guest.>": set(),
    "remuda.administer.*.*": set(),
    "remuda.log.*": set(),
    "remuda.api.core.*.*": {"core"},
    "remuda.api.story.*": {"events"},
    "remuda.api.admin.*": {"grpc"},
    "remuda.operate.*.*.*": {"grpc"},
    "remuda.api.config.*": {"config"},
    "remuda.api.lease.member.*": {"core"},
    "remuda.api.lease.rmproxy": {"rmproxy"},
    "si.v1.rm.>": set(),
    "si.v1.rm.*.register": {"rmproxy"},
    "si.v1.rm.*.heartbeat": {"rmproxy"},
    "si.v1.rm.rm-1.>": set(),
    "si.v1.rm.rm-1.predicates": {"rm-1", "grpc"},
    "si.v1.rm.rm-2.predicates": {"grpc"},
    "si.v1.rm.rm-2.callback.allocation": set(),
}
WHO = (*(role for role in ROLES if role != "admin"), "rm-1", ALICE)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GuardedServer]:
    alice = Operator(ALICE, ("ops",))
    started = GuardedServer(tmp_path, acts_as={"grpc": [alice], "web": ["*"]})
    async with started:
        bus = await connect(started.url, "remuda-cli", access=started.access("admin"), timeout_s=5)
        await bus.declare()
        await bus.close()
        yield started


@asynccontextmanager
async def client(server: GuardedServer, who: str, refused: list[tuple[str, str]]) -> AsyncIterator[PatchedClient]:
    """A bare client, as an attacker with a stolen key would use. Only its `flush` is put right: nats-py's own may
    overtake what was to be sent before."""

    async def hear(error: Exception) -> None:
        found = REFUSED.search(str(error).lower())
        if found:
            refused.append((found[1], found[2]))

    opened = PatchedClient(server.access(who))
    await opened.connect(server.url, error_cb=hear)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.mark.parametrize("who", WHO)
async def test_each_may_do_what_is_his_and_nothing_else(server: GuardedServer, who: str) -> None:
    refused: list[tuple[str, str]] = []
    async with client(server, who, refused) as one:
        for subject in MAY_SUBSCRIBE:
            await one.subscribe(subject)
        for subject in MAY_PUBLISH:
            await one.publish(subject, b"")
        expected = {("publish", subject.lower()) for subject, may in MAY_PUBLISH.items() if who not in may}
        expected |= {("subscription", subject.lower()) for subject, may in MAY_SUBSCRIBE.items() if who not in may}
        await one.flush()

        async def heard() -> bool:  # nats-py may take the answer to an earlier ping for that to this one
            return expected <= set(refused)

        await until(heard)
    assert set(refused) == expected


async def test_a_refusal_is_told_to_whoever_asked(server: GuardedServer) -> None:
    bus = await connect(server.url, "remuda-operator", access=server.access("operator"), timeout_s=5)
    with pytest.raises(Refused, match=r"may not publish to remuda.inbox.rm-1") as refusal:
        await bus.append("remuda.inbox.rm-1", b"")
    assert refusal.value.code == 403
    await bus.close()


async def test_an_rm_that_is_asked_may_answer_once_and_only_there(server: GuardedServer) -> None:
    refused: list[tuple[str, str]] = []
    async with client(server, "rmproxy", refused), client(server, "rm-1", refused) as rm:
        bus = await connect(server.url, "remuda-rmproxy", access=server.access("rmproxy"), timeout_s=5)

        async def answer(message: Msg) -> None:
            await message.respond(b"yes")
            await message.respond(b"and again")
            await rm.publish(message.reply[:-1] + "7", b"to somebody else's question")

        await rm.subscribe("si.v1.rm.rm-1.predicates", cb=answer)
        await rm.flush()
        assert (await bus.request("si.v1.rm.rm-1.predicates", b"may it?")).payload == b"yes"
        await rm.flush()
        await bus.close()
    assert [kind for kind, _ in refused] == ["publish", "publish"]


async def test_plaintext_is_refused(server: GuardedServer) -> None:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    info = json.loads((await reader.readline()).partition(b" ")[2])
    assert info["tls_required"] and info["auth_required"]
    writer.write(b'CONNECT {"verbose":true}\r\nPING\r\n')
    assert b"PONG" not in await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("stranger", "why"),
    [
        ("no key", "Authorization Violation"),
        ("a key nobody knows", "Authorization Violation"),
        ("no certificate authority", "CERTIFICATE_VERIFY_FAILED"),
        ("another one", "CERTIFICATE_VERIFY_FAILED"),
    ],
)
async def test_strangers_stay_outside(server: GuardedServer, tmp_path: Path, stranger: str, why: str) -> None:
    good = server.access("core")
    other = GuardedServer(tmp_path / "other")
    access = {
        "no key": Access(ca=good.ca),
        "a key nobody knows": Access(ca=good.ca, seed=other.access("core").seed),
        "no certificate authority": Access(seed=good.seed),
        "another one": Access(ca=other.ca, seed=good.seed),
    }[stranger]
    with pytest.raises(Unanswered, match=why):
        await connect(server.url, "remuda-core", access=access, timeout_s=1)


def test_certificates_say_what_they_are_for_and_who_signed_them(tmp_path: Path) -> None:
    """As clients in Python 3.13 and later want it; here it is asked of them in any Python."""
    make_certificates(tmp_path)
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", "server.pem"]
    verified = subprocess.run(verify, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr


async def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    server = GuardedServer(tmp_path, days=EXPIRED)
    async with server:
        with pytest.raises(Unanswered, match="certificate has expired"):
            await connect(server.url, "remuda-core", access=server.access("core"), timeout_s=1)
        # The same server, the same keys, a certificate of today: that was all that was wrong.
        for name in ("server.pem", "server.key"):
            (server.secrets / name).unlink()
        make_certificates(server.secrets)
        await server.restart()
        bus = await connect(server.url, "remuda-core", access=server.access("core"), timeout_s=5)
        await bus.close()


async def test_keys_come_and_go_without_a_restart(server: GuardedServer) -> None:
    """`remuda rm add` and `remuda rm remove`, then SIGHUP."""
    seed = server.keys.add_rm("rm-3")
    kept = Access(ca=server.ca, seed=seed, domain="remuda")
    os.kill(server.pid, signal.SIGHUP)
    bus = await connect(server.url, "rm-rm-3", access=kept, timeout_s=10)
    copy = seed.with_name("copy")
    copy.write_bytes(seed.read_bytes())
    server.keys.remove_rm("rm-3")
    os.kill(server.pid, signal.SIGHUP)

    async def thrown_out() -> bool:
        return not bus.connected

    await until(thrown_out)
    await bus.close()
    with pytest.raises(Unanswered):
        await connect(server.url, "rm-rm-3", access=Access(ca=server.ca, seed=copy, domain="remuda"), timeout_s=1)


async def test_an_rm_that_is_let_in_later_is_heard_and_asked(server: GuardedServer) -> None:
    """By services that were there before. The server connects a new account to the others only when it reads for the
    second time."""
    proxy = await connect(server.url, "remuda-rmproxy", access=server.access("rmproxy"), timeout_s=5)

    async def yes(message: Message) -> bytes:
        return b"yes"

    await proxy.serve(subjects.register("*"), yes, "register")
    server.keys.add_rm("rm-3")
    for _ in range(2):
        os.kill(server.pid, signal.SIGHUP)
        await asyncio.sleep(1)
    rm = await connect(server.url, "rm-rm-3", access=server.access("rm-3"), timeout_s=5)
    await rm.serve(subjects.question("rm-3", "predicates"), yes, "predicates")
    assert (await rm.request(subjects.register("rm-3"))).payload == b"yes"
    assert (await proxy.request(subjects.question("rm-3", "predicates"))).payload == b"yes"
    for bus in (rm, proxy):
        await bus.close()


async def test_the_core_may_keep_snapshots_and_trim_behind_them(server: GuardedServer) -> None:
    core = await connect(server.url, "remuda-core", access=server.access("core"), timeout_s=5)
    everybody = await connect(server.url, "remuda-cli", access=server.access("admin"), timeout_s=5)
    lead = Lead(everybody)
    lead.snapshots = Snapshots(core, CoreMachine(lead.core), SETTINGS)
    await lead.begin()
    for number in range(3):
        await tell(everybody, await lead.ask(number))
        await lead.snapshot()
    first = await core.first_message("LOG", subjects.log(RM))
    assert first is not None and first.seq == lead.writer.position.seq - 1
    found, position = await restored(core)
    assert position == lead.writer.position
    assert digest(found.state) == digest(lead.core.state)
    await core.close()
    await everybody.close()


async def test_a_connection_that_is_lost_while_it_is_closed(server: GuardedServer) -> None:
    """nats-py's own ends half-way then, with an error of asyncio, and does not report that it is closed."""
    bus = await connect(server.url, "remuda-core", access=server.access("core"), timeout_s=5)
    client = bus._connection.client
    transport = client._transport._io_writer.transport  # type: ignore[union-attr]
    transport.abort()
    async with asyncio.timeout(5):
        while transport._ssl_protocol is not None:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
    client._pending, client._pending_data_size = [b"PUB a 1\r\na\r\n"], 12
    await bus.close()
    async with asyncio.timeout(1):
        assert await bus.closed()
    assert not client._subs
    with pytest.raises(Unanswered):
        await bus.request("x")
