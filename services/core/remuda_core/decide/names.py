"""Names from requests, shortened for messages."""

from __future__ import annotations

from remuda_proto.bounds import ID_BYTES, shortened


def identity(name: str) -> str:
    """An ID or key for a refusal: shortened, so that the RM recognises it by its beginning."""
    return shortened(name, ID_BYTES)


def plain(partition: str) -> str:
    """[rm-1]default -> default"""
    return partition.partition("]")[2] or partition


def identities(of_ask: tuple[str, str, str]) -> tuple[str, str, str]:
    """The `identity` of each part of the name of an ask."""
    partition, application_id, key = of_ask
    return identity(partition), identity(application_id), identity(key)
