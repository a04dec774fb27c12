"""Arguments of calls of the SDK: the value that is meant, or a ValueError that names the argument. Pure.

Amounts are in base units afterwards: `vcore` in thousandths of a core, all others as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isclose
from operator import index
from typing import Any, NoReturn, TypeVar, cast

from google.protobuf.message import Message

from remuda_proto.bounds import INT64, shown
from remuda_proto.constants import CPU
from remuda_proto.quantities import parse_amount

T = TypeVar("T")

# An amount of a resource: a whole number of base units, a quantity of queues.yaml as text, or a fraction of cores.
Amount = int | float | str
Amounts = Mapping[str, Amount]

MOST = INT64[1]


def wrong(argument: str, value: object, expected: str) -> NoReturn:
    raise ValueError(f"{argument}={_shown(value)}: expected {expected}")


def _shown(value: object) -> str:
    """The value as errors quote it; a message by its type, since its text has several lines."""
    return f"<{type(value).__name__}>" if isinstance(value, Message) else shown(value)


def amounts(argument: str, resources: Amounts | None, named: Amounts | None = None) -> dict[str, int]:
    """Amounts in base units, from the mapping of this argument and from keyword arguments. Raises ValueError."""
    if resources is None:
        return {resource: amount(resource, value) for resource, value in (named or {}).items()}
    # An RM names amounts for each of its asks: what is almost always given is told by its type, without a call.
    if type(resources) is not dict and not isinstance(resources, Mapping):
        wrong(argument, resources, 'a mapping of names to amounts, such as {"vcore": 500}')
    found: dict[str, int] = {}
    for resource, value in resources.items():
        if not isinstance(resource, str):
            wrong(argument, resources, f"names of resources as text, not {shown(resource)}")
        if named and resource in named:
            raise ValueError(f"{resource}={shown(named[resource])}: {argument} names it too, expected it once")
        if type(value) is int and 0 <= value <= MOST:
            found[resource] = value
        else:
            found[resource] = amount(resource, value, argument)
    for resource, value in (named or {}).items():
        found[resource] = amount(resource, value)
    return found


def amount(resource: str, value: Amount, mapping: str = "") -> int:
    """An amount in base units. `mapping`: the argument that holds it; empty: a keyword argument of its own."""
    if type(value) is int and 0 <= value <= MOST:
        return value
    argument = f"{mapping}[{resource!r}]" if mapping else resource
    if isinstance(value, str):
        try:
            return parse_amount(resource, value)
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from None
    if not isinstance(value, float):
        return whole(argument, value, 0, MOST)
    if resource == CPU:
        return _thousandths(argument, value)
    if not (value.is_integer() and 0 <= value <= MOST):
        wrong(argument, value, 'a whole number, at least 0, or a text such as "512Mi"')
    return int(value)


def _thousandths(argument: str, cores: float) -> int:
    """Thousandths of a fraction of cores. A whole float is refused: 2.0 may be two cores, or two thousandths."""
    if cores.is_integer():
        wrong(argument, cores, f'{int(cores)} for thousandths of a core, or the text "{int(cores)}" for cores')
    exact = cores * 1_000
    if not (0 < exact < MOST and isclose(exact, round(exact), abs_tol=1e-6) and round(exact)):
        wrong(argument, cores, "cores with at most three decimals, above 0")
    return round(exact)


def whole(argument: str, value: object, least: int, most: int) -> int:
    """A whole number of that range."""
    expected = f"a whole number from {least} to {most}" if most != MOST else f"a whole number, at least {least}"
    if isinstance(value, bool):
        wrong(argument, value, expected)
    try:
        number = index(cast(Any, value))  # also numbers of other libraries
    except TypeError:
        wrong(argument, value, expected)
    if not least <= number <= most:
        wrong(argument, value, expected)
    return number


def text(argument: str, value: object) -> str:
    if not isinstance(value, str):
        wrong(argument, value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        wrong(argument, value, "a text that UTF-8 can encode")
    return value


def identifier(argument: str, value: object) -> str:
    """A text that is not empty."""
    return text(argument, value) or wrong(argument, value, "a text that is not empty")


def one_of(argument: str, value: T, allowed: Sequence[T]) -> T:
    return value if value in allowed else wrong(argument, value, f"one of {', '.join(map(repr, allowed))}")


def seconds(argument: str, value: object, least: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < inf:
        wrong(argument, value, f"seconds, at least {least:g}")
    return value


def flag(argument: str, value: object) -> bool:
    if not isinstance(value, bool):
        wrong(argument, value, "True or False")
    return value


def texts(argument: str, values: object) -> list[str]:
    """Several texts. One text alone is refused: it would be taken letter by letter."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        wrong(argument, values, f"several texts, such as [{shown(values) if isinstance(values, str) else '...'}]")
    return [text(f"{argument}[{number}]", one) for number, one in enumerate(values)]


def text_map(argument: str, values: object) -> dict[str, str]:
    """Texts by text; None is empty."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        wrong(argument, values, "a mapping of texts to texts")
    for key, value in values.items():
        text(f"a key of {argument}", key)
        text(f"{argument}[{key!r}]", value)
    return dict(values)


def messages(argument: str, values: object, kind: type[T]) -> list[T]:
    """Several messages of a kind."""
    if isinstance(values, str | bytes | Mapping | Message) or not isinstance(values, Iterable):
        wrong(argument, values, f"several of {kind.__name__}")
    found = list(values)
    for number, one in enumerate(found):
        if not isinstance(one, kind):
            wrong(f"{argument}[{number}]", one, kind.__name__)
    return found


def several(call: str, given: Iterable[object], *kinds: type[T]) -> list[T]:
    """The items of a call that takes them one by one, in iterables, or both. Raises ValueError for an item of another
    kind."""
    found: list[T] = []
    for one in given:
        if isinstance(one, kinds):
            found.append(one)
        elif isinstance(one, str | bytes | Mapping | Message) or not isinstance(one, Iterable):
            _wrong_item(call, one, kinds)
        else:
            for item in one:
                if not isinstance(item, kinds):
                    _wrong_item(call, item, kinds)
                found.append(item)
    return found


def identifiers(call: str, given: Iterable[object]) -> list[str]:
    """The IDs of a call for several, none of them empty."""
    return [identifier(f"{call}: an ID", one) for one in several(call, given, str)]


def _wrong_item(call: str, one: object, kinds: tuple[type, ...]) -> NoReturn:
    names = " or ".join("text" if kind is str else kind.__name__ for kind in kinds)
    raise ValueError(f"{call}: {_shown(one)}: expected {names}, one by one or in a list")
