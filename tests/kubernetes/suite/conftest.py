"""One control plane for all cases; each case has services and an empty cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.kubernetes.control_plane.existing import ExistingPlane, Plane, chosen
from tests.kubernetes.control_plane.processes import ControlPlane, programs

RIGHTS = YAML(typ="safe")
DEPLOY = Path(__file__).parents[3] / "deploy/kubernetes"
RIGHTS_FILES = (DEPLOY / "scheduler/rights.yaml", DEPLOY / "plugin/rights.yaml", DEPLOY / "webhook/rights.yaml")


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """That of `make kubernetes-suite`, or one of our own."""
    folder, kubeconfig = tmp_path_factory.mktemp("plane"), chosen()
    if kubeconfig is None and programs() is None:
        pytest.skip("no control plane: run `make kubernetes`")
    with ControlPlane(folder) if kubeconfig is None else ExistingPlane(kubeconfig, folder) as running:
        for file in RIGHTS_FILES:
            for manifest in RIGHTS.load_all(file):
                running.apply(manifest)
        yield running
