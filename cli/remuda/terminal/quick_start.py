"""A typer application whose commands read their options when they are used: a list of commands takes names and
docstrings only, and most starts of the command line use one command of fifty.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo

Help = Mapping[str, Mapping[tuple[str, ...], str]]


def group_of(application: typer.Typer, lines: Help | None = None) -> TyperGroup:
    """Returns the command of an application with a callback, as `typer.main.get_command` builds it, in a fifth of
    the time. `lines`: of its help, by heading and commands. None: what typer writes.
    """
    options = typer.Typer(name=application.info.name, no_args_is_help=True, cls=_Headed if lines else None)
    options.registered_callback = application.registered_callback
    group = typer.main.get_command(options)
    assert isinstance(group, TyperGroup)
    if isinstance(group, _Headed) and lines:
        group.described = lines
    for command in application.registered_commands:
        group.add_command(_Listed(command))
    for one in application.registered_groups:
        group.add_command(_below(one))
    return group


class _Headed(TyperGroup):
    """A group whose help is a line for commands that belong together, by headings: what fits on a screen."""

    described: Help = {}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        text = [f"Usage: {ctx.command_path} COMMAND [OPTIONS] [ARGUMENTS]", *textwrap.wrap(self.help or "", 80)]
        width = max(len(", ".join(names)) for lines in self.described.values() for names in lines)
        for heading, lines in self.described.items():
            text.append(f"\n{heading}")
            text += [f"  {', '.join(names):{width}}  {line}" for names, line in lines.items()]
        text.append(f"`{ctx.command_path} COMMAND --help` says more. Also: --version, --install-completion.")
        formatter.write("\n".join(text) + "\n")


def _below(group: typer.models.TyperInfo) -> TyperGroup:
    assert group.typer_instance is not None
    return TyperGroup(
        name=group.name,
        help=group.typer_instance.info.help,
        commands=[_Listed(one) for one in group.typer_instance.registered_commands],
        no_args_is_help=True,
        rich_help_panel=group.rich_help_panel,
    )


class _Listed(TyperCommand):
    """A command as its group lists it."""

    def __init__(self, info: CommandInfo) -> None:
        assert info.callback is not None
        name = info.name or info.callback.__name__
        super().__init__(name, help=inspect.getdoc(info.callback), rich_help_panel=info.rich_help_panel)
        self._info = info

    @cached_property
    def whole(self) -> Any:
        """The command with its options."""
        alone = typer.Typer(add_completion=False)
        alone.registered_commands.append(self._info)
        return typer.main.get_command(alone)

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """The context of the whole command, so that this one parses nothing and runs nothing."""
        return self.whole.make_context(*arguments, **named)
