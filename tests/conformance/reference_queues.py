"""The reference's rules of queues, in the place of ours (see reference_rules.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from remuda_core.decide import submit
from remuda_core.settings import QueueSettings
from remuda_core.state import Partition


@contextmanager
def keep_a_copy_of_the_template() -> Iterator[None]:
    """A parent that is made on the way keeps the template that was in force then. Queues made below it have that
    template."""
    dynamic_queue = submit.dynamic_queue

    def with_copy(partition: Partition, path: str, leaf: bool) -> QueueSettings:
        made, above = dynamic_queue(partition, path, leaf), path.rpartition(".")[0]
        while above not in partition.queues:
            above = above.rpartition(".")[0]
        templates = (queue.settings.child_template for queue in partition.queues[above].path_to_root)
        return made if leaf else replace(made, child_template=next(filter(None, templates), None))

    with patch.object(submit, "dynamic_queue", with_copy):
        yield
