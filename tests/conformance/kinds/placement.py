"""Queues that later versions of the reference know: names, and where an application goes that no rule places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import remuda_config
from remuda_proto import names

from ..case import Case, in_step, queue_configs
from ..recording import Json
from ..reference_placement import QUEUE_NAME, USER_NAME, refuse_later_names, reject_what_no_rule_places
from .applications import made_by
from .kind import Kind
from .lookups import names_application, taken_alone

DEFAULT: Final = "root.default"


class LaterNames(Kind):
    """Names may have characters of later versions

    Queues may have `:`, `#`, `/` and `@` in their names, users `#` and `/`, as since 1.6. Version 1.4 refuses them.
    """

    golden = "names.txt: Queues and users may have what addresses and paths are made of"
    reference_rules = (refuse_later_names,)

    def taints_from(self, case: Case) -> int | None:
        """Where ours takes a configuration or an application with such a name, and theirs does not."""
        steps = [number for number, text in taken_alone(case, by_ours=True) if any(map(_is_later, _names_in(text)))]
        for number, ours in enumerate(case.our_steps):
            if any(self._has_later_names(ours, each) for each in _only_accepted(case, number)):
                steps.append(number)
        return min(steps, default=None)

    def _has_later_names(self, ours: Json, application: Json) -> bool:
        user = str((application.get("ugi") or {}).get("user", ""))
        queue = placed_in(ours, application)
        return not USER_NAME.matches(user) or any(map(_is_later, queue.split(".")))


def _is_later(name: str) -> bool:
    """Of a queue or a user."""
    queue = names.QUEUE.matches(name) and not QUEUE_NAME.matches(name)
    return bool(queue or (names.USER.matches(name) and not USER_NAME.matches(name)))


def _names_in(text: str) -> Iterator[str]:
    """Of the queues in a configuration, also in its rules, and of users in limits."""
    try:
        configuration = remuda_config.load(text)
    except remuda_config.Invalid:
        return
    for partition in configuration.partitions:
        for rule in partition.placement_rules:
            yield from rule.value.split(".")
    for path, queue in queue_configs(configuration).items():
        yield path.rpartition(".")[2]
        for limit in queue.limits:
            yield from limit.users


class PlacedByDefault(Kind):
    """An application that no rule places goes to `root.default`

    YuniKorn does so since 1.6, if that queue exists. Version 1.4 of the scheduler rejects the application.
    """

    golden = "placement.txt: What no rule places goes to root.default, where that is"
    reference_rules = (reject_what_no_rule_places,)

    def taints_from(self, case: Case) -> int | None:
        """Where ours places there what neither asks for this queue nor is led there by a rule, and theirs rejects
        it."""
        for step in case.scenario.steps:
            for application in _only_accepted(case, step.number):
                led = placed_in(case.our_steps[step.number], application) == DEFAULT
                if led and not self._is_meant(case, step.number, application):
                    return step.number
        return None

    def _is_meant(self, case: Case, step: int, application: Json) -> bool:
        configuration = case.configuration_at(step)
        rules = [rule for each in configuration.partitions for rule in each.placement_rules] if configuration else []
        asked = str(application.get("queueName", "")).lower()
        return asked in ("default", DEFAULT) or any(made_by(rule, application) == DEFAULT for rule in rules)


def _only_accepted(case: Case, step: int) -> Iterator[Json]:
    """Applications of this step that ours accepts and theirs rejects."""
    ours = in_step(case.our_steps[step], "application", "accepted")
    theirs = in_step(case.their_steps[step], "application", "rejected")
    for at, application in case.applications():
        name = application.get("applicationID", "")
        if at.number == step and names_application(ours, name) and names_application(theirs, name):
            yield application


def placed_in(ours: Json, application: Json) -> str:
    """The queue, as the events of this step say; empty for none."""
    name = application.get("applicationID", "")
    return next(
        (
            str(event.get("objectID", ""))
            for event in ours.get("events") or ()
            if (event.get("eventChangeDetail"), event.get("referenceID")) == ("QUEUE_APP", name)
        ),
        "",
    )
