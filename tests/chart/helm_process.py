"""A call of Helm, in the environment of `make helm`: {"call", "arguments"} as JSON in, {"answer"} or {"error"} out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import helm_python


def main() -> None:
    asked = json.load(sys.stdin)
    try:
        print(json.dumps({"answer": CALLS[asked["call"]](**asked["arguments"])}))
    except helm_python.HelmError as error:
        print(json.dumps({"error": str(error)}))


def render(chart: str, files: list[str], values: dict[str, Any], namespace: str, upgrade: bool = False) -> Any:
    with helm_python.Chart.load(chart) as loaded:
        return loaded.render(
            _merged(files, values), name="remuda", namespace=namespace, is_upgrade=upgrade, is_install=not upgrade
        )


def lint(chart: str) -> Any:
    return helm_python.lint(chart, strict=True)


def apply(
    verb: str, kubeconfig: str, namespace: str, release: str, chart: str, files: list[str], values: dict[str, Any],
    **options: Any,
) -> Any:  # fmt: skip
    """`verb`: install or upgrade."""
    with helm_python.Config(kubeconfig_path=kubeconfig, namespace=namespace) as config:
        done = getattr(config, verb)(chart, release, _merged(files, values), **options)
        return {key: done.get(key) for key in ("status", "revision", "manifest", "notes")}


def end(verb: str, kubeconfig: str, namespace: str, release: str, **options: Any) -> Any:
    """`verb`: rollback, uninstall or test."""
    with helm_python.Config(kubeconfig_path=kubeconfig, namespace=namespace) as config:
        return getattr(config, verb)(release, **options)


def _merged(files: list[str], values: dict[str, Any]) -> dict[str, Any]:
    """As `-f` one after the other, and `values` above them."""
    merged: dict[str, Any] = {}
    for file in files:
        with open(file) as text:
            _merge(merged, helm_python.values_from_yaml(text.read()))
    _merge(merged, values)
    return merged


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


CALLS: dict[str, Callable[..., Any]] = {"render": render, "lint": lint, "apply": apply, "end": end}

if __name__ == "__main__":
    main()
