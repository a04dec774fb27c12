"""The Kubernetes manifests are what Kubernetes takes, and say what the rest of the project says. Checked offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = "1.31"  # the oldest that is meant to work
KUSTOMIZATION = YAML(typ="safe").load(DEPLOY / "kustomization.yaml")


def manifests() -> list[dict[str, Any]]:
    yaml = YAML(typ="safe")
    return [manifest for file in KUSTOMIZATION["resources"] for manifest in yaml.load_all(DEPLOY / file)]


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [
        (one["metadata"]["name"], one["spec"]["template"])
        for one in manifests()
        if one["kind"] in ("Deployment", "StatefulSet", "Job")
    ]


@pytest.mark.parametrize("manifest", manifests(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
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
    budgets = [one["spec"]["selector"] for one in manifests() if one["kind"] == "PodDisruptionBudget"]
    assert {"matchLabels": {"app": name}} in budgets


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
