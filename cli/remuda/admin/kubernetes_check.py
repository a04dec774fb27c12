"""`remuda kubernetes check`: what an installation on Kubernetes lacks. Reads the cluster, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.markup import escape

from remuda_kubernetes.api.client import ApiError, Client
from remuda_kubernetes.api.credentials import Credentials, in_cluster, read_kubeconfig
from remuda_kubernetes.shell.check import Finding, Mode, check

from .. import extras
from ..errors import UserError
from ..terminal import event_loop
from ..terminal.output import console

T = TypeVar("T")
_MARKS: Final = {"good": "[green]good[/]   ", "warning": "[yellow]warning[/]", "problem": "[red]problem[/]"}


def check_cluster(kubeconfig: Path | None, context: str, mode: Mode, account: str, as_json: bool) -> None:
    """Print the findings. Raises UserError if one is a problem."""
    extras.need("kubernetes", "kubernetes check")
    namespace, _, name = account.partition("/")
    if not namespace or not name:
        raise UserError(f"--account {account}: expected NAMESPACE/NAME")
    credentials = credentials_of(kubeconfig, context)
    found = called(credentials, lambda: _found(credentials, mode, namespace, name))
    problems = sum(one.level == "problem" for one in found)
    if as_json:
        print(json.dumps({"server": credentials.server, "findings": [asdict(one) for one in found]}))
    for one in () if as_json else found:
        remedy = f": {escape(one.remedy)}" if one.remedy else ""
        console.print(f"{_MARKS[one.level]} {escape(one.what)}{remedy}", soft_wrap=True)
    if problems:
        raise UserError(f"{credentials.server}: {problems} problem{'s' if problems != 1 else ''}")


def credentials_of(kubeconfig: Path | None, context: str = "") -> Credentials:
    """None: those of this pod. Raises UserError."""
    try:
        return read_kubeconfig(kubeconfig, context) if kubeconfig is not None else in_cluster()
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from None


def called(credentials: Credentials, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs calls of the Kubernetes API. Raises UserError with its address."""
    try:
        return event_loop.run(work)
    except ApiError as error:
        raise UserError(f"{credentials.server}: {error}") from None


async def _found(credentials: Credentials, mode: Mode, namespace: str, account: str) -> list[Finding]:
    async with Client(credentials) as client:
        return [one async for one in check(client, mode, namespace, account)]
