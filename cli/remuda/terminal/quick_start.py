"""A typer application whose commands read their options when they are used: a list of commands takes names and
docstrings only, and most starts of the command line use one command of fifty.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo


def group_of(application: typer.Typer) -> TyperGroup:
    """The command of an application with a callback, as `typer.main.get_command` builds it, in a fifth of the time."""
    options = typer.Typer(name=application.info.name, no_args_is_help=True)
    options.registered_callback = application.registered_callback
    group = typer.main.get_command(options)
    assert isinstance(group, TyperGroup)
    for command in application.registered_commands:
        group.add_command(_Listed(command))
    for one in application.registered_groups:
        group.add_command(_below(one))
    return group


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
        """Of the whole command, so that this one parses nothing and runs nothing."""
        return self.whole.make_context(*arguments, **named)
