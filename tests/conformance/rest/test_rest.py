"""Recorded REST answers, where they are at hand (REMUDA_CONFORMANCE names the folder around them)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ..test_recordings import FOLDER
from . import recordings
from .__main__ import judge, judge_answer
from .compare import differences
from .player import WithPages
from .recordings import Answer, Recorded

FOLDERS = recordings.folders_in(FOLDER)
JSON_TYPE = "application/json; charset=UTF-8"
SCENARIO: dict[str, Any] = {
    "name": "small",
    "mode": "manual",
    "config": (
        "partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}, "
        "{name: two, queues: [{name: root}]}]"
    ),
    "steps": [
        {"node": {"nodes": [{
            "nodeID": "n1", "action": "CREATE", "attributes": {"si/node-partition": "default"},
            "schedulableResource": {"resources": {"vcore": {"value": 4}}},
        }]}},
        {"http": {"method": "GET", "path": "/ws/v1/partitions"}},
        {"http": {"method": "GET", "path": "/ws/v1/partition/two/nodes"}},
        {"http": {"method": "GET", "path": "/ws/v1/partition/[rm:123]default/nodes"}},
    ],
}  # fmt: skip


@pytest.mark.skipif(not FOLDERS, reason=f"no recorded REST answers in {FOLDER} (set REMUDA_CONFORMANCE)")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_recorded_answers(folder: Path) -> None:
    verdicts = judge(recordings.read(folder, ""))
    assert verdicts
    assert {one.name: one.summary() for one in verdicts if one.word not in ("equal", "explained")} == {}


def answer(body: object, status: int = 200) -> Answer:
    return Answer(status, {"Content-Type": JSON_TYPE}, json.dumps(body), body)


def recorded(step: int, body: object, path: str = "/ws/v1/x") -> Recorded:
    return Recorded("one", step, {"method": "GET", "path": path}, answer(body))


def paths(ours: object, theirs: object) -> list[str]:
    return ["/".join(found.path[1:]) for found in differences(answer(ours), answer(theirs))]


def test_status_type_and_every_key_count() -> None:
    assert paths({"a": 1, "b": "x"}, {"a": 1, "b": "x"}) == []
    assert paths({"a": 1}, {"a": "1"}) == ["a"]
    assert paths({"a": True}, {"a": 1}) == ["a"]
    assert paths({"a": 1}, {"a": 1, "b": 2}) == ["b"]
    assert paths({"a": 1, "b": 2}, {"a": 1}) == ["b"]
    assert [str(one.path) for one in differences(answer({}, 400), answer({}))] == ["('status',)"]
    other = replace(answer({}), headers={"content-type": "text/plain"})
    assert [one.path for one in differences(other, answer({}))] == [("headers", "Content-Type")]


def test_only_meaningful_values_count() -> None:
    assert paths({"uuid": "a", "time": 1}, {"uuid": "b", "time": 2}) == []
    assert paths({"time": "1"}, {"time": 1}) == ["time"]
    assert paths({}, {"usedResource": {"vcore": 0}}) == []
    assert paths({"usedResource": {"vcore": 1}}, {"usedResource": {"vcore": 2}}) == ["usedResource/vcore"]
    nodes: list[dict[str, object]] = [{"nodeID": "a"}, {"nodeID": "b"}]
    assert paths(nodes, nodes[::-1]) == []
    assert paths(nodes, [{"nodeID": "a"}]) == ["[b]"]
    assert paths([1, 2], [2, 1]) == ["[0]", "[1]"]


def test_near_misses_are_not_explained() -> None:
    """They look like intended differences."""
    assert (
        judge_answer(
            "x", recorded(0, {"maxUsedResource": {"vcore": 1}}), answer({"maxUsedResource": {"vcore": 2}})
        ).word
        == "different"
    )
    assert judge_answer("x", recorded(0, {"stateLog": [1]}), answer({"stateLog": []})).word == "different"
    theirs = recorded(0, {"allowed": True}, "/ws/v1/validate-conf")
    assert judge_answer("x", theirs, answer({"allowed": False, "reason": "no"})).word == "different"
    history = recorded(0, [1], "/ws/v1/history/apps")
    assert judge_answer("x", history, answer(None)).word == "different"
    assert judge_answer("x", history, None).word == "failed"


def test_a_scenario_with_two_partitions(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO))
    player = WithPages(recordings.read(tmp_path, "").scenario)
    player.play()
    shown = {one["name"]: one for one in player.answers[1].body}
    assert {name: one.get("totalNodes", 0) for name, one in shown.items()} == {"default": 1, "two": 0}
    assert player.answers[2].body == []
    assert [one["nodeID"] for one in player.answers[3].body] == ["n1"]
