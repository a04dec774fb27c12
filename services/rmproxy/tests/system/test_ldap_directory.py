"""Groups from a real LDAP server, and what is said where it does not answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from remuda_rmproxy.groups.resolution import DirectoryEntry, DirectoryError, UnusableAnswer, groups_of
from services.rmproxy.tests.slapd import ADMIN, PASSWORD, Slapd, group_of_names, posix_group, running_slapd, user

pytest.importorskip("ldap3", reason="an environment that is older than its lock")
from remuda_rmproxy.groups.ldap_directory import LdapDirectory, LdapSettings

ALICE, STAFF = "uid=alice,ou=people,dc=test", "cn=staff,ou=groups,dc=test"
PEOPLE = (
    user("alice") + user("bob", 200) + user("carol", None) + user("dave", 999) + user("erin", 300)
    + user("a*ce") + user("j,d")
    + posix_group("users", 100) + posix_group("ops", 200, "alice", "bob") + posix_group("Domain Users", 300)
    + posix_group("dev", 400, "alice", "a*ce")
    + group_of_names("staff", ALICE, "uid=carol,ou=people,dc=test", "uid=j\\,d,ou=people,dc=test")
    + group_of_names("everybody", STAFF)
    + group_of_names("all", "cn=everybody,ou=groups,dc=test", "cn=all,ou=groups,dc=test")
)  # fmt: skip


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    with running_slapd(tmp_path_factory.mktemp("slapd"), PEOPLE) as server:
        yield server


@pytest.fixture
def settings(slapd: Slapd) -> LdapSettings:
    return LdapSettings(
        (slapd.url,), "ou=people,dc=test", "ou=groups,dc=test", ca=slapd.ca, bind_dn=ADMIN, password=PASSWORD
    )


def test_the_primary_group_comes_first(settings: LdapSettings) -> None:
    look_up = LdapDirectory(settings).look_up
    assert look_up("alice") == DirectoryEntry("users", ["dev", "ops", "staff"])
    assert groups_of("bob", look_up("bob")) == ("ops",)
    assert look_up("carol") == DirectoryEntry(None, ["staff"])
    assert look_up("j,d") == DirectoryEntry("users", ["staff"])  # the name of its entry has an escaped comma


def test_users_whom_the_directory_does_not_know(settings: LdapSettings) -> None:
    for name in ("nobody", "*", "a*", "alice)(uid=*", "\\2a", "", "\0", "alice\0", "é" * 200):
        assert LdapDirectory(settings).look_up(name) is None, name
    assert LdapDirectory(settings).look_up("a*ce") == DirectoryEntry("users", ["dev"])  # and not alice


def test_answers_that_cannot_be_used(settings: LdapSettings) -> None:
    with pytest.raises(UnusableAnswer, match="0 groups with gidNumber '999', that of the primary group of user 'dave'"):
        LdapDirectory(settings).look_up("dave")
    with pytest.raises(UnusableAnswer, match="primary group 'Domain Users' of user 'erin', expected a letter or _"):
        groups_of("erin", LdapDirectory(settings).look_up("erin"))
    without = LdapDirectory(replace(settings, primary=""))
    assert groups_of("erin", without.look_up("erin")) == ()
    with pytest.raises(UnusableAnswer, match="more than one entry"):
        LdapDirectory(replace(settings, user_filter="(|(uid={user})(uid=bob))")).look_up("alice")


def test_nested_groups(settings: LdapSettings) -> None:
    nested = LdapDirectory(replace(settings, nested=True))
    assert nested.look_up("alice") == DirectoryEntry("users", ["all", "dev", "everybody", "ops", "staff"])


def test_encrypted_from_the_start_and_not_at_all(settings: LdapSettings, slapd: Slapd) -> None:
    for one in (replace(settings, urls=(slapd.tls_url,)), replace(settings, start_tls=False, ca=None)):
        assert LdapDirectory(one).look_up("bob") is not None


def test_a_certificate_for_another_name(settings: LdapSettings, slapd: Slapd) -> None:
    for url in (slapd.url, slapd.tls_url):
        with pytest.raises(DirectoryError, match=r"certificate|hostname"):
            LdapDirectory(replace(settings, urls=(url.replace("localhost", "127.0.0.1"),))).look_up("bob")


def test_the_next_server_is_asked(settings: LdapSettings) -> None:
    assert LdapDirectory(replace(settings, urls=("ldap://localhost:1", *settings.urls))).look_up("bob") is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": "wrong"}, "LDAPInvalidCredentialsResult"),
        ({"ca": None}, "certificate verify failed"),
        ({"urls": ("ldap://localhost:1",)}, "localhost.*LDAPSocketOpenError"),
        ({"urls": ("ldap://no-such-host.invalid",)}, "LDAP"),
        ({"user_base": "ou=nowhere,dc=test"}, "LDAPNoSuchObjectResult"),
        ({"bind_dn": "", "password": ""}, "LDAP"),
    ],
)
def test_servers_that_refuse(settings: LdapSettings, changes: dict[str, object], said: str) -> None:
    with pytest.raises(DirectoryError, match=said) as failed:
        LdapDirectory(replace(settings, **changes)).look_up("alice")  # type: ignore[arg-type]
    assert not isinstance(failed.value, UnusableAnswer) and PASSWORD not in str(failed.value)


def test_a_server_that_accepts_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ldap://127.0.0.1:{silent.getsockname()[1]}"
        settings = LdapSettings((url,), "dc=test", "dc=test", start_tls=False, timeout_s=0.2)
        began = time.monotonic()
        with pytest.raises(DirectoryError):
            LdapDirectory(settings).look_up("alice")
        assert time.monotonic() - began < 5
