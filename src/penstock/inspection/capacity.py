"""How far a query is behind, what limits its batches, and what it could bear."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.inspection.fitted import Fit
from penstock.inspection.values import Capacity
from penstock.telemetry import Batches

HOUR = 3600.0

FEW = 10
"""So many batches, and rows of a source that does not tell what waits, are the least that show a limit."""

NEARLY = 0.999


@attrs.frozen(kw_only=True)
class Limit:
    """The most rows that batches take of a source, such as ``maxOffsetsPerTrigger``.

    Attributes
    ----------
    source
        Its number in `QueryLog.sources`.
    own
        Rows of a batch that come from it.
    rows
        Rows of such a batch, with those of the other sources.
    share
        Share of the batches with rows of that source that take so many.
    sure
        Whether full batches tell what they left behind: else their size may be chance and no limit at all.
    """

    source: int
    own: float
    rows: float
    share: float
    sure: bool


def find_lag(batches: Batches, arrivals: Array, rate: float) -> tuple[float, float]:
    """Return the rows that waited at the last batch, and how many seconds the query was behind; NaN if not told.

    It is as far behind as the source that is farthest; each has its share of the rate.

    Parameters
    ----------
    arrivals
        Rows that came before each batch, shape ``(sources, batches)``.
    rate
        Rows a second of all sources.
    """
    rows = float(batches.lag[-1])
    if not np.isnan(rows):
        waiting, came = batches.source_lag[:, -1], arrivals.sum(axis=1)
        rates = rate * came / max(float(came.sum()), 1.0)
        told = ~np.isnan(waiting)
        return rows, float(np.max([_seconds(w, r) for w, r in zip(waiting[told], rates[told], strict=True)]))
    told = np.flatnonzero(~np.isnan(batches.event_time))
    if not told.size:
        return rows, float("nan")
    behind = float(batches.start[told[-1]] - batches.event_time[told[-1]])
    # Event times of a replay say when the rows were made, which is no measure of lag.
    return rows, behind if 0 <= behind < 30 * 24 * HOUR else float("nan")


def _seconds(waiting: float, rate: float) -> float:
    """Return for how many seconds of a source's rate rows wait; NaN where none came."""
    return 0.0 if waiting == 0 else float(waiting / rate) if rate > 0 else float("nan")


def find_limit(batches: Batches, arrivals: Array) -> Limit | None:
    """Return the limit that batches reach first if all rates grow alike; None where none shows, or nothing comes.

    One that is sure counts before those that may be chance. Each source has its own: a batch of all of them has as many
    rows more as came to the others meanwhile.

    Parameters
    ----------
    arrivals
        Rows that came before each batch, shape ``(sources, batches)``.
    """
    rows, came = batches.by_source, arrivals.sum(axis=1)
    found = [_limit_of(number, *each) for number, each in enumerate(zip(rows, batches.lag_by_source, strict=True))]
    told = [one for one in found if one is not None and came[one.source] > 0]
    whole = [attrs.evolve(one, rows=one.own * came.sum() / came[one.source]) for one in told]
    return min(whole, key=lambda one: (not one.sure, one.rows), default=None)


def _limit_of(source: int, rows: Array, lag: Array) -> Limit | None:
    """Return the most rows that a batch takes of a source, where many take just that many and leave rows behind.

    Where the source does not tell what waits, the other batches must be clearly smaller: else a steady source would
    look the same.
    """
    there = rows > 0
    rows, lag = rows[there], lag[there]
    if rows.size < FEW:
        return None
    most = float(rows.max())
    full = rows >= NEARLY * most
    if full.sum() < max(5, 0.1 * rows.size):
        return None
    told = full & ~np.isnan(lag)
    limit = Limit(source=source, own=most, rows=most, share=float(full.mean()), sure=bool(told.any()))
    if limit.sure:
        return limit if (lag[told] > 0).mean() > 0.5 else None
    return limit if most >= FEW and not full.all() and float(np.median(rows[~full])) < 0.8 * most else None


def managed(batches: Batches) -> float:
    """Return rows a second of all batches but the last, up to the begin of that one; 0 where there is no time between.

    A query that keeps up manages about what comes; of one that cannot, this is what it can do.
    """
    span = float(batches.start[-1] - batches.start[0])
    return float(batches.rows[:-1].sum() / span) if span > 0 else 0.0


def find_capacity(
    fit: Fit, rate: float, trigger: float | None, limit: float | None, *, sure: bool = True, done: float = 0.0
) -> Capacity:
    """Return how much a query could bear.

    A batch takes what arrived during the one before, or its limit M. So the query falls behind for good once the rate
    is above ``1 / cost``, or above ``M / max(trigger, overhead + cost · M)``. A limit that is not `sure` to be one
    only makes a lower bound, and so does what it has `done` (rows a second).
    """
    if not rate > 0:  # none, or not told
        return Capacity(limit=limit, sure=sure)
    interval = trigger or 0.0
    if fit.cost is None or fit.overhead is None or not (sure or limit is None):
        most = fit.cost_most if fit.cost is None else fit.cost
        if sure and limit is not None and most and (fit.overhead or 0.0) + most * limit <= interval:
            # Whatever a row costs, full batches keep up with the trigger, and so many rows are what they take.
            return Capacity(headroom=limit / interval / rate, limit=limit, sure=sure)
        least = max(_most_rate(fit.overhead or 0.0, most, interval, limit), done) / rate if most else None
        return Capacity(least=least, limit=limit, sure=sure)
    return Capacity(
        headroom=_most_rate(fit.overhead, fit.cost, interval, limit) / rate,
        catch_up=catch_up(fit.overhead, fit.cost, rate, interval, limit, outage=HOUR),
        limit=limit,
        sure=sure,
    )


def _most_rate(overhead: float, cost: float, trigger: float, limit: float | None) -> float:
    """Return the rows a second above which a query falls behind for good."""
    return 1 / cost if limit is None else limit / max(trigger, overhead + cost * limit)


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
    if _most_rate(overhead, cost, trigger, limit) <= rate:
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
