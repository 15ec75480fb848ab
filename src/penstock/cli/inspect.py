"""``penstock inspect``: what existing Spark jobs cost, from their logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import common, options
from penstock.files import check_file

if TYPE_CHECKING:
    from penstock.inspection import Inspection, Query

MANY = 1000.0
"""Lower bounds of the headroom are shown up to this: where the cost of a row is not known, they can have any size."""

_PARTS = (
    ("sources", ("latestOffset", "getOffset", "getBatch", "setOffsetRange", "getEndOffset")),
    ("planning", ("queryPlanning",)),
    ("WAL", ("walCommit",)),
    ("addBatch", ("addBatch",)),
    ("commit", ("commitOffsets", "commitBatch")),
)
"""Spark's names of a batch's parts, as the table shows them."""


def command(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Event logs, folders of them, progress as JSON, logs of drivers, or -."),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            callback=options.folder,
            help="Write network, rates, statistics, cluster and placement files.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="T", help="Skip batches before this time: 2026-01-31T10:00, or '2 hours'."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="Skip batches from this time on; as --since.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Measure your streaming queries from their event logs: rates, costs, lag, headroom and problems.

    Example: penstock inspect examples/event-log/spark-4.3.zstd
    """
    from penstock.inspection import export, inspect, moment
    from penstock.inspection.export import FILES, simplified
    from penstock.telemetry import read_telemetry

    if out is not None:
        for name in FILES:
            check_file(Path(out, name), "--out")
    with common.progress() as tell:
        told = read_telemetry(paths, lambda name, share: tell(name[-28:], share))
    found = inspect(
        told,
        None if since is None else moment(since, told, "--since"),
        None if until is None else moment(until, told, "--until"),
    )
    document = found.document()
    if out is not None:
        document["written"] = export(found, out)
        for line in simplified(found):
            common.note(f"note: {line}")
    if json:
        common.answer(document)
    else:
        _show(found)
    common.say_notes()
    for line in found.notices():
        common.say(f"penstock: warning: {line}")
    for path in document.get("written", ()) if not json else ():
        common.say(f"wrote {path}")


def _show(found: Inspection) -> None:
    from penstock.units import human

    # Three narrow tables: each fits a terminal of 80 columns.
    queries = found.queries.items()
    common.table(
        f"{_count(len(found.queries), 'query', 'queries')} of "
        f"{_count(len(found.applications), 'application', 'applications')}; a batch takes overhead + rows x per row",
        ["query", "rows/s", "batch", "overhead", "per row", "trigger", "headroom", "lag"],
        [_row(name, query) for name, query in queries],
    )
    common.table(
        "catch-up: after an outage of an hour",
        ["query", "batches", "busy", "catch-up", "state rows", "state", "late rows"],
        [_more_row(name, query) for name, query in queries],
    )
    common.table(
        "parts of a batch; addBatch has the rows' work, the sink and the state's commit",
        ["query", *(shown for shown, _ in _PARTS)],
        [_part_row(name, query) for name, query in queries],
    )
    if found.findings:
        from penstock.inspection import alike

        common.write("findings")
        for kind, about, says in alike(found.findings):
            common.write(f"{kind:<19}{', '.join(about)}: {says}", " ", " " * 20)
    known = [query.fit.error for query in found.queries.values() if query.fit.error is not None]
    if known:
        low, high = f"{min(known):.1%}", f"{max(known):.1%}"
        common.say(f"standard error of the costs: {low}" + (f" to {high}" if high != low else ""))
    if any(query.trigger == 0.0 for query in found.queries.values()):
        common.say(f"trigger -: none, or too short to matter; peak rates are means over {human(found.period)}")


def _more_row(name: str, query: Query) -> list[object]:
    from penstock.units import human

    batches, catch_up = query.batches, query.capacity.catch_up
    state, late = bool(query.log.state), int(batches.late.sum())
    return [
        name,
        len(batches),
        f"{query.busy:.0%}" if query.seconds.size else "?",
        "" if catch_up is None else human(catch_up),
        f"{batches.state_rows[-1]:,.0f}" if state else "",
        f"{batches.state_bytes[-1] / 2**20:,.1f} MiB" if state else "",
        f"{late:,}" if late else "",
    ]


def _part_row(name: str, query: Query) -> list[object]:
    whole = float(query.batches.duration.mean())
    if whole <= 0:
        return [name, *("?" for _ in _PARTS)]
    shares = [sum(query.parts.get(part, 0.0) for part in names) / whole for _, names in _PARTS]
    return [name, *(f"{share:.0%}" if share >= 0.005 else "" for share in shares)]


def _rate(rate: float) -> str:
    from penstock.units import digits

    return digits(rate, 3) if rate < 1000 else f"{rate:,.0f}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _row(name: str, query: Query) -> list[object]:
    import math

    import numpy as np

    from penstock.units import digits, human

    fit, capacity = query.fit, query.capacity
    if capacity.headroom is not None:
        headroom = f"{digits(capacity.headroom, 2)}x"
    else:
        headroom = "" if capacity.least is None else f">{digits(min(capacity.least, MANY), 2)}x"
    return [
        name,
        "?" if math.isnan(query.rate) or (len(query.batches) < 2 and not query.rate) else _rate(query.rate),
        human(float(np.median(query.seconds))) if query.seconds.size else "?",
        "?" if fit.overhead is None else human(fit.overhead),
        "?" if fit.cost is None else human(fit.cost),
        "?" if query.trigger is None else human(query.trigger) if query.trigger else "-",
        headroom,
        "" if math.isnan(query.lag_seconds) else human(query.lag_seconds),
    ]
