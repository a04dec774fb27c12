"""Kubeconfig files: server, CA, and the user's token, token file, client certificate or command."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from remuda_kubernetes.api.credentials import (
    CommandToken,
    Credentials,
    FileToken,
    FixedToken,
    TokenSource,
    tls_context,
)

Entry = dict[str, Any]


def read_kubeconfig(file: Path, context: str = "") -> Credentials:
    """`context`: the name of one in the file; empty: the file's current one. Raises ValueError that names the field."""
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
