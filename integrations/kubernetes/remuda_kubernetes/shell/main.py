"""The process of the Kubernetes front end."""

from __future__ import annotations

import structlog

from remuda_bus.bus import Bus
from remuda_kubernetes.api.client import Client
from remuda_kubernetes.api.credentials import Credentials, in_cluster, read_kubeconfig
from remuda_kubernetes.plugin.plugin import minor_of
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.controller import Controller, shim_of, version_of

log = structlog.get_logger()


async def main(bus: Bus | None, settings: KubernetesSettings) -> None:
    """Runs until cancelled. `bus`: None for the webhook. Raises ValueError for wrong credentials; errors of the bus,
    RegistrationFailed, Superseded. While the API server does not answer, it waits."""
    credentials = credentials_of(settings)
    log.info("uses a Kubernetes cluster", server=credentials.server, rm=settings.rm)
    async with Client(credentials) as client:
        if bus is None:
            from remuda_kubernetes.shell.webhook import Webhook  # it imports what only certificates need

            await Webhook(client, settings).run()
            return
        version = await version_of(client)
        await Controller(bus, client, settings, shim_of(settings, version), minor_of(version)).run()


def credentials_of(settings: KubernetesSettings) -> Credentials:
    if settings.kubeconfig is not None:
        return read_kubeconfig(settings.kubeconfig, settings.context)
    return in_cluster()
