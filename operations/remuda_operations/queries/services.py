"""Running services: the NATS micro services `remuda-<service>`.

Every service registers as one when it has connected and declared its streams (`remuda_replication.process`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from remuda_bus.bus import Bus

# The time for the answers to a ping: all services answer within a machine's or a cluster's round trip, also on a busy
# machine.
PING_S = 0.3
# The longest wait after an answer where it is known which services have to answer.
PING_QUIET_S = 0.1
# Further pings, before a service counts as absent: a busy process may not answer for a second or two.
PING_AGAIN_S = (1.0, 2.0)

PREFIX = "remuda-"
PING = "$SRV.PING"


@dataclass(frozen=True, slots=True)
class ServiceInstance:
    """One running instance of a service: `service` without the prefix, `id` its micro service ID."""

    service: str
    id: str
    version: str
    instance: str
    pid: int


async def services(bus: Bus, expected: Iterable[str] = ()) -> list[ServiceInstance]:
    """The services that answer within PING_S, ordered by service and instance; with `expected`, until none has answered
    for PING_QUIET_S. While one of `expected` does not, all are asked again and given longer (PING_AGAIN_S): a busy
    process answers late, and a ping may be lost."""
    missing, found = set(expected), dict[str, ServiceInstance]()
    for within_s in (PING_S, *PING_AGAIN_S):
        replies = await bus.request_all(PING, within_s=within_s, quiet_s=PING_QUIET_S if missing else None)
        found.update((one.id, one) for reply in replies if (one := instance_of(reply.payload)) is not None)
        if not (missing := missing - {one.service for one in found.values()}):
            break
    return in_order(found.values())


def in_order(found: Iterable[ServiceInstance | None]) -> list[ServiceInstance]:
    known = [one for one in found if one is not None]
    return sorted(known, key=lambda one: (one.service, one.instance, one.id))


def instance_of(reply: bytes) -> ServiceInstance | None:
    """The instance that has sent the reply to a ping. None: another service."""
    try:
        found = json.loads(reply)
        name = str(found.get("name", ""))
        metadata = found.get("metadata") or {}
        if not name.startswith(PREFIX):
            return None
        pid = int(metadata.get("pid", 0) or 0)
        service = name.removeprefix(PREFIX)
        return ServiceInstance(
            service, str(found.get("id", "")), str(found.get("version", "")), str(metadata.get("instance", "")), pid
        )
    except (ValueError, TypeError, AttributeError):
        return None
