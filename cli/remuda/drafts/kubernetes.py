"""Objects of Kubernetes that schedulers of pods are configured by. Missing parts are empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from . import tree
from .notes import Notes
from .sources import Document, NotReadable


@dataclass(slots=True)
class Object:
    document: Document
    kind: str
    name: str
    namespace: str
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]

    @classmethod
    def of(cls, document: Document) -> Object:
        """Raises NotReadable."""
        content = document.content
        metadata, kind = mapping(content.get("metadata")), str(content.get("kind"))
        if not metadata.get("name"):
            raise NotReadable(f"{document.at(content)}: {kind} without metadata.name")
        return cls(
            document, kind, str(metadata["name"]), str(metadata.get("namespace") or "default"),
            mapping(metadata.get("annotations")), mapping(content.get("spec")),
        )  # fmt: skip

    def at(self, *path: str) -> str:
        return self.document.at_path(path)

    def in_spec(self, *path: str) -> str:
        return self.at("spec", *path)

    @property
    def place_of_name(self) -> str:
        return self.at("metadata", "name")


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def source(self) -> Object | None: ...


T = TypeVar("T", bound=_Named)


def with_names(nodes: Iterable[T], path: str, notes: Notes) -> Iterator[tuple[T, str]]:
    """Yields each node below a queue with the name of its own queue. A name that no queue can have is noted."""
    taken: set[str] = set()
    for node in nodes:
        name = tree.plain_name(node.name, taken)
        if name != node.name and node.source is not None:
            label = f"name {node.name}"
            notes.near(node.source.place_of_name, label, "a queue cannot be called so", f"It is {path}.{name}.")
        yield node, name
