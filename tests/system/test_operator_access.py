"""Access of operators to a running system: each cell of the table is tried over the bus, with the real keys.

An accepted cell is done to things of its own, or undone by an administrator who may.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from cli.tests.running import finished
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused, Unanswered
from remuda_bus.nats import Access, connect
from remuda_config.shell import main as config
from remuda_core.shell.main import main as core
from remuda_core.shell.settings import CoreSettings
from remuda_operations.operators import Operator
from remuda_replication.process import Settings
from remuda_rmproxy.settings import RmproxySettings
from remuda_rmproxy.shell import main as rmproxy
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.guarded import GuardedServer
from tests.system.running import placed, running, until

RM = "rm-1"
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        adminacl: pat
        queues:
          - {name: a, adminacl: "ann@example.com a-admins", resources: {max: {vcore: 1000}}}
          - {name: b, adminacl: bob, resources: {max: {vcore: 1000}}}
          - {name: c, adminacl: "cleo"}
"""
EVE = Operator("eve", ("nobodies",))  # in no access list
ANN = Operator("ann@example.com")  # administers root.a by name
BEN = Operator("ben", ("users", "a-admins"))  # administers root.a by group
BOB = Operator("bob")  # administers root.b
PAT = Operator("pat")  # administers root
SAM = Operator("sam", ("ops",))  # scheduler administrator by group
MAX = Operator("a-admins", ("bob", "sam"))  # a name that is a group elsewhere, and groups that are names
OPERATORS = (EVE, ANN, BEN, BOB, PAT, SAM, MAX)
OTHERS = ("operator", "core", "rmproxy", "config", "events", "rm-1", "rm-2")
OF_A = {ANN.name, BEN.name, PAT.name}
# Action -> the operators to whom it is allowed, for objects of the queue root.a. All others are refused.
MAY = {
    "kill_application": OF_A,
    "move_application": {PAT.name},  # to root.b: the administrator of both
    "hold_queue": OF_A,
    "resume_queue": OF_A,
    "lend_quota": {PAT.name},  # to root.b: the administrator of both
    "end_loan": {*OF_A, BOB.name},
    "change_ask_priority": OF_A,
    "release_one_allocation": OF_A,
    "drain_node": {SAM.name},
    "undrain_node": {SAM.name},
    "forget_rm": {SAM.name},
}


LOAN = {"queue": "root.a", "borrower": "root.b", "amounts": {"vcore": 5}, "until_ms": 9 * 10**14}


class Eager(RmproxySettings):
    """The scheduler's access list of this system."""

    scheduler_acl: str = " ops"


@dataclass
class System:
    """`applications`: names of running applications in root.a, each with a pending ask `never` and an allocation."""

    server: GuardedServer
    connections: dict[str, Bus]
    applications: AsyncIterator[tuple[str, str]]
    numbers: count[int]

    async def act(self, who: str, action: str, **fields: Any) -> str:
        """accepted, refused, or what refused the request."""
        payload = json.dumps({"action_id": f"x{next(self.numbers)}", **fields}).encode()
        reply = await self.connections[who].request(subjects.own_administration(RM, action), payload, timeout_s=20)
        found = json.loads(reply.payload)
        assert found["outcome"] in ("accepted", "refused"), found
        return str(found["outcome"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    directory = tmp_path_factory.mktemp("access")
    (directory / "queues.yaml").write_text(QUEUES)
    server = GuardedServer(directory, operators=OPERATORS)
    async with server, AsyncExitStack() as stack:
        admin = await connect(server.url, "remuda-cli", access=server.access("admin"), timeout_s=5)
        stack.push_async_callback(admin.close)
        await admin.declare()
        for name, main, settings in (
            ("config", lambda bus, own: config(bus, own, directory / "queues.yaml"), Settings),
            ("core", core, CoreSettings),
            ("rmproxy", rmproxy, Eager),
        ):
            await stack.enter_async_context(running(server.url, name, main, settings, server.access(name)))
        connections: dict[str, Bus] = {"admin": admin}
        for who in (*(operator.name for operator in OPERATORS), *OTHERS):
            name = f"remuda-{who}" if who in ("core", "rmproxy", "config", "events") else "remuda-cli"
            connections[who] = await connect(server.url, name, access=server.access(who), timeout_s=5)
            stack.push_async_callback(connections[who].close)
        bus = await connect(server.url, "rm-rm-1", access=server.access(RM), timeout_s=5)
        rm = await stack.enter_async_context(ResourceManager.connect(bus, RM))
        await rm.report_nodes([node("n1", vcore=1_000)])
        yield System(server, connections, fresh_applications(rm), count())


async def fresh_applications(rm: ResourceManager) -> AsyncIterator[tuple[str, str]]:
    """An application and the UUID of its allocation."""
    for number in count():
        name = f"app-{number}"
        await rm.submit(application(name, user="alice", queue="root.a"))
        await rm.ask([ask(name, f"one-{number}", vcore=1), ask(name, "never", vcore=2_000)])
        (found,) = await placed(rm, f"one-{number}")
        yield name, found.UUID


async def fields_of(system: System, action: str) -> dict[str, Any]:
    if action in ("drain_node", "undrain_node"):
        return {"node_id": "n1"}
    if action in ("hold_queue", "resume_queue"):
        return {"queue": "root.a"}
    if action in ("lend_quota", "end_loan"):
        return LOAN if action == "lend_quota" else {name: LOAN[name] for name in ("queue", "borrower")}
    if action == "forget_rm":
        return {}
    name, uuid = await anext(system.applications)
    found: dict[str, dict[str, Any]] = {
        "kill_application": {"application_id": name},
        "move_application": {"application_id": name, "queue": "root.b"},
        "change_ask_priority": {"application_id": name, "allocation_key": "never", "priority": 7},
        "release_one_allocation": {"uuid": uuid},
    }
    return found[action]


BEFORE = {
    "resume_queue": ("pat", "hold_queue"), "undrain_node": ("sam", "drain_node"), "end_loan": ("pat", "lend_quota"),
}  # fmt: skip
AFTER = {
    "hold_queue": ("pat", "resume_queue"), "drain_node": ("sam", "undrain_node"), "lend_quota": ("pat", "end_loan"),
}  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("action", [action for action in MAY if action != "forget_rm"])
async def test_access_lists_decide_for_each_operator(system: System, action: str) -> None:
    fields = await fields_of(system, action)
    for operator in sorted(OPERATORS, key=lambda one: one.name in MAY[action]):  # first those who may not
        may = operator.name in MAY[action]
        if action in BEFORE and may:
            before = LOAN if action == "end_loan" else fields
            assert await system.act(*BEFORE[action], **before) == "accepted"
        assert await system.act(operator.name, action, **fields) == ("accepted" if may else "refused"), operator
        if action in AFTER and may:
            after = await fields_of(system, "end_loan") if action == "lend_quota" else fields
            assert await system.act(*AFTER[action], **after) == "accepted"
        if may:
            fields = await fields_of(system, action)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("action", MAY)
async def test_no_other_key_acts(system: System, action: str) -> None:
    """Neither on the subject of operators, nor on the one that the server makes of it."""
    payload = json.dumps({"action_id": "forged"}).encode()
    forged = [subjects.administration(one.token, one.groups_token, RM, action) for one in (SAM, PAT)]
    for who in OTHERS:
        for subject in (subjects.own_administration(RM, action), *forged):
            with pytest.raises(Refused, match="may not publish"):
                await system.connections[who].request(subject, payload)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_server_refuses_forged_names_and_groups(system: System) -> None:
    """An operator can use neither the name of another, nor another group, nor even the own name."""
    payload = json.dumps({"action_id": "forged", "node_id": "n1"}).encode()
    for operator in OPERATORS:
        for claimed in (*OPERATORS, Operator(operator.name, ("ops",)), Operator("root")):
            subject = subjects.administration(claimed.token, claimed.groups_token, RM, "drain_node")
            with pytest.raises(Refused, match="may not publish"):
                await system.connections[operator.name].request(subject, payload)
        with pytest.raises(Refused, match="may not publish"):
            await system.connections[operator.name].append(subjects.inbox(RM), b"")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_request_that_claims_to_be_somebody_is_refused(system: System) -> None:
    for claim in ({"operator": "sam"}, {"groups": ["ops"]}, {"scheduler_administrator": True}):
        with pytest.raises(Refused, match="unknown field"):
            await system.act("eve", "drain_node", node_id="n1", **claim)


@pytest.mark.asyncio(loop_scope="module")
async def test_without_a_key_nobody_connects(system: System) -> None:
    with pytest.raises(Unanswered, match="Authorization Violation"):
        await connect(system.server.url, "remuda-cli", access=Access(ca=system.server.ca), timeout_s=1)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_repeated_action_gets_the_same_answer(system: System) -> None:
    name, _ = await anext(system.applications)
    payload = json.dumps({"action_id": "once", "application_id": name}).encode()
    subject = subjects.own_administration(RM, "kill_application")
    answers = [json.loads((await system.connections["pat"].request(subject, payload)).payload) for _ in range(3)]
    assert [(one["outcome"], one["repeated"]) for one in answers] == [
        ("accepted", False), ("accepted", True), ("accepted", True),
    ]  # fmt: skip
    other = json.loads((await system.connections["eve"].request(subject, payload)).payload)
    assert (other["outcome"], other["repeated"]) == ("refused", False)  # the same ID of another operator is another


@pytest.mark.asyncio(loop_scope="module")
async def test_the_commands_act_and_say_what_was_decided(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """As people use them, with the key of the operator in the environment."""
    name, uuid = await anext(system.applications)
    monkeypatch.setenv("REMUDA_NATS_URL", system.server.url)
    monkeypatch.setenv("REMUDA_NATS_CA", str(system.server.ca))
    move = ["move", RM, name, "root.b"]
    said = [
        ("pat", ["hold", RM, "root.b", "--reason", "new disks"], 0, "queue root.b is held"),
        ("pat", move, 1, "queue root.b is held.*; --force overrides this"),
        ("pat", [*move, "--force"], 0, rf"application {name} is in queue root.b \(by force: .*held"),
        ("pat", ["unhold", RM, "root.b"], 0, "queue root.b is no longer held"),
        ("bob", ["priority", RM, name, "never", "9"], 0, f"ask {name}/never has priority 9"),
        ("bob", ["release", RM, uuid, "--json"], 0, r'{"outcome":"accepted","action_id":"\w{16}",'),
        ("sam", ["drain", RM, "n1", "--action-id", "rack-7"], 0, "node n1 is drained$"),
        ("sam", ["drain", RM, "n1", "--action-id", "rack-7"], 0, r"node n1 is drained \(it was done before\)"),
        ("sam", ["undrain", RM, "n1"], 0, "node n1 is no longer drained by an operator"),
        ("bob", ["kill", RM, name], 0, f"application {name} is killed"),
        ("operator", ["kill", RM, name], 1, "this key is not that of an operator"),
        ("sam", ["rm", "forget", RM, "--yes"], 1, "forget rm in rm-1 is refused: .*--although-registered overrides"),
    ]
    for who, arguments, code, pattern in said:
        monkeypatch.setenv("REMUDA_NATS_SEED", str(system.server.access(who).seed))
        found, output = await finished(*arguments)
        assert (found, bool(re.search(pattern, output.strip()))) == (code, True), (who, arguments, output)


@pytest.mark.asyncio(loop_scope="module")
async def test_an_rm_is_forgotten_by_a_scheduler_administrator_alone(system: System) -> None:
    """Runs last: the RM is gone then."""
    for operator in OPERATORS:
        if operator is not SAM:
            assert await system.act(operator.name, "forget_rm", force=True) == "refused", operator
    assert await system.act("sam", "forget_rm") == "refused"  # it is registered
    assert await system.act("sam", "forget_rm", force=True) == "accepted"

    async def is_gone() -> bool:
        try:
            return await system.connections["admin"].get(subjects.RMS.name, RM) is None
        except BusError:
            return False

    await until(is_gone)
