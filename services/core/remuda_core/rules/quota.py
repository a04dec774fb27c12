"""The quota in the tags of an application, for its dynamic queue (semantics section 6).

A tag is the JSON of a `Resource` of si.v1: {"resources": {"memory": {"value": 10}}}, in base units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from remuda_proto.bounds import SHOWN_CHARACTERS, problem_of_resource_names, shortened

from .resource import INT64_MAX, Resource, show

MAX_TAG: Final = "namespace.resourcequota"
GUARANTEED_TAG: Final = "namespace.resourceguaranteed"


class Quota(NamedTuple):
    """An empty resource: the application has no such tag."""

    guaranteed: Resource
    max: Resource


NO_QUOTA: Final = Quota({}, {})


class _Quantity(msgspec.Struct):
    value: int = 0


class _Resource(msgspec.Struct):
    resources: dict[str, _Quantity] = {}


class BadQuota(Exception):
    """The message names the tag, its value and what was expected."""


def quota_of(tags: Mapping[str, str]) -> Quota:
    """The quota in the tags; NO_QUOTA without any. Raises BadQuota."""
    if MAX_TAG not in tags and GUARANTEED_TAG not in tags:
        return NO_QUOTA
    quota = Quota(_amounts(tags, GUARANTEED_TAG), _amounts(tags, MAX_TAG))
    for name, amount in sorted(quota.guaranteed.items()):
        if amount > quota.max.get(name, amount):
            name, most = shortened(name, SHOWN_CHARACTERS), quota.max[name]
            raise BadQuota(f"tag {GUARANTEED_TAG}: {name}={amount} is more than the {most} of {MAX_TAG}")
    return quota


def _amounts(tags: Mapping[str, str], tag: str) -> Resource:
    text = tags.get(tag, "")
    if not text:
        return {}
    try:
        read = msgspec.json.decode(text, type=_Resource, strict=False)  # protobuf writes an int64 as a string
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadQuota(f"tag {tag}: expected a Resource in JSON: {error}") from None
    amounts = {name: quantity.value for name, quantity in read.resources.items()}
    if problem := problem_of_resource_names(f"tag {tag}", amounts):
        raise BadQuota(problem)
    if "" in amounts or any(not 0 <= amount <= INT64_MAX for amount in amounts.values()):
        found = shortened(show(amounts), SHOWN_CHARACTERS)
        raise BadQuota(f"tag {tag}: {found}, expected names and amounts from 0 to {INT64_MAX}")
    return amounts
