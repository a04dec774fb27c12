"""Credentials of a client of the Kubernetes API: where the API server is, and what identifies the client.

Tokens of files and of commands are renewed: in a cluster they expire.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from remuda_kubernetes import limits

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
    """`server`: the URL of the API server. `tls`: None for a server without TLS. `namespace`: that of the client."""

    server: str
    tls: ssl.SSLContext | None
    tokens: TokenSource
    namespace: str = "default"


def in_cluster(environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Credentials:
    """Those of the service account of this pod. Raises ValueError outside of a cluster."""
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
    """Raises ValueError when a certificate or key is malformed."""
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
