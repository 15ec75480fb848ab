"""The forecasts of a run, each from what was known when it was made, beside what came."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.files import Document
from penstock.latency.batches import BatchHosts
from penstock.latency.fragments import fragments
from penstock.running.drift import DRAWS, HORIZONS, Drift, Seen, Watch
from penstock.running.forecast import BEYOND, Course, Forecast

if TYPE_CHECKING:
    from penstock.spark.run import Outcome

EVERY, MOST, FOLLOWED = 10.0, 30, 400_000
"""Seconds between two forecasts; how many a run has, and batches they follow, at most: else they are further apart."""


def forecasts(
    course: Course, batches: Sequence[Seen], rng: np.random.Generator
) -> tuple[list[Forecast], tuple[Drift, ...]]:
    """Return the forecasts of a run, each made with what was known at its time, and where its hosts drifted.

    Parameters
    ----------
    batches
        Of the run, as they ended, from the beginning of the rates on.
    """
    hosts = BatchHosts.of(course.statistics, course.cluster)
    watch, told, length = Watch.of(hosts, course.young), [], course.rates.duration
    begins = np.array([batch.start for batch in batches])
    ends = [batch.end for batch in batches]
    some = [length * part / MOST for part in range(1, MOST + 1)]
    known = [batches[: bisect_right(ends, now)] for now in some]
    again = [np.sum(begins[: len(row)] >= course.begin(now, row)) for now, row in zip(some, known, strict=True)]
    soon = len(fragments(course.network, course.placement)) * (max(HORIZONS) + BEYOND) / hosts.trigger
    each = (float(np.mean(again)) + soon) * (DRAWS + 1)
    every = max(EVERY, length / min(MOST, max(3.0, FOLLOWED / each)))
    count, begin = 0, 0.0
    for number in range(1, math.ceil(length / every)):
        now = number * every
        while count < len(batches) and batches[count].end <= now:
            watch = watch.after(batches[count])
            count += 1
        if count:
            begin = course.begin(now, batches[:count], begin)
            told += course.forecast(now, watch, batches[:count], rng, begin)
    for batch in batches[count:]:
        watch = watch.after(batch)
    return told, watch.drifts


def reported(course: Course, batches: Sequence[Seen], outcome: Outcome, rng: np.random.Generator) -> Document:
    """Return the keys ``forecast``, ``drift`` and ``drifts`` of a run's report."""
    told, drifts = forecasts(course, batches, rng)
    ran = [(begin - outcome.epoch, end - outcome.epoch) for begin, end in outcome.runs]
    told = [each for each in told if len(ran) == 1 or any(begin <= each.time <= end for begin, end in ran)]
    names = sorted(outcome.stimulus)
    stimulus = np.concatenate([np.zeros(0), *(outcome.stimulus[name] for name in names)]) - outcome.epoch
    return {
        "forecast": [attrs.asdict(each) for each in with_measured(told, stimulus, outcome.latency())],
        "drift": bool(drifts),
        "drifts": [
            {**attrs.asdict(drift), "began": max((begin for begin, _ in ran if 0 < begin <= drift.time), default=0.0)}
            for drift in drifts
        ],
    }


def with_measured(told: Iterable[Forecast], stimulus: Array, latency: Array) -> list[Forecast]:
    """Return forecasts with what was measured: the worst latency (s) of what entered then; None where nothing did."""
    found = []
    for each in told:
        inside = (stimulus >= each.time) & (stimulus < each.time + each.horizon)
        found.append(attrs.evolve(each, measured=float(latency[inside].max()) if inside.any() else None))
    return found
