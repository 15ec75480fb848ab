"""``penstock inspect``: what existing Spark jobs cost, from their logs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import common

if TYPE_CHECKING:
    from penstock.inspection import Inspection, Query

SHOWN = 10
"""Warnings of a kind that are shown to people."""

_PARTS = (
    ("sources", ("latestOffset", "getOffset", "getBatch", "setOffsetRange", "getEndOffset")),
    ("planning", ("queryPlanning",)),
    ("WAL", ("walCommit",)),
    ("addBatch", ("addBatch",)),
    ("commit", ("commitOffsets", "commitBatch")),
    ("state commit", ("stateCommit",)),
)
"""Spark's names of a batch's parts, as the table shows them."""


def command(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Event logs, folders of them, JSON lines of progress, or - ."),
    ],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Write network, rates, statistics, cluster and placement files."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="T", help="Only batches from this time on: 2026-01-31T10:00, or '2 hours'."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="Only batches before this time; as --since.")
    ] = None,
    json: common.JsonOption = False,
) -> None:
    """Measure the streaming queries that you have, from their event logs: rates, costs, lag, headroom, findings.

    Example: penstock inspect examples/event-log/spark-4.3.zstd
    """
    from penstock.inspection import export, inspect, moment
    from penstock.telemetry import read_telemetry

    if sys.stderr.isatty():
        with common.progress() as tell:
            told = read_telemetry(paths, lambda name, share: tell(name[-28:], share))
    else:
        told = read_telemetry(paths)
    found = inspect(
        told,
        None if since is None else moment(since, told, "--since"),
        None if until is None else moment(until, told, "--until"),
    )
    document = found.document()
    if out is not None:
        document["written"] = export(found, out)
    if json:
        common.answer(document)
    else:
        _show(found)
    for lines in (found.warnings, [f"skipped {line}" for line in found.skipped]):
        for line in lines[:SHOWN]:
            common.say(f"penstock: warning: {line}")
        if len(lines) > SHOWN:
            common.say(f"penstock: warning: and {len(lines) - SHOWN} more like this (--json names all)")
    for path in document.get("written", ()) if not json else ():
        common.say(f"wrote {path}")


def _show(found: Inspection) -> None:
    from penstock.units import human

    common.table(
        f"{_count(len(found.queries), 'query', 'queries')} of "
        f"{_count(len(found.applications), 'application', 'applications')}; a batch takes overhead + rows x cost",
        ["query", "batches", "rows/s", "batch (p50)", "overhead", "cost a row", "trigger", "headroom", "lag", "state"],
        [_row(name, query) for name, query in found.queries.items()],
    )
    common.table(
        "where the time goes: mean of a batch; addBatch runs the rows and the sink; catch-up after an hour's outage",
        ["query", "busy", "catch-up", "late rows", *(shown for shown, _ in _PARTS)],
        [_time_row(name, query) for name, query in found.queries.items()],
    )
    if found.findings:
        alike: dict[tuple[str, str], list[str]] = {}
        for finding in found.findings:
            alike.setdefault((finding.kind, finding.says), []).append(finding.about)
        sys.stdout.write("findings\n" + "".join(_finding(*what, about) for what, about in alike.items()))
    known = [query.fit.error for query in found.queries.values() if query.fit.error is not None]
    if known:
        low, high = f"{min(known):.1%}", f"{max(known):.1%}"
        common.say(f"standard error of the costs: {low}" + (f" to {high}" if high != low else ""))
    if any(query.trigger == 0.0 for query in found.queries.values()):
        common.say(f"trigger -: none, or batches never waited for it; rates are in steps of {human(found.period)}")


def _time_row(name: str, query: Query) -> list[object]:
    from penstock.units import human

    parts = [sum(query.parts.get(part, 0.0) for part in names) for _, names in _PARTS]
    catch_up = query.capacity.catch_up
    late = int(query.batches.late.sum())
    return [
        name,
        f"{query.busy:.0%}",
        "" if catch_up is None else _span(catch_up),
        f"{late:,}" if late else "",
        *(human(part) if part else "" for part in parts),
    ]


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _span(seconds: float) -> str:
    """Return a duration for people that may last hours."""
    from penstock.units import human

    for length, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return human(seconds)


def _finding(kind: str, says: str, about: list[str]) -> str:
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)
    text = f"{kind:<19}{', '.join(about)}: {says}"
    return textwrap.fill(text, width, initial_indent=" ", subsequent_indent=" " * 20) + "\n"


def _row(name: str, query: Query) -> list[object]:
    import math

    import numpy as np

    from penstock.units import human

    fit, capacity = query.fit, query.capacity
    if capacity.headroom is not None:
        headroom = f"{capacity.headroom:.2g}x"
    else:
        headroom = "" if capacity.least is None else f">{capacity.least:.2g}x"
    lag = "" if math.isnan(query.lag_seconds) else _span(query.lag_seconds)
    return [
        name,
        len(query.batches),
        f"{query.rate:.3g}" if query.rate < 1000 else f"{query.rate:,.0f}",
        human(float(np.median(query.batches.duration))),
        "?" if fit.overhead is None else human(fit.overhead),
        "?" if fit.cost is None else human(fit.cost),
        "?" if query.trigger is None else human(query.trigger) if query.trigger else "-",
        headroom,
        lag,
        f"{query.batches.state_rows[-1]:,.0f} rows" if query.log.state else "",
    ]
