"""Prices from a file: what an hour of a resource costs, by queue, user, application and tags.

    currency: EUR
    prices:
      - {resource: gpu, queue: root.research, per_hour: 1.20}
      - {resource: vcore, per_hour: 0.031}
      - {resource: memory, unit: 1Gi, per_hour: 0.004}

The first entry that fits prices an amount; what no entry fits costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

from remuda_operations.ledger import hours
from remuda_operations.ledger.hours import HOUR_MS
from remuda_operations.ledger.reading import TAG, LedgerRow
from remuda_proto.bounds import shown
from remuda_proto.quantities import parse_amount

# The unit of a resource in which amounts are shown, exported and priced, unless a price has another one.
UNITS: Final = {"vcore": "1", "memory": "1Gi"}
# Names of these units.
UNIT_NAMES: Final = {"vcore": "core", "memory": "GiB"}
_NAMES: Final = ("partition", "queue", "user", "application")


def base_units(resource: str) -> int:
    """The number of base units in the unit of the resource."""
    return parse_amount(resource, UNITS.get(resource, "1"))


def unit_name(resource: str) -> str:
    return UNIT_NAMES.get(resource, resource)


class Price:
    """`fits`: the value by name that a row has to have; a queue also fits those below it. `per_ms`: of a base unit."""

    __slots__ = ("fits", "kinds", "per_hour", "per_ms", "resource")

    def __init__(
        self, resource: str, per_hour: Decimal, unit: int, kinds: Sequence[str], fits: Mapping[str, str]
    ) -> None:
        self.resource, self.per_hour, self.kinds, self.fits = resource, per_hour, kinds, fits
        self.per_ms = Fraction(per_hour) / (unit * HOUR_MS)

    def is_for(self, resource: str, kind: str, names: Mapping[str, str]) -> bool:
        return (
            resource == self.resource
            and kind in self.kinds
            and all(_fits(name, names.get(name, ""), value) for name, value in self.fits.items())
        )


def _fits(name: str, given: str, wanted: str) -> bool:
    return given == wanted or (name == "queue" and given.startswith(f"{wanted}."))


class Prices:
    """`needs`: the names of rows by which prices differ."""

    def __init__(self, currency: str, prices: Sequence[Price]) -> None:
        self.currency = currency
        self._prices = prices
        self.needs = tuple(dict.fromkeys(name for price in prices for name in price.fits))

    @classmethod
    def read(cls, text: str) -> Prices:
        """Raises ValueError that names the entry, the field and what was expected."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            found = YAML(typ="safe", pure=True).load(text)
        except YAMLError as error:
            raise ValueError(f"not YAML: {str(error).splitlines()[0]}") from None
        fields = _fields(found, "the file", {"currency", "prices"})
        currency, listed = fields.get("currency"), fields.get("prices")
        if not isinstance(currency, str) or len(currency) != 3 or not currency.isalpha():
            raise ValueError(f"currency {shown(str(currency))}: expected the three letters of a currency, such as EUR")
        if not isinstance(listed, list) or not listed:
            raise ValueError("prices: expected a list of entries")
        return cls(currency.upper(), [_price(one, f"prices[{number}]") for number, one in enumerate(listed)])

    def cost(self, resource: str, kind: str, names: Mapping[str, str], amount: int) -> Fraction:
        """The cost of an amount in base units times milliseconds; 0 without a price."""
        price = self.price(resource, kind, names)
        return Fraction(0) if price is None else price.per_ms * amount

    def price(self, resource: str, kind: str, names: Mapping[str, str]) -> Price | None:
        return next((one for one in self._prices if one.is_for(resource, kind, names)), None)

    def costs(self, row: LedgerRow) -> dict[str, Fraction]:
        """The cost of each resource of a row, which has the names that prices need."""
        found: dict[str, Fraction] = {}
        for kind, amounts in row.amounts.items():
            for resource, amount in amounts.items():
                found[resource] = found.get(resource, Fraction(0)) + self.cost(resource, kind, row.names, amount)
        return found


def money(amount: Fraction) -> Decimal:
    """Rounded to a millionth, of whatever size."""
    return Decimal(f"{round(amount * 1_000_000)}e-6")


def _price(found: Any, where: str) -> Price:
    fields = _fields(found, where, {"resource", "unit", "per_hour", "kinds", "tags", *_NAMES})
    resource, kinds = fields.get("resource"), fields.get("kinds", list(hours.USE))
    if not isinstance(resource, str) or not resource:
        raise ValueError(f"{where}.resource {shown(str(resource))}: expected the name of a resource")
    try:
        per_hour = Decimal(str(fields.get("per_hour")))
    except InvalidOperation:
        per_hour = Decimal("NaN")
    if not per_hour.is_finite() or per_hour < 0:
        raise ValueError(f"{where}.per_hour {shown(str(fields.get('per_hour')))}: expected a number from 0")
    try:
        unit = parse_amount(resource, str(fields.get("unit", UNITS.get(resource, "1"))))
    except ValueError as error:
        raise ValueError(f"{where}.unit: {error}") from None
    if not unit:
        raise ValueError(f"{where}.unit: expected more than 0")
    if not isinstance(kinds, list) or not kinds or not all(kind in hours.KINDS for kind in kinds):
        raise ValueError(f"{where}.kinds {shown(str(kinds))}: expected a list of {', '.join(hours.KINDS)}")
    tags = _fields(fields.get("tags", {}), f"{where}.tags", None)
    fits: dict[str, Any] = {name: fields[name] for name in _NAMES if name in fields}
    fits |= {f"{TAG}{name}": value for name, value in tags.items()}
    for name, value in fits.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"{where}.{name} {shown(str(value))}: expected a text")
    return Price(resource, per_hour, unit, tuple(kinds), fits)


def _fields(found: Any, where: str, known: set[str] | None) -> dict[str, Any]:
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{where}: expected fields with values")
    for name in found:
        if known is not None and name not in known:
            raise ValueError(f"{where}: unknown field {shown(name)}, expected {', '.join(sorted(known))}")
    return found
