"""What needs an extra of the distribution says which, before it starts anything."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from remuda import extras
from remuda.errors import UserError
from remuda.local import run as running
from remuda.local.run import run
from remuda.local.system import Layout
from remuda.local.up import up
from remuda.simulated_rm.load.plot import check_file
from remuda_bus import tracing

ENDPOINT = "http://127.0.0.1:4318"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without extras. No service may start in it."""
    modules = {module for of in extras.MODULES.values() for module in of}
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else find(name))
    monkeypatch.setattr(running, "run_process", None)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("service", "assignments", "said"),
    [
        (
            "kubernetes",
            (),
            r"service kubernetes needs aiohttp: pip install 'remuda-scheduler\[kubernetes\]'",
        ),
        ("resmgr", (), r"service resmgr needs numpy: pip install 'remuda-scheduler\[peloton\]'"),
        ("placement", (), r"service placement needs numpy: pip install 'remuda-scheduler\[peloton\]'"),
        (
            "core",
            (f"traces.endpoint={ENDPOINT}",),
            rf"core: traces.endpoint {ENDPOINT} needs opentel.*-scheduler\[telemetry\]'",
        ),
    ],
)
def test_a_service_names_its_extra(service: str, assignments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run(service, None, {}, None, assignments)


@pytest.mark.usefixtures("bare")
def test_a_plot_names_its_extra(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--plot .*plot\.png needs matplotlib: pip install 'remuda-scheduler\[plot\]'"):
        check_file(tmp_path / "plot.png")


@pytest.mark.usefixtures("bare")
def test_a_system_with_peloton_names_its_extra(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'remuda-scheduler\[peloton\]'"):
        up(Layout(tmp_path / "data", grpc_port=0, web_port=0, peloton_port=0, peloton_engines=1), plain=True)
    assert not (tmp_path / "data").exists()


def test_traces_of_a_program_name_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "remuda_bus.tracing.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delattr(tracing, "otel", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'remuda-scheduler\[telemetry\]'"):
        tracing.setup("my-rm", endpoint=ENDPOINT)


def test_the_distribution_has_these_extras() -> None:
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
    assert {*extras.MODULES, "dev"} == set(project["optional-dependencies"])


@pytest.mark.parametrize("extra", extras.MODULES)
def test_with_all_of_them_nothing_is_missing(extra: str) -> None:
    extras.need(extra, "a test")
