"""Reads `remuda.yaml` into texts by key, each with its line. Knows keys, not their meaning."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from remuda_bus import limits
from remuda_bus.settings.settings_file import NotSettings, SettingsFile, Text, unknown_key
from remuda_proto.bounds import shown

_NULL = "tag:yaml.org,2002:null"


def read_file(path: Path, known: Collection[str], elsewhere: Collection[str] = ()) -> SettingsFile:
    """`known`: the keys that count. `elsewhere`: sections that other services read and check. Raises NotSettings."""
    return read_text(_text_of(path), path, known, elsewhere)


def read_text(text: str, path: Path, known: Collection[str], elsewhere: Collection[str] = ()) -> SettingsFile:
    """As `read_file`, for a text that is read already."""
    found = SettingsFile(path)
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotSettings(f"{path}{f':{mark.line + 1}' if mark else ''}: not YAML: {error.problem}") from None
    except (YAMLError, RecursionError) as error:
        raise NotSettings(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    if root is not None and root.tag != _NULL:
        _Reading(found, known, frozenset(elsewhere)).section(root, "")
    return found


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


class _Reading:
    """The depth of the walk is that of the known keys, so an alias inside of itself ends as an unknown key."""

    def __init__(self, found: SettingsFile, known: Collection[str], elsewhere: frozenset[str]) -> None:
        self._found = found
        self._known = known
        self._elsewhere = elsewhere
        self._sections = {key[:dot] for key in known for dot, letter in enumerate(key) if letter == "."}

    def section(self, node: Node, name: str) -> None:
        if not isinstance(node, MappingNode):
            self._problem(node, f"{name or 'the file'}: expected a section, keys and values")
            return
        seen: dict[str, int] = {}
        for key_node, value in node.value:
            key = f"{name}.{key_node.value}" if name else str(key_node.value)
            if not isinstance(key_node, ScalarNode):
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
                self._found.values[key] = (text, key_node.start_mark.line + 1)
        elif key in self._sections:
            self.section(value, key)
        elif key not in self._elsewhere:
            self._problem(key_node, unknown_key(key, [*self._known, *self._elsewhere]))

    def _value(self, key: str, node: Node) -> Text | None:
        if isinstance(node, ScalarNode):
            return str(node.value)
        if isinstance(node, SequenceNode) and all(isinstance(item, ScalarNode) for item in node.value):
            return [str(item.value) for item in node.value]
        self._problem(node, f"{key}: expected a value or a list of values")
        return None

    def _problem(self, node: Node, message: str) -> None:
        if len(self._found.problems) < limits.SETTINGS_PROBLEMS:
            self._found.problems.append(f"{self._found.path}:{node.start_mark.line + 1}: {message}")
