"""A real LDAP server for tests: slapd of the distribution, with a few users and groups."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remuda.embedded.nats_server import free_port

ADMIN, PASSWORD = "cn=admin,dc=test", "correct horse"
SLAPD = "/usr/sbin/slapd"
SCHEMAS = Path("/etc/ldap/schema")
MODULES = Path("/usr/lib/ldap")

CONFIGURATION = """
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/nis.schema
include {schemas}/inetorgperson.schema
modulepath {modules}
moduleload back_mdb
pidfile {folder}/slapd.pid
argsfile {folder}/slapd.args
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/ca.pem
TLSCertificateKeyFile {folder}/key.pem
database mdb
suffix "dc=test"
rootdn "{admin}"
rootpw "{password}"
directory {folder}/db
access to * by users read by anonymous auth
"""

ENTRIES = """
dn: dc=test
objectClass: dcObject
objectClass: organization
dc: test
o: test

dn: ou=people,dc=test
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=test
objectClass: organizationalUnit
ou: groups
"""


def user(uid: str, gid: int | None = 100) -> str:
    kinds = ["inetOrgPerson"] if gid is None else ["inetOrgPerson", "posixAccount"]
    numbers = "" if gid is None else f"uidNumber: 1000\ngidNumber: {gid}\nhomeDirectory: /\n"
    classes = "".join(f"objectClass: {kind}\n" for kind in kinds)
    dn = uid.replace("*", "\\2a").replace(",", "\\,")
    return f"\ndn: uid={dn},ou=people,dc=test\n{classes}uid: {uid}\ncn: {uid}\nsn: {uid}\n{numbers}"


def posix_group(cn: str, gid: int, *members: str) -> str:
    lines = "".join(f"memberUid: {member}\n" for member in members)
    return f"\ndn: cn={cn},ou=groups,dc=test\nobjectClass: posixGroup\ncn: {cn}\ngidNumber: {gid}\n{lines}"


def group_of_names(cn: str, *members: str) -> str:
    lines = "".join(f"member: {member}\n" for member in members)
    return f"\ndn: cn={cn},ou=groups,dc=test\nobjectClass: groupOfNames\ncn: {cn}\n{lines}"


class Slapd:
    def __init__(self, folder: Path, port: int, tls_port: int) -> None:
        self.url, self.tls_url = f"ldap://localhost:{port}", f"ldaps://localhost:{tls_port}"
        self.ca = folder / "ca.pem"
        self._ports = (port, tls_port)

    def answers(self) -> bool:
        try:
            for port in self._ports:
                socket.create_connection(("localhost", port), 1).close()
        except OSError:
            return False
        return True


@contextmanager
def running_slapd(folder: Path, entries: str) -> Iterator[Slapd]:
    """Skips the test where slapd is not installed."""
    if not Path(SLAPD).exists() or not shutil.which("openssl"):
        pytest.skip("no `slapd` and `openssl` to test LDAP with: apt-get install slapd openssl")
    (folder / "db").mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "ca.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    configuration = folder / "slapd.conf"
    configuration.write_text(
        CONFIGURATION.format(schemas=SCHEMAS, modules=MODULES, folder=folder, admin=ADMIN, password=PASSWORD)
    )
    subprocess.run(
        ["/usr/sbin/slapadd", "-q", "-f", configuration], input=ENTRIES + entries, text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    server = Slapd(folder, free_port("127.0.0.1"), free_port("127.0.0.1"))
    command = [SLAPD, "-d", "0", "-f", str(configuration), "-h", f"{server.url}/ {server.tls_url}/"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not server.answers():
            assert process.poll() is None and time.monotonic() < deadline, "slapd does not start"
            time.sleep(0.02)
        yield server
    finally:
        process.terminate()
        process.wait(10)
