"""Loads the settings of a service: from `--set`, the environment and `remuda.yaml`, each value with its origin.

The first source that has a value counts; without one, the default. `remuda.yaml` is read into texts by key, each with
its line; the types of the fields read the texts. All problems are reported together, each with its place.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pydantic

from remuda_bus import limits
from remuda_bus.settings.model import SERVICES_OF_SECTION, Settings
from remuda_bus.settings.setting import Declared, declared
from remuda_proto.bounds import shown

S = TypeVar("S", bound=Settings)
Text = str | list[str]
Node = Any  # of ruamel.yaml: few processes read a file, so the parser is imported where a file is read

ASSIGNED = "--set"
DEFAULT = "default"
HIDDEN = "***"
_PASSWORD = re.compile(r"(?<=//)[^/@,]*(?=@)")
_NULL = "tag:yaml.org,2002:null"


class SettingsProblems(ValueError):
    """Settings are wrong. `problems`: all of them, one line each: the place, the key, the value and what was
    expected."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """Checked settings. `origins`: by field, the source of the value: `default`, `file:line`, the name of a variable,
    or `--set`."""

    settings: S
    origins: dict[str, str]


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting with its effective value. `value`: for people; a secret is hidden."""

    declared: Declared
    value: Any
    origin: str


def load(
    kind: type[S], file: Path | None = None, assignments: Sequence[str] = (), *, environment: bool = True
) -> Loaded[S]:
    """Read and check the settings of a service. `assignments`: `key=value` each, of which the last for a key counts.
    `environment`: whether variables count. Raises SettingsProblems."""
    settings = list(declared(kind.model_fields))
    known = [one.key for one in settings]
    elsewhere = SERVICES_OF_SECTION.keys() - {key.partition(".")[0] for key in known}
    assigned, problems = _assigned(assignments, known, elsewhere)
    values: dict[str, tuple[Text, int]] = {}
    if file is not None:
        try:
            document = read_text(_text_of(file), file, known, elsewhere)
        except NotSettings as error:
            raise SettingsProblems([str(error), *problems]) from None
        values, problems = document.values, [*document.problems, *problems]
    found: dict[str, tuple[Text, str]] = {}
    for one in settings:
        variable = next((name for name in one.variables if environment and os.environ.get(name)), None)
        if one.key in assigned:
            found[one.field] = assigned[one.key], ASSIGNED
        elif variable is not None:  # an empty variable counts as absent, as in a template that leaves it open
            found[one.field] = os.environ[variable], variable
        elif one.key in values:
            text, line = values[one.key]
            found[one.field] = text, f"{file}:{line}"
    origins = {one.field: found[one.field][1] if one.field in found else DEFAULT for one in settings}
    try:
        loaded = kind.model_validate({name: text for name, (text, _) in found.items()})
    except pydantic.ValidationError as error:
        problems += _invalid(error, settings, origins)
    else:
        if not problems:
            return Loaded(loaded, origins)
    raise SettingsProblems(problems)


def effective(loaded: Loaded[Any]) -> Iterator[Effective]:
    """Yield each setting with its effective value and its origin, in the order of declaration."""
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


def _assigned(
    assignments: Sequence[str], known: Collection[str], elsewhere: Collection[str]
) -> tuple[Mapping[str, str], list[str]]:
    """The values of `--set` by key, and the problems."""
    values: dict[str, str] = {}
    problems = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            problems.append(f"--set {shown(assignment)}: expected KEY=VALUE")
        elif key in known:
            values[key] = value
        elif key.partition(".")[0] not in elsewhere:
            problems.append(f"--set: {_unknown_key(key, known)}")
    return values, problems


def _invalid(error: pydantic.ValidationError, settings: list[Declared], origins: dict[str, str]) -> Iterator[str]:
    by_field = {one.field: one for one in settings}
    for problem in error.errors():
        one = by_field.get(str(problem["loc"][0])) if problem["loc"] else None
        said = problem["msg"].removeprefix("Value error, ")
        if one is None:
            yield said
            continue
        given = problem["input"]
        value = HIDDEN if one.secret else _PASSWORD.sub(HIDDEN, shown(given if isinstance(given, str) else str(given)))
        where = origins[one.field]
        said = said.replace("Input should be", "expected")
        yield f"{where}{' ' if where == ASSIGNED else ': '}{one.key}={value}: {said}"


def _unknown_key(key: str, known: Collection[str]) -> str:
    """The problem of a key that does not exist, with the nearest key that does."""
    ends = {one.rpartition(".")[2]: one for one in known}
    near = difflib.get_close_matches(key, known, 1) or [
        ends[end] for end in difflib.get_close_matches(key.rpartition(".")[2], ends, 1, 0.8)
    ]
    return f"unknown key {shown(key)}{f', expected {near[0]}?' if near else ''}"


# The file


class NotSettings(ValueError):
    """The file cannot be read as settings at all. The message names the file, and the line where there is one."""


@dataclass(slots=True)
class Document:
    """The content of `remuda.yaml`. `values`: text and line of each known key that the file sets. `problems`: one line
    each, with file and line."""

    path: Path
    values: dict[str, tuple[Text, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(limits.SETTINGS_BYTES + 1)
    except OSError as error:
        raise NotSettings(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise NotSettings(f"{shown(str(path))}: {error}") from None
    if len(content) > limits.SETTINGS_BYTES:
        raise NotSettings(f"{path}: more than {limits.SETTINGS_BYTES:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise NotSettings(f"{path}:{line}: byte 0x{content[error.start]:02x} is not UTF-8") from None


def read_text(text: str, path: Path, known: Collection[str], elsewhere: Collection[str] = ()) -> Document:
    """Read the text of the file at `path`. `known`: the keys that count. `elsewhere`: sections that other services read
    and check. Raises NotSettings."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    document = Document(path)
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotSettings(f"{path}{f':{mark.line + 1}' if mark else ''}: not YAML: {error.problem}") from None
    except (YAMLError, RecursionError) as error:
        raise NotSettings(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    if root is not None and root.tag != _NULL:
        _Walk(document, known, frozenset(elsewhere)).section(root, "")
    return document


class _Walk:
    """A walk over the nodes of the file. Its depth is that of the known keys, so an alias inside of itself ends as an
    unknown key."""

    def __init__(self, document: Document, known: Collection[str], elsewhere: frozenset[str]) -> None:
        self._document = document
        self._known = known
        self._elsewhere = elsewhere
        self._sections = {key[:dot] for key in known for dot, letter in enumerate(key) if letter == "."}

    def section(self, node: Node, name: str) -> None:
        if node.id != "mapping":
            self._problem(node, f"{name or 'the file'}: expected a section, keys and values")
            return
        seen: dict[str, int] = {}
        for key_node, value in node.value:
            key = f"{name}.{key_node.value}" if name else str(key_node.value)
            if key_node.id != "scalar":
                self._problem(key_node, f"{name or 'the file'}: a key is not a word")
            elif key in seen:
                self._problem(key_node, f"{key}: the key stands in line {seen[key]}, too")
            else:
                seen[key] = key_node.start_mark.line + 1
                self._entry(key, key_node, value)

    def _entry(self, key: str, key_node: Node, value: Node) -> None:
        if value.tag == _NULL and (key in self._known or key in self._sections):
            return  # as if it were absent
        if key in self._known:
            text = self._value(key, value)
            if text is not None:
                self._document.values[key] = (text, key_node.start_mark.line + 1)
        elif key in self._sections:
            self.section(value, key)
        elif key not in self._elsewhere:
            self._problem(key_node, _unknown_key(key, [*self._known, *self._elsewhere]))

    def _value(self, key: str, node: Node) -> Text | None:
        if node.id == "scalar":
            return str(node.value)
        if node.id == "sequence" and all(item.id == "scalar" for item in node.value):
            return [str(item.value) for item in node.value]
        self._problem(node, f"{key}: expected a value or a list of values")
        return None

    def _problem(self, node: Node, message: str) -> None:
        if len(self._document.problems) < limits.SETTINGS_PROBLEMS:
            self._document.problems.append(f"{self._document.path}:{node.start_mark.line + 1}: {message}")
