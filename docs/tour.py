"""Writes the lists of tour.md: the functions that a walk passes through, and the places that an addition changes.

    python -m docs.tour [--check]

A walk names functions as `module:qualified name`. This script imports each of them, so it refuses one that is gone.
tests/system/test_tour.py runs the walks and compares them with what is called.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from pathlib import Path
from types import CodeType

from docs.sections import main
from docs.walks import ADDITIONS, WALKS, Hop, Walk

ROOT = Path(__file__).resolve().parents[1]


def code_of(function: str) -> CodeType:
    """Raises ImportError, AttributeError or TypeError where there is no such function."""
    found = inspect.unwrap(pkgutil.resolve_name(function))
    code = getattr(found, "__code__", None)
    if not isinstance(code, CodeType):
        raise TypeError(f"{function} is no function")
    return code


def section(walk: Walk) -> str:
    """A numbered list of the functions, below the process that calls them and what leads to it."""
    lines: list[str] = []
    number = 0
    for leg in walk:
        lines += [f"**{leg.process}**{f' ({leg.via})' if leg.via else ''}", ""]
        for hop in leg.hops:
            number += 1
            lines.append(f"{number}. [`{hop.function.partition(':')[2]}`]({link(hop)}) {hop.what}")
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def link(hop: Hop) -> str:
    """The link to the file of a hop, from tour.md."""
    return f"../{Path(code_of(hop.function).co_filename).resolve().relative_to(ROOT).as_posix()}"


def places(addition: tuple[Hop, ...]) -> str:
    """A numbered list of the places. Raises FileNotFoundError, ImportError or AttributeError where a place is gone."""
    lines: list[str] = []
    for number, (place, what) in enumerate(addition, 1):
        path, name = file_of(place), place.partition(":")[2]
        lines.append(f"{number}. [{path}]({target(path)}){f', `{name}`' if name else ''}: {what}")
    return "\n".join(lines) + "\n"


def file_of(place: str) -> str:
    """The file of a place, from the root."""
    module, _, name = place.partition(":")
    if not name:
        return (ROOT / place).resolve(strict=True).relative_to(ROOT).as_posix()
    pkgutil.resolve_name(place)
    file = sys.modules[module].__file__
    assert file is not None, f"{module} is a file"
    return Path(file).resolve().relative_to(ROOT).as_posix()


def target(path: str) -> str:
    """A link from tour.md to a file."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"


def sections() -> dict[str, str]:
    """The sections that this module writes, by their marker."""
    written = {name: section(walk) for name, walk in WALKS.items()}
    written |= {name: places(addition) for name, addition in ADDITIONS.items()}
    return {f"<!-- written by docs/tour.py: {name} -->": text for name, text in written.items()}


if __name__ == "__main__":
    main(Path(__file__).with_name("tour.md"), sections())
