"""The batches of all queries of one driver, event by event, in plain Python that numba compiles (`kernel`).

A batch begins at the later of the end of the one before and the next multiple of its trigger after the start of that
one, takes the rows that wait, up to its limit, and lasts overhead + cost · rows while the driver has cores for all
tasks that run: those of the rows, and those that are a share of the overhead. Where these would keep more cores busy
than there are, all run slower by the same factor.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from penstock.arrays import Array

SHORTEST = 0.02
"""No batch is shorter than this (s): Spark plans it and writes two logs for it."""


@register_jitable
def begins(
    settings: Array, arrived: Array, period: float, taken: float, place: int, earliest: float
) -> tuple[int, float]:
    """Return when a query's next batch begins (s): a whole row waits and the trigger fires; infinite if none comes.

    Before it stands the period in which that row arrives; `place` is one that is not later.
    """
    wanted = taken + 1 - 1e-6
    if arrived[-1] < wanted:
        return place, np.inf
    while arrived[place + 1] < wanted:
        place += 1
    low, high = arrived[place], arrived[place + 1]
    first = period * (place + (wanted - low) / (high - low)) if wanted > low else period * place
    if first <= earliest:
        return place, earliest
    trigger, phase = settings[2], settings[5]
    if trigger > 0:
        first = phase + math.ceil((first - phase) / trigger - 1e-9) * trigger
    return place, first


@register_jitable
def come(arrived: Array, period: float, now: float) -> int:
    """Return how many whole rows have arrived by a time (s)."""
    here = min(int(now / period), arrived.size - 2)
    there = arrived[here] + (arrived[here + 1] - arrived[here]) * min(now / period - here, 1.0)
    whole: int = math.floor(there + 1e-6)
    return whole


@register_jitable
def stretch(tasks: float, slow: float) -> float:
    """Return how many times as long an overhead takes, a share of which is tasks that run slower."""
    return 1 - tasks + tasks * slow


@register_jitable
def lasts(fixed: float, work: float, tasks: float, slow: float) -> float:
    """Return how long what a batch does now will take (s): first its overhead, then its rows."""
    return fixed * stretch(tasks, slow) if fixed > 0 else work * slow


@register_jitable
def gone(left: float, done: float, now: float) -> float:
    """Return what is left of some seconds; nothing, where only rounding is, which grows with the time."""
    return left - done if left - done > max(1e-9, 1e-15 * now) else 0.0


def batches(settings: Array, arrived: Array, period: float, cores: float, noise: Array, most: int) -> Array:
    """Return all batches until every row has been taken.

    Parameters
    ----------
    settings
        Array (jobs, 8): overhead, cost, trigger, limit, cores, phase, tasks and shortest batch of each query; phase is
        when the trigger fires first (s), tasks the share of the overhead in which they run.
    arrived
        Array (jobs, periods + 1): rows that have arrived up to the beginning of each period, and to the end; those that
        wait from the first are in all of them.
    period
        Length of a period (s).
    cores
        Of the driver.
    noise
        Array (jobs, any): factors on the seconds of successive batches, used again from the beginning.
    most
        How many batches the table has room for.

    Returns
    -------
    ndarray, shape (batches, 4)
        Job, start, end (s) and rows, by the end. It has `most` rows where there was no room for all.
    """
    jobs = settings.shape[0]
    found = np.zeros((most, 4))
    count = 0
    taken, size = np.zeros(jobs), np.zeros(jobs)
    fixed, work, begun = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)
    running = np.zeros(jobs, np.bool_)
    number = np.zeros(jobs, np.int64)
    place = np.zeros(jobs, np.int64)
    ready = settings[:, 5].copy()
    due = np.full(jobs, -1.0)
    now = 0.0
    while True:
        busy = 0.0
        for j in range(jobs):
            if running[j]:
                busy += settings[j, 4] * (settings[j, 6] if fixed[j] > 0 else 1.0)
            elif due[j] < 0:
                place[j], due[j] = begins(settings[j], arrived[j], period, taken[j], place[j], max(ready[j], now))
        slow = max(busy / cores, 1.0)
        event = np.inf
        for j in range(jobs):
            event = min(event, now + lasts(fixed[j], work[j], settings[j, 6], slow) if running[j] else due[j])
        if event == np.inf:
            return found[:count]
        for j in range(jobs):
            if running[j] and fixed[j] > 0:
                fixed[j] = gone(fixed[j], (event - now) / stretch(settings[j, 6], slow), event)
            elif running[j]:
                work[j] = gone(work[j], (event - now) / slow, event)
        now = event
        for j in range(jobs):
            if running[j] and fixed[j] + work[j] == 0:
                if count == most:
                    return found
                found[count, 0], found[count, 1], found[count, 2], found[count, 3] = j, begun[j], now, size[j]
                count += 1
                running[j] = False
                trigger, phase = settings[j, 2], settings[j, 5]
                ready[j] = now
                if trigger > 0:
                    ready[j] = max(now, phase + (math.floor((begun[j] - phase) / trigger + 1e-9) + 1) * trigger)
                due[j] = -1.0
            elif not running[j] and due[j] <= now:
                size[j] = max(min(come(arrived[j], period, now) - taken[j], settings[j, 3]), 1.0)
                taken[j] += size[j]
                begun[j], running[j], due[j] = now, True, -1.0
                factor = noise[j, number[j] % noise.shape[1]]
                work[j] = settings[j, 1] * size[j] * factor
                shortest = max(settings[j, 7] * factor, SHORTEST)
                fixed[j] = max(settings[j, 0] * factor, shortest - work[j], 0.0)
                number[j] += 1
