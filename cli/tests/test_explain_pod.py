"""The ask of a Kubernetes pod is found by its tags."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from remuda.show import explain as pod
from remuda_operations.queries.rows import Rows


def row(key: str, namespace: str, name: str) -> dict[str, Any]:
    return {"application": f"{namespace}.app", "key": key, "tags": {pod.NAMESPACE: namespace, pod.POD_NAME: name}}


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [
        ("default", "waits", ("default.app", "k1")),
        ("other", "waits", ("other.app", "k2")),
        ("default", "runs", ("default.app", "k3")),
        ("default", "ended", None),
    ],
)
async def test_ask_of_a_pod(
    monkeypatch: pytest.MonkeyPatch, namespace: str, name: str, expected: tuple[str, str] | None
) -> None:
    async def pages(bus: object, kind: str, shape: object, *, rm: str) -> AsyncIterator[Rows]:
        if kind == "asks":
            yield Rows(asks=[{"application": "a", "key": "k0", "tags": {}}, row("k2", "other", "waits")])
            yield Rows(asks=[row("k1", "default", "waits")])
        else:
            yield Rows(allocations=[row("k3", "default", "runs")])

    monkeypatch.setattr(pod, "pages_of", pages)
    assert await pod.ask_of(None, "kubernetes", namespace, name) == expected  # type: ignore[arg-type]
