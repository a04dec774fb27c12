"""The Helm chart renders to the manifests that kustomize applies. Checked without Helm.

The templates use only what `rendered` understands, so that it cannot differ from Helm.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from docs.chart import FOLDER, VARIABLES, templates
from tests.repository.test_kubernetes_manifests import KUBERNETES, manifests

VALUES: dict[str, Any] = YAML(typ="safe").load(FOLDER / "values.yaml")
CONDITION = re.compile(r'\{\{- if (?:eq )?\.Values\.(\w+)(?: "(\w+)")? \}\}\n(.*)\{\{- end \}\}\n', re.DOTALL)
VALUE = re.compile(r"\{\{ \.(Values|Release)\.(\w+) \}\}")


def rendered(text: str, namespace: str, **values: Any) -> str:
    given = VALUES | values

    def chosen(found: re.Match[str]) -> str:
        name, expected, body = found.groups()
        return body if (given[name] == expected if expected else given[name]) else ""

    def value(found: re.Match[str]) -> str:
        return namespace if found[1] == "Release" else str(given[found[2]])

    def variables() -> str:
        pairs = given["environment"].items()
        return "".join(
            f"            - name: {name}\n              value: {json.dumps(value)}\n" for name, value in pairs
        )

    text = VALUE.sub(value, CONDITION.sub(chosen, text.replace(VARIABLES, variables())))
    assert "{{" not in text
    return text


def chart(namespace: str = "remuda", **values: Any) -> list[dict[str, Any]]:
    yaml = YAML(typ="safe")
    texts = [rendered(file.read_text(), namespace, **values) for file in sorted((FOLDER / "templates").iterdir())]
    return [one for text in texts for one in yaml.load_all(text) if one]


def test_templates_are_those_of_the_manifests() -> None:
    """`python -m docs.chart` writes them."""
    assert {file.name: file.read_text() for file in (FOLDER / "templates").iterdir()} == templates()


def by_name(some: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in some}


@pytest.mark.parametrize(
    ("values", "folders"),
    [
        ({}, ("scheduler", "webhook")),
        ({"mode": "plugin", "gatePolicy": True}, ("scheduler", "webhook", "plugin")),
        ({"webhook": False}, ("scheduler",)),
    ],
)
def test_chart_has_the_objects_of_kustomize(values: dict[str, Any], folders: tuple[str, ...]) -> None:
    expected = by_name([one for folder in folders for one in manifests(folder)])
    found = by_name(chart(**values))
    more = {("ConfigMap", f"settings-{folder}") for folder in folders if folder != "plugin"}
    network = {key for key in found if key[0] == "NetworkPolicy"}
    assert found.keys() - network == expected.keys() - network | more
    for key, manifest in expected.items():
        if key[0] != "Deployment":
            assert found[key] == manifest


def test_each_object_is_valid_and_in_the_namespace_of_the_release() -> None:
    for one in chart("other", mode="plugin", gatePolicy=True):
        kubernetes_validate.validate(one, KUBERNETES, strict=True)
        assert one["metadata"].get("namespace", "other") == "other"
        assert all(subject["namespace"] == "other" for subject in one.get("subjects", []))
        if one["kind"] == "Deployment":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            environment = {variable["name"]: variable.get("value") for variable in container["env"]}
            assert environment["REMUDA_KUBERNETES_MODE"] == "plugin"
            assert environment["REMUDA_KUBERNETES_OWN_USER"] == "system:serviceaccount:other:remuda"
            assert container["image"] == VALUES["image"]


def test_chart_is_for_older_versions_of_kubernetes_too() -> None:
    """Without what they do not know. 1.25 is the oldest version of which there are schemas here."""
    for one in chart(mode="plugin", flowSchema=False):
        kubernetes_validate.validate(one, "1.25", strict=True)


def test_further_settings_are_variables_of_both_processes() -> None:
    given = {"REMUDA_KUBERNETES_BYPASS_NAMESPACES": r"^kube-,^x\.y$"}
    for one in chart(environment=given):
        if one["kind"] == "Deployment":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            environment = {variable["name"]: variable.get("value") for variable in container["env"]}
            assert given.items() <= environment.items()


def test_settings_are_those_of_kustomize() -> None:
    for folder in ("scheduler", "webhook"):
        text = by_name(chart())["ConfigMap", f"settings-{folder}"]["data"]["remuda.yaml"]
        assert text == Path(FOLDER.parents[1] / f"kubernetes/{folder}/remuda.yaml").read_text()
