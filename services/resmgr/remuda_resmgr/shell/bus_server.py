"""RPCs as endpoints of this process's NATS micro service: `peloton.<cluster>.<role>.<RPC>`.

Requests and responses are the messages of gRPC, in protobuf, or in JSON with the header `Content-Type:
application/json`. The role in the subject is one that may call the RPC, so permissions of the bus say who may. Those
that change nothing have the role `read`.
"""

from __future__ import annotations

from typing import Any, Final

from remuda_bus.bus import Bus, Handler, Message, Refused, Reply
from remuda_bus.log_names import peloton_rpc
from remuda_bus.queries.status_codes import BUSY, FORBIDDEN, NOT_FOUND, UNAVAILABLE

from ..limits import RPCS_OF_CALLER
from ..rules.access import CHANGING, READ, ROLES
from ..wire.rpcs import Rpc, RpcError
from .desk import Unavailable
from .front import SERVICES, Front

CONTENT_TYPE: Final = "Content-Type"
JSON: Final = "application/json"
CODES: Final = {
    "INVALID_ARGUMENT": 400,
    "NOT_FOUND": NOT_FOUND,
    "PERMISSION_DENIED": FORBIDDEN,
    "RESOURCE_EXHAUSTED": BUSY,
}


async def serve(bus: Bus, cluster: str, front: Front) -> None:
    """Until the connection ends."""
    for _, table in SERVICES.values():
        for name, rpc in table.items():
            for role in roles_of(name):
                subject = peloton_rpc(cluster, role, name)
                await bus.serve(subject, _handler(front, name, rpc), f"{role}-{name}", at_once=RPCS_OF_CALLER)


def roles_of(name: str) -> list[str]:
    """The roles that may call the RPC."""
    return [role for role, rpcs in ROLES.items() if name in rpcs] if name in CHANGING else [READ]


def _handler(front: Front, name: str, rpc: Rpc[Any, Any]) -> Handler:
    async def handle(message: Message) -> Reply:
        as_json = message.headers.get(CONTENT_TYPE, "").partition(";")[0].strip().lower() == JSON
        try:
            response = await front.answer(name, rpc, message.payload, as_json=as_json)
        except RpcError as error:
            raise Refused(f"{error.code}: {error}", CODES[error.code]) from error
        except Unavailable as error:
            raise Refused(str(error), UNAVAILABLE) from error
        return Reply(response, {CONTENT_TYPE: JSON} if as_json else {})

    return handle
