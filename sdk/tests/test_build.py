from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import (
    application,
    ask,
    devices_of,
    node,
    on_devices,
    release_of,
    resource,
    together,
    with_devices,
)


def test_resources_in_base_units() -> None:
    made = resource({"nvidia.com/gpu": 2}, vcore=4000)
    assert {name: quantity.value for name, quantity in made.resources.items()} == {"nvidia.com/gpu": 2, "vcore": 4000}


def test_a_node() -> None:
    made = node("n1", vcore=4000, memory=2**34, partition="gpu", attributes={"si/hostname": "h"}, occupied={"vcore": 1})
    assert made.nodeID == "n1" and made.action == si.NodeInfo.UNKNOWN_ACTION_FROM_RM
    assert dict(made.attributes) == {"si/hostname": "h", "si/node-partition": "gpu"}
    assert made.schedulableResource.resources["memory"].value == 2**34
    assert made.occupiedResource.resources["vcore"].value == 1


def test_a_node_that_is_reported_draining() -> None:
    assert node("n1", draining=True, vcore=1).action == si.NodeInfo.CREATE_DRAIN


def test_absent_fields_of_a_node_are_not_sent() -> None:
    made = node("n1")
    assert not made.HasField("schedulableResource") and not made.HasField("occupiedResource")


def test_an_application() -> None:
    made = application(
        "app-1", queue="root.a", user="alice", groups=["g"], placeholders={"vcore": 5}, gang_style="Hard"
    )
    assert (made.applicationID, made.queueName, made.ugi.user, list(made.ugi.groups)) == (
        "app-1", "root.a", "alice", ["g"]
    )  # fmt: skip
    assert made.placeholderAsk.resources["vcore"].value == 5 and made.gangSchedulingStyle == "Hard"
    assert not application("app-2").HasField("placeholderAsk")


def test_an_ask() -> None:
    made = ask("app-1", "k1", vcore=100, count=3, priority=7, tags={"a": "b"}, timeout_ms=5, task_group="t")
    assert (made.applicationID, made.allocationKey, made.maxAllocations, made.priority) == ("app-1", "k1", 3, 7)
    assert (dict(made.tags), made.executionTimeoutMilliSeconds, made.taskGroupName) == ({"a": "b"}, 5, "t")
    assert made.resourceAsk.resources["vcore"].value == 100
    assert not made.HasField("preemptionPolicy") and ask("app-1", "k").maxAllocations == 1


def test_a_release_of_an_allocation() -> None:
    made = release_of(si.Allocation(UUID="u", applicationID="app-1", allocationKey="k", partitionName="gpu"), "done")
    assert (made.UUID, made.applicationID, made.allocationKey, made.partitionName) == ("u", "app-1", "k", "gpu")
    assert (made.terminationType, made.message) == (si.STOPPED_BY_RM, "done")


@pytest.mark.parametrize(
    ("amounts", "value"),
    [
        ({"vcore": 500}, 500),
        ({"vcore": 0.5}, 500),
        ({"vcore": 0.1 + 0.2}, 300),
        ({"vcore": 2.25}, 2_250),
        ({"vcore": "2"}, 2_000),
        ({"vcore": "250m"}, 250),
        ({"memory": "1Gi"}, 2**30),
        ({"memory": "16G"}, 16 * 10**9),
        ({"memory": 16e9}, 16 * 10**9),
        ({"gpu": "2"}, 2),
        ({"gpu": 0}, 0),
        ({"disk": 2**63 - 1}, 2**63 - 1),
    ],
)
def test_amounts_as_they_are_meant(amounts: dict[str, Any], value: int) -> None:
    [name] = amounts
    for made in (
        resource(**amounts),
        resource(amounts),
        ask("a", "k", **amounts).resourceAsk,
        ask("a", "k", resources=amounts).resourceAsk,
        node("n", **amounts).schedulableResource,
        node("n", occupied=amounts).occupiedResource,
        application("a", placeholders=amounts).placeholderAsk,
    ):
        assert made.resources[name].value == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (-1, r"vcore=-1: expected a whole number, at least 0"),
        (2**63, r"vcore=9223372036854775808: expected"),
        (True, r"vcore=True: expected a whole number"),
        (2.0, r'vcore=2.0: expected 2 for thousandths of a core, or the text "2" for cores'),
        (-0.5, r"vcore=-0.5: expected cores"),
        (0.0001, r"vcore=0.0001: expected cores with at most three decimals"),
        (1e-12, r"vcore=1e-12: expected cores"),
        (float("nan"), r"vcore=nan: expected cores"),
        (float("inf"), r"vcore=inf: expected"),
        ("1.5Gi", r"vcore: '1.5Gi' is not a quantity"),
        ("two", r"vcore: 'two' is not a quantity"),
        (None, r"vcore=None: expected"),
        ([1], r"vcore=\[1\]: expected"),
    ],
)
def test_amounts_that_are_none(value: Any, told: str) -> None:
    ask("a", "k", vcore=1)  # what equals a value that was seen is not that value: True, 1.0
    ask("a", "k", vcore=2)
    with pytest.raises(ValueError, match=f"^{told}"):
        ask("a", "k", vcore=value)
    with pytest.raises(ValueError, match=r"^resources\['vcore'\]"):
        node("n", resources={"vcore": value})
    with pytest.raises(ValueError, match=r"^occupied\['vcore'\]"):
        node("n", occupied={"vcore": value})
    with pytest.raises(ValueError, match=r"^placeholders\['vcore'\]"):
        application("a", placeholders={"vcore": value})


def test_fractions_of_others_than_cores_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^memory=0\.5: expected a whole number"):
        resource(memory=0.5)
    with pytest.raises(ValueError, match=r"^gpu: '500m' has an unknown suffix 'm'"):
        resource(gpu="500m")


def test_an_amount_that_is_given_twice() -> None:
    with pytest.raises(ValueError, match="^vcore=1: resources names it too, expected it once"):
        ask("a", "k", vcore=1, resources={"vcore": 2})


WRONG: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (application, {"groups": "dev"}, r"groups='dev': expected several texts, such as \['dev'\]"),
    (application, {"groups": [1]}, r"groups\[0\]=1: expected a text"),
    (application, {"user": 5}, "user=5: expected a text"),
    (application, {"queue": ["root"]}, r"queue=\['root'\]: expected a text"),
    (application, {"tags": {"a": 1}}, r"tags\['a'\]=1: expected a text"),
    (application, {"tags": "a=b"}, "tags='a=b': expected a mapping"),
    (application, {"execution_timeout_ms": -1}, "execution_timeout_ms=-1: expected a whole number, at least 0"),
    (application, {"execution_timeout_ms": 0.5}, "execution_timeout_ms=0.5: expected a whole number"),
    (application, {"gang_style": "hard"}, "gang_style='hard': expected one of '', 'Soft', 'Hard'"),
    (application, {"placeholders": [1]}, r"placeholders=\[1\]: expected a mapping"),
    (ask, {"count": 0}, "count=0: expected a whole number from 1 to 2147483647"),
    (ask, {"count": -1}, "count=-1: expected"),
    (ask, {"count": 1.5}, "count=1.5: expected"),
    (ask, {"count": "3"}, "count='3': expected"),
    (ask, {"count": True}, "count=True: expected"),
    (ask, {"count": 2**31}, "count=2147483648: expected"),
    (ask, {"priority": 2**31}, "priority=2147483648: expected a whole number from -2147483648"),
    (ask, {"timeout_ms": -1}, "timeout_ms=-1: expected"),
    (ask, {"partition": 1}, "partition=1: expected a text"),
    (ask, {"placeholder": True}, "placeholder=True: expected a task_group with it"),
    (ask, {"placeholder": "no", "task_group": "t"}, "placeholder='no': expected True or False"),
    (ask, {"originator": "no"}, "originator='no': expected True or False"),
    (ask, {"preemption": True}, "preemption=True: expected a PreemptionPolicy"),
    (ask, {"resources": [("vcore", 1)]}, r"resources=\[\('vcore', 1\)\]: expected a mapping"),
    (ask, {"resources": {1: 1}}, "resources={1: 1}: expected names of resources as text"),
    (node, {"existing": si.Allocation(UUID="u")}, "existing=<Allocation>: expected several of Allocation"),
    (node, {"existing": ["u"]}, r"existing\[0\]='u': expected Allocation"),
    (node, {"attributes": {"a": 1}}, r"attributes\['a'\]=1: expected a text"),
    (node, {"draining": "yes"}, "draining='yes': expected True or False"),
]


@pytest.mark.parametrize(("build", "given", "told"), WRONG)
def test_a_wrong_argument_is_named(build: Callable[..., Any], given: dict[str, Any], told: str) -> None:
    identity = ("a", "k") if build is ask else ("a",)
    with pytest.raises(ValueError, match=f"^{told}"):
        build(*identity, **given)


def test_only_an_allocation_is_released() -> None:
    with pytest.raises(ValueError, match="^allocation='u': expected an Allocation"):
        release_of("u")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^message=5: expected a text"):
        release_of(si.Allocation(UUID="u"), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", None, 5, "\ud800"])
def test_a_wrong_identity_is_named(name: Any) -> None:
    for argument, build in {
        "node_id": lambda: node(name),
        "application_id": lambda: application(name),
        "key": lambda: ask("a", name),
    }.items():
        with pytest.raises(ValueError, match=f"^{argument}="):
            build()
    with pytest.raises(ValueError, match="^application_id="):
        ask(name, "k")


def test_tags_and_attributes_of_devices_and_racks() -> None:
    tags = together(required="block", slices=("rack", 16), group="workers", size=64)
    assert tags == {
        "remuda/topology.required": "block", "remuda/topology.slice": "rack/16", "remuda/topology.group": "workers",
        "remuda/topology.size": "64",
    }  # fmt: skip
    assert together(preferred="rack", spread="zone") == {
        "remuda/topology.preferred": "rack", "remuda/topology.spread": "zone",
    }  # fmt: skip
    assert together() == {} and on_devices("gpu", 2) == {"remuda/devices.gpu.count": "2"}
    assert with_devices("gpu", ["a", "b"], unfit=["b"]) == {
        "remuda/devices.gpu": "a,b", "remuda/devices.gpu.unfit": "b",
    }  # fmt: skip
    allocation = si.Allocation(allocationTags={"remuda/devices.gpu": "a,c"})
    assert devices_of(allocation, "gpu") == ("a", "c") and devices_of(allocation, "fpga") == ()
    assert ask("app", "k", gpu=600, tags=on_devices("gpu", 2)).tags == {"remuda/devices.gpu.count": "2"}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: together(required=5), "required"),  # type: ignore[arg-type]
        (lambda: together(slices=("rack", 0)), "slices"),
        (lambda: together(slices=("", 4)), "slices"),
        (lambda: together(size=-1), "size"),
        (lambda: on_devices("gpu", 0), "count"),
        (lambda: on_devices("", 1), "resource"),
        (lambda: with_devices("gpu", [5]), "names"),  # type: ignore[list-item]
    ],
)
def test_a_wrong_wish_is_refused_by_its_name(call: Callable[[], object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        call()
