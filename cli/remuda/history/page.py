"""The report of a replay as one page without any other file: tables, and charts as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from ..terminal.units import wait

Report = dict[str, Any]
_META = (
    '<meta name=viewport content="width=device-width"><meta http-equiv=Content-Security-Policy '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)
_WIDTH, _HEIGHT = 640, 140
_COLOURS = ("#444444", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b")
_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:.5em 0 1.5em}td,th{padding:.2em .8em .2em 0;text-align:right}"
    "td:first-child,th:first-child,td:nth-child(2){text-align:left}th{color:#666;font-weight:normal}"
    "figure{display:inline-block;margin:0 2em 1.5em 0}figcaption{color:#444}svg{display:block}"
    ".key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}.note{color:#444}"
)


def page(report: Report) -> str:
    runs = runs_of(report)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        _META,
        f"<title>{escape(report['rm'])}: replay</title><style>{_STYLE}</style>",
        f"<h1>{escape(report['rm'])}: what would have happened</h1>",
        f"<p class=note>{_time(report['since_ms'])} to {_time(report['until_ms'])} (UTC)</p>",
        _honesty(report), _goal(report), _keys(runs), _charts(runs), _waits("queue", runs), _waits("user", runs),
        _use(runs), _differences(report), "</html>",
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def runs_of(report: Report) -> list[tuple[str, Report]]:
    """Returns what happened, the unchanged replay, and each variant, with their names."""
    variants = [(one["change"], one) for one in report["variants"]]
    return [("actual", report["actual"]), ("unchanged", report["unchanged"]), *variants]


def decided_again(identity: Mapping[str, Any]) -> str:
    left_out = identity.get("left_out", 0)
    found = f"{identity['different']:,} of {identity['commits']:,} commits differ"
    return f"{found}; {left_out:,} others were not decided again" if left_out else found


def _honesty(report: Report) -> str:
    identity, model, wrong = report["identity"], report["model"], report["model"]["error"]
    rows = [
        ("decided again exactly", decided_again(identity)),
        ("error of the model: mean wait", wait(wrong["mean_ms"])),
        ("error of the model: p95 of waits", wait(wrong["p95_ms"])),
        *((f"error of the model: use of {name}", f"{share:.2%}") for name, share in wrong["use"].items()),
        *(
            (f"version {one['version']}", f"{one['identity']['different']:,} commits decided differently")
            for one in report["variants"]
            if "identity" in one
        ),
        ("run times drawn", f"{model['censored']:.1%}" + ("" if model["reliable"] else " (unreliable)")),
        ("preempted work", f"{model['on_preemption']}; asked again {model['asked_again']:,} of {model['preempted']:,}"),
        ("not in the model", "users who react to waits, autoscalers, work that depends on other work"),
    ]
    return _table(("how far to trust this", ""), rows)


def _goal(report: Report) -> str:
    goal = report.get("goal")
    if goal is None:
        return ""
    found = f"{goal['count']:,} nodes more" if goal["count"] is not None else "not reached"
    tried = [(f"{one['count']:,} nodes", "reached" if one["reached"] else "missed") for one in goal["tried"]]
    return f"<h2>{escape(goal['text'])}: {found}</h2>" + _table(("tried", ""), tried)


def _keys(runs: Sequence[tuple[str, Report]]) -> str:
    keys = (
        f'<span class=key style="background:{_colour(number)}"></span>{escape(text)}'
        for number, (text, _) in enumerate(runs)
    )
    return f"<p>{''.join(keys)}</p>"


def _charts(runs: Sequence[tuple[str, Report]]) -> str:
    resources = dict.fromkeys(name for _, run in runs for name in run["series"]["all"])
    charts = [
        _chart(f"{resource} in use, of the capacity", [_shares(run, resource) for _, run in runs], 1.0)
        for resource in resources
    ]
    queues = dict.fromkeys(
        (queue, name) for _, run in runs for queue, used in run["series"]["queue"].items() for name in used
    )
    for queue, resource in queues:
        lines = [run["series"]["queue"].get(queue, {}).get(resource, []) for _, run in runs]
        charts.append(_chart(f"{queue}: {resource}", lines))
    charts.append(_chart("fairness (Jain's index of users)", [run["fairness"]["over_time"] for _, run in runs], 1.0))
    return f"<h2>Over time</h2>{''.join(charts)}"


def _shares(run: Report, resource: str) -> list[float]:
    used, whole = run["series"]["all"].get(resource, []), run["series"]["capacity"].get(resource, [])
    return [one / of if of else 0.0 for one, of in zip(used, whole, strict=False)]


def _chart(title: str, lines: Sequence[Sequence[float]], top: float | None = None) -> str:
    highest = top or max((value for line in lines for value in line), default=0.0) or 1.0
    paths = []
    for number, line in enumerate(lines):
        if line:
            step = _WIDTH / max(1, len(line) - 1)
            points = " ".join(
                f"{at * step:.1f},{_HEIGHT - value / highest * _HEIGHT:.1f}" for at, value in enumerate(line)
            )
            paths.append(f'<polyline points="{points}" fill="none" stroke="{_colour(number)}" stroke-width="1.5"/>')
    scale = "100 %" if top == 1.0 else f"{highest:,.0f}"
    return (
        f"<figure><figcaption>{escape(title)}, up to {scale}</figcaption>"
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="#f7f7f7"/>{"".join(paths)}</svg>'
        "</figure>"
    )


def _waits(kind: str, runs: Sequence[tuple[str, Report]]) -> str:
    names = dict.fromkeys(name for _, run in runs for name in run["waits"][kind])
    rows = []
    for name in names:
        for number, (text, run) in enumerate(runs):
            row = run["waits"][kind].get(name, {})
            waits = [wait(row.get(f"{one}_ms", 0)) for one in ("mean", "p50", "p95", "p99")]
            counts = f"{row.get('count', 0):,}", f"{row.get('still_waiting', 0):,}"
            rows.append((name if not number else "", text, counts[0], *waits, counts[1]))
    return f"<h2>Waits by {kind}</h2>" + _table((kind, "", "asks", "mean", "p50", "p95", "p99", "still wait"), rows)


def _use(runs: Sequence[tuple[str, Report]]) -> str:
    resources = list(dict.fromkeys(name for _, run in runs for name in run["use"]))
    rows = [
        (
            text, "", *(f"{run['use'].get(name, {}).get('share', 0):.1%}" for name in resources),
            f"{run['fairness']['mean']:.2f}", f"{run['preemptions']['count']:,}",
            ", ".join(f"{name} {value:,.0f} · h" for name, value in run["preemptions"]["lost_amount_hours"].items()),
            wait(run["gangs"]["p95_ms"]), f"{run['applications_completed']:,}",
        )
        for text, run in runs
    ]  # fmt: skip
    heads = ("", "", *resources, "fairness", "preempted", "lost work", "gangs p95", "applications completed")
    return "<h2>Use</h2>" + _table(heads, rows)


def _differences(report: Report) -> str:
    rows = [
        (variant["change"], what, row["application"], ("+" if row["ms"] > 0 else "−") + wait(abs(row["ms"])))
        for variant in report["variants"]
        for what in ("gained", "lost")
        for row in variant["differences"][what]
    ]
    return (
        "<h2>Applications that gain and lose most</h2>" + _table(("", "", "application", "mean wait"), rows)
        if rows
        else ""
    )


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M")
