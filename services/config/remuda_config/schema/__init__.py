"""Parses a text of queues.yaml into models, and finds every problem of form.

YAML and pydantic are used in this package only.
"""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError

from remuda_config.problems import Finding, Path
from remuda_config.schema.models import (
    Backfill,
    Budget,
    ChildTemplate,
    Filter,
    LimitEntry,
    NodeSortPolicy,
    Partition,
    PlacementRule,
    Preemption,
    Queue,
    Queues,
    Window,
    WindowSettings,
    found,
)
from remuda_config.schema.yaml_document import NotYaml, Plain, Scalar, YamlDocument, compose, read_yaml
from remuda_proto.bounds import SHOWN_CHARACTERS, shown

__all__ = [
    "Backfill",
    "Budget",
    "ChildTemplate",
    "Filter",
    "LimitEntry",
    "NodeSortPolicy",
    "NotYaml",
    "Partition",
    "PlacementRule",
    "Preemption",
    "Queue",
    "Queues",
    "Window",
    "WindowSettings",
    "YamlDocument",
    "compose",
    "read_yaml",
    "validate",
]

_EXPECTED = {"list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping"}


def validate(document: YamlDocument) -> tuple[Queues, list[Finding], list[Path]]:
    """Returns the models, all findings of form, and the paths that the models lack because of a finding.

    An invalid value is removed and validation repeated, so that all problems of a text are reported together.
    """
    findings = list(document.findings)
    left_out: list[Path] = []
    content = {} if document.content is None else document.content
    while True:
        try:
            return Queues.model_validate(content), findings, left_out
        except ValidationError as error:
            problems = error.errors(include_url=False)
        for problem in problems:
            path = tuple(problem["loc"])
            findings.append((path, _message(problem, path)))
            if not path:
                return Queues(), findings, [()]
            if problem["type"] != "extra_forbidden":
                left_out.append(path)
        taken_out = [_take_out(content, tuple(problem["loc"]), problem["type"]) for problem in problems]
        if not any(taken_out):
            return Queues(), findings, [()]


def _message(problem: Any, path: Path) -> str:
    if problem["type"] == "extra_forbidden":
        return _unknown_key(path)
    if problem["type"] in _EXPECTED:
        return f"expected {_EXPECTED[problem['type']]}, found {found(problem['input'])}"
    return str(problem["msg"])


def _unknown_key(path: Path) -> str:
    key = str(path[-1])
    known = list(_keys_at(path[:-1]))
    near = difflib.get_close_matches(key[:SHOWN_CHARACTERS].lower(), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(known)}"
    return f"unknown key {shown(key)}{hint}"


def _keys_at(path: Path) -> list[str]:
    """The known keys at a path."""
    model: type[BaseModel] = Queues
    for part in path:
        if isinstance(part, str):
            model = _inner(model.model_fields[part].annotation)
    return list(model.model_fields)


def _inner(annotation: Any) -> type[BaseModel]:
    """The model inside `list[Model]`, `Model | None` or `Model`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(_inner(part) for part in annotation.__args__ if part is not type(None))


def _take_out(content: Plain, path: Path, kind: str) -> bool:
    """Remove the value at the path. An item of a list is emptied instead, so that the others keep their positions."""
    for part in path[:-1]:
        if isinstance(content, dict) and isinstance(part, str):
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int):
            content = content[part]
    last = path[-1]
    if isinstance(content, dict) and isinstance(last, str) and last in content:
        del content[last]
        return True
    if isinstance(content, list) and isinstance(last, int):
        content[last] = {} if kind == "model_type" else Scalar("", "str", plain=False)
        return True
    return False
