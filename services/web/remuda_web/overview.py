"""All resource managers at a glance: what each has and uses, who waits, what needs attention, what has changed lately.

`Overviews` reads from cores and the configuration service, for as many RMs at once as RMS_ASKED_AT_ONCE; the rest is
pure. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from remuda_web import limits
from remuda_web.source import Row, Source, Unreadable

# Kinds of what needs attention, the most pressing first, and how pressing. "owed": somebody does not get what they
# should; "notice": somebody has decided something, or has to decide.
KINDS: Final[Mapping[str, str]] = {
    "halted": "owed", "unanswered": "owed", "below_guarantee": "owed", "fits_nowhere": "owed", "idle": "owed",
    "not_running": "notice", "staged": "notice", "held": "notice", "drained": "notice", "dead_letters": "notice",
}  # fmt: skip
_RANKS: Final = {kind: rank for rank, kind in enumerate(KINDS)}
_RUNNING: Final = "Running"
_SAMPLES: Final = round(limits.RATE_OVER_S / limits.RATE_EVERY_S) + 2
# Lists of a core's overview, and when what they list began.
_LISTS: Final = {
    "below_guarantee": "waiting_since_ms", "fits_nowhere": "waiting_since_ms", "idle": "waiting_since_ms",
    "held": "since_ms", "drained": "since_ms",
}  # fmt: skip


class Rates:
    """The allocations that each RM makes per second, over the last RATE_OVER_S. `clock`: in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    def add(self, rm: str, allocations_ever: int) -> None:
        """A number that is lower than the one before is of another life of the RM."""
        samples = self._samples.setdefault(rm, deque(maxlen=_SAMPLES))
        now = self._clock()
        if samples and allocations_ever < samples[-1][1]:
            samples.clear()
        if samples and now - samples[-1][0] < limits.RATE_EVERY_S:
            return
        samples.append((now, allocations_ever))
        while len(samples) > 2 and now - samples[1][0] >= limits.RATE_OVER_S:
            samples.popleft()

    def of(self, rm: str) -> float | None:
        """None: not known yet."""
        samples = self._samples.get(rm)
        if samples is None or len(samples) < 2:
            return None
        (began, before), (ended, after) = samples[0], samples[-1]
        return (after - before) / (ended - began)

    def forget(self, rms: Sequence[str]) -> None:
        """All RMs but these."""
        self._samples = {rm: samples for rm, samples in self._samples.items() if rm in rms}


class Overviews:
    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    async def read(self, source: Source, now_ms: int) -> Row:
        """`rms`, `attention`, `changes` (docs/rest.md)."""
        records, slots = source.records(), asyncio.Semaphore(limits.RMS_ASKED_AT_ONCE)
        halts = {str(halt["rm_id"]): halt for halt in records["halts"]}
        names = sorted({*source.rms(), *halts})

        async def read(rm: str) -> Row:
            async with slots:
                return await self._rm(source, rm, halts.get(rm))

        versions, *rms = await asyncio.gather(_versions(source), *map(read, names))
        found = [
            *(item for rm in rms for item in _attention_of(rm, halts.get(rm["rm"]), now_ms)),
            *_staged(versions),
            *({"kind": "dead_letters", "rm": rm, "count": count, "since_ms": 0}
              for rm, count in records["dead_letters"].items()),
        ]  # fmt: skip
        return {
            "at_ms": now_ms,
            "rms": [_shown(rm) for rm in rms],
            "attention": sorted(({**one, "level": KINDS[one["kind"]]} for one in found), key=_pressing),
            "changes": sorted([*_made(versions), *_done(rms)], key=lambda one: -int(one["at_ms"]))[: limits.CHANGES],
        }

    async def _rm(self, source: Source, rm: str, halt: Row | None) -> Row:
        """The overview of an RM, as its core answers; `error`: why the core does not answer."""
        if halt is not None:
            return {"rm": rm, "state": "halted", "error": ""}
        try:
            found = await source.page(rm, "overview")
        except Unreadable as error:
            return {"rm": rm, "state": "", "error": str(error)}
        self._rates.add(rm, found["allocations_ever"])
        return {**found, "rm": rm, "error": "", "allocations_per_s": self._rates.of(rm)}


def _shown(rm: Row) -> Row:
    """The row of an RM. An RM that no core answers for has no figures."""
    sums = {name: rm.get(name, 0) for name in ("applications", "allocations", "allocations_ever", "at_ms")}
    return {
        "rm": rm["rm"], "state": rm["state"], "error": rm["error"], "partitions": rm.get("partitions", []), **sums,
        "allocations_per_s": rm.get("allocations_per_s"), **_totals(rm.get("partitions", [])),
    }  # fmt: skip


def _totals(partitions: Iterable[Row]) -> Row:
    amounts = {name: Counter[str]() for name in ("total", "occupied", "allocated", "pending")}
    since = []
    waiting = nodes = unschedulable = 0
    for one in partitions:
        for name, found in amounts.items():
            found.update(one[name])
        waiting += one["waiting"]
        nodes += one["nodes"]
        unschedulable += one["unschedulable"]
        since.append(one["waiting_since_ms"])
    return {
        **{name: dict(found) for name, found in amounts.items()}, "waiting": waiting, "nodes": nodes,
        "unschedulable": unschedulable, "waiting_since_ms": min(filter(None, since), default=0),
    }  # fmt: skip


def _attention_of(rm: Row, halt: Row | None, now_ms: int) -> Iterator[Row]:
    """The rows of an RM that need an operator's attention. Waits are left out until they last ATTENTION_AFTER_MS: with
    every ask, something waits for a moment."""
    name = rm["rm"]
    if halt is not None:
        text = {"reason": halt.get("reason", ""), "by": halt.get("by", ""), "since_ms": halt.get("at_ms", 0)}
        yield {"kind": "halted", "rm": name, **text}
        return
    if rm["error"]:
        yield {"kind": "unanswered", "rm": name, "reason": rm["error"], "since_ms": 0}
        return
    if rm["state"] != _RUNNING:
        yield {"kind": "not_running", "rm": name, "state": rm["state"], "since_ms": 0}
    for kind, since in _LISTS.items():
        old = [
            row for row in rm[kind]["rows"] if since == "since_ms" or now_ms - row[since] >= limits.ATTENTION_AFTER_MS
        ]
        yield from ({"kind": kind, "rm": name, **row, "since_ms": row[since]} for row in old)
        if old and rm[kind]["total"] > len(rm[kind]["rows"]):
            more = rm[kind]["total"] - len(rm[kind]["rows"])
            yield {"kind": kind, "rm": name, "more": more, "since_ms": 0}


def _pressing(item: Row) -> tuple[int, int, str]:
    """The kind, then what began first; what has no time goes last."""
    return _RANKS[item["kind"]], item["since_ms"] or 2**63, item["rm"]


async def _versions(source: Source) -> Row:
    """The versions of the file; none where there is no file, or where the caller may not read them."""
    try:
        return await source.configurations("history", {})
    except Unreadable:
        return {"active": 0, "versions": []}


def _staged(found: Row) -> Iterator[Row]:
    for one in found["versions"]:
        if one["number"] == found["active"] and one.get("until_ms") and not one.get("confirmed_at_ms"):
            yield {"kind": "staged", "rm": "", "version": one["number"], "until_ms": one["until_ms"],
                   "since_ms": one["at_ms"]}  # fmt: skip


def _made(found: Row) -> Iterator[Row]:
    for one in found["versions"]:
        if one["at_ms"]:
            texts = {name: one.get(name, "") for name in ("origin", "by", "message")}
            yield {"kind": "version", "rm": "", "version": one["number"], "at_ms": one["at_ms"], **texts,
                   "restores": one.get("restores", 0)}  # fmt: skip


def _done(rms: Iterable[Row]) -> Iterator[Row]:
    names = ("at_ms", "operator", "reason", "outcome", "partition", "application_id", "queue", "node_id",
             "allocation_key", "uuid", "priority")  # fmt: skip
    for rm in rms:
        for one in rm.get("actions", ()):
            if one["at_ms"]:
                yield {"kind": "action", "rm": rm["rm"], "action": one["kind"], **{name: one[name] for name in names}}
