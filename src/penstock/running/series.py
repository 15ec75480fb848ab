"""A run second by second, predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.files import Document
from penstock.load.spans import covered
from penstock.load.statistics import HostStatistics
from penstock.running.prediction import Prediction
from penstock.running.speeds import speeds_of

if TYPE_CHECKING:
    from penstock.spark.run import Outcome


def series(cluster: Cluster, placement: Mapping[str, str], outcome: Outcome, prediction: Prediction) -> Document:
    """Return rate, load, busy share and worst latency per second, predicted and measured."""
    model = prediction.model
    length = int(np.ceil(model.rates.duration + 5))
    edges = np.arange(length + 1, dtype=float)
    periods = np.minimum((edges[:-1] / model.period).astype(int), model.rates.periods - 1)
    active = edges[:-1] < model.rates.duration
    hosts = {}
    for (name, host), load in zip(cluster.hosts.items(), model.host_load(placement, cluster), strict=True):
        if name in placement.values():
            known = prediction.statistics.hosts.get(name, HostStatistics())
            rows = [(b.start, b.start + b.duration) for b in prediction.result.batches if placement[b.query] == name]
            real = [b.span for b in outcome.batches if placement.get(b.query) == name]
            hosts[name] = {
                "speed": speeds_of(outcome, name, placement, edges),
                "predicted": np.where(active, load[periods] * known.factor / host.capacity, 0.0),
                "busy": _busy(rows, edges),
                "measured": _measured(real, outcome.epoch, edges),
            }
    stimulus, latency, weight = prediction.result.whole()
    measured = outcome.latency()
    entered = np.concatenate([np.zeros(0), *(outcome.stimulus[name] for name in sorted(outcome.stimulus))])
    band = {}
    if prediction.spread is not None:
        for key, row in (("low", prediction.spread.low), ("high", prediction.spread.high)):
            band[key] = [float(row[period]) if on else None for period, on in zip(periods, active, strict=True)]
    found: Document = {
        "time": edges[:-1],
        "rate": {
            name: np.where(active, row[periods], 0.0)
            for name, row in zip(model.rates.sources, model.rates.values, strict=True)
        },
        "hosts": hosts,
        "latency": {
            "predicted": _worst(stimulus[weight > 0], latency[weight > 0], edges),
            "measured": _worst(entered - outcome.epoch, measured, edges),
            **band,
        },
    }
    ran = np.ones(length, bool)
    for (_, stop), (start, _) in pairwise(outcome.runs):
        ran &= (edges[1:] <= stop - outcome.epoch) | (edges[1:] > start - outcome.epoch)
    return found if ran.all() else _only(found, ran)


def _only(found: Document, ran: NDArray[np.bool_]) -> Document:
    """Return the rows of some seconds: while a run was stopped there is nothing to compare."""
    return {
        key: _only(row, ran) if isinstance(row, dict) else None if row is None else list(compress(row, ran))
        for key, row in found.items()
    }


def _measured(spans: list[tuple[float, float] | None], epoch: float, edges: Array) -> Array | None:
    """Return the busy share in each second, from when to when batches worked (s since 1970); None: not known."""
    known = [(span[0] - epoch, span[1] - epoch) for span in spans if span is not None]
    return None if len(known) < len(spans) else _busy(known, edges)


def _busy(spans: list[tuple[float, float]], edges: Array) -> Array:
    total = np.zeros(edges.size - 1)
    for start, end in covered(spans, edges[0], edges[-1]):
        total += np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0.0, None)
    return total


def _worst(times: Array, values: Array, edges: Array) -> list[float | None]:
    worst = np.full(edges.size - 1, -np.inf)
    place = np.floor(times).astype(int)
    inside = (place >= 0) & (place < worst.size)
    np.maximum.at(worst, place[inside], values[inside])
    return [None if value == -np.inf else float(value) for value in worst]
