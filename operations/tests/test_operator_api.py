"""Rows as messages, the table of methods, and selections of changes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remuda_bus.bus import Message, Refused
from remuda_bus.memory import MemoryBus
from remuda_operations.operator_api.changes import CHANGE_READERS_OF_RM, Changes
from remuda_operations.operator_api.endpoints import serve
from remuda_operations.operator_api.messages import READER, Caller, amounts, decoded, encoded, filled
from remuda_operations.operator_api.methods import ACTING, READING, Access, methods
from remuda_operations.operators import Operator
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.remuda.v1 import metrics_pb2 as metrics

INT64 = st.integers(-(2**63), 2**63 - 1)
AMOUNTS = st.dictionaries(st.text(max_size=5), INT64, max_size=3)


@given(allocated=AMOUNTS, used=AMOUNTS, tags=st.dictionaries(st.text(max_size=5), st.text(max_size=5)), since=INT64)
def test_rows_become_messages(allocated: dict[str, int], used: dict[str, int], tags: dict[str, str], since: int):
    row = {
        "path": "root.a", "allocated": allocated, "properties": tags, "draining_since_ms": since, "held": None,
        "limited": [{"user": "ann", "used": used}, {"group": "ops"}], "added_later": {"x": [1]},
        "allocating_accepted_applications": ["a", "b"],
    }  # fmt: skip
    queue = filled(admin.Queue(), row)
    assert amounts(queue.allocated) == allocated and dict(queue.properties) == tags and queue.draining_since_ms == since
    assert amounts(queue.limited[0].used) == used and queue.limited[1].group == "ops"
    assert not queue.HasField("held") and list(queue.allocating_accepted_applications) == ["a", "b"]


def test_values_of_changed_fields_are_json():
    row = {"fields": {"max": {"before": {"vcore": 1}, "after": None}}}
    change = filled(admin.PreviewedChange(), row).fields["max"]
    assert (json.loads(change.before), json.loads(change.after)) == ({"vcore": 1}, None)


@pytest.mark.parametrize("row", [{"leaf": "x"}, {"path": 7}, {"applications": -1}, {"allocated": {"vcore": "x"}}])
def test_values_of_another_type_are_errors(row: dict[str, Any]):
    with pytest.raises((TypeError, ValueError)):
        filled(admin.Queue(), row)


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_page_tokens(place: object):
    assert decoded(encoded(place)) == place


def test_every_method_has_one_handler_and_one_subject():
    found = methods()
    names = [method.name for method in found]
    assert len(set(names)) == len(names)  # also across services: both are endpoints of one micro service
    descriptors = (admin.DESCRIPTOR.services_by_name["Admin"], metrics.DESCRIPTOR.services_by_name["Metrics"])
    assert names == [method.name for service in descriptors for method in service.methods]
    unary = {method.name for method in found if method.stream is None}
    assert unary == {*ACTING, *(name for _, name in READING)}
    assert {method.name for method in found if method.access is Access.ACT} == set(ACTING)


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_who_may_use_a_method(method: Any):
    """A caller without rights uses nothing; an RM what is about itself; a reader what reads; an operator everything."""
    rm = Caller(reads_rm=lambda rm_id: rm_id == "rm-1")
    operator = Caller(Operator("ann"), reads_all=True)
    of_rm = {"rm": "rm-1"} if "rm" in method.request.DESCRIPTOR.fields_by_name else {}
    for caller, may in (
        (Caller(), False),
        (rm, method.access is Access.RM),
        (READER, method.access is not Access.ACT),
        (operator, True),
    ):
        assert _may(method, caller, method.request(**of_rm)) == may
    if of_rm:
        assert not _may(method, rm, method.request(rm="rm-2")) and not _may(method, rm, method.request())


def _may(method: Any, caller: Caller, request: Any) -> bool:
    try:
        method.check(caller, request)
    except Refused as refused:
        return refused.code != 403
    return True


async def test_followers_of_one_rm_leave_places_to_others() -> None:
    bus, changes = MemoryBus(), Changes()
    rm, operator = Caller(reads_rm=lambda rm_id: rm_id == "rm-1"), Caller(Operator("ann"), reads_all=True)

    def following(caller: Caller, rm_id: str) -> AsyncGenerator[admin.Change]:
        return changes.follow(bus, caller, admin.FollowChangesRequest(rm=rm_id))

    followers = [following(rm, "rm-1") for _ in range(CHANGE_READERS_OF_RM)]
    for follower in followers:
        await anext(follower)
    with pytest.raises(Refused, match="10 clients of 'rm-1'"):
        await anext(following(rm, "rm-1"))
    others = [following(operator, "rm-1"), following(operator, ""), following(rm, "rm-2")]
    for other in others:
        await anext(other)
    await followers[0].aclose()
    await anext(following(rm, "rm-1"))


async def test_a_core_of_another_version_is_an_outage():
    bus = MemoryBus()

    async def odd(_: Message) -> bytes:
        return json.dumps({"rm": "rm-1", "nodes": [{"id": 7}]}).encode()

    await bus.serve("remuda.api.core.*.nodes", odd, "nodes")
    await serve(bus, methods())
    with pytest.raises(Refused, match="the answer of a core cannot be read") as refused:
        await bus.request("remuda.api.admin.ListNodes", admin.ListNodesRequest(rm="rm-1").SerializeToString())
    assert refused.value.code == 503


async def test_reservations_have_their_promises():
    bus = MemoryBus()
    promise = {"promised_ms": 9, "first_ms": 7, "changed_ms": 8, "cause": "late"}
    named = {"application": "app", "key": "k"}

    async def nodes(_: Message) -> bytes:
        rows = [
            {"partition": "default", "id": "n1", "reserved_for": named, "promise": promise},
            {"partition": "default", "id": "n2", "reserved_for": named, "promise": None},
            {"partition": "default", "id": "n3", "reserved_for": None},
        ]  # fmt: skip
        return json.dumps({"rm": "rm-1", "nodes": rows}).encode()

    await bus.serve("remuda.api.core.*.nodes", nodes, "nodes")
    await serve(bus, methods())
    request = admin.ListReservationsRequest(rm="rm-1").SerializeToString()
    reply = await bus.request("remuda.api.admin.ListReservations", request)
    promised, reserved = admin.ListReservationsResponse.FromString(reply.payload).reservations
    assert (promised.node, promised.application, promised.key) == ("n1", "app", "k")
    assert {one.name: value for one, value in promised.promise.ListFields()} == promise
    assert reserved.node == "n2" and not reserved.HasField("promise")


async def test_services_that_are_away_are_an_outage():
    bus = MemoryBus()
    await serve(bus, methods())
    requests = {
        "ListNodes": admin.ListNodesRequest(rm="rm-1"),
        "GetStory": admin.GetStoryRequest(rm="rm-1", id="x"),
    }
    for method, request in requests.items():
        with pytest.raises(Refused) as refused:
            await bus.request(f"remuda.api.admin.{method}", request.SerializeToString())
        assert refused.value.code == 503, method
