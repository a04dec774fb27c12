"""A command line that reads the options of a command when it is used is the one that typer would make at once."""

from __future__ import annotations

import pytest
import typer

from remuda.main import cli
from remuda.terminal.quick_start import group_of

WHOLE = typer.main.get_command(cli)
QUICK = group_of(cli)


def helped(command: object, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    command.main([*words, "--help"], prog_name="remuda", standalone_mode=False)  # type: ignore[attr-defined]
    return capsys.readouterr().out


GROUPS = [name for name, one in WHOLE.commands.items() if hasattr(one, "commands")]  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [[], *([name] for name in GROUPS), ["status"], ["config", "set"], ["load"], ["run"]])
def test_help_is_the_same(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert helped(QUICK, words, capsys) == helped(WHOLE, words, capsys) != ""


def test_a_command_that_is_not_there_is_a_mistake_with_a_proposal() -> None:
    with pytest.raises(typer.TyperException, match=r"No such command 'statsu'. Did you mean 'status'\?"):
        QUICK.main(["statsu"], prog_name="remuda", standalone_mode=False)
