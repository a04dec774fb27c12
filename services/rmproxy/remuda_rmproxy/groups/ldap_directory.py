"""Groups from an LDAP directory (RFC 4511). Blocks; every step has a time-out.

A look-up opens a connection, binds, and searches for the user, the primary group, and the groups that name the user. So
nothing is shared between look-ups, and a server that was away is found again without further ado."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import ldap3
from ldap3.core.exceptions import LDAPException

from remuda_proto import bounds
from remuda_proto.bounds import shown
from remuda_rmproxy import limits
from remuda_rmproxy.groups.filters import filled
from remuda_rmproxy.groups.resolution import DirectoryEntry, DirectoryError, UnusableAnswer


@dataclass(frozen=True, slots=True)
class LdapSettings:
    """The servers and filters by which groups are looked up. `urls`: tried in turn. `user_filter`: with `{user}`.
    `group_filter`: with `{user}` or `{dn}`, the name of the user's entry. `nested`: groups of which a group is a
    `member` count, too. `primary`: the attribute of the user that holds the number of the primary group, as the groups
    have it; empty: there is no primary group.
    """

    urls: tuple[str, ...]
    user_base: str
    group_base: str
    user_filter: str = "(uid={user})"
    group_filter: str = "(|(memberUid={user})(member={dn}))"
    name: str = "cn"
    primary: str = "gidNumber"
    nested: bool = False
    start_tls: bool = True
    ca: Path | None = None
    bind_dn: str = ""
    password: str = ""
    timeout_s: float = 2.0


class LdapDirectory:
    def __init__(self, settings: LdapSettings) -> None:
        self._settings = settings
        self._whole_s = ceil(settings.timeout_s)  # the library takes whole seconds only
        tls = ldap3.Tls(
            validate=ssl.CERT_REQUIRED,
            version=ssl.PROTOCOL_TLS_CLIENT,
            ca_certs_file=str(settings.ca) if settings.ca else None,
        )
        self._servers = [
            ldap3.Server(url, tls=tls, connect_timeout=settings.timeout_s, get_info=ldap3.NONE) for url in settings.urls
        ]

    def look_up(self, user: str) -> DirectoryEntry | None:
        """Looks a user up; None: the directory does not know the user. Raises DirectoryError with what each server
        answered.
        """
        problems = []
        for server in self._servers:
            try:
                with self._connection(server) as connection:
                    return self._find(connection, user)
            except DirectoryError:
                raise
            except (LDAPException, OSError) as error:
                problems.append(f"{server.name}: {_said(error)}")
        raise DirectoryError("; ".join(problems))

    def _connection(self, server: ldap3.Server) -> ldap3.Connection:
        settings = self._settings
        encrypts_later = settings.start_tls and not server.ssl
        return ldap3.Connection(
            server,
            user=settings.bind_dn or None,
            password=settings.password or None,
            auto_bind=ldap3.AUTO_BIND_TLS_BEFORE_BIND if encrypts_later else ldap3.AUTO_BIND_NO_TLS,
            authentication=ldap3.SIMPLE if settings.bind_dn else ldap3.ANONYMOUS,
            read_only=True,
            receive_timeout=self._whole_s,
            raise_exceptions=True,
            auto_referrals=False,  # a referral would be followed to any server, with these credentials
            check_names=False,
        )

    def _find(self, connection: ldap3.Connection, user: str) -> DirectoryEntry | None:
        settings = self._settings
        attributes = [settings.primary] if settings.primary else []
        search = filled(settings.user_filter, {"user": user})
        entries = self._search(connection, settings.user_base, search, attributes, 2)
        if not entries:
            return None
        if len(entries) > 1:
            raise UnusableAnswer(f"the directory has more than one entry for user {shown(user)}")
        [entry] = entries
        primary = self._primary(connection, user, entry)
        search = filled(settings.group_filter, {"user": user, "dn": entry["dn"]})
        groups = self._groups(connection, search)
        if settings.nested:
            self._add_nested(connection, groups)
        return DirectoryEntry(primary, sorted(set(groups.values())))

    def _primary(self, connection: ldap3.Connection, user: str, entry: Mapping[str, Any]) -> str | None:
        attribute = self._settings.primary
        numbers = _values(entry, attribute) if attribute else []
        if not numbers:
            return None
        found = list(self._groups(connection, filled(f"({attribute}={{number}})", {"number": numbers[0]})).values())
        if len(found) != 1:
            numbered = f"{attribute} {shown(numbers[0])}, that of the primary group of user {shown(user)}"
            raise UnusableAnswer(f"{len(found)} groups with {numbered}, expected one")
        return found[0]

    def _add_nested(self, connection: ldap3.Connection, groups: dict[str, str]) -> None:
        """Add the groups of which these are members, and so on. A group is looked at once, so a circle ends."""
        newest = list(groups)
        for _ in range(limits.NESTED_GROUPS_DEPTH):
            if not newest:
                return
            above: dict[str, str] = {}
            for dn in newest:
                above |= self._groups(connection, filled("(member={dn})", {"dn": dn}))
                if len(groups) + len(above) > bounds.GROUPS.most:
                    raise UnusableAnswer(f"more than {bounds.GROUPS.most} groups")
            newest = [dn for dn in above if dn not in groups]
            groups |= above
        raise UnusableAnswer(f"groups are nested more than {limits.NESTED_GROUPS_DEPTH} deep")

    def _groups(self, connection: ldap3.Connection, search: str) -> dict[str, str]:
        """Names of groups by the names of their entries."""
        name = self._settings.name
        found = self._search(connection, self._settings.group_base, search, [name], bounds.GROUPS.most + 1)
        if len(found) > bounds.GROUPS.most:
            raise UnusableAnswer(f"more than {bounds.GROUPS.most} groups")
        return {entry["dn"]: values[0] for entry in found if (values := _values(entry, name))}

    def _search(
        self, connection: ldap3.Connection, base: str, search: str, attributes: list[str], most: int
    ) -> list[Mapping[str, Any]]:
        connection.search(
            base, search, attributes=attributes or [ldap3.NO_ATTRIBUTES], size_limit=most,
            time_limit=self._whole_s,
        )  # fmt: skip
        return [entry for entry in connection.response or [] if entry.get("type") == "searchResEntry"]


def _values(entry: Mapping[str, Any], attribute: str) -> list[str]:
    """The values of an attribute, as text. Its name has no case."""
    raw: Mapping[str, list[bytes]] = entry.get("raw_attributes", {})
    found = next((values for name, values in raw.items() if name.lower() == attribute.lower()), [])
    return [value.decode(errors="replace") for value in found]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[: limits.GROUPS_PROBLEM_CHARACTERS]}"
