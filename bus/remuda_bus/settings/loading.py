"""Loads the settings of a service and describes them: effective values with their origins, secrets hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pydantic

from remuda_bus.settings.model import SERVICES_OF_SECTION, Settings
from remuda_bus.settings.setting import Declared, declared, quoted
from remuda_bus.settings.settings_file import NotSettings, unknown_key
from remuda_bus.settings.sources import ASSIGNED, DEFAULT, Given, find, given
from remuda_proto.bounds import shown

S = TypeVar("S", bound=Settings)
HIDDEN = "***"
_PASSWORD = re.compile(r"(?<=//)[^/@,]*(?=@)")


class SettingsProblems(ValueError):
    """`problems`: all of them, one line each: where, which key, which value, what was expected."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """`origins`: of each field: `default`, `file:line`, the variable, or `--set`."""

    settings: S
    origins: dict[str, str]


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting as it counts. `value`: for people; a secret is hidden."""

    declared: Declared
    value: Any
    origin: str


def load(
    kind: type[S], file: Path | None = None, assignments: Sequence[str] = (), *, environment: bool = True
) -> Loaded[S]:
    """`assignments`: `key=value` each, of which the last for a key counts. `environment`: whether variables count.
    Raises SettingsProblems."""
    settings = list(declared(kind.model_fields))
    known = [one.key for one in settings]
    sections = {key.partition(".")[0] for key in known}
    elsewhere = SERVICES_OF_SECTION.keys() - sections
    assigned, problems = _assigned(assignments, known, elsewhere)
    document = None
    if file is not None:
        from remuda_bus.settings.document import read_file  # it reads YAML, and most processes have no file

        try:
            document = read_file(file, known, elsewhere)
        except NotSettings as error:
            raise SettingsProblems([str(error), *problems]) from None
        problems = [*document.problems, *problems]
    with given(Given(assigned, document, environment)):
        origins = {one.field: value[1] if (value := find(one)) else DEFAULT for one in settings}
        try:
            loaded = kind()
        except pydantic.ValidationError as error:
            problems += _invalid(error, settings, origins)
        else:
            if not problems:
                return Loaded(loaded, origins)
    raise SettingsProblems(problems)


def _assigned(assignments: Sequence[str], known: list[str], elsewhere: set[str]) -> tuple[dict[str, str], list[str]]:
    """The values of `--set` by key, and the problems."""
    values, problems = {}, []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            problems.append(f"--set {shown(assignment)}: expected KEY=VALUE")
        elif key in known:
            values[key] = value
        elif key.partition(".")[0] not in elsewhere:
            problems.append(f"--set: {unknown_key(key, known)}")
    return values, problems


def _invalid(error: pydantic.ValidationError, settings: list[Declared], origins: dict[str, str]) -> Iterator[str]:
    by_field = {one.field: one for one in settings}
    for problem in error.errors():
        one = by_field.get(str(problem["loc"][0])) if problem["loc"] else None
        if one is None:
            yield problem["msg"].removeprefix("Value error, ")
            continue
        value = HIDDEN if one.secret else _PASSWORD.sub(HIDDEN, quoted(problem["input"]))
        said = problem["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        where = origins[one.field]
        yield f"{where}{' ' if where == ASSIGNED else ': '}{one.key}={value}: {said}"


def effective(loaded: Loaded[Any]) -> Iterator[Effective]:
    settings = loaded.settings
    for one in declared(type(settings).model_fields):
        yield Effective(one, _shown(one, getattr(settings, one.field)), loaded.origins[one.field])


def _shown(one: Declared, value: object) -> object:
    if one.secret:
        return HIDDEN if value else value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    return _PASSWORD.sub(HIDDEN, value) if isinstance(value, str) else value
