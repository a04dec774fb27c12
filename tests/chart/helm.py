"""The chart, and a real Helm: a library in an environment of its own (`make helm`), as a process for each call."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/remuda"
PYTHON = Path(os.environ.get("REMUDA_HELM", Path.home() / ".cache/remuda/helm")) / "bin/python"
MISSING = "no Helm: run `make helm`"
Manifest = dict[str, Any]


class HelmFailed(Exception):
    """What Helm says."""


def is_installed() -> bool:
    return PYTHON.exists()


def call(name: str, **arguments: Any) -> Any:
    """Raises HelmFailed."""
    asked = msgspec.json.encode({"call": name, "arguments": arguments})
    process = Path(__file__).with_name("helm_process.py")
    done = subprocess.run([PYTHON, process], input=asked, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    answered: dict[str, Any] = msgspec.json.decode(done.stdout)
    if "error" in answered:
        raise HelmFailed(answered["error"])
    return answered["answer"]


def rendered(
    values: dict[str, Any] | None = None, *, file: str = "", namespace: str = "remuda", chart: Path = CHART
) -> list[Manifest]:
    """All objects, hooks too. `file`: of the chart's own files of values."""
    files = [str(chart / file)] if file else []
    texts: dict[str, str] = call("render", chart=str(chart), files=files, values=values or {}, namespace=namespace)
    return [one for name, text in texts.items() if not name.endswith(".txt") for one in manifests_in(text)]


def manifests_in(text: str) -> list[Manifest]:
    return [one for one in YAML(typ="safe").load_all(text) if one]


def by_name(some: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(one["kind"], one["metadata"]["name"]): one for one in some}


def pod_of(manifest: Manifest) -> Manifest | None:
    """The pod that the object is or makes: {metadata, spec}."""
    if manifest["kind"] == "Pod":
        return manifest
    template: Manifest | None = manifest.get("spec", {}).get("template")
    return template
