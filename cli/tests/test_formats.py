"""`--output` and `--watch`, `remuda top` and `remuda events` on values of the test."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import typer
import yaml
from rich.console import Console
from typer.testing import CliRunner

from cli.tests.test_screens import view
from remuda import limits
from remuda.errors import Stopped, UserError
from remuda.show.events import line, lines
from remuda.show.listings import _show
from remuda.show.story import _groups
from remuda.show.top import Moment, screen
from remuda.terminal import output
from remuda.terminal.formats import with_formats, with_watch
from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_events.event_records import allocations
from remuda_events.stories.story import StoryLine
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si

runner = CliRunner()


def printed(command: Any, *arguments: str) -> str:
    cli = typer.Typer(pretty_exceptions_enable=False)
    cli.command()(command)
    return runner.invoke(cli, list(arguments), catch_exceptions=False).output


@with_formats
def fruit(name: str, json: bool = False) -> None:
    print('{"name": "' + name + '"}' if json else f"a table of {name}")


def test_a_document_in_each_format() -> None:
    assert printed(fruit, "figs") == printed(fruit, "figs", "-o", "table") == "a table of figs\n"
    assert json.loads(printed(fruit, "figs", "-o", "json")) == json.loads(printed(fruit, "figs", "--json"))
    assert yaml.safe_load(printed(fruit, "figs", "--output", "yaml")) == {"name": "figs"}


def test_lines_of_json_become_documents_of_yaml() -> None:
    @with_formats
    def lines(json: bool = False) -> None:
        print('{"a": 1}\n{"a": 2}')

    assert list(yaml.safe_load_all(printed(lines, "-o", "yaml"))) == [{"a": 1}, {"a": 2}]


def test_an_error_comes_after_the_document() -> None:
    @with_formats
    def wrong(json: bool = False) -> None:
        print("[1]")
        raise UserError("not running: core")

    cli = typer.Typer(pretty_exceptions_enable=False)
    cli.command()(wrong)
    result = runner.invoke(cli, ["-o", "yaml"])
    assert result.output == "- 1\n" and isinstance(result.exception, UserError)


def test_watching_goes_on_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCH_EVERY_S", 0)
    answers = iter(["one", UserError("no core answers"), "two", Stopped(signal.SIGINT)])

    @with_watch
    def show() -> None:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        print(answer)

    assert [word for word in printed(show, "-w").splitlines() if word in ("one", "two")] == ["one", "two"]
    assert next(answers, None) is None


def test_nothing_is_deleted_again_and_again() -> None:
    @with_watch
    def letters(forget: bool = False) -> None:
        raise AssertionError("it ran")

    assert "goes without --watch" in printed(letters, "--forget", "--watch")


def shown(monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    monkeypatch.setattr("remuda.show.listings.console", console)
    monkeypatch.setattr(output, "console", console)
    rows = [{"partition": "default", "id": "app-1", "memory": "x" * 30}]

    async def ask(_: object) -> list[dict[str, str]]:
        return rows

    def cells(row: dict[str, str]) -> list[str]:
        return [row["id"], row["memory"], "many", "bob"]

    monkeypatch.setattr("remuda.show.listings.answered", lambda *_: rows)
    _show("", ask, False, ("application", "used", "allocations", "user"), cells, ("reason",), lambda _: ["because"])
    return console.export_text().splitlines()


def test_a_narrow_terminal_leaves_columns_out_and_a_wide_table_has_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 80)[0].split() == ["application", "used", "allocations", "user"]
    assert shown(monkeypatch, 60)[0].split() == ["application", "used", "user"]
    assert shown(monkeypatch, 48)[0].split() == ["application", "used"]
    assert shown(monkeypatch, limits.WIDE_COLUMNS)[0].split() == [
        "application",
        "used",
        "allocations",
        "user",
        "reason",
    ]


@pytest.mark.parametrize(("width", "height"), [(60, 16), (80, 24), (120, 40), (240, 60)])
def test_top_fits(width: int, height: int) -> None:
    given = view(2)
    moments = [Moment(rm, given.queues[rm], given.nodes[rm], rate=12.3) for rm in given.queues]
    moments[0].reasons.update({"no node has room: needs vcore 1": 40, "queue root.a is full " * 20: 2})
    moments.append(Moment("gone", error="no core answers " * 20))
    console = Console(width=width, height=height, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(screen(moments, width, height))
    lines = console.export_text().splitlines()
    assert len(lines) < height and max(map(len, lines)) <= width
    assert "12.3 allocations/s" in lines[0] and any(one.strip().startswith("40 wait") for one in lines)


def test_top_says_what_it_has_not_counted_and_not_what_it_does_not_know() -> None:
    given = view(1)
    moment = Moment("rm-0", given.queues["rm-0"], given.nodes["rm-0"])
    moment.reasons["no node has room"] = 200
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(screen([moment], 80, None))
    text = console.export_text()
    assert "allocations/s" not in text and "of the asks wait" not in text and "200 wait" in text
    moment.counted, moment.rate = 200, 0.0
    console.print(screen([moment], 80, None))
    text = console.export_text()
    assert "0 allocations/s" in text and "why the first 200 of the asks wait" in text and "200 wait" in text


def test_both_records_of_an_allocation_are_one_line() -> None:
    allocation = si.Allocation(applicationID="app-1", allocationKey="task-7", nodeID="n1", UUID="u-1")
    allocation.resourcePerAlloc.resources["memory"].value = 1 << 30
    released = log_pb2.AllocationReleased(
        application_id="app-1", allocation_key="task-7", node_id="n1", uuid="u-1",
        resource=allocation.resourcePerAlloc, message="released by the RM",
    )  # fmt: skip
    records = [
        *allocations.allocated(log_pb2.Allocated(allocation=allocation), 10**18),
        *allocations.allocation_released(released, 10**18),
    ]
    batch = [Message(subjects.event("rm-1"), record.SerializeToString(), {}, at) for at, record in enumerate(records)]
    assert [text.plain for _, text in lines(batch)] == [
        "rm-1 app app-1 add task-7 on n1: memory 1Gi",
        "rm-1 app app-1 remove task-7 on n1: memory 1Gi; released by the RM",
    ]
    assert len(list(lines(batch[1:]))) == 2, "a record whose companion is not there stands alone"


@pytest.mark.parametrize(("of_one", "expected"), [(False, [3, 1, 1]), (True, [1, 1, 1, 1, 1])])
async def test_alike_asks_of_a_story_are_one_line(of_one: bool, expected: list[int]) -> None:
    async def told() -> AsyncIterator[StoryLine]:
        for key, wanted in (("a", 1), ("b", 1), ("c", 1), ("d", 2), ("e", 1)):
            text = f"app-1/{key} asks for vcore={wanted}000, priority 0"
            yield StoryLine(5, 9, "AskAccepted", text, "UpdateAllocation", 1, 2, 0, "", "")

    assert [len(group) async for group in _groups(told(), of_one)] == expected


def test_an_event_is_a_line() -> None:
    event = si.EventRecord(
        type=si.EventRecord.APP, objectID="app-1", referenceID="u", message="released", timestampNano=10**18,
        eventChangeType=si.EventRecord.REMOVE,
    )  # fmt: skip
    assert line("rm-1", event)[1].plain == "rm-1 app app-1 remove u: released"
    assert " 77 x" in line("rm-1", si.EventRecord(type=77, objectID="x"))[1].plain  # type: ignore[arg-type]
