"""A scenario (what was done to a scheduler) and its trace (what the reference answered), as they stand in a folder:

    scenarios/NAME.json, traces/NAME.json, determinism.json

The format is the folder's FORMAT.md. Knows nothing of remuda.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

# Where the recordings are, if they are at hand.
FOLDER: Final = Path(os.environ.get("REMUDA_CONFORMANCE", Path(__file__).parents[3] / "shared" / "conformance"))

# In this order: the first that a step has is what it does.
ACTIONS: Final = (
    "node", "application", "allocation", "config", "wait_ms", "schedule", "clean_queues", "inspect", "dump", "http",
    "health", "history", "get",
)  # fmt: skip


class Unreadable(Exception):
    """A scenario that is not in the format: which, and why."""


@dataclass(frozen=True)
class Options:
    quiet_ms: int = 300
    max_step_ms: int = 20_000
    reservation_delay_ms: int = 2_000
    completing_timeout_ms: int = 30_000
    starting_timeout_ms: int = 300_000
    preempt_attempt_ms: int = 15_000
    no_confirm: bool = False
    confirm_delay_ms: int = 0
    # allocationKey or * -> nodeIDs or *, for which the RM's predicates say no
    predicate_fail: Mapping[str, Sequence[str]] = field(default_factory=dict)
    preempt_pred_fail: Mapping[str, Sequence[str]] = field(default_factory=dict)
    record_predicates: bool = False
    record_scheduling_state: bool = True


@dataclass(frozen=True)
class Step:
    """`argument`: the value of the action."""

    number: int
    action: str
    argument: Any
    label: str = ""
    extra_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    name: str
    steps: tuple[Step, ...]
    options: Options = Options()
    description: str = ""
    manual: bool = False
    config: str = ""
    rm_id: str = "rm:123"
    policy_group: str = "policygroup"
    version: str = ""
    build_info: Mapping[str, str] = field(default_factory=dict)
    extra_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """`deterministic`: the reference gave the same answer every time."""

    scenario: Scenario
    trace: Json
    deterministic: bool = True


FIELDS: Final = {
    "name": "name", "description": "description", "config": "config", "rmID": "rm_id", "policyGroup": "policy_group",
    "version": "version", "buildInfo": "build_info", "extraConfig": "extra_config",
}  # fmt: skip


def read_scenario(written: Json) -> Scenario:
    name = str(written.get("name", "?"))
    unknown = written.keys() - FIELDS.keys() - {"mode", "options", "steps"}
    if unknown:
        raise Unreadable(f"{name}: unknown keys {sorted(unknown)}")
    try:
        options = Options(**written.get("options") or {})
    except TypeError as error:
        raise Unreadable(f"{name}: options: {error}") from None
    given = {to: written[key] for key, to in FIELDS.items() if written.get(key) is not None}
    steps = tuple(_step(name, number, step) for number, step in enumerate(written.get("steps") or ()))
    return Scenario(steps=steps, options=options, manual=written.get("mode") == "manual", **given)


def _step(name: str, number: int, step: Json) -> Step:
    action = next((action for action in ACTIONS if action in step), None)
    if action is None:
        raise Unreadable(f"{name}: step {number} has none of {', '.join(ACTIONS)}: {sorted(step)}")
    return Step(number, action, step[action], step.get("label") or "", step.get("extraConfig") or {})


def is_folder(folder: Path) -> bool:
    return (folder / "scenarios").is_dir() and (folder / "traces").is_dir()


def names_in(folder: Path) -> list[str]:
    return sorted(file.stem for file in (folder / "scenarios").glob("*.json"))


def read(folder: Path, name: str) -> Recording:
    scenario = read_scenario(json.loads((folder / "scenarios" / f"{name}.json").read_text()))
    trace = json.loads((folder / "traces" / f"{name}.json").read_text())
    varied = folder / "determinism.json"
    determinism = json.loads(varied.read_text()).get(name, {}) if varied.exists() else {}
    return Recording(scenario, trace, determinism.get("deterministic", True))
