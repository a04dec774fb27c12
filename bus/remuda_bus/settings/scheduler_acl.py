"""The setting `scheduler.acl`: the operators who administer what belongs to no queue (001, Access Control Lists)."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator

from remuda_bus.settings.model import Settings
from remuda_bus.settings.setting import setting
from remuda_proto.access_list import AccessList, canonical


def _access_list(text: str) -> str:
    AccessList.parse(text)
    return canonical(text)


class SchedulerAclSettings(Settings):
    """Settings of a service that acts for scheduler administrators."""

    scheduler_acl: Annotated[str, AfterValidator(_access_list)] = setting(
        "scheduler.acl", "",
        "scheduler administrators, who change the configuration and pools of Peloton, drain nodes and forget RMs: an "
        "access list like `alice,bob ops`; the owner of the process is always one",
    )  # fmt: skip

    def scheduler_administrators(self) -> AccessList:
        """Those of the setting, and the owner of this process."""
        configured = AccessList.read(self.scheduler_acl)
        try:
            return replace(configured, users=configured.users | {pwd.getpwuid(os.geteuid()).pw_name})
        except KeyError:  # a container's user without a name
            return configured
