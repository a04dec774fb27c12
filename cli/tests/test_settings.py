"""`remuda settings`, and where `remuda up` and `remuda run` take settings from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remuda.main import cli
from remuda.terminal.exit_status import run_command
from remuda.terminal.quick_start import group_of

FILE = "core: {standbys: 0, snapshots: {interval: 10m}}\nlog: {format: json}\nnats: {url: 'nats://u:p@host:1'}\n"


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["remuda", *arguments])
    with pytest.raises(SystemExit) as ended:
        run_command(group_of(cli))
    out, err = capsys.readouterr()
    code = ended.value.code
    return code if isinstance(code, int) else 0, out, err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "remuda.yaml"
    path.write_text(FILE)
    return path


def test_show(monkeypatch, capsys, file: Path) -> None:
    for port in ("REMUDA_GRPC_PORT", "REMUDA_WEB_PORT"):
        monkeypatch.delenv(port, raising=False)
    monkeypatch.setenv("REMUDA_REPLICAS", "3")
    arguments = ["settings", "show", "--settings", str(file), "--set", "rms.most=7", "--json"]
    code, out, _ = command(monkeypatch, capsys, *arguments)
    shown = {one["key"]: one for one in json.loads(out)["settings"]}
    by_us = {key: (one["value"], one["origin"]) for key, one in shown.items() if one["origin"] != "default"}
    assert code == 0 and by_us == {
        "core.standbys": (0, f"{file}:1"),
        "core.snapshots.interval": (600, f"{file}:1"),
        "log.format": ("json", f"{file}:2"),
        "nats.url": ("nats://***@host:1", f"{file}:3"),
        "nats.replicas": (3, "REMUDA_REPLICAS"),
        "rms.most": (7, "--set"),
    }  # fmt: skip
    assert shown["core.standbys"]["services"] == ["core"]
    assert shown["core.standbys"]["variables"] == ["REMUDA_CORE_STANDBYS", "REMUDA_STANDBYS"]
    code, out, _ = command(monkeypatch, capsys, "settings", "show", "--service", "events", "--settings", str(file))
    assert code == 0 and "json" in out and "core.standbys" not in out and "u:p" not in out


def test_check(monkeypatch, capsys, file: Path) -> None:
    monkeypatch.setenv("REMUDA_LOG_LEVEL", "loud")  # the environment is that of another process
    assert command(monkeypatch, capsys, "settings", "check", str(file))[:2] == (0, f"{file}: valid: 4 settings\n")
    file.write_text(FILE + "rms: {mist: 7}\ntiming: {completing: soon}\n")
    code, out, err = command(monkeypatch, capsys, "settings", "check", str(file))
    assert code == 1 and len(out.splitlines()) == 2 and "2 problems" in err
    assert f"{file}:4: unknown key 'rms.mist', expected rms.most?" in out
    code, out, _ = command(monkeypatch, capsys, "settings", "check", str(file), "--json")
    assert code == 1 and len(json.loads(out)["problems"]) == 2


def test_mistakes_are_one_line(monkeypatch, capsys, file: Path) -> None:
    for arguments in (
        ["settings", "show", "--service", "scheduler"],
        ["settings", "show", "--settings", str(file / "below")],
        ["settings", "show", "--set", "core.standbys=many"],
        ["settings", "check", str(file.parent)],
        ["run", "core", "--set", "nonsense"],
        ["run", "core", "--settings", str(file), "--set", "instance=a *"],
        ["up", "--settings", str(file), "--set", "rms.most=no", "--data", str(file.parent / "data")],
    ):
        code, _, err = command(monkeypatch, capsys, *arguments)
        assert code == 1 and err.startswith("remuda: ") and len(err.splitlines()) == 1, (arguments, err)
    assert not (file.parent / "data").exists()
