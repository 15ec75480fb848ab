"""The time that is looked at: which batches lie in it, and how a user names its ends."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import numpy as np

from penstock.errors import InputError
from penstock.telemetry import QueryLog, Telemetry
from penstock.telemetry.events import Unreadable, epoch
from penstock.units import seconds

EARLIEST = 1e9
"""Seconds since the epoch (in 2001) from which on a number is a time: 20260131 is a date."""


def within(queries: Mapping[str, QueryLog], since: float | None, until: float | None) -> dict[str, QueryLog]:
    """Return the logs with the batches that began in a time (s since the epoch), and the runs that belong to it."""
    if since is None and until is None:
        return dict(queries)
    span = -np.inf if since is None else since, np.inf if until is None else until
    return {name: _cut(log, *span) for name, log in queries.items()}


def _cut(log: QueryLog, since: float, until: float) -> QueryLog:
    """Return a log with the batches of a time, and the runs that have one or, without any batch, began in it."""
    start = log.batches.start
    batches = log.batches.take((start >= since) & (start < until))
    anywhere, here = set(log.batches.run.tolist()), set(batches.run.tolist())
    kept = [
        number
        for number, run in enumerate(log.runs)
        if number in here or (number not in anywhere and run.start is not None and since <= run.start < until)
    ]
    run = np.searchsorted(kept, batches.run)
    run.setflags(write=False)
    return attrs.evolve(log, runs=tuple(log.runs[number] for number in kept), batches=attrs.evolve(batches, run=run))


def told(queries: Mapping[str, QueryLog]) -> str:
    """Return a sentence that says of which time the logs tell."""
    first = min(float(log.batches.start[0]) for log in queries.values())
    last = max(float(log.batches.start[-1]) for log in queries.values())
    return f"the logs have batches from {_iso(first)} to {_iso(last)}"


def _iso(when: float) -> str:
    return str(np.datetime64(round(when), "s")) + "Z"


def _number(text: str) -> float:
    """Return a text as a number; NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def moment(text: str, telemetry: Telemetry, option: str) -> float:
    """Return the time that a text names, in seconds since the epoch.

    Parameters
    ----------
    text
        A time such as ``2026-01-31T10:00`` (UTC unless it says otherwise), seconds since the epoch, or a duration such
        as ``"2 hours"``: so long before the last batch of the logs.

    Raises
    ------
    InputError
        If it is none of these.
    """
    number = _number(text)
    if number >= EARLIEST:
        return number
    try:
        return epoch(text)
    except Unreadable:
        pass
    wrong = InputError(
        f"expected a time or a duration, got {text!r}", at=option, hint="e.g. 2026-01-31T10:00 or '2 hours'"
    )
    if not math.isnan(number):  # no duration without a unit
        raise wrong
    try:
        before = seconds(text)
    except InputError:
        raise wrong from None
    return max(float(log.batches.end.max()) for log in telemetry.queries.values()) - before
