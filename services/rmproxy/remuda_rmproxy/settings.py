"""Settings of rmproxy, beyond those of every service."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from remuda_bus.process import Settings
from remuda_bus.settings import Texts, setting
from remuda_rmproxy import limits, name_patterns
from remuda_rmproxy.administration.access_list import AccessList


def _patterns(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(name_patterns.check, entries))


def _access_list(text: str) -> str:
    AccessList.parse(text)
    return text


class RmproxySettings(Settings):
    allowed_rms: Annotated[Texts, AfterValidator(_patterns)] | None = setting(
        "rms.allowed", None,
        "RMs that may register: names, patterns with `*` and `?`, or expressions of RE2 between slashes; "
        "`[]`: no RM; not set: every RM",
    )  # fmt: skip
    max_rms: int = setting(
        "rms.most", limits.RMS, "most RMs on record, those included that are gone",
        variables=("REMUDA_MAX_RMS",), ge=1,
    )  # fmt: skip
    forget_after_days: float = setting(
        "rms.forget_after_days", limits.FORGET_AFTER_DAYS,
        "days from the deregistration of an RM to the removal of its data, unless the RM says otherwise",
        variables=("REMUDA_FORGET_AFTER_DAYS",), ge=0,
    )  # fmt: skip
    scheduler_acl: Annotated[str, AfterValidator(_access_list)] = setting(
        "scheduler.acl", "",
        "scheduler administrators, who drain nodes and forget RMs: an access list like `alice,bob ops`; the owner of "
        "the process is always one",
    )  # fmt: skip
