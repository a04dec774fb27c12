"""Credentials of a client of the Kubernetes API: where the API server is, and what identifies the client.

They come from the service account of this pod, or from a kubeconfig: server, CA, and the user's token, token file,
client certificate or command. Tokens of files and of commands are renewed: in a cluster they expire.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from remuda_kubernetes import limits

Entry = dict[str, Any]


def read_kubeconfig(file: Path, context: str = "") -> Credentials:
    """The credentials of a context of the file. `context`: its name; empty: the file's current context.
    Raises a ValueError that names the field."""
    from ruamel.yaml import YAML  # a pod has no such file, so it does not load YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe").load(file.read_text())
    except (OSError, YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{file}: expected a kubeconfig")  # noqa: TRY004 - of the file
    name = context or _text(document, "current-context", str(file))
    chosen = _named(document, "contexts", name, "context", file)
    cluster = _named(document, "clusters", _text(chosen, "cluster", f"{file}: context {name}"), "cluster", file)
    user = _named(document, "users", str(chosen.get("user", "")), "user", file) if chosen.get("user") else {}
    server = _text(cluster, "server", f"{file}: cluster of {name}").rstrip("/")
    folder = file.parent
    tls = None
    if server.startswith("https:"):
        tls = tls_context(
            _data(cluster, "certificate-authority", folder),
            _data(user, "client-certificate", folder),
            _data(user, "client-key", folder),
            verify=not cluster.get("insecure-skip-tls-verify", False),
        )
    return Credentials(server, tls, _tokens(user, folder), str(chosen.get("namespace") or "default"))


def _tokens(user: Entry, folder: Path) -> TokenSource:
    if user.get("token"):
        return FixedToken(str(user["token"]))
    if user.get("tokenFile"):
        return FileToken(folder / str(user["tokenFile"]))
    command = user.get("exec")
    if isinstance(command, dict):
        environment = {str(one["name"]): str(one["value"]) for one in command.get("env") or []}
        name = _text(command, "command", "exec")
        # A relative path that has a folder is meant from the folder of the file; a bare name is looked up in PATH.
        path = str(folder / name) if "/" in name else name
        arguments = [str(one) for one in command.get("args") or []]
        return CommandToken(
            path, arguments, environment, str(command.get("apiVersion", "client.authentication.k8s.io/v1"))
        )
    return FixedToken("")


def _named(document: Entry, section: str, name: str, kind: str, file: Path) -> Entry:
    for entry in document.get(section) or []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: Entry = entry[kind]
            return found
    raise ValueError(f"{file}: {section}: expected an entry {name!r}")


def _text(entry: Entry, field: str, where: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: {field}={value!r}: expected a text")
    return value


def _data(entry: Entry, field: str, folder: Path) -> bytes | None:
    """The bytes of a certificate or key: within the file, or in a file of its own."""
    if entry.get(f"{field}-data"):
        try:
            return base64.b64decode(entry[f"{field}-data"], validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ValueError(f"{field}-data: expected base64 ({error})") from None
    if entry.get(field):
        try:
            return (folder / str(entry[field])).read_bytes()
        except OSError as error:
            raise ValueError(f"{field}: {error}") from None
    return None


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class TokenSource(Protocol):
    async def token(self) -> str:
        """The token to send; empty: none. Raises OSError, ValueError."""
        ...

    def forget(self) -> None:
        """The API server has refused the token: the next one is a new one, if there are new ones."""
        ...


class FixedToken:
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token

    def forget(self) -> None:
        pass


class FileToken:
    """The kubelet replaces the file before its token expires."""

    def __init__(self, file: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._now = now
        self._token = ""
        self._read_at = float("-inf")

    async def token(self) -> str:
        if self._now() - self._read_at >= limits.TOKEN_FILE_READ_EVERY_S:
            self._token = self._file.read_text().strip()
            self._read_at = self._now()
        return self._token

    def forget(self) -> None:
        self._read_at = float("-inf")


class CommandToken:
    """The token that a command prints as an ExecCredential (`users[].user.exec` of a kubeconfig)."""

    def __init__(self, command: str, arguments: list[str], environment: Mapping[str, str], api_version: str) -> None:
        self._command = [command, *arguments]
        self._environment = environment
        self._api_version = api_version
        self._token = ""
        self._expires_at = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        async with self._lock:
            if not self._token or time.time() >= self._expires_at - limits.TOKEN_RENEWED_BEFORE_S:
                await self._run()
            return self._token

    def forget(self) -> None:
        self._token = ""

    async def _run(self) -> None:
        asked = {"apiVersion": self._api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
        process = await asyncio.create_subprocess_exec(
            *self._command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(limits.COMMAND_WITHIN_S):
                printed, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise OSError(f"{self._command[0]}: no credentials within {limits.COMMAND_WITHIN_S:g} s") from None
        if process.returncode:
            raise OSError(f"{self._command[0]}: exit code {process.returncode}")
        self._token, self._expires_at = _credential(printed, self._command[0])


def _credential(printed: bytes, command: str) -> tuple[str, float]:
    try:
        status = json.loads(printed)["status"]
        token = status["token"]
        expires = status.get("expirationTimestamp")
        expires_at = datetime.fromisoformat(expires).timestamp() if expires else float("inf")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{command}: expected an ExecCredential with status.token ({error!r})") from None
    if not isinstance(token, str) or not token:
        raise ValueError(f"{command}: expected an ExecCredential with status.token, found {token!r}")
    return token, expires_at


@dataclass(frozen=True, slots=True)
class Credentials:
    """The way to an API server. `server`: the URL of the API server. `tls`: None for a server without TLS. `namespace`:
    that of the client."""

    server: str
    tls: ssl.SSLContext | None
    tokens: TokenSource
    namespace: str = "default"


def in_cluster(environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Credentials:
    """The credentials of the service account of this pod. Raises ValueError outside of a cluster."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (folder / "token").is_file():
        raise ValueError(
            "kubernetes.kubeconfig: expected a file: this is no pod with a service account (KUBERNETES_SERVICE_HOST)"
        )
    namespace = folder / "namespace"
    return Credentials(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls_context((folder / "ca.crt").read_bytes()),
        FileToken(folder / "token"),
        namespace.read_text().strip() if namespace.is_file() else "default",
    )


def tls_context(
    ca: bytes | None, certificate: bytes | None = None, key: bytes | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """A TLS context for a client of the API server. Raises ValueError when a certificate or key is malformed."""
    try:
        context = ssl.create_default_context(cadata=ca.decode() if ca else None)
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None and key is not None:
            _load(context, certificate, key)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"certificate or key of the Kubernetes API: {error}") from None
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:  # readable by this user only; OpenSSL reads files only
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
