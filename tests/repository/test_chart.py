"""The Helm chart has the files, the version and the values of the rest of the project. Tests with Helm: tests/chart."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from ruamel.yaml import YAML

from docs.chart import CHART, DEPLOY, copies


def test_files_of_the_chart_are_those_of_the_stack() -> None:
    """`python -m docs.chart` copies them."""
    found = {str(file.relative_to(CHART / "files")): file for file in (CHART / "files").rglob("*") if file.is_file()}
    assert {name: file.read_bytes() for name, file in found.items()} == copies()


def test_chart_has_the_version_of_the_packages() -> None:
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    chart = YAML(typ="safe").load(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_schema_has_each_value_and_refuses_others() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    for file in ("values.yaml", "front-only.yaml", "minimal.yaml"):
        _check(YAML(typ="safe").load(CHART / file), schema, file)
    assert all(part.get("additionalProperties") is False for part in schema["properties"].values() if _is_part(part))


def _is_part(part: dict[str, Any]) -> bool:
    return "enabled" in part.get("properties", {})


def _check(values: dict[str, Any], schema: dict[str, Any], at: str) -> None:
    for name, value in values.items():
        known = schema.get("properties", {})
        assert name in known, f"{at}: {name} is not in values.schema.json"
        if isinstance(value, dict) and "properties" in known[name]:
            _check(value, known[name], f"{at}: {name}")
