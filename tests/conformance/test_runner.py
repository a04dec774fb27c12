"""The runner on scenarios of its own: what it calls equal, different, failed; how it plays time and confirmations."""

from __future__ import annotations

import copy
import json

import pytest

from remuda_core.check import digest

from . import in_process, recording, report
from .builders import GOLDEN, app, ask, asks, node, release, scenario, trace_of
from .differences import FILE, text
from .kinds import KINDS
from .verdict import DIFFERENT, EQUAL, FAILED, judge


def verdict_on(played, trace, deterministic=True):
    return judge(recording.Recording(played, trace, deterministic), in_process.play)


def small():
    return scenario(node("n1", 10), app("app-1"), asks(ask("app-1", "k1", 2), ask("app-1", "k2", 3)), {"schedule": -1},
                    {"dump": True}, release("app-1", "$uuid:k1"))  # fmt: skip


def test_the_same_is_equal():
    trace = trace_of(small())
    assert verdict_on(small(), trace).word == EQUAL
    assert trace["steps"][3]["productiveCycles"] == 2
    assert [step["op"] for step in trace["steps"]][-1] == "allocation"


def test_uuids_times_and_order_within_a_message_mean_nothing():
    trace = json.loads(json.dumps(trace_of(small())).replace("-8", "-9"))
    for step in trace["steps"]:
        step["events"].reverse()
        for callback in step["callbacks"]:
            for items in callback["msg"].values():
                items.reverse()
    assert verdict_on(small(), trace).word == EQUAL


@pytest.mark.parametrize(
    ("step", "change"),
    [
        (3, lambda step: step["callbacks"].pop()),
        (3, lambda step: step["callbacks"][1]["msg"]["new"][0].update(nodeID="n2")),
        (3, lambda step: step.update(productiveCycles=3)),
        (1, lambda step: step["callbacks"][0]["msg"].update(rejected=step["callbacks"][0]["msg"].pop("accepted"))),
        (4, lambda step: step["dump"]["partitions"]["[rm:123]default"]["queues"].update(status="Draining")),
        (4, lambda step: step["dump"]["users"].clear()),
        (0, lambda step: step["events"].pop()),
        (5, lambda step: step.update(error="no")),
    ],
)
def test_anything_else_is_different(step, change):
    trace = copy.deepcopy(trace_of(small()))
    change(trace["steps"][step])
    verdict = verdict_on(small(), trace)
    assert verdict.word == DIFFERENT
    assert {difference.step for difference in verdict.unexplained} == {step}


def test_what_breaks_is_failed():
    def breaks(played, compatibility):
        raise AssertionError("an invariant")

    verdict = judge(recording.Recording(small(), trace_of(small())), breaks)
    assert (verdict.word, verdict.summary()) == (FAILED, "AssertionError: an invariant")


def test_refused_configurations_and_registrations():
    good = scenario({"config": "partitions: []"}, {"dump": True})
    assert trace_of(good)["steps"][0]["error"]
    bad = scenario(node("n1", 1), config="partitions: 7")
    assert "error" in trace_of(bad)["registration"]
    assert trace_of(bad)["steps"][0]["error"] == "rm:123 is not registered"
    assert trace_of(bad)["final"] is None


def test_time_passes_within_a_step_until_all_is_quiet():
    played = scenario(node("n1", 10), app("app-1"), asks(ask("app-1", "k1", 2)), {"schedule": -1},
                      release("app-1", "$uuid:k1"), completing_timeout_ms=40, quiet_ms=120)  # fmt: skip
    states = [item["state"] for step in trace_of(played)["steps"] for callback in step["callbacks"]
              for item in callback["msg"].get("updated", ())]  # fmt: skip
    assert states == ["Accepted", "Starting", "Completing", "Completed"]


def test_in_auto_mode_it_schedules_by_itself():
    played = scenario(node("n1", 10), app("app-1"), asks(ask("app-1", "k1", 2)), mode="auto")
    [new] = [item for callback in trace_of(played)["steps"][2]["callbacks"] for item in callback["msg"].get("new", ())]
    assert new["allocationKey"] == "k1"


def test_predicates_of_the_scenario_are_answered():
    played = scenario(node("n1", 10), node("n2", 5), app("app-1"), asks(ask("app-1", "k1", 2)), {"schedule": -1},
                      predicate_fail={"k1": ["n1"]})  # fmt: skip
    found = [
        item["nodeID"]
        for callback in trace_of(played)["steps"][4]["callbacks"]
        for item in callback["msg"].get("new", ())
    ]
    assert found == ["n2"]


def test_a_scenario_that_is_not_in_the_format_is_refused():
    for written in ({"name": "x", "steppes": []}, {"options": {"quiet": 1}}, {"steps": [{"label": "nothing"}]}):
        with pytest.raises(recording.Unreadable):
            recording.read_scenario(written)


def test_steps_that_are_compared_with_nothing_are_a_share_of_all():
    verdict, other = (verdict_on(small(), trace_of(small())) for _ in range(2))
    assert report.blind_share([verdict, other]) == 0
    verdict.parted_at = 4
    assert report.blind_share([verdict, other]) == 2 / 12


def test_the_report_says_what_is_to_be_said():
    trace = copy.deepcopy(trace_of(small()))
    trace["steps"][3]["callbacks"].pop()
    verdicts = [verdict_on(small(), trace), verdict_on(small(), trace_of(small()))]
    summary = json.loads(report.as_json(verdicts))
    assert (summary["scenarios"], summary["equal"], summary["different"], summary["compared_throughout"]) == (
        2,
        1,
        1,
        1,
    )
    need = {"resources": {"vcore": {"value": "3"}}}
    new = {"UUID": "k2#0", "applicationID": "app-1", "nodeID": "n1", "resourcePerAlloc": need}
    found = report.callback_lines([{"cb": "allocation", "msg": {"new": [new]}}])
    assert found == ["new app-1/k2#0 on n1 {vcore=3}"]


def test_every_kind_has_a_reason_and_a_golden_scenario():
    for kind in KINDS:
        assert kind.name and len(kind.why) > 100, kind
        file, _, title = kind.golden.partition(": ")
        assert f"=== {title}\n" in (GOLDEN / file).read_text(), kind.golden


def test_the_document_is_written_from_the_kinds():
    assert FILE.read_text() == text(), "run python -m tests.conformance.differences"


def test_nothing_is_remembered_between_two_plays():
    first, second = (in_process.InProcess(small(), in_process.COMPATIBILITY) for _ in range(2))
    first.play()
    second.play()
    assert digest(first.core.state) == digest(second.core.state)
