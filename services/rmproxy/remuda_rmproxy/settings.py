"""Settings of rmproxy, beyond those of every service."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, field_validator, model_validator

from remuda_bus import name_patterns
from remuda_bus.settings import ReadableFile, SchedulerAclSettings, Seconds, Texts, setting
from remuda_proto.bounds import shown
from remuda_rmproxy import limits
from remuda_rmproxy.groups import filters
from remuda_rmproxy.guests.guest_request import read_admissions


def _patterns(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(name_patterns.check, entries))


class RmproxySettings(SchedulerAclSettings):
    allowed_rms: Annotated[Texts, AfterValidator(_patterns)] | None = setting(
        "rms.allowed", None,
        "RMs that may register; not set: every RM",
    )  # fmt: skip
    guests: Texts = setting(
        "rms.guests", (),
        "clusters of Peloton that may use an RM's nodes, below one of its queues: `CLUSTER=RM/QUEUE`",
    )  # fmt: skip
    groups_resolver: Literal["request", "os", "ldap"] = setting(
        "groups.resolver", "request",
        "directory of groups",
    )  # fmt: skip
    groups_timeout_s: Seconds = setting(
        "groups.timeout", limits.GROUPS_TIMEOUT_S, "time that a request waits", gt=0, le=5
    )
    groups_known_s: Seconds = setting("groups.cache", limits.GROUPS_KNOWN_S, "time that an answer counts", ge=0)
    groups_unknown_s: Seconds = setting(
        "groups.cache_unknown", limits.GROUPS_UNKNOWN_S, "the same for a user without groups", ge=0
    )
    groups_last_known_s: Seconds = setting(
        "groups.cache_outage", limits.GROUPS_LAST_KNOWN_S,
        "the same while the directory does not answer", ge=0,
    )  # fmt: skip
    ldap_url: Texts = setting(
        "groups.ldap.url", (), "servers, tried in turn: `ldap://HOST[:PORT]` or `ldaps://HOST[:PORT]`"
    )
    ldap_start_tls: bool = setting("groups.ldap.start_tls", True, "encrypt connections to `ldap://` by StartTLS")
    ldap_ca: ReadableFile = setting("groups.ldap.ca", None, "file: CA certificates of the servers; none: the system's")
    ldap_bind_dn: str = setting("groups.ldap.bind_dn", "", "entry to bind as; empty: anonymously")
    ldap_password: ReadableFile = setting("groups.ldap.password_file", None, "file: password to bind with")
    ldap_user_base: str = setting("groups.ldap.user_base", "", "where users are: `ou=people,dc=example,dc=org`")
    ldap_user_filter: str = setting("groups.ldap.user_filter", "(uid={user})", "filter for the entry of `{user}`")
    ldap_group_base: str = setting("groups.ldap.group_base", "", "where groups are")
    ldap_group_filter: str = setting(
        "groups.ldap.group_filter", "(|(memberUid={user})(member={dn}))",
        "filter for the groups of `{user}`, whose entry is `{dn}`",
    )  # fmt: skip
    ldap_group_name: str = setting("groups.ldap.group_name", "cn", "attribute with a group's name", min_length=1)
    ldap_primary: str = setting(
        "groups.ldap.primary", "gidNumber",
        "attribute of users and groups with the primary group's number; empty: none",
    )  # fmt: skip
    ldap_nested: bool = setting("groups.ldap.nested", False, "groups of which a group is a `member` count")

    @field_validator("guests")
    @classmethod
    def _readable(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        read_admissions(entries)
        return entries

    @model_validator(mode="after")
    def _complete(self) -> RmproxySettings:
        if self.groups_resolver == "ldap":
            needed = {"url": self.ldap_url, "user_base": self.ldap_user_base, "group_base": self.ldap_group_base}
            for key in (key for key, value in needed.items() if not value):
                raise ValueError(f"groups.ldap.{key}: not set, expected a value where groups.resolver is ldap")
            for url in self.ldap_url:
                if not re.fullmatch(r"ldaps?://[^/\s?]+", url):
                    raise ValueError(
                        f"groups.ldap.url={shown(url)}: expected ldap://HOST[:PORT] or ldaps://HOST[:PORT]"
                    )
            if bool(self.ldap_bind_dn) != bool(self.ldap_password):
                raise ValueError("groups.ldap.bind_dn and groups.ldap.password_file: expected both or neither")
        filters.check("groups.ldap.user_filter", self.ldap_user_filter, ("user",))
        filters.check("groups.ldap.group_filter", self.ldap_group_filter, ("user", "dn"))
        return self

    max_rms: int = setting(
        "rms.most", limits.RMS, "most RMs on record",
        variables=("REMUDA_MAX_RMS",), ge=1,
    )  # fmt: skip
    forget_after_days: float = setting(
        "rms.forget_after_days", limits.FORGET_AFTER_DAYS,
        "days from an RM's deregistration until its data is deleted",
        variables=("REMUDA_FORGET_AFTER_DAYS",), ge=0,
    )  # fmt: skip
