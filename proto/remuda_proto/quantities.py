"""Quantities of resources: from text to base units and back.

Base units are thousandths of `vcore`, and whole units (bytes, pieces) of other resources.
"""

from __future__ import annotations

import re

from remuda_proto.bounds import INT64, shown

INT64_MAX = INT64[1]
VCORE = "vcore"

_QUANTITY = re.compile(r"\s*([0-9]+)\s*([A-Za-z]*)\s*", re.ASCII)
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
SUFFIXES = {"": 1, **_DECIMAL, **_BINARY}


def parse_amount(resource: str, text: str) -> int:
    """The amount of `10`, `500m` (vcore only), `4G` or `2Gi` in base units. Raises ValueError."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{shown(text)} is not a quantity: expected digits and at most a suffix ({_suffixes(resource)})"
        )
    number, suffix = int(match[1]), match[2]
    if resource == VCORE and suffix == "m":
        amount = number
    elif suffix in SUFFIXES:
        amount = number * SUFFIXES[suffix] * (1000 if resource == VCORE else 1)
    else:
        only = ", and m of vcore alone" if suffix == "m" else ""
        raise ValueError(f"{shown(text)} has an unknown suffix {shown(suffix)}: expected {_suffixes(resource)}{only}")
    if amount > INT64_MAX:
        unit = "thousandths" if resource == VCORE else "units"
        raise ValueError(f"{shown(text)} is too large: at most {INT64_MAX} {unit}")
    return amount


def above(resource: str, amount: int, what: str, most: int) -> str:
    return f"{show_amount(resource, amount)} is above {what}, {show_amount(resource, most)}"


def show_amount(resource: str, amount: int) -> str:
    """The shortest text that `parse_amount` reads as the same amount."""
    if resource == VCORE:
        return f"{amount}m" if amount % 1000 else _shorten(amount // 1000)
    return _shorten(amount)


def _shorten(amount: int) -> str:
    texts = [f"{amount // unit}{suffix}" for suffix, unit in SUFFIXES.items() if amount % unit == 0 and amount >= unit]
    return min(texts, key=len, default=str(amount))


def _suffixes(resource: str) -> str:
    milli = "m, " if resource == VCORE else ""
    return f"{milli}{', '.join(_DECIMAL)}, {', '.join(_BINARY)}"
