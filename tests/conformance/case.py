"""One scenario with both answers to it, as a kind of difference looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from .compare import with_names
from .recording import Json, Scenario, Step

REQUESTS = ("node", "application", "allocation")


@dataclass
class Case:
    """`ours`, `theirs`: traces, with names instead of UUIDs in `our_steps` and `their_steps`."""

    scenario: Scenario
    ours: Json
    theirs: Json

    @cached_property
    def our_steps(self) -> list[Json]:
        return list(with_names(self.ours)["steps"])

    @cached_property
    def their_steps(self) -> list[Json]:
        return list(with_names(self.theirs)["steps"])

    def elements(self, action: str, *path: str) -> Iterator[tuple[Step, Json]]:
        """The elements of a list in the requests of this kind, each with its step: `allocation`, `asks`."""
        for step in self.scenario.steps:
            if step.action == action:
                found = step.argument
                for name in path:
                    found = (found or {}).get(name)
                for element in found or ():
                    yield step, element

    def asks(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("allocation", "asks")

    def releases(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("allocation", "releases", "allocationsToRelease")

    def nodes(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("node", "nodes")

    def applications(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("application", "new")
