"""Access to changes of the configuration (001): of administrators of the scheduler and of the root queue."""

from __future__ import annotations

from remuda_bus.bus import Refused
from remuda_operations.operators import Operator
from remuda_proto.access_list import AccessList
from remuda_proto.remuda.v1 import config_pb2

FORBIDDEN = 403


class ConfigurationAccess:
    """Decides who may change a configuration. `administrators`: of the scheduler."""

    def __init__(self, administrators: AccessList) -> None:
        self._administrators = administrators

    def check(self, operator: Operator, configuration: config_pb2.Configuration | None) -> None:
        """Raises Refused unless the operator may change this configuration."""
        if self._administrators.allows(operator.name, operator.groups):
            return
        partitions = configuration.partitions if configuration is not None else ()
        roots = [AccessList.read(partition.root.admin_acl) for partition in partitions]
        if roots and all(root.allows(operator.name, operator.groups) for root in roots):
            return
        raise Refused(
            f"{operator.name} may not change the configuration: expected a member of the scheduler ACL, or of the "
            "adminacl of root in each partition",
            FORBIDDEN,
        )
