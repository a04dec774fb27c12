"""Divides a text of queues.yaml by partitions, without IO: one text for each group of partitions.

Lines are taken out, never written anew, so that comments and spellings stay. The partitions that are built from the new
texts have to be those of the old one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from remuda_config.load import load
from remuda_config.problems import Invalid
from remuda_config.schema import read_yaml
from remuda_proto.remuda.v1 import config_pb2


class NotDivisible(ValueError):
    """The text cannot be divided that way; the message says why."""


def partitions_of(text: str) -> list[str]:
    """Returns the names of the partitions, in the order of the text. Raises Invalid."""
    return [partition.name for partition in load(text).partitions]


def divide(text: str, groups: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Returns a text with the partitions of each group, by the name of the group.

    Each partition has to be in exactly one group. Raises Invalid for the text itself, NotDivisible.
    """
    whole = load(text)
    names = [partition.name for partition in whole.partitions]
    _check(names, groups)
    lines = text.splitlines(keepends=True)
    spans = _spans(lines, len(names), text)
    result = {}
    for group, members in groups.items():
        left_out = {
            number for name, span in zip(names, spans, strict=True) if name not in members for number in range(*span)
        }
        part = "".join(line for number, line in enumerate(lines) if number not in left_out)
        _check_same(group, part, [one for one in whole.partitions if one.name in members])
        result[group] = part
    return result


def _check(names: list[str], groups: Mapping[str, Collection[str]]) -> None:
    known = ", ".join(names)
    for name in names:
        having = [group for group, members in groups.items() if name in members]
        if len(having) != 1:
            where = f"in {' and in '.join(having)}" if having else "in none"
            raise NotDivisible(f"partition {name!r} is {where}, expected in exactly one")
    for group, members in groups.items():
        if unknown := sorted(set(members) - set(names)):
            raise NotDivisible(f"{group}: partition {unknown[0]!r} is not in the configuration, which has {known}")
        if not members:
            raise NotDivisible(f"{group} has no partition")


def _spans(lines: list[str], count: int, text: str) -> list[tuple[int, int]]:
    """First line of each partition, from 0, with the comment above it, and the line after its last."""
    document = read_yaml(text)
    starts = [document.line(("partitions", number)) - 1 for number in range(count)]
    if len(set(starts)) < count or any(not lines[start].lstrip().startswith("-") for start in starts):
        raise NotDivisible("the partitions do not begin on lines of their own, with a '-': lines cannot be taken out")
    last = next((n for n in range(starts[-1] + 1, len(lines)) if _ends_list(lines[n])), len(lines))
    begins = [_with_comment(lines, start) for start in starts]
    return list(zip(begins, [*begins[1:], last], strict=True))


def _ends_list(line: str) -> bool:
    return line.startswith("---") or (line.strip() != "" and line[0] not in " \t#-")


def _with_comment(lines: list[str], start: int) -> int:
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start


def _check_same(group: str, part: str, expected: list[config_pb2.PartitionConfig]) -> None:
    try:
        found = list(load(part).partitions)
    except Invalid as invalid:
        raise NotDivisible(f"{group}: without the other partitions the text is not valid: {invalid}") from None
    if found != expected:
        raise NotDivisible(f"{group}: without the lines of the other partitions the text means something else")
