"""The sources of settings: `--set`, the environment, the file. The first that has a value counts; without one, the
default."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from pydantic.fields import FieldInfo

from remuda_bus.settings.setting import Declared, declared
from remuda_bus.settings.settings_file import SettingsFile, Text

ASSIGNED = "--set"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Given:
    """`assignments`: of `--set`, by key. `file`: None without one."""

    assignments: Mapping[str, str] = field(default_factory=dict)
    file: SettingsFile | None = None
    environment: bool = True


_GIVEN: ContextVar[Given] = ContextVar("settings_given", default=Given())  # noqa: B039 - frozen


@contextmanager
def given(values: Given) -> Iterator[None]:
    """Models that are made inside read these assignments and this file."""
    token = _GIVEN.set(values)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def _assigned(one: Declared) -> tuple[Text, str] | None:
    text = _GIVEN.get().assignments.get(one.key)
    return None if text is None else (text, ASSIGNED)


def _in_environment(one: Declared) -> tuple[Text, str] | None:
    """An empty variable counts as absent, as in a template that leaves it open."""
    if not _GIVEN.get().environment:
        return None
    return next(((text, name) for name in one.variables if (text := os.environ.get(name))), None)


def _in_file(one: Declared) -> tuple[Text, str] | None:
    file = _GIVEN.get().file
    if file is None or one.key not in file.values:
        return None
    text, line = file.values[one.key]
    return text, f"{file.path}:{line}"


def find(one: Declared) -> tuple[Text, str] | None:
    """The value of a setting and its origin; None: no source has it, so that the default counts."""
    return _assigned(one) or _in_environment(one) or _in_file(one)


def found(fields: dict[str, FieldInfo]) -> dict[str, Text]:
    """The values that sources have, by field."""
    return {one.field: value[0] for one in declared(fields) if (value := find(one)) is not None}
