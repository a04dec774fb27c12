"""Each bound of the table on the real way: translate (rmproxy), wire, decide. A value at its bound is taken; one above
it is refused, or shortened, with a reason that names the field and is short itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_core.check import check
from remuda_core.commands import Register
from remuda_core.core import Core
from remuda_core.settings import built_in
from remuda_core.wire.codec import CommitCodec
from remuda_proto import bounds
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.inbound.translate import NORMALISE_BY_KIND, InvalidRequest, commands_of, configuration_update
from remuda_rmproxy.records.partitions import SchedulerNames
from remuda_rmproxy.sessions.registration_request import read_registration

RM = "rm-1"
ROOM = 8 * 1024 * 1024
REFUSED = (
    "application_rejected", "ask_rejected", "allocation_rejected", "node_rejected", "registration_refused",
    "release_ignored",
)  # fmt: skip
AMOUNT = si.Resource(resources={"vcore": si.Quantity(value=1)})


class Path:
    """Passes requests of an RM through rmproxy's translation into a core that knows an application and a node."""

    def __init__(self) -> None:
        self.core = Core(RM)
        self.core.handle(Register(RM, built_in()), 1_000)
        self.seq = 0
        self.send("application", si.ApplicationRequest(new=[application("app")]))
        self.send("node", si.NodeRequest(nodes=[node("node")]))

    def send(self, kind: str, request: Any) -> list[log_pb2.Fact]:
        return [fact for command in self.translated(kind, request) for fact in self.decide(command)]

    def translated(self, kind: str, request: Any) -> list[inbox_pb2.Command]:
        request.rmID = RM
        self.seq += 1
        message = Message(subjects.request(RM, kind), request.SerializeToString(), seq=self.seq)
        return [inbox_pb2.Command.FromString(payload) for payload in commands_of(message, RM, ROOM)]

    def decide(self, command: inbox_pb2.Command) -> list[log_pb2.Fact]:
        codec, decision = CommitCodec(), log_pb2.Decision()
        _, commands = codec.read(command)
        codec.write(self.core.handle_all(commands, 2_000), decision)
        check(self.core.state, self.core.index)
        return list(decision.facts)


def application(name: str) -> si.AddApplicationRequest:
    return si.AddApplicationRequest(
        applicationID=name, queueName="root.a", ugi=si.UserGroupInformation(user="u"), tags={"namespace": "a"}
    )


def ask() -> si.AllocationAsk:
    return si.AllocationAsk(allocationKey="k", applicationID="app", resourceAsk=AMOUNT, maxAllocations=1)


def node(name: str) -> si.NodeInfo:
    return si.NodeInfo(nodeID=name, action=si.NodeInfo.CREATE, schedulableResource=AMOUNT)


def allocation() -> si.Allocation:
    return si.Allocation(allocationKey="r", applicationID="app", UUID="uuid", nodeID="node", resourcePerAlloc=AMOUNT)


def requests(name: str) -> tuple[str, Any, Any]:
    """Kind, request and the message of type `name` in it."""
    match name:
        case "AddApplicationRequest":
            request = si.ApplicationRequest(new=[application("new")])
            return "application", request, request.new[0]
        case "UserGroupInformation":
            request = si.ApplicationRequest(new=[application("new")])
            return "application", request, request.new[0].ugi
        case "RemoveApplicationRequest":
            request = si.ApplicationRequest(remove=[si.RemoveApplicationRequest(applicationID="app")])
            return "application", request, request.remove[0]
        case "AllocationAsk":
            asking = si.AllocationRequest(asks=[ask()])
            return "allocation", asking, asking.asks[0]
        case "Resource":
            asking = si.AllocationRequest(asks=[ask()])
            return "allocation", asking, asking.asks[0].resourceAsk
        case "Quantity":
            asking = si.AllocationRequest(asks=[ask()])
            return "allocation", asking, asking.asks[0].resourceAsk.resources["vcore"]
        case "Allocation":
            asking = si.AllocationRequest(allocations=[allocation()])
            return "allocation", asking, asking.allocations[0]
        case "AllocationRelease":
            asking = si.AllocationRequest()
            return "allocation", asking, asking.releases.allocationsToRelease.add(applicationID="app", UUID="none")
        case "AllocationAskRelease":
            asking = si.AllocationRequest()
            return "allocation", asking, asking.releases.allocationAsksToRelease.add(applicationID="app")
        case "NodeInfo":
            nodes = si.NodeRequest(nodes=[node("new")])
            return "node", nodes, nodes.nodes[0]
        case "AllocationRequest" | "ApplicationRequest" | "NodeRequest":
            request = getattr(si, name)()
            return name.removesuffix("Request").lower(), request, request
        case "AllocationReleasesRequest":
            asking = si.AllocationRequest()
            return "allocation", asking, asking.releases
    raise AssertionError(name)


def fill(message: Any, field: str, bound: bounds.Bound, more: int) -> Iterator[None]:
    """Sets the field to values at its bound (`more` 0) or just above (1), one after the other."""
    if field == "allocationID" and isinstance(message, si.Allocation):
        message.UUID = ""  # only without it, the other name counts
    match bound:
        case bounds.Text(most):
            setattr(message, field, "x" * (most + more))
            yield
            setattr(message, field, "é" * (most // 2) + "x" * more)
            yield
        case bounds.Texts(most, each, total):
            items = getattr(message, field)
            for texts in (["g"] * (most + more), ["g" * (each + more)], ["g" * 1_000] * (total // 1_000 + more)):
                items[:] = texts
                yield
        case bounds.TextMap(most, key, value, total):
            entries = getattr(message, field)
            for values in (
                {str(n): "" for n in range(most + more)},
                {"k" * (key + more): "v"},
                {"": "v" * (value + more)},
                {str(n): "v" * 996 for n in range(1_000, 1_000 + total // 1_000 + more)},
            ):
                entries.clear()
                entries.update(values)
                yield
        case bounds.Items(most, _, key) if key:
            entries = getattr(message, field)
            for names in ([str(n) for n in range(most + more)], ["n" * (key + more)]):
                entries.clear()
                for name in names:
                    entries[name].value = 1
                yield
        case bounds.Items(most):
            getattr(message, field).extend([type(getattr(message, field).add())()] * (most + more - 1))
            yield
        case bounds.Number(least, most):
            for value in (most + more, least - more):
                try:
                    setattr(message, field, value)
                except ValueError:
                    continue  # protobuf has no such number
                yield


def reasons(facts: list[log_pb2.Fact]) -> list[str]:
    found = []
    for fact in facts:
        kind = fact.WhichOneof("fact")
        assert kind is not None
        if kind in REFUSED:
            told = getattr(fact, kind)
            found.append(told.message if kind == "release_ignored" else told.reason)
    return found


ITEMS = [
    (name, bound)
    for name, bound in bounds.FIELDS.items()
    if not name.startswith(("Register", "UpdateConfiguration", "Preemption"))
    and not isinstance(bound, bounds.Flag | bounds.Nested | bounds.Choice)
    and not name.endswith(".rmID")
]
# A name that nothing can have is not found: there is nothing to refuse it for.
NOT_FOUND = ("Remove", "AllocationRelease", "AllocationAskRelease")


@pytest.mark.parametrize(("name", "bound"), ITEMS, ids=[name for name, _ in ITEMS])
def test_what_is_at_its_bound_is_taken(name: str, bound: bounds.Bound) -> None:
    message, _, field = name.partition(".")
    kind, request, element = requests(message)
    if isinstance(bound, bounds.Items) and not bound.key:
        return  # of so many each is judged by itself
    for _ in fill(element, field, bound, 0):
        for reason in reasons(Path().send(kind, request)):
            assert not any(word in reason for word in ("at most", "more than")), reason


@pytest.mark.parametrize(("name", "bound"), ITEMS, ids=[name for name, _ in ITEMS])
def test_what_is_above_its_bound_is_refused_or_shortened(name: str, bound: bounds.Bound) -> None:
    message, _, field = name.partition(".")
    kind, request, element = requests(message)
    for _ in fill(element, field, bound, 1):
        path = Path()
        if isinstance(bound, bounds.Items) and name.split(".")[0].endswith("Request"):
            with pytest.raises(InvalidRequest, match=rf"{field}.*{bound.most}"):
                path.send(kind, request)
            continue
        facts = path.send(kind, request)
        found = reasons(facts)
        assert all(len(reason) < 2_000 for reason in found)
        assert all(fact.ByteSize() < 150_000 for fact in facts)
        if isinstance(bound, bounds.Text) and bound.cut:
            assert "x" * (bound.most + 1) not in str(facts)
        elif name.startswith(NOT_FOUND):
            assert found == ["there is no such allocation"] or not found
        elif field == "partitionName":
            assert "does not exist" in found[0]
        else:
            assert found and ("expected" in found[0] or "does not exist" in found[0]), facts
            shown = {"resources": "resourceAsk", "value": "resourceAsk", "allocationID": "UUID"}.get(field, field)
            assert shown in found[0] or "does not exist" in found[0]


@pytest.mark.parametrize(("name", "bound"), ITEMS, ids=[name for name, _ in ITEMS])
def test_a_core_decides_the_same_of_an_item_that_nobody_has_refused(name: str, bound: bounds.Bound) -> None:
    """Inboxes of earlier versions have such items."""
    message, _, field = name.partition(".")
    if isinstance(bound, bounds.Items) and message.endswith("Request"):
        return  # the request is a dead letter
    kind, request, element = requests(message)
    for _ in fill(element, field, bound, 1):
        path, as_it_is = Path(), inbox_pb2.Command()
        found = path.send(kind, request)
        getattr(as_it_is, kind).CopyFrom(request)
        NORMALISE_BY_KIND[kind](getattr(as_it_is, kind), SchedulerNames(RM))
        assert Path().decide(as_it_is) == found


def test_an_allocation_that_is_refused_with_its_node_occupies_what_is_valid() -> None:
    added = node("new")
    for number, (name, value) in enumerate((("UUID", "u" * 2_000), ("taskGroupName", "t" * 2_000), ("UUID", "u3"))):
        one = allocation()
        setattr(one, name, value)
        one.nodeID = "new"
        names = (f"r{n}" for n in range(128)) if number == 2 else ("vcore", "r" * 600)
        for resource in names:
            one.resourcePerAlloc.resources[resource].value = 1 + number
        added.existingAllocations.append(one)
    tagged = allocation()
    tagged.nodeID, tagged.allocationTags["k" * 600] = "new", "v"
    added.existingAllocations.append(tagged)
    request, path, as_it_is = si.NodeRequest(nodes=[added]), Path(), inbox_pb2.Command()
    (command,) = path.translated("node", request)
    assert [(one.position, one.existing) for one in command.refused] == [(0, 1), (0, 2), (0, 3), (0, 4)]
    found = path.decide(command)
    as_it_is.node.CopyFrom(request)
    NORMALISE_BY_KIND["node"](as_it_is.node, SchedulerNames(RM))
    assert Path().decide(as_it_is) == found
    told = [one.existing_allocation_rejected for one in found if one.HasField("existing_allocation_rejected")]
    assert [one.reason for one in told] == [one.reason for one in command.refused]
    assert path.core.state.partitions[f"[{RM}]default"].nodes["new"].occupied["vcore"] > 0


def test_what_something_else_runs_occupies_its_node_however_many_tags_it_has() -> None:
    found = []
    for tags in ({}, {"k" * 600: "v", "t": "v" * 60_000}):
        one = si.Allocation(allocationKey="f", nodeID="node", resourcePerAlloc=AMOUNT)
        one.allocationTags.update({"foreign": "default", **tags})
        path = Path()
        (fact,) = path.send("allocation", si.AllocationRequest(allocations=[one]))
        found.append(fact.existing_allocation_rejected)
        assert path.core.state.partitions[f"[{RM}]default"].nodes["node"].occupied == {"vcore": 1}
    assert [one.reason for one in found] == ["it is not the scheduler's"] * 2


@pytest.mark.parametrize(
    "field", ["taskGroupName", "applicationID", "allocationKey", "allocationTags", "resourcePerAlloc"]
)
def test_an_allocation_without_a_node_is_refused_like_an_ask(field: str) -> None:
    one = si.Allocation(allocationKey="k", applicationID="app", resourcePerAlloc=AMOUNT)
    if field == "resourcePerAlloc":
        one.resourcePerAlloc.resources["r" * 600].value = 1
    elif field == "allocationTags":
        one.allocationTags["k" * 600] = "v"
    else:
        setattr(one, field, "x" * 2_000)
    request, path, as_it_is = si.AllocationRequest(allocations=[one]), Path(), inbox_pb2.Command()
    (command,) = path.translated("allocation", request)
    found = path.decide(command)
    assert [fact.allocation_rejected.reason for fact in found] == [one.reason for one in command.refused]
    as_it_is.allocation.CopyFrom(request)
    NORMALISE_BY_KIND["allocation"](as_it_is.allocation, SchedulerNames(RM))
    assert Path().decide(as_it_is) == found


def test_an_allocation_without_a_node_goes_with_asks() -> None:
    one = si.Allocation(allocationKey="u", applicationID="app", resourcePerAlloc=AMOUNT)
    request = si.AllocationRequest(allocations=[one, one], asks=[ask()])
    request.allocations[1].allocationKey = "v"
    accepted = [fact.ask_accepted.ask for fact in Path().send("allocation", request) if fact.HasField("ask_accepted")]
    assert [one.allocationKey for one in accepted] == ["u", "v", "k"]


def test_only_names_of_a_refused_item_are_forwarded_and_a_core_that_knows_no_refusals_refuses_it() -> None:
    """One of the version before."""
    tags = {"k" * 600: "v" * 60_000}
    new = application("new")
    new.tags.update(tags)
    asked = ask()
    asked.tags.update(tags)
    reported = si.Allocation(allocationKey="r", applicationID="app", resourcePerAlloc=AMOUNT)
    reported.allocationTags.update(tags)
    added = node("new")
    added.attributes.update(tags)
    for kind, request in (
        ("application", si.ApplicationRequest(new=[new])),
        ("allocation", si.AllocationRequest(asks=[asked])),
        ("allocation", si.AllocationRequest(allocations=[reported])),
        ("node", si.NodeRequest(nodes=[added])),
    ):
        path = Path()
        (command,) = path.translated(kind, request)
        (refused,) = command.refused
        assert command.ByteSize() < 600 and "key 'kkkk" in refused.reason
        known = inbox_pb2.Command.FromString(command.SerializeToString())
        assert reasons(path.decide(known)) == [refused.reason]
        del command.refused[:]
        assert len(reasons(Path().decide(command))) == 1


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("field", ["version", "policyGroup", "buildInfo", "config", "extraConfig"])
def test_registrations(field: str, more: int) -> None:
    request = si.RegisterResourceManagerRequest(rmID=RM)
    bound = bounds.FIELDS[f"RegisterResourceManagerRequest.{field}"]
    for _ in fill(request, field, bound, more):
        message = Message(subjects.register(RM), request.SerializeToString())
        if not more:
            read_registration(message)
            continue
        with pytest.raises(Refused, match=rf"{field}.*expected at most") as refused:
            read_registration(message)
        assert len(refused.value.reason) < 2_000


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("field", ["policyGroup", "config", "extraConfig"])
def test_configuration_updates(field: str, more: int) -> None:
    request = si.UpdateConfigurationRequest(rmID=RM)
    for _ in fill(request, field, bounds.FIELDS[f"UpdateConfigurationRequest.{field}"], more):
        message = Message(subjects.request(RM, "configuration"), request.SerializeToString(), seq=1)
        if not more:
            configuration_update(message, RM)
            continue
        with pytest.raises(InvalidRequest, match=rf"{field}.*expected at most"):
            configuration_update(message, RM)


@pytest.mark.parametrize(
    "user", ["!" * 4_200_000, "\x01" * 2_500_000, "é" * 2_000_000], ids=["refused letters", "control", "bytes"]
)
def test_a_long_user_is_refused_in_few_words(user: str) -> None:
    request = si.ApplicationRequest(new=[application("app-2")])
    request.new[0].ugi.user = user
    [fact] = Path().send("application", request)
    assert "user" in fact.application_rejected.reason and fact.ByteSize() < 4_000


@pytest.mark.parametrize("levels", [30_000, 100_000])
def test_a_deep_queue_is_refused_at_once(levels: int) -> None:
    request = si.ApplicationRequest(new=[application("app-2")])
    request.new[0].queueName = "root" + ".a" * levels
    [fact] = Path().send("application", request)
    assert "queueName" in fact.application_rejected.reason and fact.ByteSize() < 10_000
