"""Plot utilisation over time: in the terminal with plotext, into a file with matplotlib."""

from __future__ import annotations

import itertools
from pathlib import Path

import plotext

from ... import extras
from ...errors import UserError
from .samples import Samples

COLOURS = {"vcore": "#1f77b4", "memory": "#2ca02c", "gpu_milli": "#d62728"}
ANSI_COLOURS = (94, 92, 91, 96, 95, 93)  # of the terminal plot's theme, in the order it hands them out
MOST_POINTS = 400
UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def terminal_plot(samples: Samples, unit: str, width: int, height: int, colour: bool) -> str:
    """Lines of text, at most `width` x `height`; empty when there is nothing to show. Without colour each resource is
    drawn with the first letter of its name."""
    resources = samples.resources()
    if len(samples.times) < 2 or not resources:
        return ""
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, height)
    figure.theme("simple" if colour else "colorless")
    figure.legend(False)
    every = max(1, len(samples.times) // MOST_POINTS)
    times, unit = _axis(samples.times[::every], unit)
    for resource in resources:
        marker = "braille" if colour else resource[0]
        figure.draw(figure.signal(times, samples.series(resource)[::every], marker=marker).lines().label(resource))
    figure.label(unit, "x")
    figure.ruler("y").lim(0, _top(samples))
    text: str = figure.build().string(not colour)
    return "\n".join([_legend(resources, colour), *(line.rstrip() for line in text.splitlines())])


def _legend(resources: list[str], colour: bool) -> str:
    """Above the plot, so that it hides nothing."""
    keys = []
    for resource, code in zip(resources, itertools.cycle(ANSI_COLOURS), strict=False):
        keys.append(f"\x1b[{code}m━━\x1b[0m {resource}" if colour else f"{resource[0]} {resource}")
    return f"used, percent of the nodes:  {'   '.join(keys)}"


def check_file(path: Path) -> None:
    """Checks `--plot` before a long run. Raises UserError when no plot can be written there."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"--plot {path}: expected a name that ends in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise UserError(f"--plot {path}: no such directory: {path.resolve().parent}")
    extras.need("plot", f"--plot {path}")


def file_plot(samples: Samples, unit: str, title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    times, unit = _axis(samples.times, unit)
    figure, axes = pyplot.subplots(figsize=(10, 5), layout="constrained")
    for resource in samples.resources():
        series = samples.series(resource)
        colour = COLOURS.get(resource)
        axes.plot(times, series, label=f"{resource} (peak {max(series):.3g}%)", color=colour, linewidth=1.2)
        axes.fill_between(times, series, alpha=0.12, color=colour)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(unit)
    axes.set_ylabel("used, percent of the nodes")
    axes.set_ylim(0, _top(samples))
    if times:
        axes.set_xlim(times[0], max(times[-1], times[0] + 1e-9))
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if samples.resources():
        axes.legend(loc="upper left", frameon=False)
    try:
        figure.savefig(path, dpi=140)
    except OSError as error:
        raise UserError(f"--plot {path}: {error.strerror}") from None
    finally:
        pyplot.close(figure)


def _axis(times: list[float], unit: str) -> tuple[list[float], str]:
    """The times in the largest unit of which there are two, and that unit."""
    seconds = times[-1] * UNITS[unit] if times else 0.0
    name = next((one for one, size in UNITS.items() if seconds >= 2 * size), "seconds")
    return [time * UNITS[unit] / UNITS[name] for time in times], name


def _top(samples: Samples) -> float:
    """A little above the peak."""
    peak = max((max(samples.series(resource), default=0.0) for resource in samples.resources()), default=0.0)
    return min(102.0, peak * 1.1) if peak else 1.0
