"""The configuration of a load: one leaf queue, open to all."""

from __future__ import annotations


def configuration(queue: str) -> str:
    """Returns the text of a queues.yaml with root.`queue`."""
    return f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{{name: {queue}}}]}}]}}]\n"
