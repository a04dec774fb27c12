"""Names in certificates of clients. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def names_of(auth: Mapping[str, Iterable[bytes]]) -> frozenset[str]:
    """The common name and the alternative names in the client certificate of a gRPC connection; empty without one.
    `auth`: the connection's authentication context."""
    fields = ("x509_common_name", "x509_subject_alternative_name")
    return frozenset(one.decode(errors="replace") for field in fields for one in auth.get(field, ()))
