"""What the chart renders to, by a real Helm: what kustomize applies, valid, confined, and each part by itself."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from remuda.admin.cluster_keys import bring_up_to_date, objects_of, parsed
from remuda.local.services import SERVICES, check_settings
from tests.chart.helm import CHART, MISSING, HelmFailed, Manifest, by_name, call, is_installed, pod_of, rendered
from tests.repository import test_kubernetes_manifests as of_front_ends
from tests.repository import test_manifests as of_stack

pytestmark = pytest.mark.skipif(not is_installed(), reason=MISSING)

PARTS = (
    "nats", "core", "rmproxy", "config", "events", "grpc", "web", "resmgr", "placement", "archive", "history", "shadow",
    "kubernetes", "webhook", "grafana", "prometheus", "tempo",
)  # fmt: skip
PELOTON: dict[str, Any] = {"resmgr": {"enabled": True}, "placement": {"enabled": True}}
PAST: dict[str, Any] = {
    "archive": {"enabled": True},
    "history": {"enabled": True},
    "shadow": {"enabled": True, "queues": "partitions: []"},
}
PLUGIN: dict[str, Any] = {"kubernetes": {"mode": "plugin", "gatePolicy": True}}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("", {}),
    "everything": ("", {
        **PELOTON, **PLUGIN, **PAST,
        "config": {"storage": {"enabled": True, "class": "fast"}},
        "web": {"ingress": {"enabled": True, "host": "remuda.example", "tlsSecret": "web", "className": "nginx"}},
        "keys": {
            "resourceManagers": ["cluster-1"], "operators": {"alice@example.com": ["ops", "dev"], "bob": None},
            "clients": ["cluster-1"], "actsAs": {"web": ["*"], "grpc": ["alice@example.com+ops"]},
        },
        "image": {"registry": "registry.example/", "pullSecrets": ["mine"], "pullPolicy": "Always"},
        "pods": {"tolerations": [{"operator": "Exists"}], "annotations": {"a": "b"}},
        "core": {"env": {"REMUDA_LOG_LEVEL": "debug"}, "priorityClassName": "high", "affinity": {"nodeAffinity": {}}},
    }),
    "minimal": ("minimal.yaml", {}),
    "front only": ("front-only.yaml", {}),
    "all off": ("", {part: {"enabled": False} for part in PARTS} | {
        "grafana": {"enabled": False, "dashboards": {"enabled": False}}, "keys": {"create": False},
    }),
    "past in an object store": ("", {
        "archive": {"enabled": True, "store": "s3://bucket/remuda", "credentials": "aws", "replicas": 2, "port": 9000},
        "history": {"enabled": True, "replicas": 3, "affinity": {"nodeAffinity": {}}},
    }),
    "own servers": ("", {"nats": {"enabled": False, "url": "tls://nats.example:4222"}}),
}  # fmt: skip


@cache
def variant(name: str) -> list[Manifest]:
    file, values = VARIANTS[name]
    return rendered(values, file=file)


def pods(name: str) -> list[tuple[str, Manifest]]:
    found = [(one["metadata"]["name"], pod_of(one)) for one in variant(name)]
    return [(name, pod) for name, pod in found if pod is not None]


def test_chart_has_no_finding() -> None:
    found = call("lint", chart=str(CHART))
    assert not [one for one in found["messages"] if one["severity"] > 1], found


# The same as kustomize


def expected() -> list[Manifest]:
    front = [one for folder in ("scheduler", "webhook", "plugin") for one in of_front_ends.manifests(folder)]
    return [*of_stack.manifests(), *of_stack.archiving(), *of_stack.observing(), *front]


def same(manifest: Manifest) -> Manifest:
    """Without what the chart has for reasons of its own: the namespace, the tag of images, hashes of settings."""
    one: Manifest = deepcopy(manifest)
    one["metadata"].pop("namespace", None)
    if one["kind"] == "PersistentVolumeClaim":
        one["metadata"].pop("annotations", None)
    if one["kind"] == "Service":
        one["spec"].pop("type", None)
        _say_the_protocol(one["spec"])
    pod = pod_of(one)
    if pod is not None:
        pod["metadata"].pop("annotations", None)
        for container in pod["spec"]["containers"]:
            container["image"] = re.sub(r"^(remuda/\w+):latest$", r"\1", container["image"])
            _say_the_protocol(container)
            container["env"] = {
                variable["name"]: "".join(str(variable.get("value", variable.get("valueFrom"))).split())
                for variable in container.get("env", [])
            }
    return one


def _say_the_protocol(of: Manifest) -> None:
    """Helm 4 applies at the server, and API servers of version 1.20 then want to know it."""
    for port in of.get("ports", []):
        port.setdefault("protocol", "TCP")


def test_objects_are_those_of_kustomize() -> None:
    found = by_name(rendered(PELOTON | PLUGIN | PAST))
    for key, manifest in by_name(expected()).items():
        if key in (("Namespace", "remuda"), ("Job", "declare")):
            continue
        wanted, made = same(manifest), same(found[key])
        if key == ("NetworkPolicy", "nothing"):  # the namespace may hold pods of others
            made["spec"]["podSelector"] = {}
        if key in (("Deployment", "kubernetes"), ("Deployment", "remuda-webhook")):
            (container,) = made["spec"]["template"]["spec"]["containers"]
            assert container["env"].pop("REMUDA_KUBERNETES_MODE") == "plugin"
            assert container["env"].pop("REMUDA_KUBERNETES_OWN_USER") == "system:serviceaccount:remuda:remuda"
        assert made == wanted, key


def test_declare_is_that_of_kustomize() -> None:
    (found,) = (one for one in variant("default") if one["metadata"]["name"].startswith("declare-"))
    wanted = by_name(of_stack.manifests())["Job", "declare"]
    assert same(found | {"metadata": {"name": "declare"}}) == same(wanted)


def test_settings_are_those_of_kustomize() -> None:
    yaml = YAML(typ="safe")
    found = by_name(rendered(PELOTON))
    settings = yaml.load(found["ConfigMap", "settings"]["data"]["remuda.yaml"])
    assert settings.pop("traces") == {"endpoint": "http://tempo:4318"}
    wanted = yaml.load(of_stack.DEPLOY / "kubernetes/settings/remuda.yaml")
    del wanted["scheduler"]  # the example operator
    assert settings == wanted
    for kind, folder in (("scheduler", "scheduler"), ("webhook", "webhook")):
        made = yaml.load(found["ConfigMap", f"settings-{kind}"]["data"]["remuda.yaml"])
        wanted = yaml.load(of_front_ends.DEPLOY / f"{folder}/remuda.yaml")
        wanted["kubernetes"].pop("mode", None)  # a variable here
        assert made == wanted


@pytest.mark.parametrize("name", ["default", "minimal", "everything"])
def test_settings_are_right(tmp_path: Path, name: str) -> None:
    text = by_name(variant(name))["ConfigMap", "settings"]["data"]["remuda.yaml"]
    for path in re.findall(r"(?<=: )/\S+", text):
        (tmp_path / Path(path).name).touch()
        text = text.replace(path, str(tmp_path / Path(path).name))
    (tmp_path / "remuda.yaml").write_text(text)
    check_settings(SERVICES, tmp_path / "remuda.yaml", (), environment=False)


def test_settings_of_the_values_count_first() -> None:
    given = {"settings": {"scheduler": {"acl": "alice ops"}, "core": {"standbys": 2}}}
    settings = YAML(typ="safe").load(by_name(rendered(given))["ConfigMap", "settings"]["data"]["remuda.yaml"])
    assert settings["scheduler"] == {"acl": "alice ops"} and settings["core"] == {"standbys": 2}
    changed, former = (by_name(some)["Deployment", "web"] for some in (rendered(given), variant("default")))
    assert changed["spec"]["template"]["metadata"] != former["spec"]["template"]["metadata"]  # pods are replaced


# What Kubernetes accepts


@pytest.mark.parametrize("version", ["1.25", of_stack.KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("name", VARIANTS)
def test_each_object_is_valid(name: str, version: str) -> None:
    for one in variant(name):
        if version == "1.25" and one["apiVersion"] in (
            "flowcontrol.apiserver.k8s.io/v1", "admissionregistration.k8s.io/v1",
        ):  # fmt: skip
            continue  # left out where the API server does not know them
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_each_object_is_in_the_namespace_of_the_release(name: str) -> None:
    file, values = VARIANTS[name]
    admission = "ValidatingAdmissionPolicy"
    of_cluster = {"ClusterRole", "ClusterRoleBinding", "FlowSchema", admission, f"{admission}Binding"}
    for one in rendered(values, file=file, namespace="other"):
        assert one["metadata"].get("namespace") == (None if one["kind"] in of_cluster else "other"), one["metadata"]
        assert all(subject["namespace"] == "other" for subject in one.get("subjects", []))
        if name != "front only":  # it names the servers of another installation
            assert ".remuda.svc" not in str(one)


@pytest.mark.parametrize("name", VARIANTS)
def test_pods_are_restricted(name: str) -> None:
    """The profile `restricted` of the Pod Security Standards."""
    for owner, pod in pods(name):
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        kinds = {kind for volume in spec["volumes"] for kind in volume.keys() - {"name"}}
        assert kinds <= {"configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected"}, owner
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"], owner
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*spec.get("initContainers", []), *spec["containers"]):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"], owner
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert not {"privileged", "runAsUser", "procMount"} & context.keys()
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
            assert not [port for port in container.get("ports", []) if "hostPort" in port]


@pytest.mark.parametrize("name", VARIANTS)
def test_only_what_calls_the_api_server_has_a_token(name: str) -> None:
    for owner, pod in pods(name):
        has_token = pod["spec"].get("automountServiceAccountToken", True)
        assert has_token == (owner in ("kubernetes", "remuda-webhook", "remuda-keys")), owner
        assert has_token == ("serviceAccountName" in pod["spec"])


@pytest.mark.parametrize("name", VARIANTS)
def test_servers_have_probes_a_budget_and_time_to_end(name: str) -> None:
    budgets = {
        one["spec"]["selector"]["matchLabels"]["app"]: one["spec"]
        for one in variant(name)
        if one["kind"] == "PodDisruptionBudget"
    }
    for one in variant(name):
        if one["kind"] not in ("Deployment", "StatefulSet"):
            continue
        pod = one["spec"]["template"]["spec"]
        for container in pod["containers"]:
            assert {"livenessProbe", "readinessProbe", "startupProbe"} <= container.keys()
        app = one["spec"]["template"]["metadata"]["labels"]["app"]
        if app in ("grafana", "prometheus", "tempo"):
            continue
        assert pod["topologySpreadConstraints"][0]["labelSelector"] == {"matchLabels": {"app": app}}
        assert pod["terminationGracePeriodSeconds"] >= 20
        if "minAvailable" in budgets[app]:  # else no node could be drained
            assert one["spec"]["replicas"] > budgets[app]["minAvailable"]


# Keys


def job_arguments(some: list[Manifest]) -> list[str]:
    (container,) = by_name(some)["Job", "remuda-keys"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "cluster-keys"
    found: list[str] = container["args"][1:]
    return found


def of(arguments: list[str], option: str) -> list[str]:
    return [one.partition("=")[2] for one in arguments if one.startswith(f"--{option}=")]


KINDS = {"secrets": "Secret", "configmaps": "ConfigMap"}


@pytest.mark.parametrize("name", ["default", "everything", "minimal"])
def test_what_pods_mount_is_in_the_chart_or_made_by_the_job(tmp_path: Path, name: str) -> None:
    arguments = job_arguments(variant(name))
    (domain,) = of(arguments, "domain")
    wanted = parsed(
        of(arguments, "rm"), of(arguments, "operator"), of(arguments, "front-end"), of(arguments, "client"),
        of(arguments, "password"), domain,
    )  # fmt: skip
    bring_up_to_date(tmp_path, "remuda", wanted)
    made = {(KINDS[kind], one): data for (kind, one), data in objects_of(tmp_path, wanted).items()}
    there = by_name(variant(name))
    for owner, pod in pods(name):
        containers = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
        for volume in pod["spec"]["volumes"]:
            for kind, key, field in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
                if key in volume and not volume[key].get("optional"):
                    assert (kind, volume[key][field]) in made.keys() | there.keys(), (owner, volume)
            assert any(mount["name"] == volume["name"] for one in containers for mount in one.get("volumeMounts", []))
        for container in containers:
            for variable in container.get("env", []):
                if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                    assert reference["key"] in made["Secret", reference["name"]]
    rules = there["Role", "remuda-keys"]["rules"]
    named = {(KINDS[rule["resources"][0]], one) for rule in rules for one in rule.get("resourceNames", [])}
    assert named >= made.keys() | {("Secret", "keys")}


def test_a_new_resource_manager_replaces_the_servers_and_no_service() -> None:
    before, after = by_name(variant("default")), by_name(rendered({"keys": {"resourceManagers": ["cluster-1"]}}))
    changed = {key for key, one in after.items() if one != before[key]}
    assert changed == {("StatefulSet", "nats"), ("Job", "remuda-keys"), ("Role", "remuda-keys")}


# Parts


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_switched_off(part: str) -> None:
    off: dict[str, Any] = (
        PELOTON | PAST | {part: {"enabled": False, **({"url": "tls://x:4222"} if part == "nats" else {})}}
    )
    found = by_name(rendered(off))
    name = {"webhook": "remuda-webhook"}.get(part, part)
    kinds = ("Deployment", "StatefulSet", "PodDisruptionBudget", "Service")
    assert not {(kind, name) for kind in kinds} & found.keys()
    others = by_name(rendered(PELOTON | PAST))
    workloads = {key for key in others if key[0] in ("Deployment", "StatefulSet")}
    assert workloads - found.keys() == {key for key in workloads if key[1] == name}


def test_an_archive_in_an_object_store_has_no_volume_and_reaches_the_store() -> None:
    found = by_name(variant("past in an object store"))
    assert ("PersistentVolumeClaim", "archive") not in found
    assert found["NetworkPolicy", "archive-to-the-store"]["spec"]["egress"] == [{"ports": [{"port": 9000}]}]
    for name in ("archive", "history"):
        spec = found["Deployment", name]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert {"name": "REMUDA_ARCHIVE_STORE", "value": "s3://bucket/remuda"} in container["env"]
        assert container["envFrom"] == [{"secretRef": {"name": "aws"}}] and "podAffinity" not in str(spec)


def test_a_shadow_decides_with_the_queues_of_the_values_or_those_in_force() -> None:
    with_queues = {"shadow": {"enabled": True, "queues": "partitions: []\n", "image": "remuda/archive:1.1"}}
    found, without = by_name(rendered(with_queues)), by_name(rendered({"shadow": {"enabled": True}}))
    assert found["ConfigMap", "shadow-queues"]["data"] == {"queues.yaml": "partitions: []\n"}
    (container,) = found["Deployment", "shadow"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "remuda/archive:1.1"
    assert {"name": "REMUDA_SHADOW_QUEUES", "value": "/etc/remuda/shadow/queues.yaml"} in container["env"]
    assert ("ConfigMap", "shadow-queues") not in without
    assert "shadow-queues" not in str(without["Deployment", "shadow"])
    other = by_name(rendered({"shadow": {"enabled": True, "queues": "partitions: [{}]"}}))["Deployment", "shadow"]
    pod = found["Deployment", "shadow"]["spec"]["template"]
    assert other["spec"]["template"]["metadata"] != pod["metadata"], "another text replaces the pod"


def test_everything_off_is_nothing() -> None:
    assert not variant("all off")


def test_one_server_has_no_cluster() -> None:
    found = by_name(variant("minimal"))
    (container,) = found["StatefulSet", "nats"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--config", "/etc/nats/nats.conf"]
    settings = YAML(typ="safe").load(found["ConfigMap", "settings"]["data"]["remuda.yaml"])
    assert settings["nats"]["replicas"] == 1 and settings["core"]["standbys"] == 0


def test_front_only_has_the_objects_of_the_former_chart() -> None:
    former = rendered({}, chart=Path(__file__).parents[1] / "former")
    found = by_name(variant("front only"))
    assert found.keys() == by_name(former).keys()
    for key, one in by_name(former).items():
        if key[0] in ("Deployment", "Service"):  # cannot change
            assert found[key]["spec"]["selector"] == one["spec"]["selector"]


@pytest.mark.parametrize(
    ("through", "new"),
    [
        ("nats", {"nats"}),
        ("core", {"nats", "core"}),
        ("rmproxy", {"nats", "core", "rmproxy"}),
        ("events", {"nats", "core", "rmproxy", "config", "events"}),
    ],
)
def test_an_upgrade_by_steps_is_in_order(through: str, new: set[str]) -> None:
    """The streams first, by the new version; those that are in no order last."""
    found = rendered({"image": {"tag": "1.1"}, "upgrade": {"from": "1.0", "through": through}})
    images = {
        one["metadata"]["name"]: container["image"]
        for one in found
        if (pod := pod_of(one)) and (container := pod["spec"]["containers"][0])["image"].startswith("remuda/")
    }
    (declare,) = (image for name, image in images.items() if name.startswith("declare-"))
    assert declare == images["remuda-keys"] == "remuda/cli:1.1"
    services = {name: image for name, image in images.items() if "/cli:" not in image}
    assert {name for name, image in services.items() if image.endswith(":1.1")} == new
    assert {name for name, image in services.items() if image.endswith(":1.0")} == services.keys() - new


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"upgrade": {"through": "core"}}, "upgrade.from: expected"),
        ({"natsUrl": "tls://x:4222"}, "natsUrl"),
        ({"webhook": True}, "/webhook"),
        ({"core": {"replica": 3}}, "replica"),
        ({"nats": {"enabled": False}}, "nats.url: expected the addresses"),
        ({"nats": {"replicas": 2}}, "/nats/replicas"),
        ({"config": {"replicas": 2, "storage": {"enabled": True}}}, "/config/replicas"),
        ({"archive": {"store": "bucket"}}, "/archive/store"),
        ({"archive": {"enabled": True, "replicas": 2}}, "/archive/replicas"),
        ({"keys": {"resourceManagers": ["My Cluster"]}}, "/keys/resourceManagers/0"),
        ({"web": {"ingress": {"enabled": True}}}, "web.ingress.host: expected"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], told: str) -> None:
    with pytest.raises(HelmFailed, match=re.escape(told)):
        rendered(values)
