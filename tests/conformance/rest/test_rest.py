"""Recorded REST answers, where they are at hand (REMUDA_CONFORMANCE names the folder around them)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ..recording import FOLDER
from . import recordings
from .__main__ import judge, judge_answer
from .compare import RECORDS, Difference, differences
from .kinds import kind_of
from .player import WithPages
from .recordings import Answer, Recorded

FOLDERS = recordings.folders_in(FOLDER)
JSON_TYPE = "application/json; charset=UTF-8"
SCENARIO: dict[str, Any] = {
    "name": "small",
    "mode": "manual",
    "config": (
        "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}, "
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


def test_no_usage_is_a_usage_of_nothing() -> None:
    """The reference keeps the names of resources after removals."""
    assert paths({}, {"resourceUsage": {"Resources": {"vcore": 0}}}) == []
    assert paths({}, {"resourceUsage": {"Resources": {"vcore": 1}}}) == ["resourceUsage"]


PATHS = (
    ("status",), ("headers", "Allow"), ("body",), ("body", "samples"), ("body", "samples", "yunikorn_a_attempt_total"),
    ("body", "families"), ("body", "families", "yunikorn_root_queue_app"), ("body", RECORDS), ("body", "HighestID"),
    ("body", RECORDS, "QUEUE SET QUEUE_CONFIG root"), ("body", "maxRunningApps"), ("body", "[a]", "maxRunningApps"),
    ("body", "logLevel"), ("body", "reason"), ("body", "extra"), ("body", "queueName"), ("body", "stateLog"),
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, 1, 2.5, True, "x", [], [1], {}, {"a": 1}, {"queuename": "a"})


@pytest.mark.parametrize("path", PATHS, ids="/".join)
@pytest.mark.parametrize(
    "request_path", ["/", "/ws/v1/events/batch?count=1", "/ws/v1/metrics", "/ws/v1/validate-conf", "/ws/v1/x"]
)
def test_a_kind_can_judge_any_difference_of_any_answers(path: tuple[str, ...], request_path: str) -> None:
    for ours, theirs in product(VALUES, VALUES):
        was = replace(recorded(0, {path[-1]: theirs}, request_path), partitions=2)
        kind_of(was, answer({path[-1]: ours}), Difference(path, ours, theirs))
        kind_of(replace(was, answer=answer(theirs)), answer(ours), Difference(path, ours, theirs))


def test_requests_have_no_order() -> None:
    """They are values of a map in the reference."""
    asks: list[dict[str, object]] = [{"allocationKey": key, "applicationId": "app"} for key in ("a", "b")]
    assert paths({"requests": asks}, {"requests": asks[::-1]}) == []


def happened(**fields: object) -> dict[str, object]:
    return {"type": 2, "objectID": "app", "timestampNano": 5, "eventChangeType": 2, "resource": {}, **fields}


def history(*records: object, highest: int | None = None) -> dict[str, object]:
    return {"LowestID": 0, "HighestID": len(records) if highest is None else highest, "EventRecords": [*records]}


def word(ours: object, theirs: object, path: str = "/ws/v1/events/batch") -> str:
    return judge_answer("x", recorded(0, theirs, path), answer(ours)).word


def test_the_same_things_must_have_happened() -> None:
    one, two = happened(), happened(eventChangeDetail=205)
    assert word(history(one, two), history(two, {**one, "timestampNano": 9, "message": "prose"})) == "equal"
    assert word(history(one, two), history(two, one, highest=7)) == "explained"
    assert word(history(one), history(one, two)) == "different"
    assert word(history(one), history(happened(resource={"resources": {"vcore": {"value": 1}}}))) == "different"
    assert word(history({**one, "extra": 1}), history(one)) == "different"
    assert word(history(one), history(two), "/ws/v1/events/batch?count=1") == "explained"
    assert word(history(one), history(one, two), "/ws/v1/events/batch?count=2") == "different"
    waits = happened(type=1, message="does not fit")
    assert word(history(one, two), history(one, two, waits)) == "explained"


def measured(*lines: str) -> Answer:
    text = "\n".join(("# TYPE yunikorn_scheduler_node gauge", *lines))
    return Answer(200, {"Content-Type": "text/plain; version=0.0.4"}, text, None)


def word_of_metrics(ours: str, theirs: str, partitions: int = 1) -> str:
    request = {"method": "GET", "path": "/ws/v1/metrics"}
    return judge_answer("x", Recorded("one", 0, request, measured(theirs), partitions), measured(ours)).word


def test_values_of_metrics_count() -> None:
    node, attempts = 'yunikorn_scheduler_node{state="active"}', "yunikorn_scheduler_container_allocation_attempt_total"
    assert word_of_metrics(f"{node} 3", f"{node} 3.0") == "equal"
    assert word_of_metrics("", f"{node} 0") == "equal"
    assert word_of_metrics(f"{node} 3", f"{node} 4") == "different"
    assert word_of_metrics("", f"{node} 4") == "different"
    assert word_of_metrics(f"{attempts} 3", f"{attempts} 4") == "explained"
    assert word_of_metrics(f"{attempts} 4", f"{attempts} 3") == "different"
    quota = 'yunikorn_root_a_queue_resource{resource="vcore",state="max"}'
    assert word_of_metrics(f"{quota} 1", "") == "explained"
    assert word_of_metrics(f"{quota} 1", f"{quota} 2") == "different"
    used = 'yunikorn_root_a_queue_resource{resource="vcore",state="allocated"}'
    assert word_of_metrics(f"{used} 3", f"{used} 2") == "different"
    assert word_of_metrics(f"{used} 3", f"{used} 2", partitions=2) == "explained"
    assert word_of_metrics(f"{used} 1", f"{used} 2", partitions=2) == "different"


def test_queues_whose_metrics_have_the_same_name_have_a_label() -> None:
    both = [f'yunikorn_a_queue_resource{{queue="root.{one}.a",resource="vcore",state="max"}}' for one in "xy"]
    theirs = 'yunikorn_a_queue_resource{resource="vcore",state="max"}'
    assert word_of_metrics(f"{both[0]} 1\n{both[1]} 2", f"{theirs} 2") == "explained"
    assert word_of_metrics(f"{both[0]} 1\n{both[1]} 2", f"{theirs} 3") == "different"
    assert word_of_metrics(f"{both[0]} 1", f"{theirs} 1") == "different"
    assert word_of_metrics('yunikorn_queue_app{queue="root.a",state="running"} 1', "") == "explained"
    assert word_of_metrics('yunikorn_queue_app{state="running"} 1', "") == "different"


def test_near_misses_are_not_explained() -> None:
    """They look like intended differences."""
    delay = recorded(0, {"allocationDelay": 1})
    assert judge_answer("x", delay, answer({})).word == "different"
    assert judge_answer("x", recorded(0, {"stateLog": [1]}), answer({"stateLog": []})).word == "different"
    theirs = recorded(0, {"allowed": True}, "/ws/v1/validate-conf")
    assert judge_answer("x", theirs, answer({"allowed": False, "reason": "no"})).word == "different"
    used = recorded(0, {"type": "vcore"}, "/ws/v1/scheduler/node-utilization")
    assert judge_answer("x", used, answer({"type": "", "utilization": []})).word == "different"
    samples = recorded(0, [1], "/ws/v1/history/apps")
    assert judge_answer("x", samples, answer(None)).word == "different"
    assert judge_answer("x", samples, None).word == "failed"


def test_a_scenario_with_two_partitions(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO))
    player = WithPages(recordings.read(tmp_path, "").scenario)
    player.play()
    shown = {one["name"]: one for one in player.answers[1].body}
    assert {name: one.get("totalNodes", 0) for name, one in shown.items()} == {"default": 1, "two": 0}
    assert player.answers[2].body == []
    assert [one["nodeID"] for one in player.answers[3].body] == ["n1"]


def http(path: str) -> dict[str, Any]:
    return {"http": {"method": "GET", "path": f"/ws/v1/{path}"}}


def test_a_recorded_request_is_sent_with_its_headers(tmp_path: Path) -> None:
    asked = {"method": "GET", "path": "/ws/v1/config", "headers": {"Accept": "application/json"}}
    steps = [{"http": {"method": "GET", "path": "/ws/v1/config"}}]
    (tmp_path / "scenario.json").write_text(json.dumps({**SCENARIO, "steps": steps}))
    one = {"step": 0, "request": asked, "status": 200, "headers": {}, "body_text": "", "body": {"Partitions": []}}
    (tmp_path / "config.json").write_text(json.dumps(one))
    (verdict,) = judge(recordings.read(tmp_path, ""))
    assert {one.path[:2] for one in verdict.unexplained} >= {("body", "Partitions")}, "it is compared with JSON"


def test_a_scenario_after_which_nothing_is_left(tmp_path: Path) -> None:
    """What an application had at most is shown as long as it is; then everything is empty, and nothing is an error."""
    amounts = {"resources": {"vcore": {"value": 2}}}
    asks = [
        {
            "allocationKey": key, "applicationID": "app", "partitionName": "default", "resourceAsk": amounts,
            "maxAllocations": 1,
        }
        for key in ("a", "b")
    ]  # fmt: skip
    releases = [
        {"partitionName": "default", "applicationID": "app", "UUID": f"$uuid:{key}", "terminationType": "STOPPED_BY_RM"}
        for key in ("a", "b")
    ]
    ugi = {"user": "ann", "groups": ["dev"]}
    new = {"applicationID": "app", "queueName": "root.a", "partitionName": "default", "ugi": ugi}
    application = "partition/default/queue/root.a/application/app"
    steps: list[dict[str, Any]] = [
        SCENARIO["steps"][0],
        {"application": {"new": [new]}},
        {"allocation": {"asks": asks}},
        {"schedule": -1},
        {"allocation": {"releases": {"allocationsToRelease": releases[:1]}}},
        http(application),
        {"allocation": {"releases": {"allocationsToRelease": releases[1:]}}},
        {"application": {"remove": [{"applicationID": "app", "partitionName": "default"}]}},
        {"node": {"nodes": [{"nodeID": "n1", "action": "DECOMISSION"}]}},
        *map(http, ("partitions", "partition/default/queues", "partition/default/nodes", application)),
        *map(http, ("partition/default/usage/users", "scheduler/node-utilization", "scheduler/healthcheck")),
    ]
    (tmp_path / "scenario.json").write_text(json.dumps({**SCENARIO, "steps": steps}))
    player = WithPages(recordings.read(tmp_path, "").scenario)
    player.play()
    shown, *last = (player.answers[number] for number in sorted(player.answers))
    assert (shown.body["usedResource"], shown.body["maxUsedResource"]) == ({"vcore": 2}, {"vcore": 4})
    (held,) = shown.body["allocations"]
    assert held["requestTime"] + held["allocationDelay"] == held["allocationTime"]
    places, tree, nodes, gone, users, utilization, health = last
    first = places.body[0]
    assert (first["capacity"], first.get("totalNodes"), first.get("totalContainers")) == ({}, None, None)
    assert [one["queuename"] for one in tree.body["children"]] == ["root.a"]
    assert (gone.status, gone.body["message"]) == (400, "Application not found")
    assert (nodes.body, users.body, health.body["Healthy"]) == ([], None, True)
    assert utilization.body == {"type": "", "utilization": []}
