"""Replaying recorded rates through the batches of a deployment, and the latency of the rows."""

from __future__ import annotations

import numpy as np

from penstock.advice.draw import Draw
from penstock.advice.rows import Replayed, Rows
from penstock.advice.values import Deployment, Job
from penstock.arrays import Array
from penstock.errors import InputError

MOST = 4_000_000
"""Batches of a driver that a replay may have."""

SAME = 1e-6
"""Share of the highest rate by which two may differ and count as one."""


def replay(deployment: Deployment, draw: Draw | None = None) -> dict[str, Replayed]:
    """Replay the rates through the batches of all drivers.

    Parameters
    ----------
    draw
        The costs and overheads to take; None: as fitted, without noise.

    Raises
    ------
    InputError
        If a driver would run more than `MOST` batches.
    """
    draw = draw or Draw()
    found: dict[str, Replayed] = {}
    for driver, cores in deployment.drivers.items():
        names = deployment.on(driver)
        if names:
            found |= _driver(deployment, names, cores, draw)
    return {name: found[name] for name in deployment.jobs}


def _driver(deployment: Deployment, names: tuple[str, ...], cores: float, draw: Draw) -> dict[str, Replayed]:
    from penstock.advice.kernel import batches

    jobs = [deployment.jobs[name] for name in names]
    settings = np.array(
        [
            (
                *draw.line(job),
                job.trigger,
                job.limit,
                min(job.cores, cores),
                (job.phase - deployment.start) % job.trigger if job.trigger > 0 else 0.0,
                job.tasks,
                job.shortest,
            )
            for job in jobs
        ]
    )
    arrived = np.zeros((len(jobs), deployment.periods + 1))
    for row, job in zip(arrived, jobs, strict=True):
        row[1 : job.rates.size + 1] = np.cumsum(job.rates * deployment.period)
        row[job.rates.size + 1 :] = row[job.rates.size]
        row += job.waiting
    factors = [draw.noise.get(job.known_as, np.ones(1)) for job in jobs]
    noise = np.array([np.resize(row, max(each.size for each in factors)) for row in factors])
    room = 4096
    while True:
        table = batches(settings, arrived, deployment.period, cores, noise, room)
        if len(table) < room:
            break
        room *= 4
        if room > 4 * MOST:
            raise InputError(f"more than {MOST:,} batches to replay", hint="look at less with --since and --until")
    edges: Array = deployment.period * np.arange(float(arrived.shape[1]))
    found = {}
    for number, job in enumerate(jobs):
        _, start, end, rows = table[table[:, 0] == number].T
        found[job.name] = Replayed(start, end, rows, _latency(arrived[number], edges, (start, end, rows), job))
    return found


def _latency(arrived: Array, edges: Array, batches: tuple[Array, Array, Array], job: Job) -> Rows:
    start, end, rows = batches
    upto = np.cumsum(rows)
    if not upto.size:
        return Rows(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))
    # Long logs have many periods in which nothing comes, or as many rows as before.
    rates = np.diff(arrived)
    steps = np.rint(rates / (SAME * max(float(rates.max()), 1e-300)))
    changes = arrived[:-1][np.diff(steps, prepend=-1.0) != 0]
    marks = np.unique(np.concatenate([[0.0], changes[changes < upto[-1]], upto]))
    begin, stop = marks[:-1], marks[1:]
    batch = np.minimum(np.searchsorted(upto, stop - 1e-9, side="left"), upto.size - 1)
    seen = [end[batch], end[batch]]
    if job.progressive:
        done = ((side - (upto - rows)[batch]) / rows[batch] for side in (begin, stop))
        seen = [start[batch] + share * (end - start)[batch] for share in done]
    came = [_when(arrived, edges, begin, "right"), _when(arrived, edges, stop, "left")]
    # A row that Spark takes whole may, in parts, arrive a moment after the batch has begun.
    first, last = (np.maximum(out - into, 0.0) for out, into in zip(seen, came, strict=True))
    return Rows(first, last, stop - begin, came[0])


def _when(arrived: Array, edges: Array, number: Array, side: str) -> Array:
    """Return when a number of rows has arrived; where none arrives for a while, its beginning or its end."""
    place = np.clip(np.searchsorted(arrived, number, side=side), 1, arrived.size - 1)  # type: ignore[call-overload]
    low, high = arrived[place - 1], arrived[place]
    share = np.clip((number - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
    return np.asarray(edges[place - 1] + share * (edges[place] - edges[place - 1]))
