"""Every command with mistakes of users: one line on stderr, never a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from cli.tests.test_mistakes import NOWHERE, command
from remuda.commands.options import DEFAULT_URL
from remuda.main import COMMANDS, HELP, cli
from remuda.simulated_rm.load.command import Options

DIGITS = "9" * 5_000
NAMES = ("", "*", ">", "a.*", "a b", DIGITS, "a\x00b", "a\x1b[31mb", "ü", "a\n", "\udcff", "-" * 3)
# Commands that only act, print nothing but JSON, or draw a screen. All others list or show data, and have --json.
ACTS = {
    "cluster-keys",
    "init", "up", "run", "top", "demo", "dump", "load", "rebuild", "backup", "restore", "declare", "keys", "rm add",
    "rm remove", "rm forget", "rm divide", "operator add", "operator groups", "operator remove",
    "operator front-end", "operator log-levels", "peloton add", "peloton remove",
}  # fmt: skip
# Each with one place for a name.
NAMED = (
    ["queues", "{}"], ["applications", "{}"], ["nodes", "{}"], ["usage", "{}"], ["ledger", "{}"],
    ["rebuild", "{}", "--yes"],
    ["resume", "{}", "--yes"], ["resume", "{}", "--yes", "--json"],
    ["top", "{}"], ["events", "--rm", "{}"],
    ["explain", "{}"], ["explain", "rm", "app\x00{}"], ["explain", "rm", "app", "key\x07{}"],
    ["story", "x", "--rm", "{}"], ["pools", "--cluster", "{}"], ["pools", "/\x00{}"],
    ["pool", "set", "/\x07{}", "cpu.limit=1"], ["pool", "delete", "/\x00{}"], ["pool", "apply", "{}"],
    ["load", "--rm", "{}"], ["dead-letters", "{}"],
    ["dead-letters", "{}", "--forget", "--yes"],
    ["rm", "add", "{}"], ["rm", "remove", "{}"],
    ["kill", "{}", "app"], ["kill", "rm", "app\x00{}"], ["move", "rm", "app", "root\x01{}"], ["hold", "{}", "root.a"],
    ["unhold", "rm", "root.a", "--action-id", "/{}"], ["drain", "rm", "n\x00{}"],
    ["undrain", "rm", "n1", "--reason", "\x07{}"],
    ["action", "{}"], ["action", "rm", "/{}"],
    ["priority", "rm", "app", "k\x00{}", "1"], ["release", "rm", "u", "--partition", "\x00{}"],
    ["operator", "add", "{}"], ["operator", "add", "bob", "--groups", "x,{}"], ["operator", "groups", "{}", "ops"],
    ["operator", "groups", "bob", "x,{}"], ["operator", "remove", "{}"],
    ["operator", "front-end", "grpc", "x+\x07{}"], ["operator", "front-end", "x{}", "bob"],
    ["peloton", "add", "{}"], ["peloton", "remove", "{}"], ["operator", "log-levels", "x{}"], ["log", "x{}", "debug"],
    ["rm", "divide", "{}", "--config", "q", "--into", "a=x", "--into", "b=y", "--directory", "d"],
    ["rm", "divide", "rm", "--config", "q", "--into", "{}", "--into", "b=y", "--directory", "d"],
    ["status", "--nats", "{}"], ["queues", "rm", "--nats", "http://{}"], ["run", "core", "--nats", "nats://{}:x"],
    ["declare", "--nats", "tls://{}:0"], ["run", "{}"], ["load", "--trace", "{}", "a", "b"],
)  # fmt: skip
NUMBERS = (
    ["up", "--port", "{}"], ["up", "--cores", "{}"], ["load", "--nodes", "{}"], ["load", "--rate", "x{}"],
    ["declare", "--replicas", "{}"], ["dead-letters", "rm", "{}"], ["demo", "--seconds", "x{}"],
    ["load", "--duration", "{}"], ["events", "-n", "{}"], ["priority", "rm", "app", "k", "x{}"],
)  # fmt: skip
ASKS_A_SYSTEM = (
    ["status"], ["top"], ["top", "rm", "--plain"], ["events"], ["nodes", "rm", "-o", "yaml"], ["queues", "rm"],
    ["explain", "rm"], ["explain", "rm", "app", "key"], ["story", "x"], ["pools"], ["pools", "/a"],
    ["pool", "set", "/a", "cpu.limit=1"], ["pool", "delete", "/a"],
    ["explain", "peloton.default", "t"], ["story", "t", "--rm", "peloton.default"],
    ["applications", "rm", "--queue", "root.a"], ["nodes", "rm"], ["usage", "rm"], ["ledger", "rm"], ["dead-letters"],
    ["dead-letters", "rm", "1"], ["dead-letters", "rm", "--forget", "--yes"], ["rebuild", "rm", "--yes"],
    ["resume", "rm", "--yes"], ["load", "--plain", "--asks", "1"], ["kill", "rm", "app"],
    ["move", "rm", "app", "root.a"], ["hold", "rm", "root.a"], ["unhold", "rm", "root.a"], ["drain", "rm", "n"],
    ["undrain", "rm", "n"], ["priority", "rm", "app", "k", "1"], ["release", "rm", "u"],
    ["action", "rm"], ["action", "rm", "id"], ["log", "core", "debug"],
)  # fmt: skip


def one_line(code: int, err: str) -> None:
    assert code in (1, 2), err
    assert err.startswith("remuda: ") and err.count("\n") == 1 and len(err) < 700, err
    assert err.rstrip("\n").isprintable(), err


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("remuda.limits.CONNECT_WITHIN_S", 0.2)
    monkeypatch.setattr("remuda.limits.DECLARE_WITHIN_S", 0.2)
    monkeypatch.chdir(tmp_path)


def names() -> Iterator[tuple[list[str], str]]:
    return ((arguments, name) for arguments in NAMED for name in NAMES if "--" not in name or "{}" not in arguments)


@pytest.mark.parametrize(("arguments", "name"), list(names()))
def test_names(monkeypatch, capsys, arguments: list[str], name: str) -> None:
    code, out, err = command(monkeypatch, capsys, *(one.replace("{}", name) for one in arguments))
    one_line(code, err)
    assert out == ""


def test_help_shows_the_name_of_an_extra(monkeypatch, capsys) -> None:
    """Brackets are markup."""
    _, out, _ = command(monkeypatch, capsys, "load", "--help")
    assert "remuda-scheduler[plot]" in out


@pytest.mark.parametrize("arguments", NUMBERS)
@pytest.mark.parametrize("number", ["", "-1", DIGITS, "1e999", "nan"])
def test_numbers(monkeypatch, capsys, arguments: list[str], number: str) -> None:
    code, _, err = command(monkeypatch, capsys, *(one.replace("{}", number) for one in arguments))
    one_line(code, err)


@pytest.mark.parametrize("arguments", [*ASKS_A_SYSTEM, ["declare"], ["backup", "new"]])
def test_no_server(monkeypatch, capsys, arguments: list[str]) -> None:
    code, _, err = command(monkeypatch, capsys, *arguments, "--nats", NOWHERE)
    one_line(code, err)
    assert NOWHERE in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["config", "check", "{}"], ["config", "preview", "a", "{}"], ["config", "import", "{}"],
        ["up", "--config", "{}"], ["run", "config", "--file", "{}"], ["restore", "{}"],
        ["load", "--trace", "openb", "{}", "{}"],
    ],
)  # fmt: skip
def test_files(monkeypatch, capsys, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "loop").symlink_to("loop")
    waits_for_a_better_one = arguments[0] in ("up", "run")
    for path in ("missing", str(tmp_path), "loop", "binary/below", "x" * 5_000, "", "binary", "/proc/self/mem"):
        if waits_for_a_better_one and path in ("binary", "/proc/self/mem"):
            continue
        code, _, err = command(monkeypatch, capsys, *(one.replace("{}", path) for one in arguments))
        one_line(code, err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--data", "{}", "--plain"], ["backup", "{}"], ["keys", "{}"], ["rm", "add", "a", "--keys", "{}"],
        ["rm", "remove", "a", "--keys", "{}"], ["rebuild", "a", "--yes", "--directory", "{}"],
        ["load", "--record", "{}"], ["load", "--plot", "{}.png"], ["init", "{}", "--yes"],
    ],
)  # fmt: skip
def test_directories(monkeypatch, capsys, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "file").write_text("")
    for path in ("file/below", "/proc/nothing/below", "x" * 5_000):
        code, _, err = command(monkeypatch, capsys, *(one.replace("{}", path) for one in arguments))
        one_line(code, err)


def test_settings(monkeypatch, capsys, tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("SUnonsense")
    for variable, value in {
        "REMUDA_NATS_URL": "nonsense://",
        "REMUDA_NATS_SEED": "/nowhere",
        "REMUDA_NATS_CA": str(tmp_path / "seed"),
        "REMUDA_NATS_CERT": str(tmp_path / "seed"),
        "REMUDA_INSTANCE": "a *",
        "REMUDA_LOG_LEVEL": "loud",
        "REMUDA_HEALTH_PORT": DIGITS,
        "REMUDA_SNAPSHOT_FACTS": "many",
        "REMUDA_REPLICAS": "-1",
    }.items():
        with monkeypatch.context() as patched:
            patched.setenv(variable, value)
            code, _, err = command(patched, capsys, "run", "core")
            if "REMUDA_NATS_" not in variable:
                one_line(code, err)
                assert variable in err
            assert code == 1 and "Traceback" not in err
            if variable.startswith("REMUDA_NATS_"):
                code, _, err = command(patched, capsys, "status")
                one_line(code, err)


def test_permission_denied(monkeypatch, capsys, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    secret = tmp_path / "secret"
    secret.write_text("")
    secret.chmod(0)
    code, _, err = command(monkeypatch, capsys, "config", "check", str(secret))
    one_line(code, err)
    assert "Permission denied" in err


def commands() -> dict[str, typer.models.CommandInfo]:
    found = {}
    for group, prefix in [(cli, ""), *((one.typer_instance, f"{one.name} ") for one in cli.registered_groups)]:
        assert group is not None
        for one in group.registered_commands:
            assert one.callback is not None
            found[prefix + (one.name or one.callback.__name__)] = one
    return found


def test_the_help_is_a_screen_and_names_every_command(monkeypatch, capsys) -> None:
    named = [name for lines in HELP.values() for names in lines for name in names]
    groups = {str(one.name) for one in cli.registered_groups}
    assert sorted(named) == sorted({name.partition(" ")[0] for name in commands()} | groups)
    for panel, functions in COMMANDS.items():
        below = {name for names in HELP[panel] for name in names}
        assert below >= {one.__name__.replace("_", "-") for one in functions}
    for arguments in (["--help"], []):
        monkeypatch.setenv("COLUMNS", "80")
        _, out, _ = command(monkeypatch, capsys, *arguments)
        lines = out.splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 80
        assert all(any(f"{name}" in line.split("  ")[1] for line in lines if line[:2] == "  ") for name in named)


def test_whatever_lists_or_shows_has_json() -> None:
    for name, one in commands().items():
        assert one.callback is not None
        assert ("json" in one.callback.__annotations__) == (name not in ACTS) or name == "load", name


def test_version_and_completion(monkeypatch, capsys) -> None:
    code, out, _ = command(monkeypatch, capsys, "--version")
    assert code == 0 and out.startswith("remuda ")
    monkeypatch.setenv("_REMUDA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "remuda dead")
    monkeypatch.setenv("COMP_CWORD", "1")
    code, out, _ = command(monkeypatch, capsys)
    assert out.strip() == "dead-letters"


@pytest.mark.parametrize(
    ("arguments", "url"),
    [([], None), (["--queue", "root.a"], DEFAULT_URL), (["--keep"], DEFAULT_URL), (["--keep", "--nats", "nats://x"], "nats://x")],
)  # fmt: skip
def test_a_load_with_a_queue_goes_to_the_running_system(monkeypatch, capsys, arguments: list[str], url: str) -> None:
    """As on the pages in docs/doors, which are played with the variable of an address."""
    taken: list[Options] = []
    monkeypatch.delenv("REMUDA_NATS_URL", raising=False)
    monkeypatch.setattr("remuda.simulated_rm.load.command.load", taken.append)
    code, _, _ = command(monkeypatch, capsys, "load", *arguments)
    assert (code, [one.nats for one in taken]) == (0, [url])
