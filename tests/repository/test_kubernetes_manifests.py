"""The manifests of the front end for Kubernetes are valid and give the least rights. Checked offline."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from remuda.local.services import check_settings
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.webhook.review import MAPS

DEPLOY = Path(__file__).parents[2] / "deploy/kubernetes"
FOLDERS = ("scheduler", "webhook", "plugin", "extender")
KUBERNETES = "1.31"


def manifests(folder: str) -> list[dict[str, Any]]:
    """Those of the folder itself, not of others that it includes."""
    yaml = YAML(typ="safe")
    files = yaml.load(DEPLOY / folder / "kustomization.yaml")["resources"]
    return [one for file in files if file.endswith(".yaml") for one in yaml.load_all(DEPLOY / folder / file)]


def named(folder: str, kind: str) -> dict[str, Any]:
    (found,) = [one for one in manifests(folder) if one["kind"] == kind]
    return found


def in_all() -> list[dict[str, Any]]:
    return [one for folder in FOLDERS for one in manifests(folder)]


@pytest.mark.parametrize("manifest", in_all(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_each_manifest_is_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize(("folder", "given"), [("scheduler", ("nats.ca=", "nats.seed=")), ("webhook", ())])
def test_settings_are_those_of_the_service(folder: str, given: tuple[str, ...]) -> None:
    assert check_settings(["kubernetes"], DEPLOY / folder / "remuda.yaml", given, environment=False)


def test_rights_of_the_front_end_are_no_more_than_needed() -> None:
    rules = named("scheduler", "ClusterRole")["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    assert "*" not in resources | verbs
    assert not resources & {"secrets", "serviceaccounts"}
    assert not verbs & {"impersonate", "escalate", "deletecollection"}


def test_webhook_reads_one_secret_and_changes_no_pods() -> None:
    rules = named("webhook", "ClusterRole")["rules"]
    assert not {resource for rule in rules for resource in rule["resources"]} & {"secrets", "pods", "configmaps"}
    for rule in (*rules, *named("webhook", "Role")["rules"]):
        assert "*" not in (*rule["resources"], *rule["verbs"])
        if set(rule["resources"]) - {"namespaces", "priorityclasses"}:
            assert rule["verbs"] == ["create"] or rule["resourceNames"]
    maps = [rule["resourceNames"] for rule in named("webhook", "Role")["rules"] if rule["resources"] == ["configmaps"]]
    assert maps == [list(MAPS)]


def test_webhook_has_no_key_of_the_bus() -> None:
    """Whoever takes over the webhook, which every user's request passes, must not be able to speak as the RM."""
    pod = named("webhook", "Deployment")["spec"]["template"]
    volumes = pod["spec"]["volumes"]
    assert {kind for volume in volumes for kind in volume if kind != "name"} == {"emptyDir", "configMap", "secret"}
    assert [volume["secret"]["secretName"] for volume in volumes if "secret" in volume] == ["webhook-validation"]
    assert "remuda" not in pod["metadata"]["labels"]  # the label of pods that may reach NATS
    assert "nats" not in YAML(typ="safe").load(DEPLOY / "webhook/remuda.yaml")


@pytest.mark.parametrize("folder", ["scheduler", "webhook"])
def test_probes_reach_a_pod_where_no_connection_is_allowed(folder: str) -> None:
    """Some network plugins apply policies to the kubelet, too. A webhook that is not ready gets no requests."""
    pod = named(folder, "Deployment")["spec"]["template"]
    ((probed,),) = [
        [port["containerPort"] for port in one["ports"] if port["name"] == "health"]
        for one in pod["spec"]["containers"]
    ]
    policies = [*YAML(typ="safe").load_all(DEPLOY / "network.yaml"), *manifests(folder)]
    allowed = {
        port["port"]
        for one in policies
        if one["kind"] == "NetworkPolicy" and selects(one["spec"]["podSelector"], pod["metadata"]["labels"])
        for rule in one["spec"].get("ingress", ())
        if "from" not in rule
        for port in rule["ports"]
    }
    assert probed in allowed


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert all(one["operator"] == "In" for one in selector.get("matchExpressions", ()))
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ())
    )


def test_plugin_mode_needs_one_right_more() -> None:
    (rule,) = named("plugin", "ClusterRole")["rules"]
    assert (rule["resources"], rule["verbs"]) == (["pods"], ["patch"])


@pytest.mark.parametrize("folder", ["scheduler", "webhook"])
def test_pod_is_confined(folder: str) -> None:
    spec = named(folder, "Deployment")["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("folder", ["scheduler", "webhook"])
def test_processes_are_on_several_nodes_and_one_stays(folder: str) -> None:
    """While a node is lost or drained. No pod is scheduled without the one, and none is created without the other."""
    deployment = named(folder, "Deployment")
    labels = deployment["spec"]["selector"]
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["labelSelector"]) == ("kubernetes.io/hostname", labels)
    budget = named(folder, "PodDisruptionBudget")["spec"]
    assert (budget["minAvailable"], budget["selector"]) == (1, labels)
    assert deployment["spec"]["replicas"] > 1


def containers(deployments: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    """The name of each deployment and of its container."""
    return {(one["metadata"]["name"], one["spec"]["template"]["spec"]["containers"][0]["name"]) for one in deployments}


def test_patches_of_plugin_mode_apply_to_both_processes() -> None:
    patched = containers(YAML(typ="safe").load_all(DEPLOY / "plugin/mode.yaml"))
    assert patched == containers(named(folder, "Deployment") for folder in ("scheduler", "webhook"))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomization_builds(folder: str) -> None:
    built = subprocess.run(["kubectl", "kustomize", DEPLOY / folder], check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    if folder in ("plugin", "extender"):
        assert built.stdout.count("REMUDA_KUBERNETES_MODE") == 2
    if folder == "extender":
        check_extender(list(YAML(typ="safe").load_all(built.stdout)))


def check_extender(built: list[dict[str, Any]]) -> None:
    """One process is ready, which the default scheduler can reach."""
    kinds = [(one["kind"], one["metadata"]["name"]) for one in built]
    newer = {"FlowSchema", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert not newer & {kind for kind, _ in kinds}
    assert ("PodDisruptionBudget", "kubernetes") not in kinds
    (deployment,) = [one for one in built if (one["kind"], one["metadata"]["name"]) == ("Deployment", "kubernetes")]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (service,) = [one for one in manifests("extender") if one["kind"] == "Service"]
    (policy,) = [one for one in manifests("extender") if one["kind"] == "NetworkPolicy"]
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert selects({"matchLabels": service["spec"]["selector"]}, pod["metadata"]["labels"])
    assert selects(policy["spec"]["podSelector"], pod["metadata"]["labels"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (port,), (rule,) = service["spec"]["ports"], policy["spec"]["ingress"]
    assert [one["port"] for one in rule["ports"]] == [ports[port["targetPort"]]]
    given = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert ports["extender"] == KubernetesSettings().extender_port
    mounts = {one["name"]: Path(one["mountPath"]) for one in container["volumeMounts"]}
    for name in ("CERT", "KEY", "CLIENT_CA"):
        assert Path(given[f"REMUDA_KUBERNETES_EXTENDER_{name}"]).parent == mounts["extender"]
    (asks,) = YAML(typ="safe").load(DEPLOY / "extender/scheduler-configuration.yaml")["extenders"]
    assert asks["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert Path(asks["tlsConfig"]["certFile"]).name == f"client-{given['REMUDA_KUBERNETES_EXTENDER_CLIENTS']}.pem"
