"""The check of a ConfigMap of the configuration before it is stored. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from remuda_kubernetes.api.objects import ConfigMap
from remuda_kubernetes.shim.config_maps import POLICY_GROUP, configuration_of, values_of
from remuda_kubernetes.webhook.user_info import Denied, Json

MAPS: Final = ("yunikorn-defaults", "yunikorn-configs", "remuda-configs")
_KNOWN: Final = ("service.", "log.", "event.", "health.", "kubernetes.", "admissionController.")


def queues_of(map_: Json) -> str:
    """The text of the queues that the front end reads from the map; empty: none. Raises Denied when the front end would
    reject the map, and when it has only keys without a meaning."""
    try:
        values = values_of(msgspec.convert(map_, ConfigMap))
        configuration = configuration_of([values])
    except ValueError as error:
        raise Denied(str(error)) from None
    name = f"{values.get(POLICY_GROUP) or 'queues'}.yaml"
    if values and name not in values and not any(key.startswith(_KNOWN) for key in values):
        raise Denied(f"expected the key {name}, found {', '.join(sorted(values))}")
    return configuration.text
