"""The table of paths: where each method of `remuda.v1.Admin` and `Metrics` is below `/api/v1`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from remuda_operations.operator_api.methods import ACTIONS

# Methods without a path of their own: their rows are those of a query, which are answered as the core sends them
# (`routes`), or sums of the ledger (`ledger`).
LISTS: Final = frozenset([
    "ListQueues", "ListNodes", "ListTopology", "ListApplications", "ListRejections", "ListAllocations", "ListUsage",
    "Explain", "ListForecasts", "ListWindows", "GetLedger",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Path:
    """`{name}` in `path` is a field of the request. Of a GET, the other fields are in the query; of a POST, all others
    are in the body."""

    method: str
    verb: str
    path: str


def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


PATHS: Final = (
    Path("ListResourceManagers", "GET", "/resource-managers"),
    Path("ListReservations", "GET", "/rms/{rm}/reservations"),
    Path("GetStory", "GET", "/rms/{rm}/story"),
    Path("GetDigest", "GET", "/rms/{rm}/digest"),
    Path("WhatIf", "GET", "/rms/{rm}/what-if"),
    Path("Preview", "POST", "/rms/{rm}/preview"),
    Path("ListCores", "GET", "/cores"),
    Path("ListFrontEnds", "GET", "/front-ends"),
    Path("ListFaults", "GET", "/faults"),
    Path("ReadChanges", "GET", "/changes"),
    Path("FollowChanges", "GET", "/changes/stream"),
    Path("GetConfiguration", "GET", "/configuration"),
    Path("CheckConfiguration", "POST", "/configuration/check"),
    Path("ListConfigurationVersions", "GET", "/configuration/versions"),
    Path("GetConfigurationVersion", "GET", "/configuration/versions/{version}"),
    Path("DiffConfiguration", "GET", "/configuration/diff"),
    Path("DiffConfiguration", "POST", "/configuration/diff"),
    Path("ApplyConfiguration", "POST", "/configuration"),
    Path("RollbackConfiguration", "POST", "/configuration/versions/{version}/rollback"),
    Path("ConfirmConfiguration", "POST", "/configuration/confirm"),
    *(Path(method, "POST", f"/rms/{{rm}}/actions/{_kebab(method)}") for method in ACTIONS),
    Path("GetSystem", "GET", "/metrics/system"),
    Path("GetResourceManager", "GET", "/rms/{rm}/metrics"),
    Path("GetQueues", "GET", "/rms/{rm}/metrics/queues"),
    Path("GetNodes", "GET", "/rms/{rm}/metrics/nodes"),
    Path("FollowResourceManager", "GET", "/rms/{rm}/metrics/stream"),
)
