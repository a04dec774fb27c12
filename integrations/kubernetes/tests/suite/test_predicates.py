"""Selectors, affinity, taints, ports and spread."""

from __future__ import annotations

from typing import Any

import pytest

from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}}


def near(app: str, kind: str = "podAffinity", **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    return {kind: {REQUIRED: [{"labelSelector": selector, "topologyKey": "kubernetes.io/hostname", **more}]}}


def is_in(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


ANTI = "podAntiAffinity"
PORT = {"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "10.0.0.1"}
# name: fields of the pod's spec, where it is placed ("": it waits). Nodes n1 (zone=a, size=2) and n2 (zone=b, tainted).
# Pod `web` runs on n1, `db` too, in its own namespace.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "node selector not matching": ({"nodeSelector": {"zone": "c"}}, ""),
    "node selector matching": ({"nodeSelector": {"zone": "a"}}, "n1"),
    "node affinity not matching": ({"affinity": node_affinity([is_in("zone", "c")])}, ""),
    "node affinity matching": ({"affinity": node_affinity([is_in("zone", "a")])}, "n1"),
    "taint tolerated": (
        {"nodeSelector": {"zone": "b"}, "tolerations": [{"key": "keep", "operator": "Exists"}]}, "n2",
    ),
    "taint not tolerated": ({"nodeSelector": {"zone": "b"}}, ""),
    "pod affinity not matching": ({"affinity": near("nothing")}, ""),
    "pod affinity matching": ({"affinity": near("web")}, "n1"),
    "NotIn": ({"affinity": node_affinity([is_in("zone", "b", operator="NotIn")])}, "n1"),
    "another namespace": ({"affinity": near("db", namespaces=["other"])}, "n1"),
    "only its own namespace": ({"affinity": near("db")}, ""),
    "selector that nothing matches": ({"affinity": node_affinity([is_in("none", "x")])}, ""),
    "several terms": ({"affinity": node_affinity([is_in("zone", "c")], [is_in("zone", "a")])}, "n1"),
    "one expression does not match": ({"affinity": node_affinity([is_in("zone", "a"), is_in("size", "3")])}, ""),
    "greater than": ({"affinity": node_affinity([is_in("size", "1", operator="Gt")])}, "n1"),
    "affinity and anti-affinity satisfied": ({"affinity": near("web") | near("nothing", ANTI)}, "n1"),
    "affinity yes, anti-affinity no": ({"affinity": near("web") | near("web", ANTI)}, ""),
    "fixed node name": ({"nodeName": "n2"}, "n2"),
    "same host port, other address": (
        {"containers": [{"name": "c", "image": "none", "ports": [PORT | {"hostIP": "10.0.0.2"}]}]}, "n1",
    ),
    "same host port, other protocol": (
        {"containers": [{"name": "c", "image": "none", "ports": [PORT | {"protocol": "UDP"}]}]}, "n1",
    ),
    "same host port": ({"containers": [{"name": "c", "image": "none", "ports": [PORT]}]}, ""),
}  # fmt: skip


async def test_each_pod_is_where_it_may_be(mode: Mode, server: NatsServer) -> None:
    """predicates 1 to 18."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", zone="a", size="2")
        await it.add_nodes("n2", zone="b")
        await it.patch_node("n2", {"spec": {"taints": [{"key": "keep", "value": "off", "effect": "NoSchedule"}]}})
        container = {"name": "c", "image": "none", "ports": [PORT]}
        await it.create(mode.pod("web", app="web", labels={"app": "web"}, containers=[container]))
        await it.create_namespace("other")
        it.namespace = "other"
        await it.create(mode.pod("db", labels={"app": "db"}))
        it.namespace = "default"
        assert await it.bound("web", "db") == {"web": "n1", "db": "n1"}
        names = {case: f"case-{number}" for number, case in enumerate(CASES)}
        for case, (spec, _) in CASES.items():
            await it.create(mode.pod(names[case], app=names[case], **spec))
        expected = {case: node for case, (_, node) in CASES.items() if node}
        found = await it.bound(*(names[case] for case in expected))
        assert {case: found[names[case]] for case in expected} == expected
        for case, (_, node) in CASES.items():
            if not node:
                await mode.why(it, names[case])


@pytest.mark.parametrize("patch", [{"spec": {"taints": None}}, {"metadata": {"labels": {"zone": "a"}}}])
async def test_pod_starts_when_the_node_changes(mode: Mode, server: NatsServer, patch: dict[str, Any]) -> None:
    """predicates 6: the taint goes."""
    async with mode.cluster(server.url) as it:
        tainted = "spec" in patch
        await it.add_nodes("n1", zone="a" if tainted else "b")
        if tainted:
            await it.patch_node("n1", {"spec": {"taints": [{"key": "keep", "effect": "NoSchedule"}]}})
        await it.create(mode.pod("one", nodeSelector={"zone": "a"}))
        await mode.why(it, "one")
        await it.patch_node("n1", patch)
        await it.until(lambda pods: bool(pods["one"].spec.node_name), within_s=10)


async def test_pod_starts_when_its_friend_comes(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2")
        await it.create(mode.pod("second", app="x", affinity=near("friend")))
        await mode.why(it, "second")
        await it.create(mode.pod("first", app="y", labels={"app": "friend"}))
        nodes = await it.bound("first")
        await it.until(lambda pods: pods["second"].spec.node_name == nodes["first"], within_s=10)


async def test_pods_are_spread(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", zone="a")
        await it.add_nodes("n2", zone="b")
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
        names = [f"s{number}" for number in range(4)]
        for name in names:
            await it.create(mode.pod(name, app="s", labels={"app": "spread"}, topologySpreadConstraints=[constraint]))
        assert sorted((await it.bound(*names)).values()) == ["n1", "n1", "n2", "n2"]
