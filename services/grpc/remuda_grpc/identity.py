"""Which rmIDs a client may use: those of its certificate. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import grpc

from remuda_bus import name_patterns
from remuda_grpc.status import Failure
from remuda_proto.bounds import shown


class Clients:
    """Decides whether a client may act for an RM. `required`: clients have certificates. `entries`: as in the
    setting `grpc.clients`.
    """

    def __init__(self, required: bool, entries: Iterable[str]) -> None:
        self.required = required
        self._patterns: defaultdict[str, list[str]] = defaultdict(list)
        for entry in entries:
            name, _, pattern = entry.partition("=")
            self._patterns[name].append(pattern)

    def check(self, names: frozenset[str], rm_id: str) -> None:
        """Raises Failure PERMISSION_DENIED when the certificate with these names is not for that RM."""
        if not self.required:
            return
        for name in names:
            patterns = self._patterns.get(name)
            if rm_id == name if patterns is None else any(name_patterns.matches(one, rm_id) for one in patterns):
                return
        certified = ", ".join(sorted(names)) or "no name"
        reason = f"rmID {shown(rm_id)}: the client certificate is for {certified}"
        raise Failure(grpc.StatusCode.PERMISSION_DENIED, "NOT_THIS_RM", reason, "rmID")
