"""How a query is paced: its trigger, the rows that arrive, how far it is behind, and what it could bear."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.inspection.fit import Fit
from penstock.inspection.values import Capacity
from penstock.telemetry import Batches

HOUR = 3600.0
LATE = 0.04
"""Seconds by which a batch may begin after its trigger was due."""

_COMMON = (
    0.1, 0.2, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 600, 900, 1200, 1800,
    3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip


def find_trigger(batches: Batches) -> float | None:
    """Return the interval of the trigger (s), 0 for none (or one too short to matter), None if it cannot be told.

    Spark begins a batch at the next whole multiple of the interval since the epoch, or at once if that has passed. So
    the batches that began after a pause tell the interval: the largest of which they all are multiples.
    """
    same = batches.run[1:] == batches.run[:-1]
    gaps, pause = np.diff(batches.start)[same], (batches.start[1:] - batches.end[:-1])[same]
    starts = batches.start[1:][same][pause > 0.02]
    if gaps.size < 5:
        return None
    if starts.size < max(5, 0.05 * gaps.size):
        # It never waited, so the interval is shorter than its batches: as good as none if these are short.
        quick = float(np.quantile(batches.duration, 0.05))
        return 0.0 if quick < max(1.0, 0.5 * float(np.median(batches.duration))) else None
    waited = gaps[pause > 0.02]
    candidates = sorted({*_COMMON, *(round(float(np.quantile(waited, q)), 1) for q in (0.1, 0.5))}, reverse=True)
    for interval in candidates:
        if interval <= 0 or interval > 1.02 * np.quantile(waited, 0.9) + LATE:
            continue
        early = 0.002
        past = np.mod(starts + early, interval)
        if np.mean(past <= min(LATE + early, 0.2 * interval)) >= 0.9:
            return float(interval)
    return _evenly_apart(waited)


def _evenly_apart(gaps: Array) -> float:
    """Return the interval of which gaps are multiples, though none since the epoch: a source's own pace; else 0."""
    base = float(np.quantile(gaps, 0.1))
    base = float(np.median(gaps[np.abs(gaps - base) <= max(LATE, 0.02 * base)]))
    if base < 0.2:
        return 0.0
    rest = np.abs(gaps - base * np.maximum(np.round(gaps / base), 1))
    if np.mean(rest <= max(LATE, 0.02 * base)) < 0.8:
        return 0.0
    return next((float(common) for common in _COMMON if abs(common - base) <= 0.02 * common), round(base, 2))


def find_arrivals(batches: Batches) -> Array:
    """Return the rows that arrived before each batch and after the one before it, shape ``(sources, batches)``.

    Those that the batch took, and by how much the rows that wait have grown. The first batch's are what it took.
    """
    grown = np.diff(batches.lag, prepend=batches.lag[:1])
    rows = batches.source_rows if batches.source_rows.size else batches.rows[None, :]
    total = rows.sum(axis=0)
    came = np.maximum(total + np.nan_to_num(grown), 0.0)
    share = np.divide(rows, total, out=np.full(rows.shape, 1 / max(len(rows), 1)), where=total > 0)
    return np.asarray(share * came)


def mean_rate(batches: Batches, arrivals: Array) -> float:
    """Return rows a second over the time between the first and the last batch."""
    span = float(batches.start[-1] - batches.start[0])
    if span <= 0:
        return float(batches.rows.sum() / max(batches.duration.sum(), 1e-9))
    return float(arrivals[:, 1:].sum() / span)


def rate_series(batches: Batches, arrivals: Array, edges: Array) -> Array:
    """Return rows a second by source in each step, shape ``(sources, steps)``.

    What arrived between two batches is spread evenly over the time between them. What the first batch took had arrived
    before the time that the log tells of, and is left out; of a single batch it is spread over that batch.

    Parameters
    ----------
    edges
        Begin of each step and end of the last one (s since the epoch), shape ``(steps + 1,)``.
    """
    times = batches.start
    rows = arrivals[:, 1:]
    if times.size == 1:
        times, rows = np.append(times, times[0] + max(float(batches.duration[0]), 1e-3)), arrivals
    steps = np.diff(edges)
    series = np.zeros((len(arrivals), steps.size))
    for number, came in enumerate(rows):
        series[number] = np.diff(np.interp(edges, times, np.concatenate([[0.0], np.cumsum(came)]))) / steps
    return series


def step_of(span: float, gap: float) -> float:
    """Return a step (s) for rate series: no shorter than batches are apart, and a few thousand steps at most."""
    wanted = max(gap, span / 3600, 1.0)
    return next((float(step) for step in _COMMON if step >= 1 and step >= wanted), float(np.ceil(wanted / 3600) * 3600))


def find_lag(batches: Batches, rate: float) -> tuple[float, float]:
    """Return the rows that waited at the last batch, and how many seconds the query was behind; NaN if not told."""
    rows = float(batches.lag[-1])
    if not np.isnan(rows):
        return rows, rows / rate if rate > 0 else (0.0 if rows == 0 else float("nan"))
    told = np.flatnonzero(~np.isnan(batches.event_time))
    if not told.size:
        return rows, float("nan")
    behind = float(batches.start[told[-1]] - batches.event_time[told[-1]])
    # Event times of a replay say when the rows were made, which is no measure of lag.
    return rows, behind if 0 <= behind < 30 * 24 * HOUR else float("nan")


def find_limit(batches: Batches) -> float | None:
    """Return the most rows that a batch takes, where many batches have just that many and rows are left behind.

    Where the sources do not tell what waits, the other batches must be clearly smaller: else a steady source would
    look the same.
    """
    there = batches.rows > 0
    rows, lag = batches.rows[there], batches.lag[there]
    if rows.size < 10:
        return None
    most = float(rows.max())
    full = rows >= 0.999 * most
    if full.sum() < max(5, 0.1 * rows.size):
        return None
    told = full & ~np.isnan(lag)
    if told.any():
        return most if (lag[told] > 0).mean() > 0.5 else None
    return most if not full.all() and float(np.median(rows[~full])) < 0.8 * most else None


def find_capacity(fit: Fit, rate: float, trigger: float | None, limit: float | None) -> Capacity:
    """Return how much a query could bear.

    A batch takes what arrived during the one before, or its limit M. So the query falls behind for good once the rate
    is above ``1 / cost``, or above ``M / max(trigger, overhead + cost · M)``.
    """
    if rate <= 0:
        return Capacity(limit=limit)
    interval = trigger or 0.0
    if fit.cost is None or fit.overhead is None:
        most = fit.cost_most
        return Capacity(least=1 / (rate * most) if most else None, limit=limit)
    bear = 1 / fit.cost
    if limit is not None:
        bear = limit / max(interval, fit.overhead + fit.cost * limit)
    return Capacity(
        headroom=bear / rate,
        catch_up=catch_up(fit.overhead, fit.cost, rate, interval, limit, outage=HOUR),
        limit=limit,
    )


def catch_up(
    overhead: float, cost: float, rate: float, trigger: float, limit: float | None, *, outage: float
) -> float | None:
    """Return the seconds from the end of an outage until a query takes batches of the usual size again.

    The recursion over its batches: each takes what waits, up to the limit, and while it runs further rows arrive.

    Returns
    -------
    float or None
        None where it never catches up.

    Examples
    --------
    A query that can bear twice its rate needs as long as the outage lasted:

    >>> round(catch_up(0.0, 0.001, 500.0, 0.0, None, outage=3600.0))
    3600
    """
    most = np.inf if limit is None else limit
    bear = 1 / cost if limit is None else limit / max(trigger, overhead + cost * limit)
    if bear <= rate:
        return None
    steady = max(trigger, overhead / (1 - rate * cost)) if rate * cost < 1 else trigger
    usual = min(max(rate * steady, 1.0), most)
    waits, passed = rate * outage, 0.0
    if np.isfinite(most) and waits > 2 * most:
        # Full batches, one like the other, until little is left.
        lasts = max(trigger, overhead + cost * most)
        full = np.floor((waits - most) / (most - rate * lasts))
        waits, passed = waits - full * (most - rate * lasts), full * lasts
    for _ in range(100_000):
        if waits <= 1.01 * usual:
            break
        taken = min(waits, most)
        lasts = max(overhead + cost * taken, trigger if taken < most and overhead + cost * taken < trigger else 0.0)
        lasts = max(lasts, trigger) if taken == most else lasts
        waits, passed = waits - taken + rate * lasts, passed + lasts
    return float(passed)


@attrs.frozen(eq=False)
class Running:
    """How long batches have run up to any time, of all queries of an application together.

    Attributes
    ----------
    origin
        Times count from here (s since the epoch), so that sums keep their digits.
    starts, ends
        Of all batches, sorted; with the sum of those before each, which has one entry more.
    """

    origin: float
    starts: Array
    ends: Array
    started: Array
    ended: Array

    @classmethod
    def of(cls, tables: Sequence[Batches]) -> Running:
        """Join the batches of several queries."""
        origin = min((float(table.start[0]) for table in tables if len(table)), default=0.0)
        starts = np.sort(np.concatenate([np.zeros(0), *(table.start - origin for table in tables)]))
        ends = np.sort(np.concatenate([np.zeros(0), *(table.end - origin for table in tables)]))
        return cls(origin, starts, ends, np.append(0.0, np.cumsum(starts)), np.append(0.0, np.cumsum(ends)))

    def seconds(self, times: Array) -> Array:
        """Return the batch seconds up to these times (s since the epoch)."""
        since = times - self.origin
        begun, done = np.searchsorted(self.starts, since), np.searchsorted(self.ends, since)
        return np.asarray(begun * since - self.started[begun] - (done * since - self.ended[done]))

    def during(self, batches: Batches) -> Array:
        """Return how many batches ran during each of these batches, in the mean over its time."""
        lasted = np.maximum(batches.duration, 1e-9)
        return np.asarray((self.seconds(batches.end) - self.seconds(batches.start)) / lasted)
