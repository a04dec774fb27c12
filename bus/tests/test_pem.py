"""The files of a server with TLS."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from remuda_bus.settings import server_pem


def test_files_are_read_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("-----BEGIN CERTIFICATE-----\n")
    bad.write_text("none")
    assert server_pem("grpc", SimpleNamespace(certificate=None, key=None, client_ca=None)) is None
    pem = server_pem("grpc", SimpleNamespace(certificate=good, key=good, client_ca=None))
    assert pem == (good.read_bytes(), good.read_bytes(), None)
    for wrong, why in ((bad, "expected a file in PEM form"), (tmp_path / "none", "No such file")):
        for name in ("key", "certificate", "client_ca"):
            files = {"certificate": good, "key": good, "client_ca": good, name: wrong}
            with pytest.raises(ValueError, match=rf"resmgr\.{name} .*{why}"):
                server_pem("resmgr", SimpleNamespace(**files))
