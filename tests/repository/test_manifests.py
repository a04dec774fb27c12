"""The Kubernetes manifests are what Kubernetes takes, and say what the rest of the project says. Checked offline."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from remuda.local.services import SERVICES, check_settings
from remuda_bus import subjects

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = "1.31"  # the oldest that is meant to work
KUSTOMIZATION = YAML(typ="safe").load(DEPLOY / "kustomization.yaml")


OBSERVE = [YAML(typ="safe").load(DEPLOY / name / "kustomization.yaml") for name in ("prometheus", "grafana", "tempo")]


@cache
def manifests() -> list[dict[str, Any]]:
    yaml = YAML(typ="safe")
    return [manifest for file in KUSTOMIZATION["resources"] for manifest in yaml.load_all(DEPLOY / file)]


@cache
def archiving() -> list[dict[str, Any]]:
    """The manifests of the components deploy/archive and deploy/shadow."""
    yaml, names = YAML(typ="safe"), ("archive", "shadow")
    assert "# components: [archive, shadow]" in (DEPLOY / "kustomization.yaml").read_text()
    files = [
        DEPLOY / name / one for name in names for one in yaml.load(DEPLOY / name / "kustomization.yaml")["resources"]
    ]
    return [one for file in files for one in yaml.load_all(file)]


@cache
def observing() -> list[dict[str, Any]]:
    """The manifests of deploy/observe."""
    folders = YAML(typ="safe").load(DEPLOY / "observe/kustomization.yaml")["resources"]
    files = [DEPLOY / "observe" / folder / "manifests.yaml" for folder in folders]
    return [manifest for file in files for manifest in YAML(typ="safe").load_all(file)]


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [
        (one["metadata"]["name"], one["spec"]["template"])
        for one in [*manifests(), *archiving()]
        if one["kind"] in ("Deployment", "StatefulSet", "Job")
    ]


@pytest.mark.parametrize(
    "manifest", [*manifests(), *archiving(), *observing()], ids=lambda one: f"{one['kind']}-{one['metadata']['name']}"
)
def test_each_manifest_is_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_every_manifest_is_listed() -> None:
    listed = {Path(file).name for file in KUSTOMIZATION["resources"]}
    assert listed == {file.name for file in (DEPLOY / "kubernetes").glob("*.yaml")}


@pytest.mark.parametrize(("name", "pod"), pods(), ids=lambda one: one if isinstance(one, str) else "")
def test_every_pod_is_confined(name: str, pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
        assert not [
            one for one in container.get("env", []) if "SEED" in one["name"] and not one["value"].startswith("/")
        ]


@pytest.mark.parametrize(("name", "pod"), pods(), ids=lambda one: one if isinstance(one, str) else "")
def test_every_server_has_probes_and_a_budget(name: str, pod: dict[str, Any]) -> None:
    if pod["spec"].get("restartPolicy") == "OnFailure":
        return
    for container in pod["spec"]["containers"]:
        assert {"livenessProbe", "readinessProbe", "startupProbe"} <= container.keys()
    there = [*manifests(), *archiving()]
    budgets = [one["spec"]["selector"] for one in there if one["kind"] == "PodDisruptionBudget"]
    assert {"matchLabels": {"app": name}} in budgets


def test_a_server_has_room_for_what_streams_reserve() -> None:
    """Or `remuda declare` is refused: insufficient storage resources."""
    reserved = sum(one.max_bytes for one in (*subjects.STREAMS, *subjects.OBJECT_BUCKETS))
    [server] = [one["spec"] for one in manifests() if one["kind"] == "StatefulSet"]
    [container] = server["template"]["spec"]["containers"]
    [store] = [one["value"] for one in container["env"] if one["name"] == "NATS_MAX_STORE"]
    [volume] = server["volumeClaimTemplates"]
    disk = volume["spec"]["resources"]["requests"]["storage"]
    assert reserved < _bytes(store) < _bytes(disk)
    [in_containers] = set(re.findall(r"NATS_MAX_STORE:-(\w+)", (DEPLOY / "compose.yaml").read_text()))
    assert reserved < _bytes(in_containers)


def _bytes(said: str) -> int:
    units = {"GB": 1000**3, "Gi": 1024**3}
    return int(said[:-2]) * units[said[-2:]]


def test_whoever_may_come_in_may_go_out() -> None:
    """RMs in our namespace reach the servers: where nothing is allowed, both ends need a policy."""
    policies = [one["spec"] for one in [*manifests(), *observing()] if one["kind"] == "NetworkPolicy"]
    peers = [peer for one in policies for rule in one.get("ingress", []) for peer in rule.get("from", [])]
    let_in = [peer["podSelector"] for peer in peers if "podSelector" in peer]
    let_out = [one["podSelector"] for one in policies if one.get("egress")]
    assert all(selector in let_out for selector in let_in)


def test_what_a_pod_mounts_is_there_or_named_in_the_readme() -> None:
    readme = (DEPLOY / "kubernetes" / "README.md").read_text()
    generated = {one["name"] for one in KUSTOMIZATION["configMapGenerator"]}
    for _, pod in pods():
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                name = volume["configMap"]["name"]
                assert name in generated or f"create configmap {name} " in readme, name
            if "secret" in volume:
                name = volume["secret"]["secretName"]
                assert f"generic {name} " in readme or f"generic {name.split('-')[0]}-$role" in readme, name


def test_what_observes_is_confined_and_finds_its_files() -> None:
    """The same as for our own pods. They mount what their kustomizations generate, from files that are there."""
    readme = (DEPLOY / "kubernetes" / "README.md").read_text()
    generated = {
        generator["name"]: [DEPLOY / folder / file.rpartition("=")[2] for file in generator["files"]]
        for folder, one in zip(("prometheus", "grafana", "tempo"), OBSERVE, strict=True)
        for generator in one["configMapGenerator"]
    }
    for one in observing():
        if one["kind"] not in ("Deployment", "StatefulSet"):
            continue
        test_every_pod_is_confined("", one["spec"]["template"])
        spec = one["spec"]["template"]["spec"]
        [container] = spec["containers"]
        assert {"livenessProbe", "readinessProbe", "startupProbe"} <= container.keys()
        assert {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume} <= generated.keys()
        for variable in container.get("env", []):
            if "valueFrom" in variable:
                assert f"generic {variable['valueFrom']['secretKeyRef']['name']} " in readme
    assert all(file.exists() for files in generated.values() for file in files)
    dashboards = {file.name for file in (DEPLOY / "grafana/dashboards").iterdir()}
    assert {file.name for file in generated["grafana-dashboards"]} == dashboards


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_what_observes_builds() -> None:
    built = subprocess.run(["kubectl", "kustomize", DEPLOY / "observe"], check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr


@pytest.mark.parametrize("file", ["remuda.yaml", "kubernetes/settings/remuda.yaml"])
def test_the_settings_of_the_stack_are_right(tmp_path: Path, file: str) -> None:
    """The files that they name are in containers, so files of the same name stand in for them here."""
    text = (DEPLOY / file).read_text()
    for path in re.findall(r"(?<=: )/\S+", text):
        (tmp_path / Path(path).name).touch()
        text = text.replace(path, str(tmp_path / Path(path).name))
    (tmp_path / "remuda.yaml").write_text(text)
    check_settings(SERVICES, tmp_path / "remuda.yaml", (), environment=False)


def test_every_service_reads_the_settings() -> None:
    for name, pod in pods():
        [container] = pod["spec"]["containers"]
        if name != "nats":
            mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
            assert container["args"][-2:] == ["--settings", f"{mounts['settings']}/remuda.yaml"], name
    services = YAML(typ="safe").load(DEPLOY / "compose.yaml")["services"]
    for name, service in services.items():
        if "REMUDA_SETTINGS" in service.get("environment", {}):
            assert "./remuda.yaml:/etc/remuda/remuda.yaml:ro" in service["volumes"], name


def test_the_past_is_a_profile_of_compose() -> None:
    services = YAML(typ="safe").load(DEPLOY / "compose.yaml")["services"]
    by_profile = {name for name, service in services.items() if service.get("profiles") == ["archive"]}
    assert by_profile == {"archive", "history"}
    for name in by_profile:
        assert services[name]["environment"]["REMUDA_NATS_SEED"] == f"/run/secrets/{name}"
        assert "archive:/data" in services[name]["volumes"]


def test_a_shadow_is_a_profile_of_compose_and_replays_have_room_on_the_disk() -> None:
    services = YAML(typ="safe").load(DEPLOY / "compose.yaml")["services"]
    shadow = services["shadow"]
    assert shadow["profiles"] == ["shadow"] and "shadow:/data" in shadow["volumes"]
    assert shadow["secrets"] == ["ca.pem", "shadow"]
    assert shadow["environment"]["REMUDA_NATS_SEED"] == "/run/secrets/shadow"
    for name in ("history", "shadow"):
        assert services[name]["environment"]["TMPDIR"] in services[name]["volumes"]
        [pod] = [pod for owner, pod in pods() if owner == name]
        [tmp] = [volume["emptyDir"] for volume in pod["spec"]["volumes"] if volume["name"] == "tmp"]
        assert "medium" not in tmp
