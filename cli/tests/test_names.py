"""A resource manager that is left out, and names that nothing has, on the memory bus."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from cli.tests.test_mistakes import command
from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_bus.memory import MemoryBus
from remuda_bus.status_codes import NOT_FOUND
from remuda_proto.remuda.v1 import admin_pb2 as admin

Run = Callable[..., tuple[int, str, str]]
# The last is what the others import.
PATCHED = ("show.dump", "admin.act", "client.connections")
ASK = {
    "application": "app-1", "key": "k", "partition": "default", "queue": "root.a", "pending": 1, "since_ms": 1,
    "resource": {"vcore": 1}, "priority": 0, "constraints": [], "reason": "queue root.a is full",
}  # fmt: skip


class Rms:
    """A system with these resource managers, each with one application and node; a bus for each connection."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.connections = 0
        self.acted: list[str] = []
        self.front_end: list[str] = []

    @contextlib.asynccontextmanager
    async def at(self, url: str) -> AsyncIterator[Bus]:
        from remuda.client.connections import _talking

        self.connections += 1
        bus = MemoryBus()
        for name in self._names:
            record = json.dumps({"rm_id": name, "state": "registered"}).encode()
            await bus.put(subjects.RMS.name, subjects.key_of(name), record, None)
            for kind, answer in _answers().items():
                await bus.serve(subjects.core_query(name, kind), answer, kind)
        for verb in ("drain_node", "kill_application"):
            await bus.serve(subjects.administration("*", "*", "*", verb), self._act, verb)
        if self.front_end:
            await bus.serve(subjects.operator_method("admin", "ListResourceManagers"), self._list, "list")
        with _talking(url):
            yield bus

    async def _list(self, message: Message) -> bytes:
        rows = [admin.ResourceManagerRecord(rm_id=name) for name in self.front_end]
        return admin.ListResourceManagersResponse(resource_managers=rows).SerializeToString()

    async def _act(self, message: Message) -> bytes:
        self.acted.append(message.subject)
        if b"n-one" not in message.payload and b"drain" in message.subject.encode():
            return json.dumps({"outcome": "refused", "reason": "the node does not exist", "action_id": "i"}).encode()
        return json.dumps({"outcome": "accepted", "action_id": "i", "added_later": 1}).encode()


def _answers() -> dict[str, Any]:
    queue = {"path": "root.analytics", "partition": "default"}
    root = {"path": "root", "partition": "default"}
    pages: dict[str, dict[str, Any]] = {
        "queues": {"partitions": [{"name": "default"}], "queues": [root, queue], "state": "Running"},
        "applications": {"applications": [{"id": "app-1", "partition": "default"}]},
        "nodes": {"nodes": [{"id": "n-one", "partition": "default"}]},
    }

    def answering(page: dict[str, Any]) -> Any:
        async def answer(message: Message) -> bytes:
            if json.loads(message.payload or b"{}").get("queue", "root.analytics") != "root.analytics":
                raise Refused("queue does not exist", NOT_FOUND)
            return json.dumps(page).encode()

        return answer

    async def explain(message: Message) -> bytes:
        if (json.loads(message.payload or b"{}").get("application") or "app-1") != "app-1":
            raise Refused("application does not exist", NOT_FOUND)
        return json.dumps({"asks": [ASK]}).encode()

    return {**{kind: answering(page) for kind, page in pages.items()}, "explain": explain}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Rms], Run]:
    def on(rms: Rms) -> Run:
        monkeypatch.delenv("REMUDA_NATS_SEED", raising=False)
        for place in PATCHED:
            monkeypatch.setattr(f"remuda.{place}.bus_at", rms.at)
        return lambda *given: command(monkeypatch, capsys, *given)

    return on


@pytest.mark.parametrize("given", [["queues"], ["queues", "rm-1"], ["explain"], ["explain", "rm-1"]])
def test_the_only_one_may_be_left_out(run, given: list[str]) -> None:
    code, out, err = run(Rms("rm-1"))(*given, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found.get("rm_id", "rm-1") == "rm-1"


def test_what_names_its_rm_asks_for_no_list(run) -> None:
    rms = Rms("rm-1", "rm-2")
    assert run(rms)("queues", "rm-2", "--json")[0] == 0
    assert rms.connections == 1


@pytest.mark.parametrize("given", [["app-1"], ["app-1", "k"], ["rm-1", "app-1"], ["rm-1", "app-1", "k"]])
def test_an_application_of_the_only_one(run, given: list[str]) -> None:
    code, out, err = run(Rms("rm-1"))("explain", *given, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["asks"][0]["application"] == "app-1"


def test_an_action_in_the_only_one(run) -> None:
    rms = Rms("rm-1")
    code, out, err = run(rms)("drain", "n-one", "--reason", "a fan")
    assert (code, out, err) == (0, "node n-one is drained\n", "")
    assert ".rm-1." in rms.acted[0]


@pytest.mark.parametrize("given", [["queues"], ["kill", "app-1"], ["explain"]])
def test_of_several_one_has_to_be_named(run, given: list[str]) -> None:
    rms = Rms("rm-1", "rm-2")
    code, _, err = run(rms)(*given)
    assert code == 1 and not rms.acted
    assert "2 resource managers are registered: rm-1, rm-2; name one of them, as in" in err


def test_of_several_an_application_alone_is_none(run) -> None:
    code, _, err = run(Rms("rm-1", "rm-2"))("explain", "app-1")
    assert code == 1
    assert "no resource manager 'app-1' is registered, and 2 resource managers are registered: rm-1, rm-2" in err
    assert "as in `remuda explain rm-1 app-1`" in err


def test_with_none_registered(run) -> None:
    code, _, err = run(Rms())("queues")
    assert code == 1 and "no resource manager is registered at nats://127.0.0.1:4222" in err


@pytest.mark.parametrize("name", ["rebuild", "resume"])
def test_what_deletes_has_it_named(run, name: str) -> None:
    code, _, err = run(Rms("rm-1"))(name, "--yes")
    assert code == 2 and "RM" in err


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (["queues", "rm-11"], "did you mean the resource manager 'rm-1'?"),
        (["quues", "rm-1"], "Did you mean 'queues'?"),
        (["drain", "rm-1", "n-ome"], "did you mean the node 'n-one'?"),
        (["drain", "n-ome"], "did you mean the node 'n-one'?"),
        (["explain", "rm-1", "ap-1", "k"], "did you mean the application 'app-1'?"),
        (["explain", "rn-1", "app-1", "k"], "did you mean the resource manager 'rm-1'?"),
        (["applications", "rm-1", "--queue", "root.analytcs"], "did you mean the queue 'root.analytics'?"),
    ],
)
def test_an_unknown_name_has_a_suggestion(run, monkeypatch, given: list[str], hint: str) -> None:
    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr("remuda.show.explain._last", nothing)
    code, _, err = run(Rms("rm-1"))(*given)
    assert code in (1, 2) and err.count("\n") == 1
    assert hint in err


def test_who_may_not_list_them_names_one(run, monkeypatch) -> None:
    """As with the key of an operator, where no front end runs."""

    async def refused(_: Bus) -> list[str]:
        raise Refused("no permission", 403)

    monkeypatch.setattr("remuda.client.names.registered", refused)
    code, _, err = run(Rms("rm-1", "rm-2"))("explain", "rm-2", "app-1", "--json")
    assert (code, err) == (0, "")
    code, _, err = run(Rms("rm-1"))("queues")
    assert code == 1 and "no permission" in err


def test_an_operator_reads_them_from_a_front_end(run, monkeypatch) -> None:
    class Keyed:
        seed = "SU"

    monkeypatch.setattr("remuda_bus.nats.Access.from_environment", Keyed)
    rms = Rms("rm-1")
    rms.front_end = ["rm-7"]
    code, _, err = run(rms)("queues", "rm-9")
    assert code == 1 and "did you mean the resource manager 'rm-7'?" in err


def test_what_resembles_nothing_has_none(run) -> None:
    code, _, err = run(Rms("rm-1"))("queues", "xyz")
    assert code == 1 and "no resource manager 'xyz' is registered" in err and "mean" not in err
