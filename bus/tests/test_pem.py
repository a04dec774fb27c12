"""The files of a server with TLS, and the addresses of servers."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from remuda_bus.settings import server_pem, shown_host


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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]"])
def test_all_addresses_are_shown_as_the_name_of_the_machine(host: str) -> None:
    assert shown_host(host) == socket.gethostname()
    assert [shown_host(one) for one in ("127.0.0.1", "::1", "example.com")] == ["127.0.0.1", "::1", "example.com"]
