"""The predicate class of an ask: asks of one class are equal to the RM's predicates (semantics section 10).

An RM that answers in batches gets one question for a class. It may name the class by a tag of the ask. Else asks with
equal resources and tags are a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from .resource import Resource, items_of

# `extraConfig["predicates"]` of an RM that answers about many nodes at once.
BATCH: Final = "batch"
CLASS_TAG: Final = "remuda/predicateClass"


def predicate_class(resource: Resource, tags: Mapping[str, str]) -> str:
    """The name: that of the tag, else a digest of resources and tags."""
    named = tags.get(CLASS_TAG, "")
    if named:
        return named
    return sha256(repr((items_of(resource), sorted(tags.items()))).encode()).hexdigest()[:32]
