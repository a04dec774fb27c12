"""Which operator a client is, and what it may read: by its certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import grpc

from remuda_grpc.identity import Clients
from remuda_grpc.status import Failure
from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator, certified


class Callers:
    """The callers of `remuda.v1.Admin` and `Metrics`. `entries`: the setting `grpc.operators`. `local`: the operator
    where clients have no certificates; None: there is none."""

    def __init__(self, clients: Clients, entries: Iterable[str], local: Operator | None) -> None:
        self._clients = clients
        self._operators = certified(entries)
        self._local = local

    def of(self, names: frozenset[str]) -> Caller:
        """Returns the caller with a certificate for these names. Raises Failure PERMISSION_DENIED for a certificate
        with the names of several operators.
        """
        if not self._clients.required:
            return Caller(self._local, reads_all=True)
        found = {self._operators[name] for name in names if name in self._operators}
        if len(found) > 1:
            several = ", ".join(sorted(one.name for one in found))
            reason = f"the client certificate has the names of several operators: {several}"
            raise Failure(grpc.StatusCode.PERMISSION_DENIED, "AMBIGUOUS", reason)
        if found:
            return Caller(found.pop(), reads_all=True)
        return Caller(reads_rm=partial(self._may_use, names))

    def _may_use(self, names: frozenset[str], rm_id: str) -> bool:
        try:
            self._clients.check(names, rm_id)
        except Failure:
            return False
        return True
