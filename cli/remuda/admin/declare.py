"""`remuda declare`: create or update the streams and buckets, for services that have no permission to do so."""

from __future__ import annotations

import asyncio

from remuda_bus.bus import BusError
from remuda_bus.nats import connect
from remuda_bus.retry import RetryPolicy, retry

from .. import limits
from ..errors import UserError


def declare(url: str, replicas: int) -> None:
    asyncio.run(_declare(url, replicas))
    print(f"all streams and buckets exist, each on {replicas} server{'s' if replicas > 1 else ''}")


async def _declare(url: str, replicas: int) -> None:
    try:
        bus = await connect(url, "remuda-cli", replicas=replicas, timeout_s=limits.DECLARE_WITHIN_S)
    except (BusError, ValueError) as error:
        raise UserError(str(error)) from None
    policy = RetryPolicy(limits.DECLARE_RETRY_S, give_up_after_s=limits.DECLARE_WITHIN_S)
    try:
        await retry(bus.declare, policy, on=BusError, report=lambda error: print(f"retrying: {error}"))
    except BusError as error:
        raise UserError(f"streams not created within {limits.DECLARE_WITHIN_S:.0f} s: {error}") from None
    finally:
        await bus.close()
