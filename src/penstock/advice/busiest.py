"""The busiest part of what was recorded, so that replays stay short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import numpy as np

from penstock.advice.replay import replay
from penstock.advice.rows import Replayed
from penstock.advice.values import Deployment, Job
from penstock.arrays import Array
from penstock.errors import InputError
from penstock.units import human

BATCHES = 5000
"""A log in which no query has more batches is replayed whole; of a longer one at least a part of so many is."""

LONGEST = 100_000
"""Batches of all queries that a part may have, so that a long wait is replayed from where it began."""

COARSE = 1_000_000
"""Batches of all queries in a coarser replay of a time that has too many of them."""

CALM = 0.1
"""A wait begins where rows wait longer than usual by this share of what they wait beyond the usual at most."""

MORE, SECONDS = 1.25, 1.0
"""Waits are longer than others where they are so by this factor and by so many seconds."""


@attrs.frozen(eq=False, kw_only=True)
class Part:
    """The part of a deployment's time that proposals are judged by.

    Attributes
    ----------
    deployment
        Over this part, with the rows that wait when it begins; usual are the rates of the whole time.
    whole
        The replay of the whole time without noise; empty if the part is all of it, or has too many batches for one.
    notes
        What is left out.
    """

    deployment: Deployment
    whole: Mapping[str, Replayed] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class _Wait:
    """The longest wait of a query's rows: from the last calm batch before it to the first one after (s).

    The row that waits longest leaves at `left`, after `worst` seconds; in calm times rows wait `calm` seconds.
    """

    begin: float
    left: float
    end: float
    worst: float
    calm: float


def busiest(deployment: Deployment) -> Part:
    """Return the part of the deployment's time with the longest waits, from where they begin to where they end.

    One replay of the whole time finds it. Queries that wait long at other times have these added while the part stays
    short enough, and are told of if not.
    """
    apart = [max(job.trigger, job.overhead, job.shortest, 0.05) for job in deployment.jobs.values()]
    least = max(int(BATCHES * min(apart, default=1.0) / deployment.period), 1)
    if least >= deployment.periods:
        return Part(deployment=deployment)
    try:
        whole, step = replay(deployment), 0.0
    except InputError:
        step = deployment.periods * deployment.period * len(deployment.jobs) / COARSE
        whole = replay(_coarser(deployment, step))
    waits = {name: _longest(rows, deployment) for name, rows in whole.items() if rows.rows.size}
    long, cut = _span(deployment, whole, waits, int(LONGEST * min(min(apart) / max(step, 1e-9), 1.0)))
    span = _heaviest(deployment, least, long)
    notes = (_looked(deployment, span), *_missed(deployment, whole, waits, span, cut))
    return Part(deployment=_part(deployment, span, whole), whole={} if step else whole, notes=notes)


def _coarser(deployment: Deployment, step: float) -> Deployment:
    """Return the deployment with triggers of at least so many seconds, and limits with which it keeps up as before."""

    def changed(job: Job) -> Job:
        pace = max(job.trigger, job.seconds(job.limit) if np.isfinite(job.limit) else 0.0, 1e-9)
        return attrs.evolve(job, trigger=max(job.trigger, step), limit=job.limit * max(step / pace, 1.0))

    return attrs.evolve(deployment, jobs={name: changed(job) for name, job in deployment.jobs.items()})


def _longest(rows: Replayed, deployment: Deployment) -> _Wait:
    """Return the longest wait of a query's rows, told by the first row of each batch."""
    latency = rows.latency
    begin = np.cumsum(rows.rows) - rows.rows
    first = np.searchsorted(np.cumsum(latency.weight) - latency.weight, begin - 0.5)
    first = np.minimum(first, latency.weight.size - 1)
    delay, arrival = latency.first[first], latency.arrival[first]
    peak, calm = int(np.argmax(delay)), float(np.quantile(delay, 0.1))
    worst = float(delay[peak])
    quiet = np.flatnonzero(delay <= calm + CALM * (worst - calm))
    before, after = quiet[quiet < peak], quiet[quiet > peak]
    span = deployment.period * deployment.periods
    return _Wait(
        begin=float(arrival[before[-1]]) if before.size else 0.0,
        left=min(float(rows.end[peak]), span),
        end=min(float(rows.end[after[0]]), span) if after.size else span,
        worst=worst,
        calm=calm,
    )


def _span(
    deployment: Deployment, whole: Mapping[str, Replayed], waits: Mapping[str, _Wait], most: int
) -> tuple[tuple[int, int] | None, bool]:
    """Return the first period with long waits and the one after the last, and whether their begin had to be cut off.

    There are at most so many batches in them.
    """
    starts = np.sort(np.concatenate([rows.start for rows in whole.values()]))
    found, cut = None, False
    for name, wait in sorted(waits.items(), key=lambda row: row[1].calm - row[1].worst):
        if not _longer(wait.worst, wait.calm):
            continue
        if found is None:
            end = wait.end if _count(starts, wait.begin, wait.end) <= most else wait.left
            cut = _count(starts, wait.begin, end) > most
            begin = float(starts[np.searchsorted(starts, end) - most]) if cut else wait.begin
            found = _periods(deployment, begin, end)
        elif _longer(wait.worst, _within(deployment, whole[name], found)):
            begin, end = (place * deployment.period for place in found)
            begin, end = min(begin, wait.begin), max(end, wait.end)
            if _count(starts, begin, end) <= most:
                found = _periods(deployment, begin, end)
    return found, cut


def _longer(wait: float, other: float) -> bool:
    return wait > MORE * other + SECONDS


def _count(starts: Array, begin: float, end: float) -> int:
    return int(np.searchsorted(starts, end) - np.searchsorted(starts, begin))


def _periods(deployment: Deployment, begin: float, end: float) -> tuple[int, int]:
    first, stop = int(begin / deployment.period + 1e-9), int(np.ceil(end / deployment.period - 1e-9))
    return first, min(max(stop, first + 1), deployment.periods)


def _within(deployment: Deployment, rows: Replayed, span: tuple[int, int]) -> float:
    """Return the longest wait of the rows that arrive in a span."""
    begin, end = (place * deployment.period for place in span)
    there = (rows.latency.arrival >= begin) & (rows.latency.arrival < end)
    return float(rows.latency.first[there].max(initial=0.0))


def _heaviest(deployment: Deployment, least: int, span: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return a span, or, where there is none or a shorter one, the `least` periods of the highest load around it."""
    if span is not None and span[1] - span[0] >= least:
        return span
    load = sum((job.load() for job in deployment.jobs.values()), np.zeros(deployment.periods))
    sums = np.concatenate([[0.0], np.cumsum(load)])
    low, high = (0, deployment.periods - least)
    if span is not None:
        low, high = max(span[1] - least, low), min(span[0], high)
    at = low + int(np.argmax((sums[least:] - sums[:-least])[low : high + 1]))
    return at, at + least


def _part(deployment: Deployment, span: tuple[int, int], whole: Mapping[str, Replayed]) -> Deployment:
    """Return the deployment over a span, with the rows that wait there in a replay of the whole time."""
    first, stop = span
    begin = first * deployment.period

    def cut(job: Job) -> Job:
        waiting = job.waiting
        if first:
            # A batch that runs at the time does its rows again: where a wait has only begun it is short.
            came = waiting + float(job.rates[:first].sum()) * deployment.period
            rows = whole.get(job.name)
            waiting = 0.0 if rows is None else max(came - float(rows.rows[rows.end <= begin].sum()), 0.0)
        return attrs.evolve(job, rates=job.rates[first:stop].copy(), waiting=waiting, usual=job.rate)

    jobs = {name: cut(job) for name, job in deployment.jobs.items()}
    return attrs.evolve(deployment, jobs=jobs, start=deployment.start + begin)


def _looked(deployment: Deployment, span: tuple[int, int]) -> str:
    looked, there = (human((stop - first) * deployment.period) for first, stop in (span, (0, deployment.periods)))
    return f"only the busiest {looked} of {there} are replayed"


def _missed(
    deployment: Deployment,
    whole: Mapping[str, Replayed],
    waits: Mapping[str, _Wait],
    span: tuple[int, int],
    cut: bool,
) -> Iterator[str]:
    if cut:
        yield "the longest wait begins before these minutes, so its interval is too narrow"
    for name, wait in waits.items():
        if _longer(wait.worst, _within(deployment, whole[name], span)):
            yield f"at another time rows of {name} wait up to {human(wait.worst)}"
