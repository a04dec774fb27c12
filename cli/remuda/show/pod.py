"""`remuda explain pod NAMESPACE/NAME`: the ask or allocation of a Kubernetes pod, by the tags of its front end."""

from __future__ import annotations

from remuda_bus.bus import Bus
from remuda_operations.queries.core import pages_of
from remuda_operations.queries.rows import Rows
from remuda_proto import constants

from ..client.connections import answered
from ..errors import UserError
from .explain import explain

_META = constants.DOMAIN_K8S + constants.GROUP_META
NAMESPACE = _META + constants.KEY_NAMESPACE
POD_NAME = _META + constants.KEY_POD_NAME


def explain_pod(url: str, rm: str, pod: str, as_json: bool, what_if: bool = False) -> None:
    """`pod`: namespace and name, with a slash. Raises UserError for a pod that the scheduler does not know."""
    namespace, _, name = pod.partition("/")
    found = answered(url, lambda bus: ask_of(bus, rm, namespace, name))
    if found is None:
        raise UserError(
            f"{rm} has no ask or allocation of pod {pod}: it has ended, waits for its gang, claims or gates, or "
            f"is another scheduler's; `kubectl describe pod -n {namespace} {name}` says more"
        )
    explain(url, rm, *found, as_json, what_if)


async def ask_of(bus: Bus, rm: str, namespace: str, name: str) -> tuple[str, str] | None:
    """Application and key of the ask of a pod that waits or runs. O(asks and allocations)."""
    for kind in ("asks", "allocations"):
        async for page in pages_of(bus, kind, Rows, rm=rm):
            for row in getattr(page, kind):
                tags = row["tags"]
                if tags.get(POD_NAME) == name and tags.get(NAMESPACE) == namespace:
                    return str(row["application"]), str(row["key"])
    return None
