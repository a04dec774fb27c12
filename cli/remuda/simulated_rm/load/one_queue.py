"""The configuration of a load: one leaf queue, open to all."""

from __future__ import annotations


def configuration(queue: str, more: str = "") -> str:
    """Returns the text of a queues.yaml with root.`queue`. `more`: further keys of the partition, each with a comma."""
    queues = f"[{{name: root, submitacl: '*', queues: [{{name: {queue}}}]}}]"
    return f"partitions: [{{name: default, {more}queues: {queues}}}]\n"
