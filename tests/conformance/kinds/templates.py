"""Templates of queues that placement rules make."""

from __future__ import annotations

from typing import Any

from remuda_core.wire.resources import read_resource

from ..case import Case, event_in, queue_configs, queues_of
from ..compare import amounts
from ..reference_queues import keep_a_copy_of_the_template
from .kind import Kind


class TemplateInForce(Kind):
    """A new queue has the template that is in force

    In YuniKorn a parent that was made on the way keeps a copy of the template for every later queue below it,
    whatever an update changes.
    """

    golden = "dynamic_queues.txt: A queue below an older dynamic parent has the template that is in force"
    reference_rules = (keep_a_copy_of_the_template,)

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            if not (ours.get("dump") and theirs.get("dump")):
                continue
            mine, other = queues_of(ours["dump"]), queues_of(theirs["dump"])
            for path in mine.keys() & other.keys():
                if mine[path].get("isLeaf") and not mine[path].get("isManaged") and mine[path] != other[path]:
                    made = self._made_in(case, path, number)
                    if made is not None and self._old_and_new(case, made, path, mine[path], other[path]):
                        return made
        return None

    def _made_in(self, case: Case, path: str, step: int) -> int | None:
        """The latest step up to this one in which both have made the queue."""
        both = zip(case.our_steps[: step + 1], case.their_steps[: step + 1], strict=True)
        return max(
            (
                at
                for at, steps in enumerate(both)
                if all(event_in(each, "QUEUE", "ADD", "QUEUE_DYNAMIC", path) for each in steps)
            ),
            default=None,
        )

    def _old_and_new(self, case: Case, step: int, path: str, ours: Any, theirs: Any) -> bool:
        """Ours has the template of the configuration of that step, theirs that of an earlier one."""
        configurations = [queue_configs(found) for number, found in case.configurations() if number <= step]
        above = path.rpartition(".")[0]
        while above and above not in configurations[-1]:
            above = above.rpartition(".")[0]
        templates = [
            {
                "maxResource": read_resource(queues[above].child_template.max),
                "guaranteedResource": read_resource(queues[above].child_template.guaranteed),
            }
            for queues in configurations
            if above in queues
        ]
        mine, other = ({name: amounts(each.get(name)) for name in templates[-1]} for each in (ours, theirs))
        return mine != other and mine == templates[-1] and other in templates[:-1]
