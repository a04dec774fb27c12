"""RPCs as endpoints of this process's NATS micro service: `peloton.<cluster>.<role>.<RPC>`.

Requests and responses are the messages of gRPC, in protobuf, or in JSON with the header `Content-Type:
application/json`. The role in the subject is one that may call the RPC, so permissions of the bus say who may. Those
that change nothing have the role `read`.

The NATS server adds the name of a client with a key of its own: `peloton.<cluster>.<role>.<RPC>.<client>`. The roles
and pools of that name in `resmgr.clients` say what it may do, as for the owner of a certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from remuda_bus.bus import Bus, Handler, Message, Refused, Reply
from remuda_bus.status_codes import BUSY, FORBIDDEN, NOT_FOUND, UNAVAILABLE
from remuda_bus.subjects import peloton_rpc, peloton_rpc_of
from remuda_operations.operators import decode

from ..limits import RPCS_AT_ONCE, RPCS_OF_CALLER
from ..rules.access import CHANGING, READ, ROLES
from ..wire.rpcs import INVALID_ARGUMENT, Rpc, RpcError
from .callers import Callers
from .front import SERVICES, Front
from .request_handler import Unavailable

CONTENT_TYPE: Final = "Content-Type"
JSON: Final = "application/json"
CODES: Final = {
    "INVALID_ARGUMENT": 400,
    "NOT_FOUND": NOT_FOUND,
    "PERMISSION_DENIED": FORBIDDEN,
    "RESOURCE_EXHAUSTED": BUSY,
}


async def serve(bus: Bus, cluster: str, front: Front) -> None:
    """Serve all RPCs on the bus until the connection ends."""
    callers = Callers()
    for _, table in SERVICES.values():
        for name, rpc in table.items():
            answer, answer_client = _handler(front, name, rpc), _handler_of_clients(front, name, rpc, callers)
            for role in roles_of(name):
                subject, of_clients = peloton_rpc(cluster, role, name), peloton_rpc_of("*", cluster, role, name)
                await bus.serve(subject, answer, f"{role}-{name}", at_once=RPCS_OF_CALLER)
                await bus.serve(of_clients, answer_client, f"{role}-{name}-of-client", at_once=RPCS_AT_ONCE)


def roles_of(name: str) -> list[str]:
    """The roles that may call the RPC."""
    return [role for role, rpcs in ROLES.items() if name in rpcs] if name in CHANGING else [READ]


def _handler(front: Front, name: str, rpc: Rpc[Any, Any]) -> Handler:
    async def handle(message: Message) -> Reply:
        with _refusing():
            return await _answer(front, name, rpc, message)

    return handle


def _handler_of_clients(front: Front, name: str, rpc: Rpc[Any, Any], callers: Callers) -> Handler:
    async def handle(message: Message) -> Reply:
        with _refusing():
            client = _client_in(message.subject)
            with callers.calling(client) as caller:
                paths = front.check(name, frozenset({client}), listed=True)
                with caller.holding(len(message.payload)):
                    return await _answer(front, name, rpc, message, paths)

    return handle


def _client_in(subject: str) -> str:
    """The name that the server has put there. Raises RpcError."""
    try:
        return decode(subject.rpartition(".")[2])
    except ValueError as error:
        raise RpcError(INVALID_ARGUMENT, f"the name of the client: {error}") from None


async def _answer(
    front: Front, name: str, rpc: Rpc[Any, Any], message: Message, paths: tuple[str, ...] = ("",)
) -> Reply:
    as_json = message.headers.get(CONTENT_TYPE, "").partition(";")[0].strip().lower() == JSON
    response = await front.answer(name, rpc, message.payload, paths, as_json)
    return Reply(response, {CONTENT_TYPE: JSON} if as_json else {})


@contextmanager
def _refusing() -> Iterator[None]:
    """Errors of RPCs as those of requests."""
    try:
        yield
    except RpcError as error:
        raise Refused(f"{error.code}: {error}", CODES[error.code]) from error
    except Unavailable as error:
        raise Refused(str(error), UNAVAILABLE) from error
