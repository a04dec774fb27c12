"""The effects of a proposed configuration, as a report; nothing of the live state changes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from remuda_bus.bus import Refused
from remuda_core import commands, limits
from remuda_core.check import digest
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import (
    Configuration,
    Limit,
    PartitionSettings,
    PlacementRule,
    QueueInWindow,
    QueueSettings,
    TopologyLevel,
    Window,
)
from remuda_core.shell.copies import Copies, Source
from remuda_core.wire.configuration import write_partition
from remuda_proto.remuda.v1 import config_pb2
from remuda_replication.log import Position

PARTITION = "[rm-1]default"
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
WIDER = (QueueInWindow("root.a", QueueSettings("a", max={"vcore": 4})),)
PROVIDED = (PlacementRule("provided"),)


def proposal(*queues: QueueSettings, rules: tuple[PlacementRule, ...] = PROVIDED, **more: Any) -> Configuration:
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    return Configuration(
        f"sum {queues} {rules} {more}", (PartitionSettings("default", root, placement_rules=rules, **more),)
    )


def core(configuration: Configuration, vcore: int = 8) -> Core:
    made = Core("rm-1")
    made.handle(commands.Register("rm-1", configuration), NOW_MS)
    made.handle(commands.UpdateNode(PARTITION, "n1", "CREATE", {}, {"vcore": vcore}), NOW_MS)
    return made


def submit(made: Core, application: str, queue: str, pieces: int, user: str = "ann", willing: bool = False) -> None:
    made.handle(commands.SubmitApplication(PARTITION, application, queue, user), NOW_MS)
    allow = True if willing else None
    ask = Ask(PARTITION, application, "k", {"vcore": 1}, pieces, allow_preempt_self=allow, allow_preempt_other=allow)
    made.handle(commands.SubmitAsk(ask), NOW_MS)
    made.handle(commands.Schedule(1_000), NOW_MS)


def encoded(configuration: Configuration) -> str:
    message = config_pb2.Configuration(
        checksum=configuration.checksum, partitions=map(write_partition, configuration.partitions)
    )
    return base64.b64encode(message.SerializeToString()).decode()


class Answers:
    """A process with one core, and a clock that stands still."""

    def __init__(self, made: Core, in_child: bool = True) -> None:
        self.core = made
        self.now = 0.0
        self.copies = Copies(lambda: self.now)
        self._in_child = in_child

    async def ask(self, now_ms: int = NOW_MS, **request: Any) -> dict[str, Any]:
        async def forked(fork: Any) -> tuple[Position, Source]:
            return Position(7), fork()

        answer = await self.copies.preview(forked, self.core, request, now_ms, self._in_child)
        return msgspec.json.decode(answer)


async def report(made: Core, configuration: Configuration, now_ms: int = NOW_MS, **request: Any) -> dict[str, Any]:
    """Of a child and of this process, which are the same; the state stays as it is."""
    before = digest(made.state)
    found = [
        await Answers(made, in_child).ask(now_ms, configuration=encoded(configuration), **request)
        for in_child in (True, False)
    ]
    assert found[0] == found[1]
    assert digest(made.state) == before
    assert (found[0]["rm"], found[0]["log_seq"]) == ("rm-1", 7)
    return found[0]


async def test_queues_that_change() -> None:
    was = proposal(QueueSettings("a"), QueueSettings("b"), QueueSettings("c"), QueueSettings("same"))
    made = core(was)
    submit(made, "app-1", "root.b", 1)
    found = await report(
        made, proposal(QueueSettings("a", max={"vcore": 3}), QueueSettings("d"), QueueSettings("same"))
    )
    assert found["queues"] == {
        "total": 4,
        "counts": {"removed": 1, "draining": 1, "changed": 1, "restored": 0, "added": 1},
        "rows": [
            {"partition": "default", "queue": "root.c", "change": "removed", "fields": {}},
            {"partition": "default", "queue": "root.b", "change": "draining", "fields": {}},
            {
                "partition": "default",
                "queue": "root.a",
                "change": "changed",
                "fields": {"max": {"before": {}, "after": {"vcore": 3}}},
            },
            {"partition": "default", "queue": "root.d", "change": "added", "fields": {}},
        ],
    }
    assert found["partitions"] == {"total": 0, "rows": []}
    assert found["placements"]["rows"] == [
        {
            "partition": "default", "application": "app-1", "user": "ann", "queue": "root.b", "before": "root.b",
            "after": "", "outcome": "refused",
            "reason": "no placement rule matched: provided: queue root.b is draining",
        }
    ]  # fmt: skip


async def test_who_is_over_quota() -> None:
    made = core(proposal(QueueSettings("a", max={"vcore": 4})))
    submit(made, "app-1", "root.a", 4)
    submit(made, "app-2", "root.a", 1, user="bob")
    limits_of_ann = (Limit(("ann",), (), {"vcore": 1}), Limit(("*",), (), {}, 1))
    found = await report(made, proposal(QueueSettings("a", max={"vcore": 3}, limits=limits_of_ann)))
    rows = [(row["kind"], row["name"], row["over"], row["over_before"]) for row in found["over_quota"]["rows"]]
    assert rows == [("user", "ann", 3, 0), ("queue", "", 1, 0)]


async def test_applications_that_new_rules_place_elsewhere() -> None:
    queues = (QueueSettings("a"), QueueSettings("users", parent=True))
    by_user = (PlacementRule("user", create=True, parent=PlacementRule("fixed", value="root.users")),)
    made = core(proposal(*queues, rules=(*PROVIDED, *by_user)))
    submit(made, "app-1", "root.a", 1)
    submit(made, "app-2", "", 1, user="bob")
    assert made.state.partitions[PARTITION].applications["app-2"].queue.path == "root.users.bob"
    found = await report(made, proposal(*queues, rules=by_user))
    (row,) = found["placements"]["rows"]
    assert (row["application"], row["before"], row["after"], row["outcome"]) == (
        "app-1", "root.a", "root.users.ann", "moved",
    )  # fmt: skip
    found = await report(made, proposal(*queues, rules=PROVIDED))
    (row,) = found["placements"]["rows"]
    assert (row["application"], row["before"], row["outcome"]) == ("app-2", "root.users.bob", "refused")
    assert (found["placements"]["looked_at"], found["placements"]["of"]) == (2, 2)


async def test_what_the_next_passes_allocate_with_the_change_and_without() -> None:
    made = core(proposal(QueueSettings("a", max={"vcore": 2}), QueueSettings("b", max={"vcore": 3})))
    submit(made, "app-1", "root.a", 5)
    submit(made, "app-2", "root.b", 5)
    found = await report(made, proposal(QueueSettings("a", max={"vcore": 4}), QueueSettings("b", max={"vcore": 3})))
    assert (found["allocations"]["total"], found["allocations"]["without"]) == (2, 0)
    row = found["allocations"]["rows"][0]
    assert (row["application"], row["key"], row["node"], row["number"]) == ("app-1", "k", "n1", 1)
    assert found["by_queue"]["rows"] == [
        {
            "partition": "default", "queue": "root.a",
            "allocated": 2, "allocated_without": 0, "preempted": 0, "preempted_without": 0,
        }
    ]  # fmt: skip
    assert (
        len((await report(made, proposal(QueueSettings("a"), QueueSettings("b")), limit=1))["allocations"]["rows"]) == 1
    )


@pytest.mark.parametrize(
    ("window", "passes", "numbers"),
    [
        (Window("night", NOW_MS - 1, duration_ms=HOUR_MS, queues=WIDER), 1, [1, 1]),
        (Window("night", NOW_MS + 2 * limits.TICK_MS, duration_ms=HOUR_MS, queues=WIDER), 2, []),
        (Window("night", NOW_MS + 2 * limits.TICK_MS, duration_ms=HOUR_MS, queues=WIDER), 4, [3, 3]),
        (Window("night", NOW_MS - HOUR_MS, duration_ms=HOUR_MS, queues=WIDER), 3, []),
    ],
)
async def test_windows_of_a_proposed_calendar_open_and_close(window: Window, passes: int, numbers: list[int]) -> None:
    """They give a queue another maximum."""
    made = core(proposal(QueueSettings("a", max={"vcore": 2})))
    submit(made, "app-1", "root.a", 9)
    found = await report(made, proposal(QueueSettings("a", max={"vcore": 2}), calendar=(window,)), passes=passes)
    assert [row["number"] for row in found["allocations"]["rows"]] == numbers
    assert found["allocations"]["without"] == 0


@pytest.mark.parametrize(
    ("window", "allocated"),
    [
        (Window("disks", NOW_MS - 1, duration_ms=HOUR_MS, ids=("n1",)), 0),
        (Window("disks", NOW_MS + HOUR_MS, duration_ms=HOUR_MS, ids=("n1",)), 0),  # the ask may run for ever
        (Window("disks", NOW_MS + HOUR_MS, duration_ms=HOUR_MS, ids=("n1",), unbounded=True), 2),
        (Window("disks", NOW_MS - 1, duration_ms=HOUR_MS, ids=("n2",)), 2),
        (Window("books", NOW_MS - 1, duration_ms=HOUR_MS, ids=("*",), queue="root.b"), 0),
        (Window("books", NOW_MS - 1, duration_ms=HOUR_MS, ids=("*",), queue="root.a"), 2),
    ],
)
async def test_nodes_of_a_proposed_calendar_take_what_they_will_take(window: Window, allocated: int) -> None:
    made = core(proposal(QueueSettings("a", max={"vcore": 2}), QueueSettings("b")))
    submit(made, "app-1", "root.a", 9)
    wider = proposal(QueueSettings("a", max={"vcore": 4}), QueueSettings("b"), calendar=(window,))
    found = await report(made, wider)
    assert (found["allocations"]["total"], found["allocations"]["without"]) == (allocated, 0)


async def test_without_a_window_of_the_calendar_in_force_its_nodes_are_back() -> None:
    window = Window("disks", NOW_MS - 1, duration_ms=HOUR_MS, ids=("n1",))
    made = core(proposal(QueueSettings("a"), calendar=(window,)))
    made.handle(commands.Tick(), NOW_MS)
    submit(made, "app-1", "root.a", 2)
    found = await report(made, proposal(QueueSettings("a")))
    assert (found["allocations"]["total"], found["allocations"]["without"]) == (2, 0)


async def test_what_is_preempted() -> None:
    made = core(proposal(QueueSettings("a"), QueueSettings("b")))
    submit(made, "app-1", "root.a", 8, willing=True)
    submit(made, "app-2", "root.b", 2, willing=True)
    later_ms = NOW_MS + 3_600_000
    found = await report(made, proposal(QueueSettings("a"), QueueSettings("b", guaranteed={"vcore": 2})), later_ms)
    assert (found["preemptions"]["total"], found["preemptions"]["without"]) == (1, 0)
    row = found["preemptions"]["rows"][0]
    assert (row["application"], row["for_application"], row["for_queue"]) == ("app-1", "app-2", "root.b")


async def test_a_change_that_is_refused() -> None:
    made = core(proposal(QueueSettings("a")))
    submit(made, "app-1", "root.a", 1)
    found = await report(made, proposal(QueueSettings("a", queues=(QueueSettings("b"),))))
    assert found["refused"] == "queue root.a has applications and cannot become a parent"
    assert "queues" not in found


async def test_the_configuration_in_force_changes_nothing() -> None:
    now = proposal(QueueSettings("a"))
    found = await report(core(now), now)
    assert (found["queues"]["total"], found["over_quota"]["total"], found["placements"]["total"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({}, "configuration is None, expected a remuda.v1.Configuration in base64"),
        ({"configuration": "?"}, "configuration is no remuda.v1.Configuration in base64"),
        ({"configuration": "AAAA"}, "configuration is no remuda.v1.Configuration in base64"),
        ({"configuration": "", "passes": 0}, "passes is 0, expected a number from 1 to 20"),
        ({"configuration": "", "passes": 21}, "passes is 21, expected a number from 1 to 20"),
        ({"configuration": "", "limit": "x"}, "limit is 'x', expected a number from 1 to 500"),
    ],
)
async def test_requests_that_mean_nothing(request_: dict[str, Any], reason: str) -> None:
    for in_child in (True, False):
        with pytest.raises(Refused) as refused:
            await Answers(core(proposal(QueueSettings("a"))), in_child).ask(**request_)
        assert refused.value.reason.startswith(reason)


async def test_an_empty_proposal_is_refused_like_an_empty_configuration() -> None:
    found = await Answers(core(proposal(QueueSettings("a")))).ask(configuration="")
    assert found["refused"] == "the configuration has no partitions"


async def test_one_at_a_time_and_then_a_rest() -> None:
    answers = Answers(core(proposal(QueueSettings("a"))))

    async def while_under_way(fork: Any) -> tuple[Position, Source]:
        made = fork()
        with pytest.raises(Refused, match="another preview"):
            await answers.ask(configuration="")
        answers.now += 2.0
        return Position(7), made

    await answers.copies.preview(while_under_way, answers.core, {"configuration": ""}, NOW_MS, True)
    with pytest.raises(Refused, match=r"may begin in 2.0 s"):
        await answers.ask(configuration="")
    answers.now += 2.0
    await answers.ask(configuration="")


async def test_a_preview_that_waits_for_a_leader_is_in_nobodys_way() -> None:
    """The log of that RM may be full."""
    answers, waits = Answers(core(proposal(QueueSettings("a")))), asyncio.Event()

    async def until_it_leads(fork: Any) -> tuple[Position, Source]:
        await waits.wait()
        return Position(7), fork()

    request = {"configuration": ""}
    asked = asyncio.create_task(answers.copies.preview(until_it_leads, answers.core, request, NOW_MS, True))
    await asyncio.sleep(0)
    await answers.ask(configuration="")
    answers.now += 2.0
    waits.set()
    await asked


async def test_a_preview_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PREVIEW_WITHIN_S", 1)
    monkeypatch.setattr("remuda_core.shell.copies.play", lambda *_: [None for _ in iter(int, 1)])
    answers = Answers(core(proposal(QueueSettings("a"))))
    with pytest.raises(Refused, match="was given up"):
        await answers.ask(configuration="")


async def test_lists_are_bounded_in_bytes() -> None:
    made = core(proposal(QueueSettings("a")))
    many = tuple(QueueSettings(f"{'q' * 300}{n}") for n in range(1_000))
    found = await report(made, proposal(QueueSettings("a"), *many), limit=500)
    assert found["queues"]["total"] == 1_000
    assert len(msgspec.json.encode(found["queues"])) <= limits.PREVIEW_BYTES_PER_LIST + 1_000


async def test_groups_that_wait_are_told_with_their_domains_and_reasons() -> None:
    """A second rack lets one of two groups start. The other one can never run."""
    levels = (TopologyLevel("rack", "rack"),)
    made = core(proposal(QueueSettings("a"), topology=levels, preemption_enabled=False), vcore=1)
    for node_id, rack in (("r1", "r"), ("r2", "r"), ("s1", "s")):
        made.handle(commands.UpdateNode(PARTITION, node_id, "CREATE", {"rack": rack}, {"vcore": 4}), NOW_MS)
    made.handle(commands.SubmitApplication(PARTITION, "app", "root.a", "ann"), NOW_MS)
    for key, pieces in (("fits", 2), ("never", 3)):
        tags = {"remuda/topology.required": "rack"}
        made.handle(commands.SubmitAsk(Ask(PARTITION, "app", key, {"vcore": 4}, pieces, tags=tags)), NOW_MS)
    slow = proposal(QueueSettings("a", max={"vcore": 7}), topology=levels, preemption_enabled=False)
    found = (await report(made, slow))["groups"]
    assert found["total"] == 2
    fits, never = found["rows"]
    assert (fits["key"], fits["level"], fits["waiting"]) == ("fits", "rack", 2)
    assert (fits["placed"], fits["placed_without"], fits["domain_without"]) == (0, 2, "r")
    assert fits["reason"].startswith("queue root.a is at its maximum")
    assert (never["placed"], never["placed_without"], never["waiting"]) == (0, 0, 3)
