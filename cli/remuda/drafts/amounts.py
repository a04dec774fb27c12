"""Amounts of other schedulers in base units: thousandths of `vcore`, bytes, pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from remuda_proto import quantities
from remuda_proto.quantities import INT64_MAX, SUFFIXES, VCORE

Amounts = dict[str, int]

# What Kubernetes calls the resources that remuda's front ends name differently.
_KUBERNETES_NAMES = {"cpu": VCORE}
_KUBERNETES = re.compile(r"([0-9]*\.?[0-9]+|[0-9]+\.)(?:[eE]([+-]?[0-9]{1,3})|([a-zA-Z]*))", re.ASCII)
_MEMORY_STEP = 2**20
_FRACTIONS = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}


def resource_name(name: str) -> str:
    """Returns the name of a Kubernetes resource as remuda's front end for Kubernetes reports it."""
    return _KUBERNETES_NAMES.get(name, name)


def kubernetes_amount(resource: str, text: str) -> int:
    """Returns the base units of a Kubernetes quantity (`1.5`, `500m`, `2Gi`, `1e3`), rounded up, as Kubernetes
    rounds. `resource`: remuda's name. Raises ValueError.
    """
    match = _KUBERNETES.fullmatch(text.strip())
    factor = None
    if match is not None:
        suffix = match[3] or ""
        factor = Decimal(10) ** int(match[2]) if match[2] else _FRACTIONS.get(suffix) or SUFFIXES.get(suffix)
    if match is None or factor is None:
        raise ValueError(f"{text!r} is no quantity of Kubernetes")
    try:
        exact = Decimal(match[1]) * factor * (1000 if resource == VCORE else 1)
        amount = int(exact.to_integral_value("ROUND_CEILING"))
    except InvalidOperation:
        raise ValueError(f"{text!r} is too large") from None
    if amount > INT64_MAX:
        raise ValueError(f"{text!r} is too large")
    return amount


def written(amounts: Mapping[str, int]) -> dict[str, int | str]:
    """Returns the amounts as queues.yaml has them, `vcore` and `memory` first."""
    first = (VCORE, "memory")
    names = sorted(amounts, key=lambda name: (first.index(name) if name in first else len(first), name))
    return {name: _shown(name, amounts[name]) for name in names}


def _shown(name: str, amount: int) -> int | str:
    text = quantities.show_amount(name, amount)
    if name == "memory" and text.endswith("M") and amount % _MEMORY_STEP == 0:
        return f"{amount // _MEMORY_STEP}Mi"  # the unit in which other schedulers have it
    return int(text) if text.isdecimal() else text


def read(resource: str, value: Any) -> int | None:
    """Returns the base units of an amount of queues.yaml; None: the value is no amount."""
    try:
        return quantities.parse_amount(resource, str(value))
    except ValueError:
        return None


def parse_list(text: str) -> Amounts:
    """Reads `vcore=64,memory=256Gi,gpu=8`. Raises ValueError."""
    amounts: Amounts = {}
    for part in text.split(","):
        name, separator, amount = part.strip().partition("=")
        if not name or not separator:
            raise ValueError(f"{part!r}: expected NAME=AMOUNT, such as vcore=64 or memory=256Gi")
        if name in amounts:
            raise ValueError(f"{name} is given twice")
        amounts[name] = quantities.parse_amount(name, amount)
    return amounts


def rounded(resource: str, amount: int) -> int:
    """Rounds down to what people write: memory to whole MiB."""
    return amount - amount % _MEMORY_STEP if resource == "memory" and amount >= _MEMORY_STEP else amount


def shares(resource: str, total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divides `total` by weights, rounded down, so that the parts never exceed the total."""
    whole = sum(weights.values())
    return {name: rounded(resource, total * weight // whole) if whole else 0 for name, weight in weights.items()}
