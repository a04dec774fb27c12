"""Hosts from a YAML file, for clusters without a host manager that tells them: the process that leads applies the
file when it has changed, as PutHosts and RemoveHosts. A file that is wrong leaves everything as it is.

hosts:
  - hostname: host-1
    cpu: 32             # cores; gpu: devices; memory, disk: MB; slack_cpu: cores for revocable tasks
    memory: 131072
    ports: 31000-32000
    pool: shared
    draining: false
    labels: {rack: r1}
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
import yaml
from google.protobuf.message import Message

from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2

from .. import limits
from ..rules.hosts import Host
from ..state import State
from ..wire import host_rpcs
from ..wire.rpcs import RpcError
from .request_handler import RequestHandler, Unavailable

log = structlog.get_logger()

AMOUNTS = ("cpu", "gpu", "memory", "disk", "slack_cpu")
KNOWN = frozenset(("hostname", *AMOUNTS, "ports", "pool", "draining", "labels"))


class HostsFileError(ValueError):
    """The file does not describe hosts. The message names the place."""


def read_hosts(text: str) -> dict[str, log_pb2.Host]:
    """Hosts by name. Raises HostsFileError."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise HostsFileError(f"no YAML: {str(error)[:300]}") from None
    if not isinstance(document, dict) or set(document) != {"hosts"} or not isinstance(document["hosts"], list):
        raise HostsFileError("expected a list `hosts`, and nothing else")
    hosts: dict[str, log_pb2.Host] = {}
    for number, entry in enumerate(document["hosts"]):
        where = f"hosts[{number}]"
        host = _host(where, entry)
        if host.hostname in hosts:
            raise HostsFileError(f"{where}: {host.hostname} is there twice")
        hosts[host.hostname] = host
    return hosts


def _host(where: str, entry: Any) -> log_pb2.Host:
    if not isinstance(entry, dict) or not isinstance(entry.get("hostname"), str):
        raise HostsFileError(f"{where}: expected a hostname")
    if unknown := sorted(map(str, entry.keys() - KNOWN)):
        raise HostsFileError(f"{where}: unknown {', '.join(unknown)[:200]}")
    amounts = [_typed(where, entry, name, (int, float), 0.0) for name in AMOUNTS]
    labels = _typed(where, entry, "labels", (dict,), {})
    first, last = _ports(where, _typed(where, entry, "ports", (str,), ""))
    try:
        host = log_pb2.Host(
            hostname=entry["hostname"], capacity=amounts[:4], slack_cpu=amounts[4],
            pool=_typed(where, entry, "pool", (str,), ""), draining=_typed(where, entry, "draining", (bool,), False),
            labels=[log_pb2.HostLabel(key=str(key), value=str(value)) for key, value in labels.items()],
            first_port=first, last_port=last,
        )  # fmt: skip
        host_rpcs.check_host(host)
    except (RpcError, ValueError, OverflowError) as error:
        raise HostsFileError(f"{where}: {error}") from None
    return host


def _typed(where: str, entry: dict[str, Any], name: str, kinds: tuple[type, ...], default: Any) -> Any:
    value = entry.get(name, default)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise HostsFileError(
            f"{where}: {name} is {value!r:.100}, expected {' or '.join(one.__name__ for one in kinds)}"
        )
    return value


def _ports(where: str, text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not text:
        return 0, 0
    if not (dash and first.isdecimal() and last.isdecimal() and len(text) <= 11):
        raise HostsFileError(f"{where}: ports is {text!r:.100}, expected FIRST-LAST")
    return int(first), int(last)


async def follow(path: Path, handler: RequestHandler, state: Callable[[], State]) -> None:
    """Apply the file whenever it has changed, while this process leads. Runs without end."""
    complained: str | None = None
    while True:
        if handler.leader is not None:
            try:
                wanted = await asyncio.to_thread(_read, path)
                if await _apply(handler, state(), wanted):
                    log.info("hosts file applied", file=str(path), hosts=len(wanted))
                complained = None
            except (HostsFileError, OSError, UnicodeDecodeError, Unavailable, RpcError) as error:
                if complained != str(error):
                    complained = str(error)
                    log.error("hosts file not applied; the hosts stay as they are", file=str(path), error=complained)
        await asyncio.sleep(limits.HOSTS_FILE_S)


def _read(path: Path) -> dict[str, log_pb2.Host]:
    with path.open("rb") as file:
        payload = file.read(limits.HOSTS_FILE_BYTES + 1)
    if len(payload) > limits.HOSTS_FILE_BYTES:
        raise HostsFileError(f"larger than {limits.HOSTS_FILE_BYTES} bytes")
    return read_hosts(payload.decode())


async def _apply(handler: RequestHandler, state: State, wanted: dict[str, log_pb2.Host]) -> bool:
    """Returns whether something was different."""
    known: dict[str, Host] = {name: host for name, host in state.known_hosts.items() if not host.shared_with}
    put = [host for name, host in wanted.items() if known.get(name) != host_rpcs.host_of(host)]
    removed = [name for name in known if name not in wanted]
    requests: dict[str, Message] = {}
    if put:
        requests["PutHosts"] = hosts_pb2.PutHostsRequest(hosts=put)
    if removed:
        requests["RemoveHosts"] = hosts_pb2.RemoveHostsRequest(hostnames=removed)
    for name, request in requests.items():
        await handler.answer(name, host_rpcs.RPCS[name], request)
    return bool(requests)
