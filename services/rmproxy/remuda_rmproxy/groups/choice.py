"""Chooses the resolver of groups that the settings name."""

from __future__ import annotations

import time

from remuda_rmproxy.groups import os_directory
from remuda_rmproxy.groups.group_cache import CacheTimes, GroupCache
from remuda_rmproxy.groups.group_resolver import FROM_REQUEST, GroupResolver, Groups
from remuda_rmproxy.groups.resolution import Lookup
from remuda_rmproxy.settings import RmproxySettings


def groups_by(settings: RmproxySettings) -> Groups:
    """Returns the resolver of groups that the settings choose. Raises OSError when the file of the password cannot be
    read.
    """
    if settings.groups_resolver == "request":
        return FROM_REQUEST
    lookup = os_directory.look_up if settings.groups_resolver == "os" else _ldap(settings)
    times = CacheTimes(settings.groups_known_s, settings.groups_unknown_s, settings.groups_last_known_s)
    return GroupResolver(lookup, GroupCache(times), settings.groups_timeout_s, time.monotonic)


def _ldap(settings: RmproxySettings) -> Lookup:
    # Imported where it is used: no other resolver needs the library.
    from remuda_rmproxy.groups.ldap_directory import LdapDirectory, LdapSettings

    password = settings.ldap_password.read_text().rstrip("\r\n") if settings.ldap_password else ""
    return LdapDirectory(
        LdapSettings(
            urls=settings.ldap_url,
            user_base=settings.ldap_user_base,
            group_base=settings.ldap_group_base,
            user_filter=settings.ldap_user_filter,
            group_filter=settings.ldap_group_filter,
            name=settings.ldap_group_name,
            primary=settings.ldap_primary,
            nested=settings.ldap_nested,
            start_tls=settings.ldap_start_tls,
            ca=settings.ldap_ca,
            bind_dn=settings.ldap_bind_dn,
            password=password,
            timeout_s=settings.groups_timeout_s,
        )
    ).look_up
