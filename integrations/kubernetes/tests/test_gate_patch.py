"""The patch that removes the gate of a pod, on pods as an API server from 1.27 reports them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.objects import pod, sent
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.plugin import Pin, gate_patch
from remuda_kubernetes.shim import names
from tests.sim.kubernetes import pod_rules

GATED: dict[str, Any] = {"schedulingGates": [{"name": names.GATE}]}


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """A JSON patch (RFC 6902), as far as it is used."""
    document = json.loads(json.dumps(document))
    for operation in operations:
        *way, last = [part.replace("~1", "/") for part in operation["path"].split("/")[1:]]
        at = document
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        index: Any = int(last) if isinstance(at, list) and last != "-" else last
        match operation["op"]:
            case "test":
                assert at[index] == operation["value"]
            case "remove":
                del at[index]
            case "add" if isinstance(at, list):
                at.append(operation["value"])
            case "add":
                at[index] = operation["value"]
    return document


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ON_N1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
OTHER_FIELD = {"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
AFFINITIES: list[tuple[Any, Any]] = [
    (None, {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [ON_N1]}]}}}),
    (
        {"podAffinity": {}},
        {"podAffinity": {}, "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [ON_N1]}]}}},
    ),
    (
        {"nodeAffinity": PREFERRED},
        {"nodeAffinity": PREFERRED | {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [ON_N1]}]}}},
    ),
    (
        {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchFields": [OTHER_FIELD]}]}
            }
        },
        {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [ZONE], "matchFields": [ON_N1]},
                        {"matchFields": [OTHER_FIELD, ON_N1]},
                    ]
                }
            }
        },
    ),
]


@pytest.mark.parametrize(("affinity", "expected"), AFFINITIES)
def test_hard_pin_narrows_each_term_to_the_node(affinity: Any, expected: Any) -> None:
    before = sent("p", schedulingGates=[{"name": "other"}, {"name": names.GATE}])
    before["metadata"]["resourceVersion"] = "7"
    if affinity is not None:
        before["spec"]["affinity"] = affinity
    seen = msgspec.json.decode(json.dumps(before), type=Pod)
    patched = applied(before, gate_patch(seen, "n1", Pin.HARD))
    assert patched["spec"]["affinity"] == expected
    assert patched["spec"]["schedulingGates"] == [{"name": "other"}]


TERM = {"weight": 100, "preference": {"matchFields": [ON_N1]}}
OTHER_TERM: dict[str, Any] = {"weight": 7, "preference": {"matchExpressions": [ZONE]}}
PREFERENCE = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRES_ZONE = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (None, {"nodeAffinity": {PREFERENCE: [TERM]}}),
        ({"podAffinity": {}}, {"podAffinity": {}, "nodeAffinity": {PREFERENCE: [TERM]}}),
        ({"nodeAffinity": REQUIRES_ZONE}, {"nodeAffinity": REQUIRES_ZONE | {PREFERENCE: [TERM]}}),
        ({"nodeAffinity": {PREFERENCE: [OTHER_TERM]}}, {"nodeAffinity": {PREFERENCE: [OTHER_TERM, TERM]}}),
    ],
)
def test_soft_pin_is_a_preference_in_the_same_patch(affinity: Any, expected: Any) -> None:
    """Preferences of a pod with a gate may be changed in any way; what it requires stays as it is."""
    before = sent("p", **GATED)
    if affinity is not None:
        before["spec"]["affinity"] = affinity
    seen = msgspec.json.decode(json.dumps(before), type=Pod)
    patched = applied(before, gate_patch(seen, "n1", Pin.SOFT))
    assert patched["spec"] == {**before["spec"], "schedulingGates": [], "affinity": expected}
    before["metadata"]["generation"] = 1
    assert pod_rules.changed(before, patched, 36)["spec"]["affinity"] == expected


@pytest.mark.parametrize("of", [{"pin": Pin.SOFT, "nominates": True}, {"pin": Pin.FREE}])
def test_other_pins_remove_the_gate_only(of: dict[str, Any]) -> None:
    before = sent("p", **GATED)
    patched = applied(before, gate_patch(msgspec.json.decode(json.dumps(before), type=Pod), "n1", **of))
    assert patched["spec"] == {**before["spec"], "schedulingGates": []}


def test_patch_of_another_pod_of_that_name_fails() -> None:
    before, after = pod("p", **GATED), sent("p", **GATED)
    after["metadata"]["uid"] = "another"
    with pytest.raises(AssertionError):
        applied(after, gate_patch(before, "n1", Pin.FREE))


def test_patch_of_a_pod_without_the_gate_is_empty() -> None:
    assert gate_patch(pod("p"), "n1", Pin.HARD) == []
