"""How a field of a settings model is declared: its key in `remuda.yaml`, the variables of the environment that set it,
and the types that several settings share.

A value arrives as text, or as a list of texts, from whichever source; the type of the field reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from remuda_bus import limits
from remuda_proto.durations import EXPECTED, milliseconds

PREFIX = "REMUDA_"


def setting(
    key: str,
    default: Any = ...,
    description: str = "",
    *,
    variables: tuple[str, ...] = (),
    secret: bool = False,
    default_factory: Callable[[], Any] | None = None,
    default_shown: str = "",
    **constraints: Any,
) -> Any:
    """Declare a setting as a field of a settings model. `key`: the key in `remuda.yaml`, with a dot between section and
    name. `variables`: former names in the environment, beside the name that follows from the key. `secret`: the value
    is never shown. `default_shown`: the description of a default that differs between processes. `constraints`: those
    of pydantic's `Field`."""
    extra: dict[str, Any] = {"key": key, "variables": list(variables), "secret": secret, "default": default_shown}
    if default_factory is not None:
        return Field(default_factory=default_factory, description=description, json_schema_extra=extra, **constraints)
    return Field(default, description=description, json_schema_extra=extra, **constraints)


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting as its field declares it. `variables`: the first name follows from the key; the others are former names
    that stay valid."""

    field: str
    key: str
    variables: tuple[str, ...]
    secret: bool
    default_shown: str
    info: FieldInfo


def declared(fields: dict[str, FieldInfo]) -> Iterator[Declared]:
    """Yield the settings that the fields of a model declare."""
    for name, info in fields.items():
        extra: dict[str, Any] = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        key = extra.get("key", name)
        variables = (f"{PREFIX}{key.replace('.', '_').upper()}", *extra.get("variables", ()))
        yield Declared(name, key, variables, extra.get("secret", False), extra.get("default", ""), info)


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    duration_ms = milliseconds(value)
    if duration_ms is not None:
        return duration_ms / 1_000
    try:
        return float(value)
    except ValueError:
        raise PydanticCustomError("duration", "expected a number of seconds, or a duration like 30s or 5m") from None


def _duration(value: object) -> object:
    if isinstance(value, str) and value and not milliseconds(value):
        raise PydanticCustomError("duration", "{expected}", {"expected": EXPECTED})
    return value


def _texts(value: object) -> object:
    """Read a list from one text, from the environment or `--set`: written as in YAML (`[a, b]`), or separated by
    commas."""
    if isinstance(value, str) and value.startswith("["):
        from ruamel.yaml import YAML  # few processes are given such a list
        from ruamel.yaml.error import YAMLError

        try:
            return [str(item) for item in YAML(typ="base", pure=True).load(value)]
        except (YAMLError, TypeError):
            raise PydanticCustomError("list", "expected a list like [a, b]") from None
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _readable(value: object) -> object:
    """Read the path of a file that exists and that this process may read; an empty path is None."""
    if not isinstance(value, str | Path):
        return value
    if not str(value):
        return None
    path = Path(value)
    try:
        with path.open("rb"):
            return path
    except IsADirectoryError:
        reason = "is a directory, expected a file"
    except FileNotFoundError:
        reason = "no such file"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "expected the path of a file"
    raise PydanticCustomError("file", "{reason}", {"reason": reason})


Seconds = Annotated[float, BeforeValidator(_seconds), Field(allow_inf_nan=False)]
# A duration as it is written; empty: none.
Duration = Annotated[str, BeforeValidator(_duration)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts), Field(max_length=limits.SETTING_ENTRIES)]
ReadableFile = Annotated[Path | None, BeforeValidator(_readable)]
