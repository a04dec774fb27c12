"""`remuda.v1.Admin` and `Metrics` over gRPC and over NATS, with real services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.message import Message as Proto

from remuda.embedded import NatsServer
from remuda_bus.bus import Refused
from remuda_core.shell.main import main as core
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve as events
from remuda_operations.operator_api.methods import ACTING, READING
from remuda_operations.operators import Operator
from remuda_operations.queries.core import ask_core
from remuda_operations.system_user import user_of_the_system
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.grpc_client import details, failure
from tests.system.grpc_system import front_end
from tests.system.operator_client import GrpcOperator, NatsOperator
from tests.system.running import around_the_core, placed, running, until

RM = "rm-1"
OPERATOR = user_of_the_system()
QUEUES = f"""
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        adminacl: '{OPERATOR.name}'
        queues:
          - {{name: a, resources: {{max: {{vcore: 8}}}}}}
          - {{name: b}}
        limits:
          - {{limit: all, users: ['*'], maxresources: {{vcore: 100}}}}
"""
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class System:
    grpc: GrpcOperator
    nats: NatsOperator
    json: NatsOperator
    rm: ResourceManager
    uuid: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """An RM with two nodes, a running application with an allocation and a pending ask, and one without allocations."""
    directory = tmp_path_factory.mktemp("operators")
    file = directory / "queues.yaml"
    file.write_text(QUEUES)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(NatsServer(directory / "nats"))
        bus = await stack.enter_async_context(around_the_core(server.url, file))
        await stack.enter_async_context(running(server.url, "core", core, CoreSettings))
        await stack.enter_async_context(running(server.url, "events", lambda own, _: events(own, "events")))
        port = await stack.enter_async_context(front_end(server.url, bus))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"localhost:{port}"))
        rm = await stack.enter_async_context(ResourceManager.connect(server.url, RM))
        await rm.report_nodes([node("n1", vcore=4_000), node("n2", vcore=4_000)])
        await rm.submit(application("app-1", user="alice", queue="root.a"))
        await rm.submit(application("app-2", user="bob", queue="root.b"))
        await rm.ask([ask("app-1", "k1", vcore=1_000), ask("app-1", "big", vcore=5_000)])
        (found,) = await placed(rm, "k1")
        grpc_operator = GrpcOperator(channel)
        nats, as_json = NatsOperator(bus, OPERATOR), NatsOperator(bus, OPERATOR, as_json=True)
        system = System(grpc_operator, nats, as_json, rm, found.UUID)

        async def is_told() -> bool:
            read = await nats.call("ReadChanges", rm=RM, from_oldest=True)
            return any(change.event.objectID == "n2" for change in read.changes)

        async def is_forecast() -> bool:
            return any(one.HasField("forecast") for one in (await nats.call("Explain", rm=RM)).asks)

        await until(is_told)
        await until(is_forecast)  # the first explanation only asks for a forecast
        yield system


OF_RM = {
    "ListQueues", "ListNodes", "ListTopology", "ListApplications", "ListRejections", "ListAllocations", "ListUsage",
    "ListReservations", "ListWindows", "Explain", "ListForecasts", "GetDigest", "GetResourceManager", "GetQueues",
    "GetLedger", "GetNodes", "ReadChanges",
}  # fmt: skip
FIELDS: dict[str, dict[str, Any]] = {
    "GetStory": {"rm": RM, "id": "app-1"},
    "WhatIf": {"rm": RM, "application": "app-1", "key": "big"},
    "Preview": {"rm": RM, "text": QUEUES.replace("vcore: 8", "vcore: 500m"), "passes": 1},
    "CheckConfiguration": {"text": QUEUES},
    "GetConfigurationVersion": {"version": 1},
    "DiffConfiguration": {"before": 1, "text": QUEUES.replace("vcore: 8", "vcore: 9")},
    **{method: {"rm": RM} for method in OF_RM},
}
CHANGING = {"at_ms", "callbacks_waiting", "streams"}  # fields that differ from answer to answer


@pytest.mark.parametrize("method", [method for _, method in READING])
async def test_both_transports_and_forms_answer_alike(system: System, method: str) -> None:
    fields = FIELDS.get(method, {})
    over_nats, in_json, over_grpc = [
        await client.call(method, **fields) for client in (system.nats, system.json, system.grpc)
    ]
    for one in (over_nats, in_json, over_grpc):
        _clear(one)
    assert (over_nats.ByteSize() or method == "ListFaults") and over_nats == in_json == over_grpc


def _clear(message: Any) -> None:
    """Clear what differs from answer to answer."""
    for field, value in message.ListFields():
        if field.name in CHANGING or field.name in ("log_seq", "state", "next_page_token"):
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if field.is_repeated else [value]:
                _clear(one)


async def test_state(system: System) -> None:
    queues = await system.grpc.call("ListQueues", rm=RM)
    assert [(one.path, one.allocated.resources["vcore"].value) for one in queues.queues] == [
        ("root", 1_000), ("root.a", 1_000), ("root.b", 0),
    ]  # fmt: skip
    assert queues.queues[1].max.resources["vcore"].value == 8_000
    assert queues.partitions[0].nodes == 2 and queues.head.state == "Running" and queues.head.log_seq
    nodes = await system.grpc.call("ListNodes", rm=RM)
    assert sorted(one.available.resources["vcore"].value for one in nodes.nodes) == [3_000, 4_000]
    applications = await system.grpc.call("ListApplications", rm=RM, application="app-1")
    (found,) = applications.applications
    assert (found.user, found.queue, found.allocations, found.asks) == ("alice", "root.a", 1, 1)
    allocations = await system.grpc.call("ListAllocations", rm=RM)
    assert [one.uuid for one in allocations.allocations] == [system.uuid]
    (waiting,) = (await system.grpc.call("Explain", rm=RM)).asks
    assert waiting.key == "big" and waiting.constraints[0].resource == "vcore" and waiting.position.waiting == 1
    usage = await system.grpc.call("ListUsage", rm=RM, user="alice")
    assert {one.queue for one in usage.usage} == {"root", "root.a"}


def _unknown(row: Any, descriptor: Any) -> set[str]:
    """Names in a row of a core that the message does not have."""
    fields = descriptor.fields_by_name
    found = {f"{descriptor.name}.{name}" for name in row if name not in fields}
    for name, value in row.items():
        kind = fields[name].message_type if name in fields else None
        if kind is None or value is None or kind.GetOptions().map_entry or kind.full_name == "si.v1.Resource":
            continue
        for one in value if fields[name].is_repeated else [value]:
            found |= _unknown(one, kind)
    return found


async def test_messages_have_all_fields_of_rows(system: System) -> None:
    rows: dict[str, type[Proto]] = {
        "queues": admin.Queue, "nodes": admin.Node, "applications": admin.Application, "rejections": admin.Rejection,
        "allocations": admin.Allocation, "usage": admin.Usage, "asks": admin.PendingAsk,
    }  # fmt: skip
    for name, kind in rows.items():
        answer = await ask_core(system.nats._bus, "explain" if name == "asks" else name, dict[str, Any], rm=RM)
        assert answer[name] or name == "rejections"
        assert not set().union(*(_unknown(row, kind.DESCRIPTOR) for row in answer[name]))


async def test_pages(system: System) -> None:
    first = await system.nats.call("ListNodes", rm=RM, page={"limit": 1})
    assert [one.id for one in first.nodes] == ["n1"] and first.head.next_page_token
    second = await system.nats.call("ListNodes", rm=RM, page={"limit": 1, "page_token": first.head.next_page_token})
    assert [one.id for one in second.nodes] == ["n2"] and not second.head.next_page_token
    lines = await system.nats.call("GetStory", rm=RM, id="app-1")
    texts, token = [], ""
    while True:
        page = await system.nats.call("GetStory", rm=RM, id="app-1", limit=2, page_token=token)
        texts += [line.text for line in page.lines]
        token = page.next_page_token
        if not token:
            break
    assert texts == [line.text for line in lines.lines] and len(texts) > 3 and lines.complete


@pytest.mark.parametrize(
    ("method", "fields", "code", "status", "field", "said"),
    [
        ("ListNodes", {}, 400, "INVALID_ARGUMENT", "rm", "rm is '', expected the rmID"),
        ("ListNodes", {"rm": "*"}, 400, "INVALID_ARGUMENT", "rm", r"rm is '\*', expected the rmID"),
        ("ListNodes", {"rm": "rm-9"}, 404, "NOT_FOUND", "", "no resource manager 'rm-9' is registered"),
        ("ListNodes", {"rm": RM, "page": {"page_token": "x"}}, 400, "INVALID_ARGUMENT", "page_token", "page_token is"),
        ("ListNodes", {"rm": RM, "page": {"page_token": '"x"'}}, 400, "INVALID_ARGUMENT", "after", "after is"),
        ("ListApplications", {"rm": RM, "application": "x"}, 404, "NOT_FOUND", "", "application 'x' does not exist"),
        ("GetStory", {"rm": RM}, 400, "INVALID_ARGUMENT", "", "expected a name"),
        ("GetConfigurationVersion", {"version": 99}, 404, "NOT_FOUND", "", "there is no version 99"),
        ("DiffConfiguration", {"before": 1}, 400, "INVALID_ARGUMENT", "after", "after: missing"),
        ("ReadChanges", {"after": 2**60}, 410, "OUT_OF_RANGE", "", "the newest change has the position"),
        ("KillApplication", {"rm": RM}, 400, "INVALID_ARGUMENT", "application_id", "application_id"),
        ("ApplyConfiguration", {"text": "x", "edits": [{"do": "set"}]}, 400, "INVALID_ARGUMENT", "", "text and edits"),
        ("WhatIf", {"rm": RM, "application": "app-1", "key": "none"}, 404, "NOT_FOUND", "", "no pending ask 'none'"),
        ("Preview", {"rm": RM, "text": QUEUES, "passes": 99}, 400, "INVALID_ARGUMENT", "passes", "passes is 99"),
    ],
)
async def test_errors_name_field_and_value(
    system: System, method: str, fields: dict[str, Any], code: int, status: str, field: str, said: str
) -> None:
    with pytest.raises(Refused, match=said) as refused:
        await system.nats.call(method, **fields)
    assert refused.value.code == code
    error = await failure(system.grpc.call(method, **fields))
    assert (error.code().name, refused.value.reason) == (status, error.details())
    violations = [one.field for one in details(error)["BadRequest"].field_violations] if field else [""]
    assert violations == [field]


async def test_what_is_no_request_is_refused(system: System) -> None:
    for as_json, payload in ((False, b"\xff\xff"), (True, b"{"), (True, b'{"nosuch": 1}'), (True, b"\xff")):
        headers = {"Content-Type": "application/json"} if as_json else {}
        with pytest.raises(Refused, match="the request is no ListNodesRequest") as refused:
            await system.nats._bus.request("remuda.api.admin.ListNodes", payload, headers)
        assert refused.value.code == 400
    for method, kind in (("ListNodes", "unary_unary"), ("FollowChanges", "unary_stream")):
        call = getattr(system.grpc._channel, kind)(f"/remuda.v1.Admin/{method}")(b"\xff\xff")
        assert await call.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_actions(system: System) -> None:
    for client in (system.grpc, system.nats, system.json):
        options = {"reason": "disks", "action_id": f"hold-{id(client)}"}
        outcomes = [await client.call("HoldQueue", rm=RM, queue="root.b", options=options) for _ in range(2)]
        assert [(one.outcome, one.repeated) for one in outcomes] == [("accepted", False), ("accepted", True)]
        (held,) = [
            one for one in (await client.call("ListQueues", rm=RM)).queues if one.path == "root.b"
        ]  # fmt: skip
        assert (held.held.operator, held.held.reason) == (OPERATOR.name, "disks")
        resumed = await client.call("ResumeQueue", rm=RM, queue="root.b")
        assert resumed.outcome == "accepted" and len(resumed.action_id) == 16
    refused = await NatsOperator(system.nats._bus, Operator("eve")).call("HoldQueue", rm=RM, queue="root.b")
    assert refused.outcome == "refused" and "eve" in refused.reason


async def test_acting_needs_a_name(system: System) -> None:
    unnamed = NatsOperator(system.nats._bus)
    for method in ACTING:
        with pytest.raises(Refused, match=f"{method} needs an operator") as refused:
            await unnamed.call(method)
        assert refused.value.code == 403


async def test_configuration(system: System) -> None:
    before = await system.grpc.call("GetConfiguration")
    assert before.text == QUEUES and before.version.number == 1
    edit = {"do": "set", "queue": "root.a", "key": "max.vcore", "value": "6"}
    changed = await system.grpc.call("ApplyConfiguration", edits=[edit], message="less", for_ms=600_000)
    assert changed.version.number == 2 and changed.changed and "vcore" in changed.changes[0]
    assert (await system.grpc.call("ConfirmConfiguration", version=2)).version.confirmed_by == OPERATOR.name
    shown = await system.grpc.call("GetConfigurationVersion", version=2)
    assert shown.version.message == "less" and "vcore: 6" in shown.text
    difference = await system.grpc.call("DiffConfiguration", before=1, after=2)
    assert difference.lines and difference.changes
    refused = await system.grpc.call("ApplyConfiguration", text="partitions: 7")
    assert not refused.HasField("version") and refused.problems[0].message
    back = await system.grpc.call("RollbackConfiguration", version=1, base=2)
    assert back.version.restores == 1
    error = await failure(system.grpc.call("RollbackConfiguration", version=1, base=2))
    assert error.code() == grpc.StatusCode.ABORTED and "version 3 is in force" in error.details()
    versions = await system.grpc.call("ListConfigurationVersions")
    assert versions.active == 3 and [one.number for one in versions.versions] == [3, 2, 1]


async def test_preview(system: System) -> None:
    less = QUEUES.replace("vcore: 8", "vcore: 500m")
    found = await system.grpc.call("Preview", rm=RM, text=less)
    assert not found.refused and found.passes == 3
    change = {row.queue: row for row in found.queues.rows}["root.a"]
    assert change.change == "changed" and change.fields["max"].after == '{"vcore": 500}'
    assert [(row.queue, row.over) for row in found.over_quota.rows] == [("root.a", 500)]
    wrong = await system.grpc.call("Preview", rm=RM, text="partitions: 7")
    assert wrong.problems and not wrong.checksum


async def test_what_would_let_an_ask_run(system: System) -> None:
    found = await system.grpc.call("WhatIf", rm=RM, application="app-1", key="big")
    assert not found.runs and found.complete and [one.constraint for one in found.constraints] == ["too_large"]
    (change,) = found.changes
    (step,) = change.steps
    assert step.step == "node" and step.capacity.resources["vcore"].value == 5_000 and change.exact
    assert step.text == "one more node with {vcore=5000}"
    (waiting,) = (await system.grpc.call("Explain", rm=RM, application="app-1", key="big")).asks
    assert waiting.constraints[0].HasField("holders")


async def test_changes_are_followed_and_resumed(system: System) -> None:
    whole = system.grpc.call("FollowChanges")
    start = (await whole.read()).position
    only = system.grpc.call("FollowChanges", rm=RM, ids=["n1"], types=[si.EventRecord.NODE])
    await only.read()
    assert (await system.nats.call("ReadChanges", after=start)).position == start
    waiting = asyncio.create_task(system.nats.call("ReadChanges", rm=RM, after=start, wait_ms=10_000))
    await system.grpc.call("DrainNode", rm=RM, node_id="n1")
    seen = await _until(whole, lambda change: change.event.objectID == "n1")
    assert seen[-1].rm == RM and seen[-1].log_seq and seen[-1].position > start
    assert (await _until(only, lambda change: change.HasField("event")))[-1] == seen[-1]
    assert seen[-1] in (await waiting).changes
    whole.cancel()
    only.cancel()
    again = system.grpc.call("FollowChanges", after=start)
    resumed = await _until(again, lambda change: change.position == seen[-1].position)
    events = [one for one in seen if one.HasField("event")]
    assert [one for one in resumed if one.HasField("event")] == events
    again.cancel()
    await system.grpc.call("UndrainNode", rm=RM, node_id="n1")


async def _until(call: Any, enough: Any) -> list[admin.Change]:
    found: list[admin.Change] = []
    async with asyncio.timeout(20):
        while not (found and enough(found[-1])):
            found.append(await call.read())
            assert found[-1] is not grpc.aio.EOF
    return found


async def test_followers_are_bounded(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_operations.operator_api.changes.CHANGE_READERS", 1)
    one = system.grpc.call("FollowChanges")
    await one.read()
    error = await failure(system.grpc.call("FollowChanges").read())
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "try another front end" in error.details()
    one.cancel()

    async def has_room() -> bool:
        again = system.grpc.call("FollowChanges")
        try:
            return bool(await again.read())
        except grpc.aio.AioRpcError:
            return False
        finally:
            again.cancel()

    await until(has_room)


async def test_metrics(system: System) -> None:
    whole = await system.grpc.call("GetSystem")
    assert whole.services["core"] == whole.services["grpc"] == 1 and whole.front_ends[0].port
    assert whole.cores[0].rms[0].rm == RM and whole.cores[0].rms[0].leads
    assert whole.resource_managers["registered"] == 1 and set(whole.streams) >= {"LOG", "INBOX"}
    one = await system.grpc.call("GetResourceManager", rm=RM)
    assert (one.nodes, one.applications, one.allocations, one.registration) == (2, 2, 1, 1)
    assert one.partitions[0].utilisation["vcore"] == 1 / 8
    queues = await system.grpc.call("GetQueues", rm=RM)
    assert {queue.path: queue.utilisation["vcore"] for queue in queues.queues} == {
        "root": 1 / 8, "root.a": 1 / 8, "root.b": 0,
    }  # fmt: skip
    nodes = await system.grpc.call("GetNodes", rm=RM)
    assert nodes.nodes == 2 and nodes.idle == 1 and nodes.statuses["Schedulable"] == 2
    assert nodes.utilisation["vcore"].mean == 1 / 8
    assert list(nodes.utilisation["vcore"].nodes) == [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    error = await failure(system.grpc.call("FollowResourceManager", rm=RM, interval_ms=1).read())
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "interval_ms is 1" in error.details()
    follow = system.grpc.call("FollowResourceManager", rm=RM, interval_ms=1_000)
    first = await follow.read()
    await system.rm.ask([ask("app-1", "k2", vcore=1_000)])
    await placed(system.rm, "k2")
    samples = [first]
    async with asyncio.timeout(20):
        while samples[-1].allocations_per_s == 0:
            samples.append(await follow.read())
    assert samples[-1].allocations_ever == first.allocations_ever + 1
    follow.cancel()
