"""How the demo went: figures as a value (`Outcome`), as a table, and whether anything was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from remuda_operations.queries.rows import Queues

from ...show.queue_tree import leaves
from ...terminal.output import own_command
from ...terminal.units import amount, duration, number
from ..rm_state import percentile
from .simulation import Simulation


@dataclass(frozen=True, slots=True)
class Share:
    """The share that one tenant got of its RM's scarcest `resource`, on average while all tenants competed."""

    rm: str
    name: str
    queue: str
    placed: int
    resource: str
    mean: int
    guaranteed: int | None
    of_cluster: float  # 0 to 1


@dataclass(slots=True)
class Outcome:
    """`pending` and `rejected` by (rm, reason)."""

    seconds: float
    asked: int = 0
    placed: int = 0
    released: int = 0
    nodes: int = 0
    rms: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    round_trips_ms: list[float] = field(default_factory=list)
    pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    shares: list[Share] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def outcome(
    simulations: Sequence[Simulation], seconds: float, pending: Counter[tuple[str, str]], queues: dict[str, Queues]
) -> Outcome:
    result = Outcome(seconds, pending=pending, rms=len(simulations))
    for simulation in simulations:
        assert simulation.driver is not None
        rm, rm_state = simulation.site.rm_id, simulation.driver.rm_state
        result.asked += rm_state.asked
        result.placed += rm_state.placed
        result.released += rm_state.released
        result.nodes += rm_state.nodes
        result.latencies_ms += rm_state.latencies_ms
        result.round_trips_ms += rm_state.round_trips_ms
        result.rejected.update({(rm, reason): count for reason, count in rm_state.rejected.items()})
        result.faults += [f"{rm}: {fault}" for fault in rm_state.faults]
        result.shares += _shares(simulation, queues.get(rm))
        if not rm_state.placed:
            result.faults.append(f"{rm}: nothing was placed")
    return result


def _shares(simulation: Simulation, queues: Queues | None) -> list[Share]:
    site, found = simulation.site, []
    for tenant in site.tenants:
        tally = simulation.tallies[tenant.name]
        total = {name: sum(node.get(name, 0) for node in site.nodes.values()) for name in tenant.task}
        resource = max(tenant.task, key=lambda name: (tenant.task[name] / max(1, total[name]), name))
        mean = round(tally.used[resource] / max(0.001, simulation.contested_s))
        guaranteed = _guaranteed(queues, tenant.queue, resource)
        of_cluster = mean / max(1, total[resource])
        mean = round(mean / site.device)
        guaranteed = guaranteed // site.device if guaranteed is not None else None
        found.append(Share(site.rm_id, tenant.name, tenant.queue, tally.placed, resource, mean, guaranteed, of_cluster))
    return found


def _guaranteed(queues: Queues | None, path: str, resource: str) -> int | None:
    for partition in queues.partitions if queues else []:
        for queue in leaves(partition.queues):
            if queue.path == path:
                return queue.guaranteed.get(resource)
    return None


def table(result: Outcome, width: int) -> RenderableType:
    """Fits 80 columns."""
    figures = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    figures.add_column(style="dim", no_wrap=True)
    figures.add_column(max_width=max(40, width - 16))
    figures.add_row(
        "placed",
        Text.assemble(
            (f"{result.placed:,}", "bold green"),
            f" of {result.asked:,} asks of {result.rms} resource managers, on {result.nodes} nodes",
        ),
    )
    figures.add_row("released", f"{result.released:,}")
    figures.add_row(
        "throughput", f"{number(round(result.placed / result.seconds))} placed/s over {result.seconds:.0f} s"
    )
    figures.add_row("round trip", f"{_percentiles(result.round_trips_ms)}, publish of a release to its callback")
    figures.add_row("ask latency", f"{_percentiles(result.latencies_ms)}, publish to callback, time pending included")
    _counted(figures, "pending", result.pending, "yellow")
    _counted(figures, "rejected", result.rejected, "red")
    for fault in result.faults[:8]:
        figures.add_row("wrong", Text(fault, style="bold red"))
    return Group(Text("Summary", style="bold"), figures, Text(), _tenants(result.shares))


def next_steps(seen_page: bool) -> str:
    """The next steps after the demo, with the command as it can be typed here."""
    command = own_command()
    page = (f"{command} demo --web", "the same with its web page, until Ctrl-C")
    steps = (
        *(() if seen_page else (page,)),
        (f"{command} init", "a queues.yaml of your own, for `up`"),
        ("README.md", "three pages of ten minutes to begin with; all commands"),
    )
    width = max(len(step) for step, _ in steps)
    return "\n".join(("", "Next", *(f"  {step:{width}}  {text}" for step, text in steps)))


def _counted(figures: Table, name: str, counts: Counter[tuple[str, str]], style: str) -> None:
    figures.add_row(name, Text(f"{counts.total():,}", style=style if counts else ""))
    for (rm, reason), count in counts.most_common(6):
        figures.add_row("", Text.assemble(f"{count:>3,}  ", (f"{rm}  ", "dim"), reason))


def _percentiles(values: Sequence[float]) -> str:
    return f"p50 {duration(percentile(values, 50))}, p99 {duration(percentile(values, 99))}"


def _tenants(shares: Sequence[Share]) -> Table:
    tenants = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("rm", "tenant", "queue"):
        tenants.add_column(name, no_wrap=True)
    for name in ("placed", "mean use", "guaranteed", "of all"):
        tenants.add_column(name, justify="right", no_wrap=True)
    for share in shares:
        guaranteed = amount(share.resource, share.guaranteed) if share.guaranteed is not None else "-"
        mean = f"{amount(share.resource, share.mean)} {share.resource}"
        tenants.add_row(
            share.rm, share.name, share.queue, f"{share.placed:,}", mean, guaranteed, f"{share.of_cluster:.0%}"
        )
    return tenants
