"""`remuda declare`: create or update the streams and buckets, for services that have no permission to do so."""

from __future__ import annotations

import asyncio
from pathlib import Path

from remuda_bus.bus import BusError
from remuda_bus.nats import Access, connect
from remuda_bus.retry import RetryPolicy, retry
from remuda_bus.settings import load
from remuda_replication.process import Settings, access_of

from .. import limits
from ..errors import UserError
from ..terminal import arguments


def declare(url: str | None, replicas: int | None, file: Path | None) -> None:
    """Declares streams and buckets. `file`: settings of services, of which those of NATS are read."""
    given = {"nats.url": url, "nats.replicas": replicas}
    assignments = [f"{key}={value}" for key, value in given.items() if value is not None]
    settings = load(Settings, file, assignments).settings
    replicas = settings.replicas
    asyncio.run(_declare(arguments.url(settings.nats_url), replicas, access_of(settings)))
    print(f"all streams and buckets exist, each on {replicas} server{'s' if replicas > 1 else ''}")


async def _declare(url: str, replicas: int, access: Access) -> None:
    try:
        bus = await connect(url, "remuda-cli", replicas=replicas, timeout_s=limits.DECLARE_WITHIN_S, access=access)
    except (BusError, ValueError) as error:
        raise UserError(str(error)) from None
    policy = RetryPolicy(limits.DECLARE_RETRY_S, give_up_after_s=limits.DECLARE_WITHIN_S)
    try:
        await retry(bus.declare, policy, on=BusError, report=lambda error: print(f"retrying: {error}"))
    except BusError as error:
        raise UserError(f"the streams were not created within {limits.DECLARE_WITHIN_S:.0f} s: {error}") from None
    finally:
        await bus.close()
