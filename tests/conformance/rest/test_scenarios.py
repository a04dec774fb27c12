"""Our own scenarios in the form of the recorded ones. Instead of whole answers, they `expect` what each has to say.

`expect` has a `status` (200) and the `body` as far as it matters: objects may have more members; lists have exactly
these entries, in this order or by what names them. `$absent`: there is no such member; `$nothing`: none, 0 or empty.
`{$count, $where, $times}`: a list of so many entries, of which so many match.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from remuda_web.app import Application
from remuda_web.source import Events, Group, Row

from ..recording import read_scenario
from .player import CoreSource, WithPages, exchange
from .recordings import Answer

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.yaml"))
NAMES = ("applicationID", "allocationKey", "nodeID", "taskGroupName", "userName", "queuename", "name")


class Joined:
    """A source of several RMs, each of which has one of its own."""

    def __init__(self, sources: dict[str, CoreSource]) -> None:
        self._sources = sources

    def rms(self) -> list[str]:
        return sorted(self._sources)

    def records(self) -> Row:
        return {}

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        return await self._sources[rm].page(rm, kind, **arguments)

    async def past(self, rm: str, kind: str, **request: Any) -> Row:
        return await self._sources[rm].past(rm, kind, **request)

    async def configurations(self, kind: str, request: Row) -> Row:
        return {"versions": []}

    async def partitions(self, rm: str) -> list[Row]:
        return await self._sources[rm].partitions(rm)

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        return await self._sources[rm].rows(rm, kind, **filters)

    async def stats(self, rm: str) -> Row:
        return await self._sources[rm].stats(rm)

    async def configuration(self, rm: str | None) -> str:
        return "" if rm is None else await self._sources[rm].configuration(rm)

    async def problem(self, text: str) -> str:
        return ""

    async def events(self, start: int, count: int) -> Events:
        return Events(0, 0, ())

    async def new_events(self, count: int) -> AsyncGenerator[Group]:
        yield Group(())


def played(written: dict[str, Any]) -> WithPages:
    steps = [{name: value for name, value in step.items() if name != "expect"} for step in written["steps"]]
    player = WithPages(read_scenario({**written, "steps": steps}))
    player.play()
    return player


def answers_of(written: dict[str, Any]) -> dict[int, Answer]:
    """By the number of the step."""
    if "rms" not in written:
        return played(written).answers
    players = [played({"name": one["rmID"], **one}) for one in written["rms"]]
    app = Application(Joined({one.scenario.rm_id: one.source for one in players}), "conformance", 1, "info")
    with asyncio.Runner() as runner:
        return {number: runner.run(exchange(app, **step["http"])) for number, step in enumerate(written["steps"])}


def differences(found: Any, expected: Any, at: str = "") -> Iterator[str]:
    """What is not as expected, and where."""
    if expected == "$nothing":
        if found and (not isinstance(found, dict) or any(found.values())):
            yield f"{at}: {found!r}, expected nothing"
    elif isinstance(expected, dict) and "$count" in expected:
        matching = sum(not list(differences(one, expected["$where"])) for one in found)
        if (len(found), matching) != (expected["$count"], expected["$times"]):
            yield f"{at}: {len(found)} entries of which {matching} match, expected {expected}"
    elif isinstance(expected, dict) and isinstance(found, dict):
        if not expected and found:
            yield f"{at}: {found!r}, expected an empty object"
        for name, value in expected.items():
            if value == "$absent":
                if name in found:
                    yield f"{at}/{name}: {found[name]!r}, expected no such member"
            elif name not in found and value != "$nothing":
                yield f"{at}/{name}: is not there, expected {value!r}"
            else:
                yield from differences(found.get(name), value, f"{at}/{name}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{at}: {len(found)} entries, expected {len(expected)}: {found!r}"
        for ours, theirs in zip(by_name(found, expected), expected, strict=False):
            yield from differences(ours, theirs, f"{at}[{expected.index(theirs)}]")
    elif found != expected or type(found) is not type(expected):
        yield f"{at}: {found!r}, expected {expected!r}"


def by_name(found: list[Any], expected: list[Any]) -> list[Any]:
    """In the order of what is expected, where the entries have names."""
    first = expected[0] if expected else None
    name = next((one for one in NAMES if isinstance(first, dict) and one in first), None)
    if name is None or not all(isinstance(one, dict) and name in one for one in found):
        return found
    order = {one[name]: number for number, one in enumerate(expected)}
    return sorted(found, key=lambda one: order.get(one[name], len(order)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_answers_say_what_is_expected(file: Path) -> None:
    written = yaml.safe_load(file.read_text())
    answers = answers_of(written)
    expected = {number: step["expect"] for number, step in enumerate(written["steps"]) if "expect" in step}
    assert expected.keys() == answers.keys()
    wrong = []
    for number, wanted in expected.items():
        answer, path = answers[number], written["steps"][number]["http"]["path"]
        if answer.status != wanted.get("status", 200):
            wrong.append(f"step {number}, {path}: status {answer.status}: {answer.text[:300]}")
        if "body" in wanted:
            wrong += [f"step {number}, {path}{one}" for one in differences(answer.body, wanted["body"])]
    assert not wrong, "\n".join(wrong)


def test_what_is_expected_can_fail() -> None:
    body = {"name": "a", "used": {"vcore": 2}, "entries": [{"name": "x", "n": 1}, {"name": "y"}], "none": []}
    right: tuple[Any, ...] = (
        {"name": "a", "used": {"vcore": 2}}, {"entries": [{"name": "y"}, {"name": "x"}]}, {"more": "$absent"},
        {"none": "$nothing", "more": "$nothing"}, {"entries": {"$count": 2, "$where": {"n": 1}, "$times": 1}},
    )  # fmt: skip
    wrong: tuple[Any, ...] = (
        {"name": "b"}, {"used": {"vcore": 2.0}}, {"used": {}}, {"more": 1}, {"name": "$absent"}, {"used": "$nothing"},
        {"entries": [{"name": "x"}]}, {"entries": [{"name": "x"}, {"name": "z"}]}, [], {"none": {}},
        {"entries": {"$count": 2, "$where": {"n": 1}, "$times": 2}},
    )  # fmt: skip
    assert [list(differences(body, one)) for one in right] == [[]] * len(right)
    assert all(list(differences(body, one)) for one in wrong)
