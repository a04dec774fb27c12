"""Access to changes of the configuration (001): of the scheduler ACL, and of administrators of the root queue."""

from __future__ import annotations

import os
import pwd

from remuda_bus.bus import Refused
from remuda_bus.operators import Operator
from remuda_config.rules import acl
from remuda_proto.remuda.v1 import config_pb2

FORBIDDEN = 403


def process_owner() -> str:
    """The user whose process this is; empty when the system does not know a name for it (as in some containers)."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


class ConfigurationAccess:
    """`scheduler_acl`: a valid access list. The owner of the process is always part of it."""

    def __init__(self, scheduler_acl: str) -> None:
        self._scheduler_acl = scheduler_acl

    def check(self, operator: Operator, configuration: config_pb2.Configuration | None) -> None:
        """Raises Refused unless the operator may change this configuration."""
        if operator.name == process_owner() or acl.allows(self._scheduler_acl, operator.name, operator.groups):
            return
        partitions = configuration.partitions if configuration is not None else ()
        if partitions and all(
            acl.allows(partition.root.admin_acl, operator.name, operator.groups) for partition in partitions
        ):
            return
        raise Refused(
            f"{operator.name} may not change the configuration: expected a member of the scheduler ACL, or of the "
            "adminacl of root in each partition",
            FORBIDDEN,
        )
