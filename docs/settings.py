"""Writes the reference of the settings of services into settings.md.

python -m docs.settings [--check]
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

from docs.sections import main
from remuda.local.services import SERVICES, settings_of
from remuda_bus.settings import Declared, Settings, declared


def table() -> str:
    readers: dict[str, tuple[Declared, list[str]]] = {}
    for service in SERVICES:
        for one in declared(settings_of(service).model_fields):
            readers.setdefault(one.key, (one, []))[1].append(service)
    lines: list[str] = []
    sections = sorted({key.partition(".")[0] for key in readers})
    shared = {one.key.partition(".")[0] for one in declared(Settings.model_fields)}
    for section in [*(one for one in sections if one in shared), *(one for one in sections if one not in shared)]:
        rows = [found for key, found in sorted(readers.items()) if key.partition(".")[0] == section]
        services = rows[0][1]
        lines += [f"### `{section}`", ""]
        if section not in shared and services != [section]:
            lines += [f"Read by {', '.join(services)}.", ""]
        lines += [f"- `{one.key}`{_default(one)}: {_text(one)}{_other_variables(one)}" for one, _ in rows]
        lines.append("")
    return "\n".join(lines)


def _default(one: Declared) -> str:
    if one.default_shown:
        return f" ({one.default_shown})"
    default = one.info.get_default()
    if default in (None, "", ()):
        return ""
    if isinstance(default, bool):
        return f" (`{str(default).lower()}`)"
    if isinstance(default, tuple):
        return f" (`{','.join(default)}`)"
    return f" (`{default:.10g}`)" if isinstance(default, float) else f" (`{default}`)"


def _other_variables(one: Declared) -> str:
    """The variables beside the one that is named like the key."""
    others = [name for name in one.variables if name != f"REMUDA_{one.key.upper().replace('.', '_')}"]
    return f"; also {', '.join(f'`{name}`' for name in others)}" if others else ""


def _text(one: Declared) -> str:
    choices = [
        f"`{choice}`"
        for part in (one.info.annotation, *get_args(one.info.annotation))
        if get_origin(part) is Literal
        for choice in get_args(part)
    ]
    text = one.info.description or ""
    if choices:
        text += f": {', '.join(choices)}"
    ranges = [
        f"{sign} {getattr(constraint, name):.10g}"
        for constraint in one.info.metadata
        for name, sign in (("ge", "from"), ("le", "to"))
        if getattr(constraint, name, 0) and not one.key.endswith("port")
    ]
    if ranges:
        text += f" ({' '.join(ranges)})"
    return text


if __name__ == "__main__":
    main(Path(__file__).with_name("settings.md"), {"<!-- written by docs/settings.py -->": table()})
