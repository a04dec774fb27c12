"""The results of a run of scenarios, for people: a table of all, or one scenario step by step."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .case import Case
from .compare import FINAL, Difference, amounts, events_of
from .recording import Json
from .verdict import DIFFERENT, FAILED, VERDICTS, Verdict

COLOURS = {"equal": "green", "explained": "cyan", "different": "red", "failed": "bold red"}


def table(verdicts: Sequence[Verdict]) -> Table:
    shown = Table("scenario", "verdict", "why", box=None, pad_edge=False)
    for verdict in verdicts:
        why = verdict.summary() + ("" if verdict.deterministic else " (the reference varies here)")
        count = f" ({len(verdict.unexplained)})" if verdict.word == DIFFERENT else ""
        shown.add_row(verdict.name, Text(verdict.word + count, COLOURS[verdict.word]), escape(shorten(why)))
    return shown


def totals(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.word for verdict in verdicts)
    words = ", ".join(f"{counts[word]} {word}" for word in VERDICTS)
    compared = f"{compared_throughout(verdicts)} compared in every step, {blind_steps(verdicts)} steps not compared"
    return f"{len(verdicts)} scenarios: {words}; {compared}"


def compared_throughout(verdicts: Sequence[Verdict]) -> int:
    """Equal, or with differences that change nothing in what is allocated."""
    return sum(verdict.word in ("equal", "explained") and verdict.parted_at is None for verdict in verdicts)


def blind_steps(verdicts: Sequence[Verdict]) -> int:
    """The text for a difference after which nothing can be compared."""
    return sum(
        len(verdict.case.scenario.steps) - verdict.parted_at
        for verdict in verdicts
        if verdict.case is not None and verdict.parted_at is not None
    )


def blind_share(verdicts: Sequence[Verdict]) -> float:
    steps = sum(len(verdict.case.scenario.steps) for verdict in verdicts if verdict.case is not None)
    return blind_steps(verdicts) / max(1, steps)


def as_json(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.word for verdict in verdicts)
    details = {
        verdict.name: {
            "verdict": verdict.word,
            "deterministic": verdict.deterministic,
            **({"kinds": verdict.kinds} if verdict.kinds else {}),
            **({"error": verdict.error} if verdict.word == FAILED else {}),
            **({"first": [str(each) for each in verdict.unexplained[:3]]} if verdict.unexplained else {}),
        }
        for verdict in verdicts
    }
    words = {word: counts[word] for word in VERDICTS}
    throughout = {"compared_throughout": compared_throughout(verdicts), "blind_steps": blind_steps(verdicts)}
    return json.dumps({"scenarios": len(verdicts), **words, **throughout, "details": details})


def shorten(text: str, most: int = 220) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


# One scenario


def story(console: Console, verdict: Verdict, steps_shown: int = 3) -> None:
    """The steps, and both answers side by side where they differ."""
    console.print(f"[bold]{verdict.name}[/]: [{COLOURS[verdict.word]}]{verdict.word}[/]")
    for kind, count in verdict.kinds.items():
        console.print(f"  explained: {escape(kind)} ({count})")
    if verdict.error:
        console.print(escape(verdict.error))
    case = verdict.case
    if case is None:
        return
    scenario = case.scenario
    console.print(f"{escape(scenario.description)}; {'manual' if scenario.manual else 'auto'}; {scenario.options}")
    console.print(escape(scenario.config.strip()), style="dim")
    by_step: dict[int, list[Difference]] = defaultdict(list)
    for difference in verdict.unexplained:
        by_step[difference.step].append(difference)
    shown = 0
    for step in scenario.steps:
        differs = by_step.get(step.number)
        label = f"  # {step.label}" if step.label else ""
        style = "bold yellow" if differs else "dim"
        line = f"step {step.number} {step.action} {describe(step.action, step.argument)}{label}"
        console.print(escape(line), style=style)
        if differs and shown < steps_shown:
            shown += 1
            _step(console, case, step.number, differs)
        elif shown >= steps_shown:
            break
    final = by_step.get(FINAL)
    if final and shown < steps_shown:
        console.print("final", style="bold yellow")
        _differences(console, final)
    left = sum(map(len, by_step.values()))
    console.print(f"{left} unexplained differences, in steps {', '.join(map(str, by_step))}")


def _step(console: Console, case: Case, number: int, differs: list[Difference]) -> None:
    ours, theirs = case.our_steps[number], case.their_steps[number]
    for name in ("error", "cycles", "productiveCycles"):
        if ours.get(name) != theirs.get(name):
            console.print(escape(f"   {name}: ours {ours.get(name)}, theirs {theirs.get(name)}"))
    kinds = {difference.path[0].partition(" ")[0] for difference in differs}
    if kinds & {"allocation", "application", "node", "productiveCycles"}:
        sides = Table("", "ours", "theirs", box=None)
        mine, other = callback_lines(ours["callbacks"]), callback_lines(theirs["callbacks"])
        for row in range(max(len(mine), len(other))):
            one = mine[row] if row < len(mine) else ""
            two = other[row] if row < len(other) else ""
            sides.add_row("" if one == two else "!", escape(one), escape(two), style="" if one == two else "red")
        console.print(sides)
    if "event" in kinds:
        mine_events, other_events = events_of(ours["events"]), events_of(theirs.get("events") or ())
        for event in sorted(mine_events - other_events):
            console.print(escape(f"   event only ours:   {' '.join(filter(None, event))}"))
        for event in sorted(other_events - mine_events):
            console.print(escape(f"   event only theirs: {' '.join(filter(None, event))}"))
    _differences(console, [each for each in differs if each.path[0] == "dump"])


def _differences(console: Console, differs: Iterable[Difference]) -> None:
    for each in differs:
        path = "/".join(each.path[1:]).replace("partitions/[", "[")
        console.print(escape(f"   {path}:"))
        console.print(escape(f"      ours   {shorten(json.dumps(each.ours, sort_keys=True), 1000)}"))
        console.print(escape(f"      theirs {shorten(json.dumps(each.theirs, sort_keys=True), 1000)}"))


def callback_lines(callbacks: Iterable[Json]) -> list[str]:
    """Every callback in a few words, in the order received."""
    lines: list[str] = []
    for callback in callbacks:
        message = callback["msg"]
        if callback["cb"] in ("allocation", "application", "node"):
            for name, items in message.items():
                lines += sorted(_element(name, item) for item in items)
        elif callback["cb"] == "confirm":
            lines += [f"  (the RM confirms {item.get('UUID')})" for item in _confirmed(message)]
    return [line for line in lines if not line.startswith("  (")]


def _confirmed(message: Json) -> list[Json]:
    return list((message.get("releases") or {}).get("allocationsToRelease") or ())


def _element(name: str, item: Mapping[str, Any]) -> str:
    if name == "new":
        kind = " placeholder" if item.get("placeholder") else ""
        group = f" group={item['taskGroupName']}" if item.get("taskGroupName") else ""
        need = amount(amounts(item.get("resourcePerAlloc")))
        return f"new {item.get('applicationID')}/{item.get('UUID')} on {item.get('nodeID')} {need}{kind}{group}"
    if name in ("released", "releasedAsks"):
        what = item.get("UUID") or f"ask {item.get('allocationKey')}"
        return f"released {item.get('applicationID')}/{what} {item.get('terminationType', '')}"
    if name == "updated":
        return f"{item.get('applicationID')} is {item.get('state')}"
    key = item.get("nodeID") or "/".join(filter(None, (item.get("applicationID"), item.get("allocationKey"))))
    return f"{name} {key}"


# Requests, in a few words


def describe(action: str, argument: Any) -> str:
    if action not in ("node", "application", "allocation"):
        return "" if action in ("dump", "config") else str(argument)
    words = []
    for name, items in argument.items():
        if name == "releases":
            words += [f"releases {_words(each)}" for list_ in (items or {}).values() for each in list_ or ()]
        elif isinstance(items, list):
            words += [f"{name} {_words(item)}" for item in items]
    return "\n         ".join(["", *words]) if len(words) > 1 else "".join(words)


def _words(item: Mapping[str, Any]) -> str:
    shown = []
    for key, value in item.items():
        if key in ("partitionName", "message") or value in ({}, [], "", None):
            continue
        if isinstance(value, Mapping) and "resources" in value:
            value = amount(amounts(value))
        shown.append(str(value) if key in ("allocationKey", "applicationID", "nodeID", "action") else f"{key}={value}")
    return " ".join(shown)


def amount(resource: Mapping[str, int]) -> str:
    return "{" + " ".join(f"{name}={quantity}" for name, quantity in resource.items()) + "}"
