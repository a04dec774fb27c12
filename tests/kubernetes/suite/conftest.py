"""One control plane for all cases; each case has services and an empty cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes.control_plane.processes import ControlPlane, programs


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if programs() is None:
        pytest.skip("no control plane: run `make kubernetes`")
    with ControlPlane(tmp_path_factory.mktemp("plane")) as running:
        yield running
