"""`remuda settings show`, `remuda settings check`: settings of services and their origins. Needs no running system."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remuda_bus.settings import Effective, SettingsProblems, effective

from ..errors import UserError
from ..local.services import SERVICES, check_service, check_settings
from ..terminal.output import console, table_of


def show(service: str | None, file: Path | None, assignments: Sequence[str], as_json: bool) -> None:
    """The effective values, secrets hidden. Raises SettingsProblems."""
    services = [check_service(service)] if service is not None else SERVICES
    found: dict[str, tuple[Effective, list[str]]] = {}
    for name, loaded in check_settings(services, file, assignments).items():
        for one in effective(loaded):
            found.setdefault(one.declared.key, (one, []))[1].append(name)
    rows = [found[key] for key in sorted(found, key=lambda key: ("." in key, key))]
    if as_json:
        print(json.dumps({"settings": [_describe(one, readers) for one, readers in rows]}))
        return
    cells = (
        (
            one.declared.key, _shown(one), one.origin,
            "all" if len(readers) == len(services) > 1 else ", ".join(readers),
        )
        for one, readers in rows
    )  # fmt: skip
    console.print(table_of("setting", "value", "origin", "read by", rows=cells))


def check(file: Path, as_json: bool) -> None:
    """Check a file for all services, without the environment. Raises UserError with all problems."""
    try:
        loaded = check_settings(SERVICES, file, (), environment=False)
    except SettingsProblems as found:
        if as_json:
            print(json.dumps({"file": str(file), "valid": False, "problems": found.problems}))
        else:
            for problem in found.problems:
                console.print(problem, soft_wrap=True, markup=False)
        count = len(found.problems)
        raise UserError(f"{file}: {count} problem{'s' if count != 1 else ''}; services would refuse it") from None
    keys = {one.declared.key for of in loaded.values() for one in effective(of) if one.origin != "default"}
    if as_json:
        print(json.dumps({"file": str(file), "valid": True, "keys": sorted(keys)}))
    else:
        console.print(f"{file}: valid: {len(keys)} settings", soft_wrap=True, markup=False)


def _describe(one: Effective, readers: list[str]) -> dict[str, Any]:
    return {
        "key": one.declared.key,
        "value": one.value,
        "origin": one.origin,
        "variables": list(one.declared.variables),
        "services": readers,
    }


def _shown(one: Effective) -> str:
    """A value as `remuda.yaml` has it; in parentheses where it is not written anywhere."""
    value = one.value
    if value in (None, "", []):
        return f"({one.declared.default_shown or 'none'})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)
