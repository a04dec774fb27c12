"""`remuda cluster-keys`: the keys and certificates of an installation, as Secrets and ConfigMaps of its namespace.

The Secret `keys` holds the directory that `remuda keys` makes, with certificates. It is read and written first, and all
other objects are copies of its parts. So the command can be interrupted and run again; a second run changes nothing.
"""

from __future__ import annotations

import base64
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from remuda_bus import subjects
from remuda_bus.retry import RetryPolicy, retry
from remuda_kubernetes.api.client import Away, Client, Conflict, NotFound
from remuda_kubernetes.api.credentials import Credentials
from remuda_operations.operators import Operator, operator_in

from .. import limits
from ..access.certificates import Certificates
from ..access.keys import ACCOUNTS, SEED, Keys
from ..access.permissions import ANYONE, FRONT_ENDS, MONITOR, ROLES
from ..errors import UserError
from .kubernetes_check import called, credentials_of

ARCHIVE, FILES = "keys", "files.json"
TLS = "tls"  # in the directory of keys, beside those of roles
PASSWORDS = "passwords"
Objects = dict[tuple[str, str], dict[str, bytes]]  # by kind of resource and name


@dataclass(frozen=True, slots=True)
class Wanted:
    """The RMs, operators and clients that an installation on Kubernetes gives access. Keys of all others are
    deleted.

    `front_ends`: in whose names each of them acts. `clients`: of gRPC and of Peloton, by the names in their
    certificates; None: no certificates at all. `passwords`: Secrets with one. `domain`: of the cluster's services.
    """

    rms: tuple[str, ...] = ()
    operators: tuple[Operator, ...] = ()
    front_ends: Mapping[str, Sequence[Operator | str]] = field(default_factory=dict)
    clients: tuple[str, ...] | None = ()
    passwords: tuple[str, ...] = ()
    domain: str = "cluster.local"


def cluster_keys(wanted: Wanted, kubeconfig: Path | None, namespace: str | None) -> None:
    """Makes the keys of an installation on Kubernetes. Raises UserError, also for keys that someone else has made."""
    credentials = credentials_of(kubeconfig)
    changed = called(credentials, lambda: apply(credentials, namespace or credentials.namespace, wanted))
    print(f"{', '.join(changed)} written" if changed else "all keys and certificates exist")


async def apply(credentials: Credentials, namespace: str, wanted: Wanted) -> list[str]:
    """Returns the names of the objects that it has written."""
    policy = RetryPolicy(
        limits.CLUSTER_KEYS_RETRY_S, limits.CLUSTER_KEYS_LONGEST_PAUSE_S, give_up_after_s=limits.CLUSTER_KEYS_WITHIN_S
    )

    async def once() -> list[str]:
        async with Client(credentials) as client:
            return await _applied(_Cluster(client, namespace), wanted)

    # Conflict: another run has been faster, and its keys count.
    return await retry(once, policy, on=(Away, Conflict), report=lambda error: print(f"retrying: {error}"))


async def _applied(cluster: _Cluster, wanted: Wanted) -> list[str]:
    archive = await cluster.read("secrets", ARCHIVE)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        if archive is not None:
            unpack(archive[FILES], directory)
        bring_up_to_date(directory, cluster.namespace, wanted)
        files, objects = packed(directory), objects_of(directory, wanted)
    if archive is None:
        await _check_unused(cluster, objects)
    everything: Objects = {("secrets", ARCHIVE): {FILES: files}, **objects}
    return [name for (kind, name), data in everything.items() if await cluster.write(kind, name, data)]


async def _check_unused(cluster: _Cluster, objects: Objects) -> None:
    """Keys that are in use already were made in another way, and are kept there."""
    used = [name for kind, name in objects if await cluster.read(kind, name) is not None]
    if used:
        raise UserError(
            f"namespace {cluster.namespace}: expected no keys, or the secret {ARCHIVE} with all of them; found "
            f"{', '.join(used)}. To use them, set keys.create=false; or delete them"
        )


class _Cluster:
    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    async def read(self, kind: str, name: str) -> dict[str, bytes] | None:
        found = await self._found(kind, name)
        return None if found is None else _data(kind, found)

    async def write(self, kind: str, name: str, data: Mapping[str, bytes]) -> bool:
        """Write the object. Return whether it differed from these data, or was not there. Raises Conflict when the
        object has changed meanwhile."""
        found = await self._found(kind, name)
        if found is not None and _data(kind, found) == data:
            return False
        encoded = {
            key: base64.b64encode(value).decode() if kind == "secrets" else value.decode()
            for key, value in data.items()
        }
        body: dict[str, Any] = {"metadata": {"name": name}} if found is None else found
        body["data"] = encoded
        if found is None:
            await self._client.create(self._path(kind), body)
        else:
            await self._client.call("PUT", f"{self._path(kind)}/{name}", body)
        return True

    async def _found(self, kind: str, name: str) -> dict[str, Any] | None:
        try:
            content = await self._client.call("GET", f"{self._path(kind)}/{name}")
        except NotFound:
            return None
        return msgspec.json.decode(content, type=dict[str, Any])

    def _path(self, kind: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}"


def _data(kind: str, found: Mapping[str, Any]) -> dict[str, bytes]:
    data: Mapping[str, str] = found.get("data") or {}
    return {key: base64.b64decode(value) if kind == "secrets" else value.encode() for key, value in data.items()}


# The directory


def bring_up_to_date(directory: Path, namespace: str, wanted: Wanted) -> None:
    """Makes what is missing in a directory of keys, and removes the keys of RMs and operators who are not wanted."""
    keys = Keys(directory)
    keys.ensure_roles()
    existing = set(keys.rms())
    for rm in sorted(existing - set(wanted.rms)):
        keys.remove_rm(rm)
    for rm in sorted(set(wanted.rms) - existing):
        keys.add_rm(rm)
    groups = {one.name: one.groups for one in keys.operators()}
    named = {one.name for one in wanted.operators}
    for name in sorted(groups.keys() - named):
        keys.remove_operator(Operator(name))
    for operator in wanted.operators:
        if operator.name not in groups:
            keys.add_operator(operator)
        elif groups[operator.name] != operator.groups:
            keys.set_groups(operator)
    for front_end in FRONT_ENDS:
        keys.set_acts_as(front_end, wanted.front_ends.get(front_end, ()))
    if wanted.clients is not None:
        certificates = Certificates(directory / TLS, datetime.now(UTC))
        certificates.ensure_ca()
        for name, hosts in _hosts(namespace, wanted.domain).items():
            certificates.ensure(name, name, hosts)
        for client in ("placement", *wanted.clients):
            certificates.ensure(f"client-{client}", client, [client])
    (directory / PASSWORDS).mkdir(exist_ok=True)
    for name in wanted.passwords:
        file = directory / PASSWORDS / name
        if not file.exists():
            file.write_text(secrets.token_urlsafe(18))


def _hosts(namespace: str, domain: str) -> dict[str, list[str]]:
    """The names under which clients reach a server, for each certificate of servers."""
    here = ["localhost", "127.0.0.1"]
    found = {
        name: [*here, name, f"{name}.{namespace}", f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.{domain}"]
        for name in ("nats", "grpc", "resmgr")
    }
    found["nats"] += [f"*.nats.{namespace}.svc", f"*.nats.{namespace}.svc.{domain}"]
    return found


def unpack(files: bytes, directory: Path) -> None:
    """Writes the files of a text that `packed` has made. Raises msgspec.MsgspecError."""
    for path, text in msgspec.json.decode(files, type=dict[str, str]).items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def packed(directory: Path) -> bytes:
    """Returns the texts of all files by their paths, as JSON; without what is made from the rest."""
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    texts = {str(file.relative_to(directory)): file.read_text() for file in files}
    return msgspec.json.format(msgspec.json.encode({name: texts[name] for name in texts if name != str(ACCOUNTS)}))


# The objects


def objects_of(directory: Path, wanted: Wanted) -> Objects:
    """Returns the objects that pods mount, by the names that their manifests have. Raises UserError for two
    operators of one name there.
    """
    found: Objects = {("configmaps", "nats-accounts"): {"accounts.conf": (directory / ACCOUNTS).read_bytes()}}
    for role in (*ROLES, MONITOR):
        found["secrets", f"key-{role}"] = {"seed": (directory / f"{role}{SEED}").read_bytes()}
    for rm in wanted.rms:
        seed = directory / "rms" / f"{subjects.key_of(rm)}{SEED}"
        found["secrets", f"key-rm-{rm}"] = {"seed": seed.read_bytes()}
    found["secrets", "operators"] = dict(_operators(directory, wanted.operators))
    for name in wanted.passwords:
        found["secrets", name] = {"password": (directory / PASSWORDS / name).read_bytes()}
    if wanted.clients is not None:
        tls = directory / TLS
        found["configmaps", "ca"] = _files(tls, "ca.pem")
        found["secrets", "nats-tls"] = _files(tls, "ca.pem", server_of="nats")
        found["secrets", "grpc-tls"] = _files(tls, "grpc.pem", "grpc.key")
        found["secrets", "resmgr-tls"] = _files(tls, "resmgr.pem", "resmgr.key")
        found["secrets", "placement-tls"] = _files(tls, "client-placement.pem", "client-placement.key")
        for client in wanted.clients:
            found["secrets", f"client-{client}"] = _files(tls, "ca.pem", f"client-{client}.pem", f"client-{client}.key")
    return found


def _files(tls: Path, *names: str, server_of: str = "") -> dict[str, bytes]:
    """`server_of`: its certificate, as server.pem and server.key."""
    found = {name: (tls / name).read_bytes() for name in names}
    if server_of:
        found |= {f"server.{end}": (tls / f"{server_of}.{end}").read_bytes() for end in ("pem", "key")}
    return found


def _operators(directory: Path, operators: Sequence[Operator]) -> Iterator[tuple[str, bytes]]:
    """A key of a Secret has letters, digits, `-`, `_` and `.` only: alice@example.com is alice_example.com.seed."""
    named: dict[str, str] = {}
    for operator in operators:
        name = "".join(one if one.isascii() and (one.isalnum() or one in "-_.") else "_" for one in operator.name)
        if name in named:
            raise UserError(f"operators {named[name]} and {operator.name}: both would be {name}{SEED} in the secret")
        named[name] = operator.name
        yield f"{name}{SEED}", (directory / "operators" / f"{operator.token}{SEED}").read_bytes()


def parsed(
    rms: Sequence[str], operators: Sequence[str], front_ends: Sequence[str], clients: Sequence[str] | None,
    passwords: Sequence[str], domain: str,
) -> Wanted:  # fmt: skip
    """Reads the options of the command: `operators` as NAME or NAME+GROUP+GROUP, `front_ends` as
    grpc=OPERATOR,OPERATOR. Raises UserError.
    """
    try:
        for rm in rms:
            _check_label("rm", subjects.check_rm_id(rm))
        for client in clients or ():
            _check_label("client", client)
        acts_as = {}
        for one in front_ends:
            name, _, listed = one.partition("=")
            if name not in FRONT_ENDS:
                raise ValueError(f"front end {name!r}: expected {' or '.join(FRONT_ENDS)}")
            named = [it for it in listed.split(",") if it]
            acts_as[name] = [it if it == ANYONE else operator_in(it) for it in named]
        return Wanted(
            tuple(rms), tuple(map(operator_in, operators)), acts_as,
            None if clients is None else tuple(clients), tuple(passwords), domain,
        )  # fmt: skip
    except ValueError as error:
        raise UserError(str(error)) from None


def _check_label(what: str, name: str) -> None:
    """Raises ValueError for a name that cannot be a part of the name of a Secret."""
    if not (name.isascii() and name.lower() == name and name.replace("-", "").replace(".", "").isalnum()):
        raise ValueError(
            f"{what} {name!r}: expected lower-case letters, digits, `-` and `.`, as names of Secrets have them"
        )
