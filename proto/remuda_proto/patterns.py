"""Regular expressions from outside, in RE2: matching takes time linear in the text, whatever the expression.

The reference uses the same syntax (Go's `regexp`). RE2 has no look-around and no back references. Only this file
compiles patterns that this project did not write. The patterns of names are in `names`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from remuda_proto.bounds import PATTERN_BYTES, PATTERN_MEMORY_BYTES, PATTERNS_KEPT, exceeds, shown

_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = PATTERN_MEMORY_BYTES
_OPTIONS.log_errors = False


class BadPattern(ValueError):
    """Says what is wrong with it."""


@lru_cache(maxsize=PATTERNS_KEPT)
def compiled(pattern: str) -> Any:
    """Raises BadPattern."""
    if exceeds(pattern, PATTERN_BYTES):
        raise BadPattern(f"more than {PATTERN_BYTES} bytes, expected at most {PATTERN_BYTES}")
    try:
        return re2.compile(pattern, options=_OPTIONS)
    except re2.error as error:
        said = error.args[0]
        reason = shown(said.decode(errors="replace") if isinstance(said, bytes) else str(said))
        raise BadPattern(f"{reason}, expected the syntax of RE2, without look-around and back references") from None
    except UnicodeEncodeError:
        raise BadPattern("not UTF-8") from None


def found(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text. A pattern that is none occurs nowhere."""
    try:
        return compiled(pattern).search(text) is not None
    except (BadPattern, UnicodeEncodeError):
        return False
