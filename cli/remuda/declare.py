"""`remuda declare`: makes the streams and buckets, once, for services that may only look whether they are there."""

from __future__ import annotations

import asyncio

from remuda_bus.bus import BusError
from remuda_bus.nats import connect

from . import limits
from .errors import UserError


def declare(url: str, replicas: int) -> None:
    asyncio.run(_declare(url, replicas))
    print(f"all streams and buckets are there, each on {replicas} server{'s' if replicas > 1 else ''}")


async def _declare(url: str, replicas: int) -> None:
    try:
        bus = await connect(url, "remuda-cli", replicas=replicas, timeout_s=limits.DECLARE_WITHIN_S)
    except (BusError, ValueError) as error:
        raise UserError(str(error)) from None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.DECLARE_WITHIN_S
    try:
        while True:
            try:
                await bus.declare()
                return
            except BusError as error:
                if loop.time() > deadline:
                    raise UserError(
                        f"the streams could not be made within {limits.DECLARE_WITHIN_S:.0f} s: {error}"
                    ) from None
                print(f"not yet: {error}")
            await asyncio.sleep(limits.DECLARE_AGAIN_S)
    finally:
        await bus.close()
