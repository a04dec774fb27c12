"""Mistakes of users: one line on stderr, exit code 1, no traceback."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from remuda.main import app

NOWHERE = "nats://127.0.0.1:1"


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    monkeypatch.setattr("sys.argv", ["remuda", *arguments])
    with pytest.raises(SystemExit) as end:
        app()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nix"], "no service 'nix': expected one of rmproxy, core, config, events"),
        (["run", "core", "--file", "x"], "--file belongs to the service config, not to core"),
        (["run", "config", "--file", "/nowhere.yaml"], "/nowhere.yaml: no such file"),
        (["up", "--config", "/nowhere.yaml"], "/nowhere.yaml: no such file"),
        (["load", "--trace", "csv", "a", "b"], "unknown format: expected openb"),
        (["load", "--trace", "openb", "/nowhere.csv", "b"], "/nowhere.csv: no such file"),
        (["load", "--speed", "2"], "--speed belongs to --trace"),
        (["load", "--devices", "--queue", "root.a"], "--devices is for the load's own configuration"),
        (["load", "--rm", "a b"], "rmID 'a b': expected"),
        (["load", "--plot", "x.gif"], "expected a name that ends in .png, .svg or .pdf"),
        (["load", "--plot", "/nowhere/x.png"], "no such directory"),
        (["load", "--record", "/nowhere/x"], "No such file or directory"),
        (["config", "preview", "rm-1", "/nowhere.yaml"], "/nowhere.yaml cannot be read: No such file or directory"),
        (["config", "check", "/nowhere.yaml"], "/nowhere.yaml cannot be read: No such file or directory"),
    ],
)
def test_one_line(monkeypatch, capsys, arguments: list[str], says: str) -> None:
    code, out, err = command(monkeypatch, capsys, *arguments)
    assert code == 1
    assert err.startswith("remuda: ")
    assert says in err
    assert err.count("\n") == 1
    assert out == ""


def test_load_drives_the_system_that_the_environment_names(monkeypatch, capsys) -> None:
    monkeypatch.setenv("REMUDA_NATS_URL", NOWHERE)
    code, _, err = command(monkeypatch, capsys, "load", "--plain")
    assert code == 1 and f"no NATS server answers at {NOWHERE}: Connection refused" in err


@pytest.mark.parametrize("arguments", [["status"], ["queues", "rm"], ["explain", "rm", "app"]])
def test_nobody_there(monkeypatch, capsys, arguments: list[str]) -> None:
    code, _, err = command(monkeypatch, capsys, *arguments, "--nats", NOWHERE)
    assert (code, err.count("\n")) == (1, 1)
    assert f"no NATS server answers at {NOWHERE}: Connection refused. " in err
    assert "`remuda up` starts a system, --nats selects another" in err


def test_a_server_that_is_silent_and_one_without_a_scheme(monkeypatch, capsys) -> None:
    monkeypatch.setattr("remuda.limits.CONNECT_WITHIN_S", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"127.0.0.1:{silent.getsockname()[1]}"
        code, _, err = command(monkeypatch, capsys, "status", "--nats", f"127.0.0.1:1,{url}")
    assert code == 1 and f"no connection to a NATS server at 127.0.0.1:1,{url} within 0.3 s" in err
    code, _, err = command(monkeypatch, capsys, "status", "--nats", "127.0.0.1:1,nowhere.invalid:4222")
    assert code == 1 and "no NATS server answers at 127.0.0.1:1,nowhere.invalid:4222: Connection refused; " in err


def test_a_port_that_is_taken(monkeypatch, capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, err = command(monkeypatch, capsys, "up", "--port", port)
    assert code == 1
    assert f"--port {port}: Address already in use" in err


BAD = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: a, colour: red}
          - {name: A b}
"""


def test_a_configuration_with_problems_shows_all_of_them_with_their_lines(monkeypatch, capsys, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(BAD)
    code, out, err = command(monkeypatch, capsys, "config", "check", str(file))
    assert code == 1
    assert f"{file}:6: partitions[0].queues[0].queues[0].colour" in out
    assert f"{file}:7: " in out
    assert "remuda would refuse this file" in err
    code, out, _ = command(monkeypatch, capsys, "config", "check", str(file), "--json")
    assert code == 1
    assert [problem["line"] for problem in json.loads(out)["problems"]] == [6, 7]


def test_an_empty_file_is_refused_as_the_service_refuses_it(monkeypatch, capsys, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    for text in ("", " \n\t\n"):
        file.write_text(text)
        code, out, err = command(monkeypatch, capsys, "config", "check", str(file))
        assert code == 1 and "is empty; run the service without a file for the built-in default" in out
        assert err.endswith("1 problem; remuda would refuse this file\n")


def test_the_queues_of_the_demo_are_valid(monkeypatch, capsys) -> None:
    from remuda.simulated_rm.demo import scene

    for name in ("queues.yaml", "lab.yaml"):
        file = Path(scene.__file__).with_name(name)
        code, out, _ = command(monkeypatch, capsys, "config", "check", str(file))
        assert code == 0
        assert "valid" in out
