"""A control plane with the default scheduler. The controller of volumes does not run: tests play its part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integrations.kubernetes.tests.control_plane.processes import ControlPlane, programs


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if programs() is None:
        pytest.skip("no control plane: run `make kubernetes`")
    with ControlPlane(tmp_path_factory.mktemp("plane"), scheduler=True, controllers="namespace") as running:
        yield running
