"""Makes the shim that the settings and the version of the API server ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import msgspec
import structlog

from remuda_kubernetes.api.client import Client
from remuda_kubernetes.plugin.plugin import PluginShim
from remuda_kubernetes.plugin.policy import PluginPolicy, hold_of, pin_of
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.start import until_answered
from remuda_kubernetes.shim.shim import Shim

log = structlog.get_logger()


def shim_of(settings: KubernetesSettings, version: Mapping[str, str]) -> Shim:
    if settings.mode == "shim":
        return Shim(settings.policy)
    policy = plugin_policy(settings, version)
    log.info("lets other schedulers place pods", placed_by=sorted(policy.placed_by), hold=policy.hold, pin=policy.pin)
    return PluginShim(policy)


async def version_of(client: Client) -> dict[str, str]:
    """The page `/version` of the API server, for which it waits."""
    page = await until_answered(lambda: client.call("GET", "/version"), "waits for the Kubernetes API server")
    return msgspec.json.decode(page, type=dict[str, str])


def plugin_policy(settings: KubernetesSettings, version: Mapping[str, str]) -> PluginPolicy:
    of = settings.policy
    return PluginPolicy(
        **{field.name: getattr(of, field.name) for field in fields(of)},
        placed_by=frozenset(settings.placed_by),
        hold=hold_of(settings.hold, version),
        pin=pin_of(settings.pin, version),
    )
