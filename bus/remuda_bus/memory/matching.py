"""Wildcards in subjects."""

from __future__ import annotations


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a pattern with `*` and `>`."""
    if pattern in (subject, ">"):
        return True
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1] if len(given) >= len(wanted) else []
    return len(wanted) == len(given) and all(one in ("*", two) for one, two in zip(wanted, given, strict=True))
