"""The reference's rules of names and placement in the place of ours, as those in `reference_rules`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final
from unittest.mock import patch

from remuda_config import verify
from remuda_config.rules import placement as rules_of_placement
from remuda_config.rules import user_limits
from remuda_core.decide import submit
from remuda_core.rules import placement
from remuda_core.rules.placement import NotPlaced, Placed, Queues
from remuda_core.rules.placement_rules import RULES, Applicant
from remuda_core.settings import PartitionSettings, PlacementRule
from remuda_proto.names import BY_KIND, QUEUE, NamePattern

QUEUE_NAME: Final = NamePattern(re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch, "a name of 1.4")
USER_NAME: Final = NamePattern(re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.@-]*[$]?").fullmatch, "a name of 1.4")


@contextmanager
def refuse_later_names() -> Iterator[None]:
    """Names of queues have none of `: # / @`, names of users, in requests and limits, have no `# /`."""
    with ExitStack() as stack:
        for module in (verify, rules_of_placement):
            stack.enter_context(patch.object(module, "QUEUE", QUEUE_NAME))
        stack.enter_context(patch.object(user_limits, "BY_KIND", {**BY_KIND, "user": USER_NAME}))
        stack.enter_context(patch.object(submit, "USER", USER_NAME))
        stack.enter_context(_rejecting_at(lambda name: QUEUE.matches(name) and not QUEUE_NAME.matches(name)))
        yield


def reject_what_no_rule_places() -> AbstractContextManager[object]:
    return patch.object(placement, "DEFAULT_QUEUE", "")


class _Ended(Exception):
    pass


@contextmanager
def _rejecting_at(bad: Callable[[str], object]) -> Iterator[None]:
    """A rule that makes such a name for a queue ends the placement."""
    check, place = placement._check, placement.place

    def ending(path: str, rule: PlacementRule, queues: Queues, who: Applicant) -> Placed | NotPlaced:
        if any(map(bad, path.split("."))):
            raise _Ended(path)
        return check(path, rule, queues, who)

    def placed(settings: PartitionSettings, queues: Queues, who: Applicant, *, runs: bool) -> Placed | NotPlaced:
        try:
            return place(settings, queues, who, runs=runs)
        except _Ended as error:
            return NotPlaced(f"queue {error} is not possible")

    with patch.object(placement, "_check", ending), patch.object(submit, "place", placed):
        yield


@contextmanager
def reject_at_the_first_bad_queue_name() -> Iterator[None]:
    """A rule that makes an impossible queue name, or a queue below a leaf, ends the placement."""
    apply = placement._apply

    def applied(rule: PlacementRule, queues: Queues, who: Applicant) -> str | NotPlaced:
        above = (
            apply(rule.parent, queues, who) if rule.parent is not None and RULES[rule.name].name_of(rule, who) else None
        )
        if isinstance(above, str) and above in queues and queues[above].leaf:
            raise _Ended(above)
        return apply(rule, queues, who)

    with (
        patch.object(placement, "_apply", applied),
        _rejecting_at(lambda name: not QUEUE_NAME.matches(name)),
    ):
        yield
