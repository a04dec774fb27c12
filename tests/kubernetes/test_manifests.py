"""The manifests of the front end for Kubernetes are valid and give the least rights. Checked offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from remuda.local.services import check_settings

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes/scheduler"
KUBERNETES = "1.31"
KUSTOMIZATION = YAML(typ="safe").load(FOLDER / "kustomization.yaml")


def manifests() -> list[dict[str, Any]]:
    yaml = YAML(typ="safe")
    return [manifest for file in KUSTOMIZATION["resources"] for manifest in yaml.load_all(FOLDER / file)]


def named(kind: str) -> dict[str, Any]:
    (found,) = [one for one in manifests() if one["kind"] == kind]
    return found


@pytest.mark.parametrize("manifest", manifests(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_each_manifest_is_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_settings_are_those_of_the_service() -> None:
    assert check_settings(["kubernetes"], FOLDER / "remuda.yaml", ("nats.ca=", "nats.seed="), environment=False)


def test_rights_are_no_more_than_needed() -> None:
    rules = named("ClusterRole")["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    assert "*" not in resources | verbs
    assert not resources & {"secrets", "configmaps", "serviceaccounts"}
    assert not verbs & {"impersonate", "escalate", "deletecollection"}


def test_pod_is_confined() -> None:
    spec = named("Deployment")["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
