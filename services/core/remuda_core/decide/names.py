"""Checks names from requests (semantics section 1), and shortens them for messages."""

from __future__ import annotations

from remuda_proto.bounds import ID_BYTES, exceeds, shortened, too_long


def problem_of_name(field: str, name: str) -> str | None:
    """Why an ID or key of a request is invalid. None if it is valid."""
    if not name:
        return f"{field} is empty"
    return too_long(field, name, ID_BYTES) if exceeds(name, ID_BYTES) else None


def identity(name: str) -> str:
    """An ID or key for a refusal: shortened, so that the RM recognises it by its beginning."""
    return shortened(name, ID_BYTES)


def plain(partition: str) -> str:
    """[rm-1]default -> default"""
    return partition.partition("]")[2] or partition
