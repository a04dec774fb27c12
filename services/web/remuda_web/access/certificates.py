"""Client certificates: the operator is the common name, or as the setting `web.operators` maps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from starlette.types import Scope

from remuda_operations.operators import Operator, certified
from remuda_web.problems import Problem

# Where the server puts the names in the certificate of a connection, into the state of each of its requests.
NAMES: Final = "certificate_names"


def names_in(certificate: dict[str, Any] | None) -> tuple[str, ...]:
    """The common name and the alternative names in a certificate, as `ssl` decodes it; none without one."""
    if not certificate:
        return ()
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    common = [value for name, value in subject if name == "commonName"]
    return (*common, *(value for _, value in certificate.get("subjectAltName", ())))


class Certificates:
    """`entries`: the setting `web.operators`."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._listed = certified(entries)

    def operator(self, scope: Scope) -> Operator | None:
        """Raises Problem for the names of several operators, and for a name that no operator can have."""
        names: tuple[str, ...] = scope.get("state", {}).get(NAMES, ())
        if not names:
            return None
        listed = {self._listed[name] for name in names if name in self._listed}
        if len(listed) > 1:
            several = ", ".join(sorted(one.name for one in listed))
            raise Problem(403, f"the client certificate has the names of several operators: {several}")
        try:
            return listed.pop() if listed else Operator(names[0])
        except ValueError as error:
            raise Problem(403, f"the client certificate: {error}") from None
