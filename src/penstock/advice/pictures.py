"""Pictures of queries and advice, readable in a report: PNG and SVG, the same bytes for the same values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.advice.measure import correlation
from penstock.advice.replay import replay
from penstock.advice.rows import Replayed
from penstock.advice.values import Advice, Deployment, Report
from penstock.arrays import Array
from penstock.files import check_folder
from penstock.inspection.export import unique
from penstock.pictures.save import save

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from penstock.inspection import Inspection, Query

BLUE, ORANGE, PURPLE = "#2a78b5", "#e08a1e", "#a05195"
INK, FAINT = "#1f2933", "#8793a1"
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.hashsalt": "penstock",
    "text.parse_math": False,  # names may hold dollar signs
}
COLUMNS = 160
"""Columns of a heat map."""

UNITS = ((86400.0 * 2, 86400.0, "days"), (7200.0, 3600.0, "hours"), (300.0, 60.0, "minutes"), (0.0, 1.0, "s"))


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _unit(span: float) -> tuple[float, str]:
    return next((scale, word) for least, scale, word in UNITS if span >= least)


def _short(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def timeline(query: Query) -> Figure:
    """Draw one query over time: rate, seconds of a batch against the trigger, lag and state where it has them."""
    with _style():
        batches = query.batches
        rows: list[Callable[[Axes, Array], None]] = [_rates(query), _durations(query)]
        if np.isfinite(batches.lag).any():
            rows.append(_lag(query))
        if query.log.state:
            rows.append(_state(query))
        figure = _figure(8.0, 0.9 + 1.55 * len(rows))
        axes = np.atleast_1d(figure.subplots(len(rows), 1, sharex=True))
        scale, word = _unit(float(batches.end.max() - batches.start[0]))
        when = (batches.start - batches.start[0]) / scale
        for draw, place in zip(rows, axes, strict=True):
            draw(place, when)
            place.set_ylim(bottom=0)
            place.grid(axis="y", color="#e6eaee", linewidth=0.8)
            place.yaxis.set_major_formatter("{x:,g}")
            place.margins(x=0.01)
            place.set_axisbelow(True)
        axes[-1].set_xlabel(f"{word} since {np.datetime64(round(float(batches.start[0])), 's')} UTC")
        figure.suptitle(_short(query.name, 60), x=0.01, ha="left", fontsize=12, color=INK)
        return figure


def _rates(query: Query) -> Callable[[Axes, Array], None]:
    def draw(axes: Axes, when: Array) -> None:
        start = query.batches.start
        apart = np.maximum(np.diff(start, append=start[-1] + 1e9), 1e-3)
        rate = np.append(query.arrivals.sum(axis=0)[1:], np.nan) / apart
        axes.step(when, rate, where="post", color=BLUE, linewidth=1.3)
        axes.set_title("rows that arrive a second")

    return draw


def _durations(query: Query) -> Callable[[Axes, Array], None]:
    def draw(axes: Axes, when: Array) -> None:
        warm = query.warm
        axes.plot(when[warm], query.batches.duration[warm], ".", color=BLUE, markersize=5, label="batch")
        if not warm.all():
            axes.plot(when[~warm], query.batches.duration[~warm], "x", color=ORANGE, markersize=4.5, label="warming up")
        if query.trigger:
            axes.axhline(query.trigger, color=INK, linewidth=1, linestyle="--", label=f"trigger {query.trigger:g} s")
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=3, borderpad=0, handlelength=1.6)
        axes.set_title("seconds of a batch")

    return draw


def _lag(query: Query) -> Callable[[Axes, Array], None]:
    def draw(axes: Axes, when: Array) -> None:
        axes.step(when, query.batches.lag, where="post", color=ORANGE, linewidth=1.3)
        axes.set_title("rows that wait at the sources")

    return draw


def _state(query: Query) -> Callable[[Axes, Array], None]:
    def draw(axes: Axes, when: Array) -> None:
        axes.step(when, query.batches.state_rows, where="post", color=PURPLE, linewidth=1.3)
        axes.set_title("rows of state")

    return draw


def load_matrix(deployment: Deployment) -> Figure:
    """Draw the load correlation between queries: red pairs peak together, blue pairs at different times."""
    with _style():
        matrix, names = correlation(deployment), list(deployment.jobs)
        size = max(2.6, 0.46 * len(names))
        figure = _figure(size + 2.4, size + 1.2)
        axes = figure.subplots()
        image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_xticks(range(len(names)), [_short(name) for name in names], rotation=45, ha="right")
        axes.set_yticks(range(len(names)), [_short(name) for name in names])
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        if len(names) <= 20:
            for (i, j), value in np.ndenumerate(matrix):
                colour = "white" if abs(value) > 0.6 else INK
                axes.text(j, i, f"{value:+.1f}".replace("+0.0", "0").replace("-0.0", "0"), ha="center", va="center",
                          fontsize=7, color=colour)  # fmt: skip
        bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=[-1, 0, 1])
        bar.ax.set_yticklabels(["apart", "unrelated", "together"])
        bar.outline.set_visible(False)
        axes.set_title("which queries peak together: correlation of their loads", pad=10)
        return figure


def heat_map(deployment: Deployment) -> Figure:
    """Draw the load of every query over time: cores that its rows keep busy."""
    with _style():
        names = list(deployment.jobs)
        figure = _figure(8.0, 1.3 + 0.3 * len(names))
        axes = figure.subplots()
        span = deployment.period * deployment.periods
        scale, word = _unit(span)
        edges = np.linspace(0, span, min(COLUMNS, deployment.periods) + 1)
        times = deployment.period * np.arange(deployment.periods + 1.0)
        table = np.array(
            [
                np.diff(np.interp(edges, times, np.concatenate([[0.0], np.cumsum(job.load()) * deployment.period])))
                / np.diff(edges)
                for job in deployment.jobs.values()
            ]
        )
        image = axes.pcolormesh(edges / scale, np.arange(len(names) + 1) - 0.5, table, cmap="YlOrRd", vmin=0)
        image.set_rasterized(True)
        if deployment.recorded is not None:
            axes.axvline(deployment.recorded * deployment.period / scale, color=INK, linewidth=1, linestyle="--")
            axes.text(deployment.recorded * deployment.period / scale, -0.58, " burst", ha="left", va="bottom",
                      color=INK)  # fmt: skip
        axes.set_yticks(range(len(names)), [_short(name) for name in names])
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"{word} since {np.datetime64(round(deployment.start), 's')} UTC"
                        if deployment.start > 1e8 else word)  # fmt: skip
        bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=15)
        bar.set_label("cores")
        bar.outline.set_visible(False)
        # Above the word that stands on the axes.
        axes.set_title("when which query works: cores that it keeps busy",
                       pad=None if deployment.recorded is None else 18)  # fmt: skip
        return figure


def before_after(report: Report, advice: Advice) -> Figure:
    """Draw the latency of rows over time before and after one advice, replayed with the fitted costs."""
    with _style():
        proposal = advice.proposal
        figure = _figure(8.0, 4.2)
        axes = figure.subplots()
        pairs = ((report.deployment, proposal.about, ORANGE, "as it is"),
                 (proposal.after, proposal.becomes or proposal.about, BLUE, "with the advice"))  # fmt: skip
        scale, word = _unit(report.deployment.period * report.deployment.periods)
        for deployment, names, colour, label in pairs:
            when, worst = _worst(deployment, replay(deployment), names)
            axes.plot(when / scale, worst, color=colour, linewidth=1.5, label=label)
        if report.aims.latency is not None:
            axes.axhline(report.aims.latency, color=INK, linewidth=1, linestyle="--", label="bound")
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        axes.set_xlabel(f"{word} from the beginning of the replay, when the row arrives")
        axes.set_ylabel("worst latency (s)")
        axes.grid(axis="y", color="#e6eaee", linewidth=0.8)
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderpad=0)
        also = "".join(f", {name} → {_shown(value)}" for name, value in proposal.also.items())
        change = f"{proposal.setting} {_shown(proposal.old)} → {_shown(proposal.new)}{also}"
        lines = [f"{proposal.kind}: {_short(proposal.query, 40)}", _short(change, 90)]
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10, color=INK)
        return figure


def _shown(value: float | str | None) -> str:
    # A trigger of 0 s, or a limit of none.
    return "none" if not value else value if isinstance(value, str) else f"{value:,g}"


def _worst(deployment: Deployment, replayed: Mapping[str, Replayed], names: tuple[str, ...]) -> tuple[Array, Array]:
    """Return times and the worst latency of the rows that arrive in each step of time."""
    found: dict[int, float] = {}
    span = deployment.period * deployment.periods
    step = max(span / 400, deployment.period)
    for name in names:
        rows = replayed[name]
        for arrives, waits in zip(rows.latency.arrival, rows.latency.first, strict=True):
            place = int(arrives / step)
            found[place] = max(found.get(place, 0.0), float(waits))
    order = sorted(found)
    return np.array([(place + 0.5) * step for place in order]), np.array([found[place] for place in order])


def write_pictures(
    report: Report, folder: str | os.PathLike[str], inspection: Inspection | None = None, most: int = 5
) -> list[str]:
    """Write all pictures as PNG and SVG into a folder, and return their paths.

    Parameters
    ----------
    inspection
        Where there is one, each query's timeline is drawn too.
    most
        Advice that is drawn, the best first.

    Raises
    ------
    InputError
        If they cannot be written.
    """
    target = Path(folder)
    check_folder(folder)
    figures: dict[str, Figure] = {"load": heat_map(report.deployment)}
    if len(report.deployment.jobs) > 1:
        figures["correlation"] = load_matrix(report.deployment)
    for number, advice in enumerate(report.advice[:most], 1):
        figures[f"advice-{number}-{advice.proposal.kind}"] = before_after(report, advice)
    taken = {*figures}
    for name, query in inspection.queries.items() if inspection is not None else ():
        figures[unique(f"query-{_file(name)}", taken)] = timeline(query)
    written = []
    for name, figure in figures.items():
        for ending in ("png", "svg"):
            path = target / f"{name}.{ending}"
            with _style():
                save(figure, path, dpi=144)
            written.append(str(path))
    return written


def _file(name: str) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in name)[:60]
