"""`remuda pools`; `remuda explain` and `remuda story` of tasks and gangs of Peloton's job managers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rich.text import Text

from remuda_bus.bus import Bus
from remuda_bus.status_codes import NOT_FOUND
from remuda_bus.subjects import PELOTON
from remuda_operations.queries import RequestRefused
from remuda_operations.queries import peloton as queries

from ..client.connections import answered
from ..errors import UserError
from ..terminal.output import console, is_wide, table_of
from ..terminal.units import at

Row = dict[str, Any]
KINDS = ("cpu", "gpu", "memory", "disk")
RULES = {
    "entitlement": "tasks that are not revocable would hold more than the entitlement",
    "slack_entitlement": "revocable tasks would hold more than the slack entitlement",
    "controller_limit": "controllers would hold more than the pool allows them",
    "reservation": "tasks that are not preemptible would hold more than the reservation",
}


def cluster_of(log_id: str) -> str:
    return log_id.removeprefix(f"{PELOTON}.")


def pools(url: str, cluster: str, path: str, as_json: bool) -> None:
    found = answered(url, lambda bus: queries.pools(bus, cluster, path))
    if as_json:
        print(json.dumps(found))
        return
    wide = is_wide()
    columns = ["pool", "kind", "held", "wanted", "entitlement", "reservation", "limit", "share"]
    columns += ["slack held", "slack entitlement", "type"] if wide else []
    columns += ["tasks", "waiting"]
    numbers = [name for name in columns if name not in ("pool", "kind", "type")]
    console.print(table_of(*columns, rows=(cells for row in found for cells in _lines(row, wide)), numbers=numbers))


def _lines(row: Row, wide: bool) -> Iterator[list[str]]:
    """One line for each kind that is configured, held or wanted."""
    gangs = sum(row["queues"].values())
    last = [str(row["tasks"]), str(gangs) if row["leaf"] else ""]
    kinds = [
        kind for kind in KINDS
        if row["allocation"][kind] or row["demand"][kind] or row["entitlement"][kind] or row["slack_demand"][kind]
        or row["resources"].get(kind, {}).get("limit")
    ]  # fmt: skip
    if not kinds:
        yield [row["path"], "", *[""] * (9 if wide else 6), *last]
    for kind in kinds:
        one = row["resources"].get(kind, {"reservation": 0.0, "limit": 0.0, "share": 1.0, "type": ""})
        wanted = row["demand"][kind] + row["slack_demand"][kind]
        figures = [row["allocation"][kind], wanted, row["entitlement"][kind]]
        figures += [one["reservation"], one["limit"], one["share"]]
        cells = [row["path"] if kind == kinds[0] else "", kind, *map(figure, figures)]
        if wide:
            cells += [figure(row["slack_allocation"][kind]), figure(row["slack_entitlement"][kind]), one["type"]]
        yield [*cells, *(last if kind == kinds[0] else ("", ""))]


def explain(url: str, cluster: str, sought: str, as_json: bool) -> None:
    async def ask(bus: Bus) -> tuple[Row | None, list[Row]]:
        try:
            return await queries.explain(bus, cluster, sought), []
        except RequestRefused as unknown:
            if unknown.code != NOT_FOUND:
                raise
            lines = await queries.story(bus, cluster, sought)
            if not lines:
                raise UserError(f"{unknown}, and the log has no fact about it") from None
            return None, lines[-1:]

    found, last = answered(url, ask)
    if as_json:
        print(json.dumps(found if found is not None else {"tasks": [], "gang": None, "pools": [], "last": last[0]}))
        return
    if found is None:
        console.print(f"{sought} is not there any more", markup=False, soft_wrap=True)
        console.print(f"  last: {at(last[0]['at_ms'])}  {last[0]['text']}", markup=False, soft_wrap=True)
        return
    for line in explained(found):
        console.print(line, soft_wrap=True)


def explained(found: Row) -> Iterator[Text]:
    for task in found["tasks"]:
        orphan = ", an orphan: the task has a newer run" if task["orphan"] else ""
        where = f" on {task['host']}" if task["host"] else ""
        yield Text.assemble((task["task"], "bold"), f" (run {task['run']}) is {task['state']}{where}{orphan}")
        yield Text(f"  since {at(task['since_ms'])}{': ' if task['reason'] else ''}{task['reason']}", "dim")
    gang = found["gang"]
    if gang is not None:
        size, ahead = gang["size"], gang["ahead"]
        tasks = f"{size:,} task{'s' * (size != 1)}"
        yield Text(f"gang/{gang['number']} of {tasks} waits in {gang['pool']}, queue {gang['queue']}")
        yield Text(
            f"  {ahead:,} gangs go before it"
            if ahead > 1
            else f"  {'one gang goes' if ahead else 'no gang goes'} before it"
        )
        if gang["rule"] is not None:
            yield Text(f"  rule {gang['rule']['rule']}: {RULES[gang['rule']['rule']]}")
            for kind, wanted in gang["rule"]["wanted"].items():
                yield Text(f"    {kind}: {figure(wanted)}, at most {figure(gang['rule']['bound'][kind])}")
        elif gang["queue"] == "READY":
            yield Text("  it is admitted, and waits for a placement engine")
        else:
            yield Text("  no rule holds it: the next pass that gets to it admits it")
    for pool in found["pools"]:
        yield Text(f"entitlement of {pool['pool']}", "bold")
        for one in pool["kinds"]:
            if one["parent_has"] or one["need"] or one["entitlement"]:
                yield Text(_steps(one))


def _steps(one: Row) -> str:
    return (
        f"  {one['kind']}: parent has {figure(one['parent_has'])}; needs {figure(one['need'])}; "
        f"reserved {figure(one['reserved'])} of {figure(one['reservation'])}; "
        f"with share {figure(one['share'])} of need {figure(one['with_need'])}; "
        f"with share of the rest {figure(one['entitlement'])} (limit {figure(one['limit'])})"
    )


def story(url: str, cluster: str, sought: str, as_json: bool) -> None:
    lines = answered(url, lambda bus: queries.story(bus, cluster, sought))
    if not lines:
        raise UserError(f"no fact about {sought!r} in the log of {PELOTON}.{cluster}")
    print_story(cluster, lines, as_json)


def print_story(cluster: str, lines: Iterable[Row], as_json: bool) -> None:
    for line in lines:
        if as_json:
            print(json.dumps({"rm": f"{PELOTON}.{cluster}", **line}))
            continue
        text = Text(f"{at(line['at_ms'])}  {line['text']}")
        console.print(text.append(f"  [{line['command']}]", style="dim"), soft_wrap=True)


def figure(value: float) -> str:
    return f"{value:,.10g}"
