"""The commands that change and preview pools, as processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integrations.peloton.tests.system.test_operator_queries import remuda
from integrations.peloton.tests.test_pool_changes import TREE, change, pools_become, serving
from remuda_operations.queries.errors import RequestRefused

__all__ = ["serving"]


def test_commands_change_pools(serving: str, tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(TREE)
    assert change(serving, text=TREE) == ["/a created", "/a/b created"]
    file.write_text(TREE)
    assert remuda(serving, "pool", "apply", str(file)).stdout == "nothing to change\n"
    file.write_text(TREE.replace("limit: 4", "limit: 40"))
    wrong = remuda(serving, "pool", "apply", str(file))
    assert wrong.returncode == 1 and wrong.stderr.startswith("remuda: ")
    assert "line 3: pool /a: limit of cpu is 10.0, expected at least 40.0, that of /a/b" in wrong.stderr
    assert remuda(serving, "pool", "set", "/a/c", "cpu.limit=3", "slack_limit=10").stdout == "/a/c set\n"
    assert remuda(serving, "pool", "delete", "/a/b", "--json").stdout == '{"changes": ["/a/b deleted"]}\n'
    assert pools_become(serving, {"/a", "/a/c"})["/a/c"]["resources"]["cpu"]["limit"] == 3.0
    assert change(serving, path="/a/c", set={"cpu.limit": "2", "cpu.type": "STATIC"}) == ["/a/c set"]
    row = pools_become(serving, {"/a", "/a/c"})["/a/c"]["resources"]["cpu"]
    assert (row["limit"], row["type"], row["share"]) == (2.0, "STATIC", 1.0)
    assert pools_become(serving, {"/a", "/a/c"})["/a/c"]["slack_limit_percent"] == 10.0
    assert change(serving, path="/a/c", set={"slack_limit": "", "controller_limit": "30"}) == ["/a/c set"]
    row = pools_become(serving, {"/a", "/a/c"})["/a/c"]
    assert (row["slack_limit_percent"], row["controller_limit_percent"]) == (None, 30.0)
    with pytest.raises(RequestRefused, match="^cpu.reservation is too high: with those of its siblings, 3.0, expected"):
        change(serving, path="/a/d", set={"cpu.limit": "10", "cpu.reservation": "3"})
    assert change(serving, text="pools: []") == ["/a/c deleted", "/a deleted"]


def test_commands_preview_a_file(serving: str, tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(TREE)
    assert change(serving, text=TREE) == ["/a created", "/a/b created"]
    assert remuda(serving, "pool", "preview", str(file)).stdout.endswith("pools.yaml: nothing to change\n")
    file.write_text(TREE.replace("limit: 4", "limit: 3") + "  - {name: new, cpu: {limit: 1}}\n")
    shown = remuda(serving, "pool", "preview", str(file)).stdout
    assert "changed  /a/b\n    cpu.limit: 4 → 3\n" in shown and "created  /new\n    cpu.limit: 1\n" in shown, shown
    assert [line.split() for line in shown.splitlines()[-3:]][1] == ["/a/b", "cpu", "4", "3"], shown
    found = json.loads(remuda(serving, "pool", "preview", str(file), "--json").stdout)
    assert [one["path"] for one in found["changes"]] == ["/new", "/a/b"]
    assert {one["path"]: one["after"]["cpu"] for one in found["effects"]}["/new"] == 1.0
    file.write_text(TREE.replace("limit: 4", "limit: 40"))
    wrong = remuda(serving, "pool", "preview", str(file))
    assert wrong.returncode == 1 and wrong.stderr == remuda(serving, "pool", "apply", str(file)).stderr
    pools_become(serving, {"/a", "/a/b"})
    unasked = remuda(serving, "pool", "apply", str(file), "--preview")
    assert unasked.returncode == 1 and "run it on a terminal or add --yes" in unasked.stderr
    file.write_text("pools: []")
    applied = remuda(serving, "pool", "apply", str(file), "--preview", "--yes").stdout
    assert "deleted  /a\n" in applied and applied.endswith("/a/b deleted\n/a deleted\n"), applied
