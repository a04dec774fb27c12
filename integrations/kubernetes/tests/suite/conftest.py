"""One control plane of each kind for all cases; each case has services and an empty cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integrations.kubernetes.tests.control_plane.existing import ExistingPlane, Plane, chosen
from integrations.kubernetes.tests.control_plane.processes import ControlPlane, programs
from integrations.kubernetes.tests.suite.modes import Mode, apply_rights, extended_plane
from remuda_kubernetes import limits


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """That of `make kubernetes-suite`, or one of our own."""
    folder, kubeconfig = tmp_path_factory.mktemp("plane"), chosen()
    if kubeconfig is None and programs() is None:
        pytest.skip("no control plane: run `make kubernetes`")
    with ControlPlane(folder) if kubeconfig is None else ExistingPlane(kubeconfig, folder) as running:
        apply_rights(running, "scheduler", "plugin", "webhook")
        yield running


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A control plane whose default scheduler asks the extender; that of `make kubernetes-suite`, if it knows gates."""
    if chosen() is not None:
        existing: ExistingPlane = request.getfixturevalue("plane")
        if existing.minor < limits.GATES_SINCE:
            pytest.skip("without gates, its default scheduler would have to be configured")
        yield existing
        return
    with extended_plane(tmp_path_factory.mktemp("extended")) as running:
        yield running


@pytest.fixture(params=["shim", "plugin"])
def mode(request: pytest.FixtureRequest) -> Mode:
    is_plugin = request.param == "plugin"
    return Mode(request.getfixturevalue("extended" if is_plugin else "plane"), is_plugin)
