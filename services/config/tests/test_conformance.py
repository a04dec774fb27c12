"""The verdicts and settings of Apache YuniKorn 1.4 over a corpus of texts, where that is at hand.

What it refuses we refuse, but for the reasons in LAXER; what it accepts we accept, but for the kinds in STRICTER;
and what both accept means the same, but for the kinds in MEANS_ANOTHER.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import remuda_config
from remuda_proto.remuda.v1.config_pb2 import Configuration
from remuda_proto.si.v1 import si_pb2 as si

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("REMUDA_CONFORMANCE", ROOT.parent / "shared" / "conformance")) / "config"

pytestmark = pytest.mark.skipif(
    not (CORPUS / "verdict.json").exists(), reason=f"no corpus in {CORPUS} (set REMUDA_CONFORMANCE to its folder)"
)

# Texts the reference refuses and we accept: reason -> a predicate of (its error, the text).
LAXER = {
    "queue names are the same in any case, also in placement rules": lambda error, text: (
        "references non-existing queues" in error and re.search(r"name: [a-z-]*[A-Z]", text)
    ),
    "a queue with children is a parent, with or without the flag": lambda error, text: (
        re.search(r"\(fixed->\w+\) references a queue \S+ which is not a leaf", error) and "queues:" in text
    ),
    "root is root in any case": lambda error, text: "without root queue" in error,
}

# Texts the reference accepts and we refuse: kind -> a pattern; each problem of such a text has to match one.
STRICTER = {
    "access lists name users and groups, or everyone": r"acl: .*((bad|empty) (user|group) name|stand alone)",
    "no partitions is no configuration": r"at least one partition",
    "a limit binds below queues that limit others": r"limits.* is above the limit of ",
    "unknown keys: nothing is read that has no effect": r"statedumpfilepath: unknown key",
    "filters are lists of names, or one regular expression": r"filter\.\w+\[\d+\]: bad (user|group) name",
    "a queue that a rule would create needs a name that is possible": r"placementrules.*bad queue name",
    "fixed rules lead somewhere in any spelling": r"placementrules.*there is no such queue",
    "rules that never place anything": r"unknown rule 'test'",
    "values of properties": r'properties\["[a-z.]*"\]: .*(unknown|whole number|duration|needs a name)',
    "names of resources": r"a resource needs a name",
    "guarantees are kept resource by resource": r"less than what the queues below it are guaranteed",
    "templates obey the rules of queues": r"childtemplate\..* (is above|is not a quantity|has an unknown suffix)",
    "counts are whole numbers": r"maxapplications: expected a whole number",
    "quoted values are texts": r"expected true or false \(without quotes\), found '",
}

# Where both accept and the settings differ: kind -> a predicate of (setting, ours, theirs).
MEANS_ANOTHER = {
    "choices are kept in lower case": lambda setting, ours, theirs: (
        setting == "properties" and ours == {name: value.lower() for name, value in theirs.items()}
    ),
    "a maximum of zero is a maximum": lambda setting, ours, theirs: (
        setting in ("max", "guaranteed", "template max") and not theirs and not any(ours.values())
    ),
    "a queue called root below root is a queue like any other": lambda setting, ours, theirs: (
        setting == "max" and not theirs and ours == {"memory": 10}
    ),
}


def accepts(verdict: dict[str, Any]) -> bool:
    return all(part.get("accept", True) for part in (verdict, verdict.get("register", {}), verdict.get("update", {})))


def error_of(verdict: dict[str, Any]) -> str:
    parts = (verdict, verdict.get("register", {}), verdict.get("update", {}))
    return " ".join(part["error"] for part in parts if part.get("error"))


@cache
def loaded(text: str) -> tuple[Configuration | None, list[str]]:
    try:
        return remuda_config.load(text), []
    except remuda_config.Invalid as error:
        return None, [str(problem) for problem in error.problems]


def problems(text: str) -> list[str]:
    return loaded(text)[1]


def stricter(found: list[str]) -> bool:
    return all(any(re.search(pattern, problem) for pattern in STRICTER.values()) for problem in found)


def texts() -> dict[str, str]:
    return {file.name: file.read_bytes().decode() for file in sorted((CORPUS / "files").glob("*.yaml"))}


def test_verdicts():
    verdicts = json.loads((CORPUS / "verdict.json").read_text())
    unexplained = []
    for name, text in texts().items():
        found, theirs = problems(text), accepts(verdicts[name])
        if theirs and found:
            explained = stricter(found)
        elif not theirs and not found:
            explained = any(fits(error_of(verdicts[name]), text) for fits in LAXER.values())
        else:
            continue
        if not explained:
            unexplained.append((name, found or error_of(verdicts[name])))
    assert unexplained == []
    assert len(verdicts) > 400


def test_settings_in_force():
    effective = json.loads((CORPUS / "effective.json").read_text())
    differences = []
    compared = 0
    for name, text in texts().items():
        theirs = effective.get(name, {}).get("after_register")
        if not theirs or problems(text):
            continue
        configuration, _ = loaded(text)
        assert configuration is not None
        compared += 1
        assert configuration.checksum == effective[name]["validated"]["Checksum"]
        for partition in configuration.partitions:
            reference = theirs[f"[rm:123]{partition.name}"]
            policy = reference["info"]["nodeSortingPolicy"]
            ours = {
                "type": partition.node_sort_policy.type,
                "resourceWeights": partition.node_sort_policy.resource_weights,
            }
            assert ours == policy
            differences += [(name, *found) for found in compare(partition.root, reference["root"], "root")]
    unexplained = [each for each in differences if not any(fits(*each[2:]) for fits in MEANS_ANOTHER.values())]
    assert unexplained == []
    assert compared > 150


def compare(queue, reference, path):
    """(path, setting, ours, theirs) of each difference."""
    assert path == reference["path"]
    template = reference.get("template") or {}
    children = {child["path"]: child for child in reference.get("children", [])}
    pairs = {
        "leaf": (not queue.parent, reference["leaf"]),
        "properties": (dict(queue.properties), reference.get("properties") or {}),
        "max": (amounts(queue.max), reference.get("max") or {}),
        "guaranteed": (amounts(queue.guaranteed), reference.get("guaranteed") or {}),
        "applications": (queue.max_applications, reference["maxRunningApps"]),
        "template": (queue.HasField("child_template"), reference["hasTemplate"]),
        "template properties": (dict(queue.child_template.properties), template.get("properties") or {}),
        "template max": (amounts(queue.child_template.max), template.get("max") or {}),
        "template guaranteed": (amounts(queue.child_template.guaranteed), template.get("guaranteed") or {}),
        "queues": (sorted(f"{path}.{child.name}" for child in queue.queues), sorted(children)),
    }
    yield from ((path, setting, ours, theirs) for setting, (ours, theirs) in pairs.items() if ours != theirs)
    for child in queue.queues:
        below = f"{path}.{child.name}"
        if below in children:
            yield from compare(child, children[below], below)


def amounts(resource: si.Resource) -> dict[str, int]:
    return {name: amount.value for name, amount in resource.resources.items()}


def test_updates():
    """Each text before an update is accepted, and each after it as well, or refused by both or for a reason above."""
    updates = json.loads((CORPUS / "updates.json").read_text())
    for name, update in updates.items():
        before, after = ((CORPUS / "updates" / f"{name}.{side}.yaml").read_text() for side in ("before", "after"))
        assert problems(before) == [], name
        found = problems(after)
        if update["ok"] and found:
            assert stricter(found), (name, found)
        else:
            assert update["ok"] == (found == []), (name, found)
