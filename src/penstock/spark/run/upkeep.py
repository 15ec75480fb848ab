"""Keeping a run's folder small: logs that all readers have passed go, older batches become history."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence

import attrs

from penstock.spark.compile import Deployment, Query
from penstock.spark.hop import START, Position
from penstock.spark.hop.kafka import MOMENT
from penstock.spark.hop.logs import log_of
from penstock.spark.run.history import History, read_history, write_history
from penstock.spark.run.meter import looks_of, metered
from penstock.spark.run.outcome import reached, read_batch
from penstock.spark.shipped.told import manifest_of, report_of

KEPT = 7_200
"""Batches of a query whose reports stay while it runs: two hours at a trigger of a second."""

LEFT = 2
"""Batches that stay in any case: the last may have to be done again, and asks the one before it."""


def clean_logs(deployment: Deployment, queries: Sequence[Query]) -> dict[str, str]:
    """Remove what every reader of a log has passed, with a batch to spare.

    Whoever looks after the run waits meanwhile: where a broker is away, what is left goes next time.

    Returns
    -------
    dict
        By operator, why a broker refuses to remove its rows.
    """
    passed: dict[str, list[Position]] = {}
    topics = {name: query.spec.topics for query in queries for name in query.reads}
    for query in queries:
        come = reached(query, before=1)
        for name in query.reads:
            passed.setdefault(name, []).append(come.get(name, START))
    refused: dict[str, str] = {}
    began, names = time.monotonic(), [*passed]
    turn = int(began) % max(1, len(names))  # another one is first each time, where there is no time for all
    for name in names[turn:] + names[:turn]:
        positions, late = passed[name], topics[name] is not None and time.monotonic() > began + MOMENT
        if min(position["batch"] for position in positions) > 1 and not late:
            with contextlib.closing(log_of(deployment.place, topics[name], name)) as log:
                why = log.clean(positions)
            if why:
                refused[name] = why
    return refused


def fold(deployment: Deployment, queries: Sequence[Query], keep: int = KEPT) -> None:
    """Add batches to the run's history and remove their files, all but the newest."""
    history = read_history(deployment.place)
    grown = history
    # What readers of a log have not taken yet is still asked for by number; topics say by themselves what is left.
    behind: dict[str, int] = {}
    for query in queries:
        come = reached(query)
        for name in query.reads:
            if name in deployment.real_time:
                continue
            batch = come.get(name, START)["batch"]
            behind[name] = min(behind.get(name, batch), batch)
    units = (deployment.place / "batches").names()
    for unit in units:
        grown = _folded(deployment, unit, behind, grown, max(keep, LEFT))
    for sink in deployment.network.sinks:
        looks = range(grown.upto.get(metered(sink), 0), looks_of(deployment.place, sink) - max(keep, LEFT))
        grown = grown.with_notes(deployment.place, metered(sink), looks, sink) if looks else grown
    if grown is not history:
        write_history(deployment.place, grown)
        history = grown
    for unit in units:
        for number in (deployment.place / "batches" / unit).numbers():
            if number < history.upto.get(unit, 0):
                manifest_of(deployment.place, unit, number).remove()
                report_of(deployment.place, unit, number).remove()
    for sink in deployment.network.sinks:
        place = deployment.place / "latency" / sink
        for name in place.names():
            if history.holds(name):
                (place / name).remove()


def _folded(deployment: Deployment, unit: str, behind: Mapping[str, int], history: History, keep: int) -> History:
    """Return a history with a unit's older batches, of which no reader of a log is ``behind``."""
    folder = deployment.place
    begin = history.upto.get(unit, 0)
    numbers = [number for number in (folder / "batches" / unit).numbers() if number >= begin]
    upto = begin
    counts, late, rows = dict(history.counts), dict(history.late), dict(history.rows)
    for number in numbers[:-keep]:
        batch = read_batch(folder, unit, number)
        if any(at >= behind.get(writer, at + 1) for writer, (at, _) in batch.logged.items()):
            break
        upto = number + 1
        for name, (arrived, dropped) in batch.counts.items():
            before = counts.get(name, (0, 0))
            counts[name] = (before[0] + arrived, before[1] + dropped)
        for name, count in batch.late.items():
            late[name] = late.get(name, 0) + count
        for name, (_, count) in batch.logged.items():
            rows[name] = rows.get(name, 0) + count
    if upto <= begin:
        return history
    history = attrs.evolve(history, upto={**history.upto, unit: upto}, counts=counts, late=late, rows=rows)
    for sink in deployment.network.sinks:
        history = history.with_notes(folder, unit, range(numbers[0], upto), sink)
    return history
