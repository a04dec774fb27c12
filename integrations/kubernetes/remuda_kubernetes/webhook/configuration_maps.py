"""The check of a ConfigMap of the configuration before it is stored. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from remuda_kubernetes.api.objects import ConfigMap
from remuda_kubernetes.shim.config_maps import POLICY_GROUP, configuration_of, values_of
from remuda_kubernetes.webhook.user_info import Denied, Json

MAPS: Final = ("yunikorn-defaults", "yunikorn-configs", "remuda-configs")
_KNOWN: Final = (
    "service.", "log.", "event.", "health.", "kubernetes.", "admissionController.", "timing.", "compatibility",
)  # fmt: skip


def queues_of(map_: Json, below: Sequence[ConfigMap] = (), above: Sequence[ConfigMap] = ()) -> str:
    """The text of the queues that the front end would read because of the map; empty: none. `below`, `above`: the other
    maps, in their order. Raises Denied when the front end would reject the map, and when it has only keys without a
    meaning."""
    try:
        values = values_of(msgspec.convert(map_, ConfigMap))
        configuration = configuration_of([*_readable(below), values, *_readable(above)])
    except ValueError as error:
        raise Denied(str(error)) from None
    name = f"{configuration.extra.get(POLICY_GROUP) or 'queues'}.yaml"
    if name in values:
        return values[name]  # also if a map above it has another text: that may be deleted
    if values and not any(key.startswith(_KNOWN) for key in values):
        raise Denied(f"expected the key {name}, found {', '.join(sorted(values))}")
    return configuration.text if POLICY_GROUP in values else ""


def _readable(maps: Sequence[ConfigMap]) -> list[dict[str, str]]:
    """A map that cannot be read is not the fault of the one that is checked."""
    found: list[dict[str, str]] = []
    for one in maps:
        with suppress(ValueError):
            found.append(values_of(one))
    return found
