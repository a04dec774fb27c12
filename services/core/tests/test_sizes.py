"""The table of bounds in `check.sizes` names containers of classes as they are: a renamed one would lose its bound."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import walk_packages

import pytest

import remuda_core
from remuda_core.check.sizes import EACH, EXCLUDED, OF_ENTRIES, PER_NODE, PER_OBJECT, SUMS, slots

NAMES = sorted({*EACH, *EXCLUDED, *OF_ENTRIES, *PER_NODE, *PER_OBJECT, *SUMS})


def classes() -> dict[str, type]:
    return {
        kind.__name__: kind
        for found in walk_packages(remuda_core.__path__, "remuda_core.")
        for kind in vars(import_module(found.name)).values()
        if isinstance(kind, type) and kind.__module__ == found.name
    }


CLASSES = classes()


@pytest.mark.parametrize("name", NAMES)
def test_the_class_has_this_attribute(name: str) -> None:
    kind, attribute = name.split(".")
    assert kind in CLASSES
    fields = {field for field, _ in slots(CLASSES[kind])}
    assert attribute in fields or (not fields and f"self.{attribute}" in inspect.getsource(CLASSES[kind]))
