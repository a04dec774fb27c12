"""The sources of settings, for pydantic-settings: `--set`, the environment, the file. The first that has a value
counts; without one, the default."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from remuda_bus.settings.document import SettingsFile, Text
from remuda_bus.settings.setting import Declared, declared

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


class Source(PydanticBaseSettingsSource):
    def find(self, one: Declared) -> tuple[Text, str] | None:
        """The value and its origin."""
        raise NotImplementedError

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        [one] = declared({field_name: field})
        found = self.find(one)
        return (found[0] if found else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        return {
            one.field: found[0]
            for one in declared(self.settings_cls.model_fields)
            if (found := self.find(one)) is not None
        }


class Assignments(Source):
    def find(self, one: Declared) -> tuple[Text, str] | None:
        text = _GIVEN.get().assignments.get(one.key)
        return None if text is None else (text, ASSIGNED)


class Environment(Source):
    def find(self, one: Declared) -> tuple[Text, str] | None:
        """An empty variable counts as absent, as in a template that leaves it open."""
        if not _GIVEN.get().environment:
            return None
        return next(((text, name) for name in one.variables if (text := os.environ.get(name))), None)


class File(Source):
    def find(self, one: Declared) -> tuple[Text, str] | None:
        file = _GIVEN.get().file
        if file is None or one.key not in file.values:
            return None
        text, line = file.values[one.key]
        return text, f"{file.path}:{line}"


SOURCES = (Assignments, Environment, File)


def origin(kind: type[BaseSettings], one: Declared) -> str:
    """Where the value of a setting comes from."""
    for source in SOURCES:
        found = source(kind).find(one)
        if found is not None:
            return found[1]
    return DEFAULT
