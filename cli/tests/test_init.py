"""`remuda init`: what it writes is accepted, whatever the answers; it replaces nothing; its proposals can be run."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.test_import import queues
from cli.tests.test_mistakes import command
from remuda.admin.init import next_commands
from remuda.drafts import fresh
from remuda.local.services import SERVICES, check_settings
from remuda.main import cli
from remuda.terminal.quick_start import group_of
from remuda_config import load

AMOUNTS = st.dictionaries(st.sampled_from(["vcore", "memory", "gpu"]), st.integers(1, 2**50), min_size=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(
    st.sampled_from(fresh.Cluster),
    st.dictionaries(st.sampled_from(["a", "on", "null", "7", "x#y", "@b", "a:b"]), st.integers(1, 1000), min_size=1),
    AMOUNTS, st.just({}) | AMOUNTS, st.booleans(),
)  # fmt: skip
def test_any_answers_make_a_valid_configuration(cluster, teams, capacity, user_limit, preemption) -> None:
    configuration = load(fresh.queues(fresh.Answers(cluster, teams, capacity, user_limit, preemption)))
    found = queues(configuration)
    assert set(found) == {"root", "root.default", *(f"root.{name}" for name in teams)}
    for name, amount in capacity.items():
        assert sum(queue.guaranteed.resources[name].value for queue in found.values()) <= amount
    assert configuration.partitions[0].preemption_enabled == preemption


@pytest.mark.parametrize("kind", ["kubernetes", "own", "batch"])
def test_what_it_writes_is_accepted(monkeypatch, capsys, tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "new" / "folder"
    arguments = ["init", str(directory), "--kind", kind, "--team", "red=3", "--team", "blue", "--gpus", "8", "--yes"]
    code, out, err = command(monkeypatch, capsys, *arguments, "--user-limit", "vcore=4", "--no-preemption")
    assert (code, err) == (0, "")
    found = queues(load((directory / "queues.yaml").read_text()))
    gpu = "nvidia.com/gpu" if kind == "kubernetes" else "gpu"
    assert found["root.red"].guaranteed.resources[gpu].value == 6
    assert found["root.red"].limits[0].max_resources.resources["vcore"].value == 4000
    assert found["root.blue"].guaranteed.resources["vcore"].value == 16_000
    check_settings(SERVICES, directory / "remuda.yaml", (), environment=False)
    assert f"remuda up --config {directory}/queues.yaml --settings {directory}/remuda.yaml" in out


def test_it_replaces_nothing_unless_it_is_told_to(monkeypatch, capsys, tmp_path: Path) -> None:
    (tmp_path / "remuda.yaml").write_text("precious")
    code, _, err = command(monkeypatch, capsys, "init", str(tmp_path), "--yes")
    assert code == 1 and "there already; --force replaces" in err
    assert not (tmp_path / "queues.yaml").exists()
    assert (tmp_path / "remuda.yaml").read_text() == "precious"
    assert command(monkeypatch, capsys, "init", str(tmp_path), "--yes", "--force")[0] == 0
    assert "log:" in (tmp_path / "remuda.yaml").read_text()


def test_it_asks_what_no_option_says(monkeypatch, capsys, tmp_path: Path) -> None:
    answers = ["grid", "batch", "a b b", "a=2 b=1", "vcore=30", "4", "vcore=2", "n"]
    monkeypatch.setattr("sys.stdin", Terminal("".join(f"{answer}\n" for answer in answers)))
    code, out, _ = command(monkeypatch, capsys, "init", str(tmp_path))
    assert code == 0
    assert "'grid': expected kubernetes, own, batch" in out
    assert "team 'b' is given twice" in out
    configuration = load((tmp_path / "queues.yaml").read_text())
    assert not configuration.partitions[0].preemption_enabled
    guaranteed = queues(configuration)["root.a"].guaranteed.resources
    assert (guaranteed["vcore"].value, guaranteed["gpu"].value) == (20_000, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "init asks questions: run it on a terminal, or add --yes"),
        (["--yes", "--team", "a.b"], "team 'a.b': expected 1 to 64"),
        (["--yes", "--team", "default"], "for everyone else"),
        (["--yes", "--team", "a=0"], "share '0': expected"),
        (["--yes", "--team", "a", "--team", "A"], "team 'A' is given twice"),
        (["--yes", "--capacity", "cores"], "--capacity: 'cores': expected NAME=AMOUNT"),
        (["--yes", "--user-limit", "vcore=1.5"], "--user-limit: '1.5' is not a quantity"),
        (["--yes", "--kind", "x"], "'x' is not one of"),
    ],
)
def test_wrong_answers_write_nothing(monkeypatch, capsys, tmp_path: Path, arguments: list[str], says: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, out, err = command(monkeypatch, capsys, "init", str(tmp_path), *arguments)
    assert code in (1, 2) and out == "" and says in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cluster", fresh.Cluster)
def test_its_proposals_are_commands(cluster: fresh.Cluster) -> None:
    """Each is parsed with all its options; `system/test_init.py` runs them."""
    proposals = next_commands(cluster, Path("a b/queues.yaml"), Path("remuda.yaml"), "ml")
    assert 2 <= len(proposals) <= 4
    for text, _ in proposals:
        name, *words = shlex.split(text)
        group: Any = group_of(cli)
        while hasattr(group, "commands"):
            group = group.commands[words.pop(0)]
        words += ["rm-1"] if text == "remuda queues" else []  # else the command asks which one is registered
        assert name == "remuda" and group.make_context("x", words) is not None
