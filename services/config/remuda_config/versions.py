"""Versions of a configuration: who changed it, when, from where and why. Pure.

A version is stored as one JSON document together with its text. Documents of services that knew no versions have only
`text`, `source` and `checksum`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from remuda_config import limits

FILE: Literal["file"] = "file"  # an edit of the file
API: Literal["api"] = "api"  # an update by an operator
RM: Literal["rm"] = "rm"  # a text that an RM has brought
ROLLBACK: Literal["rollback"] = "rollback"  # an operator has restored an older text
EXPIRED: Literal["expired"] = "expired"  # a staged change was not confirmed in time
Origin = Literal["file", "api", "rm", "rollback", "expired"]


@dataclass(frozen=True, slots=True)
class Version:
    """`number`: from 1, of this configuration. `by`: the operator or the rmID; empty for the file and for a rollback by
    time. `at_ms`: since 1970; 0 when unknown. `restores`: the version whose text this one has again, else 0.

    A staged change has `until_ms`, when it is rolled back, and `falls_back_to`, the version that is restored then.
    `confirmed_by` and `confirmed_at_ms` are set when it is confirmed. `changes`: one line for each change, as
    `difference` lists them."""

    number: int
    checksum: str
    source: str
    origin: Origin = FILE
    by: str = ""
    at_ms: int = 0
    message: str = ""
    text_bytes: int = 0
    restores: int = 0
    until_ms: int = 0
    falls_back_to: int = 0
    confirmed_by: str = ""
    confirmed_at_ms: int = 0
    changes: Sequence[str] = ()

    @property
    def is_staged(self) -> bool:
        """Returns whether the version is rolled back unless it is confirmed."""
        return self.until_ms > 0 and self.confirmed_at_ms == 0

    def confirmed(self, by: str, at_ms: int) -> Version:
        return replace(self, confirmed_by=by, confirmed_at_ms=at_ms)

    def document(self, text: str) -> bytes:
        """Returns the stored form of this version."""
        return json.dumps({"text": text, **asdict(self)}, ensure_ascii=False).encode()

    def summary(self) -> dict[str, Any]:
        """Returns the version for an answer in JSON. Values that are not set are left out."""
        required = ("number", "checksum", "source", "origin", "at_ms", "text_bytes")
        return {key: value for key, value in asdict(self).items() if key != "changes" and (value or key in required)}


def read_document(document: bytes, revision: int) -> tuple[str, Version]:
    """Returns the text and its version. `revision`: of the entry in the bucket, which is the number of a version
    that has none.
    """
    stored: dict[str, Any] = json.loads(document)
    known = {one.name for one in fields(Version)}
    values = {key: value for key, value in stored.items() if key in known}
    text = str(stored["text"])
    return text, Version(**{"number": revision, "text_bytes": len(text.encode()), **values})


def bounded_changes(changes: Sequence[str]) -> list[str]:
    """Returns at most CHANGES_KEPT lines, each of bounded length, and the number of the others as one more."""
    kept = [line[: limits.MAX_MESSAGE_CHARACTERS] for line in changes[: limits.CHANGES_KEPT]]
    return [*kept, f"and {more} more"] if (more := len(changes) - len(kept)) else kept
