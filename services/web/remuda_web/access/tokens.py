"""Bearer tokens (RFC 6750) from a file of `TOKEN OPERATOR` lines."""

from __future__ import annotations

import hashlib
from pathlib import Path

from remuda_operations.operators import Operator, operator_in
from remuda_web import limits


class Tokens:
    """Raises ValueError, on creation, with the line that is wrong."""

    def __init__(self, file: Path) -> None:
        self._by_digest: dict[bytes, Operator] = {}
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                try:
                    self._add(line.split())
                except ValueError as error:
                    raise ValueError(f"{file}, line {number}: {error}") from None
        count = len(self._by_digest)
        if not 0 < count <= limits.TOKENS:
            raise ValueError(f"{file}: found {count} tokens, expected from 1 to {limits.TOKENS}")

    def _add(self, words: list[str]) -> None:
        if len(words) != 2 or len(words[0]) < limits.TOKEN_CHARACTERS:
            raise ValueError(
                "expected `TOKEN OPERATOR` or `TOKEN OPERATOR+GROUP+GROUP`, a token of "
                f"{limits.TOKEN_CHARACTERS} characters"
            )
        operator = operator_in(words[1])
        if self._by_digest.setdefault(_digest(words[0]), operator) != operator:
            raise ValueError("the token of another operator, too")

    async def operator(self, token: str) -> Operator | None:
        """Tokens are compared by digest, so the time of the comparison reveals none."""
        return self._by_digest.get(_digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
