"""Alerts, dashboards and the documents name metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.metrics import ROOMS, declared, name_of
from tests.system.test_metrics import DEPLOY, alerts, dashboards

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_names_are_those_of_prometheus() -> None:
    names = [name_of(metric) for room in ROOMS for metric in declared(room)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"remuda_[a-z_]+", name) for name in names)


def test_every_alert_has_a_section() -> None:
    sections = re.findall(r"^### (\w+)$", DOCUMENT.read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in alerts()]


@pytest.mark.parametrize("board", dashboards(), ids=lambda one: str(one["uid"]))
def test_dashboards_fit_together(board: dict[str, Any]) -> None:
    """What Grafana would otherwise tell only when it is looked at."""
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    places = [panel["gridPos"] for panel in board["panels"]]
    taken = [
        (x, y)
        for one in places
        for x in range(one["x"], one["x"] + one["w"])
        for y in range(one["y"], one["y"] + one["h"])
    ]
    assert len(set(taken)) == len(taken) and all(x < 24 for x, _ in taken), "panels overlap"
    variables = {one["name"] for one in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"]))) <= variables | {"__all"}


def test_provisioning_names_what_is_there() -> None:
    files = DEPLOY / "grafana/provisioning"
    sources = yaml.safe_load((files / "datasources/remuda.yaml").read_text())["datasources"]
    uids = {one["uid"] for one in sources}
    for one in sources:
        assert {to["datasourceUid"] for to in one["jsonData"].get("exemplarTraceIdDestinations", ())} <= uids
    [provider] = yaml.safe_load((files / "dashboards/remuda.yaml").read_text())["providers"]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in compose["services"]["grafana"]["volumes"]
    for one in sources:
        assert one["url"].split("/")[2].split(":")[0] in compose["services"]


@pytest.mark.parametrize("profile", ["minimal", "full"])
def test_every_service_of_a_profile_is_scraped(profile: str) -> None:
    [targets] = yaml.safe_load((DEPLOY / f"prometheus/targets/{profile}.yaml").read_text())
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    ours = {
        name for name, one in services.items()
        if profile in one["profiles"] and one["image"].startswith("remuda/") and "healthcheck" not in one
    }  # fmt: skip
    assert {one.removesuffix(":8080") for one in targets["targets"]} == ours - {
        name for name in ours if services[name]["image"].startswith("remuda/nats")
    }
