"""From what was read to what it means: each query measured, and what is worth knowing."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.errors import InputError
from penstock.inspection.arrivals import find_arrivals, mean_rate, rate_series, step_of
from penstock.inspection.capacity import find_capacity, find_lag, find_limit, managed
from penstock.inspection.findings import Neighbours, find_all
from penstock.inspection.fit import fit_batches
from penstock.inspection.scheduled import by_run
from penstock.inspection.span import told, within
from penstock.inspection.trigger import find_trigger
from penstock.inspection.values import Inspection, Query
from penstock.inspection.warm import warm
from penstock.telemetry import Batches, QueryLog, Telemetry

Scalar = TypeVar("Scalar", bound=np.generic)


def inspect(telemetry: Telemetry, since: float | None = None, until: float | None = None) -> Inspection:
    """Measure each query from its batches.

    Parameters
    ----------
    telemetry
        What was read.
    since, until
        Only batches that began in this time (s since the epoch); applications are told of as a whole.

    Raises
    ------
    InputError
        If no batch began in this time.
    """
    logs = {name: log for name, log in within(telemetry.queries, since, until).items() if len(log.batches)}
    if not logs:
        at = " and ".join(name for name, time in (("--since", since), ("--until", until)) if time is not None)
        raise InputError("no batch began in this time", at=at, hint=told(telemetry.queries))
    first = min(float(log.batches.start[0]) for log in logs.values())
    last = max(float(log.batches.end.max()) for log in logs.values())
    gaps = [float(np.median(np.diff(log.batches.start))) for log in logs.values() if len(log.batches) > 1]
    period = step_of(last - first, float(np.median(gaps)) if gaps else 1.0)
    beside = Neighbours.of(logs)
    queries = {name: inspect_query(log, period, beside.during(log)) for name, log in logs.items()}
    used = {log.app for log in logs.values()}
    applications = {name: value for name, value in telemetry.applications.items() if name in used}
    return Inspection(
        queries=queries,
        applications=applications,
        findings=find_all(queries, beside, applications),
        period=period,
        warnings=telemetry.warnings,
        skipped=telemetry.skipped,
    )


def inspect_query(log: QueryLog, period: float, beside: Array | None = None) -> Query:
    """Measure one query with at least one batch.

    Parameters
    ----------
    log
        What was read of it.
    period
        Step of its largest rate (s).
    beside
        How many batches of other queries of its application ran during each of its batches, in the mean.
    """
    batches = log.batches
    done = warm(batches.rows, batches.duration, batches.run, beside)
    fit = fit_batches(batches.rows[done], batches.duration[done])
    trigger = find_trigger(batches)
    arrivals = find_arrivals(batches)
    counted = by_run(batches, arrivals)
    rate = mean_rate(*counted)
    lag_rows, lag_seconds = find_lag(batches, arrivals, rate)
    limit = find_limit(batches, arrivals)
    most = None if limit is None else limit.rows
    span = float(batches.end.max() - batches.start[0])
    return Query(
        log=log,
        warm=_frozen(done),
        fit=fit,
        trigger=trigger,
        arrivals=_frozen(arrivals),
        rate=rate,
        rate_max=_most(*counted, period, rate, trigger),
        busy=min(float(batches.duration.sum()) / span, 1.0) if span > 0 else 0.0,
        lag_rows=lag_rows,
        lag_seconds=lag_seconds,
        capacity=find_capacity(fit, rate, trigger, most, sure=limit is None or limit.sure, done=managed(batches)),
        parts={name: float(part.mean()) for name, part in sorted(batches.parts.items())},
    )


def _most(batches: Batches, arrivals: Array, step: float, rate: float, trigger: float | None) -> float:
    steps = int((batches.start[-1] - batches.start[0]) / step)
    if steps < 1 or np.isnan(rate):
        return rate
    edges = batches.start[0] + step * np.arange(steps + 1)
    return max(float(rate_series(batches, arrivals, edges, trigger).sum(axis=0).max()), rate)


def _frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.setflags(write=False)
    return array
