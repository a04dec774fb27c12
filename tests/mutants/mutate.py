"""Puts a mutant into the code of this process: the module it names is imported with the changed text.

Nothing is written to disk. The change has to be made before the module is imported for the first time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
ROOMS = {
    "remuda_core": ROOT / "services" / "core",
    "remuda_config": ROOT / "services" / "config",
    "remuda_events": ROOT / "services" / "events",
    "remuda_operations": ROOT / "operations",
    "remuda_proto": ROOT / "proto",
    "remuda_peloton": ROOT / "integrations" / "peloton",
    "remuda_rmproxy": ROOT / "services" / "rmproxy",
}


@dataclass(frozen=True)
class Mutant:
    """One rule, broken. `text` stands exactly once in `module` and is replaced by `by`. `rule`: what is broken, as
    docs/semantics.md has it."""

    name: str
    rule: str
    module: str
    text: str
    by: str

    @property
    def section(self) -> str:
        """The number of the section that has the rule."""
        return self.rule.partition(":")[0]

    @property
    def file(self) -> Path:
        return ROOMS[self.module.partition(".")[0]] / (self.module.replace(".", "/") + ".py")

    def source(self) -> str:
        """The module with the rule broken. Raises ValueError where the text does not stand exactly once."""
        source = self.file.read_text()
        if source.count(self.text) != 1:
            raise ValueError(f"mutant {self.name}: {self.text!r} stands {source.count(self.text)} times in {self.file}")
        return source.replace(self.text, self.by)


def mutants_of(module: str, *broken: tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    """(name, rule, text, what stands in its place) of one module of the core."""
    return tuple(Mutant(name, rule, f"remuda_core.{module}", text, by) for name, rule, text, by in broken)


class _Loader(SourceFileLoader):
    """Compiles the given text; caches nothing."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._source = mutant.source()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None and spec.origin is not None, fullname
        assert Path(spec.origin).resolve() == self._mutant.file.resolve(), f"{fullname} is imported from {spec.origin}"
        spec.loader = _Loader(fullname, spec.origin, self._source)
        return spec


def put_in(mutant: Mutant) -> None:
    """Raises ValueError where it does not fit the code, or comes too late."""
    if mutant.module in sys.modules:
        raise ValueError(f"mutant {mutant.name}: {mutant.module} is imported already")
    sys.meta_path.insert(0, _Finder(mutant))
