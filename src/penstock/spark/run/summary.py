"""What came of a run, as ``penstock run`` reports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import Array
from penstock.latency.cores import covered
from penstock.network import Network
from penstock.spark.run.outcome import Outcome

if TYPE_CHECKING:
    from penstock.files import Document


def summary(outcome: Outcome, network: Network, placement: Mapping[str, str]) -> Document:
    """Return placement, latencies, counts of streams, how busy the hosts were, and whether nothing was lost."""
    return {
        "placement": dict(sorted(placement.items())),
        "latency": _latency(*outcome.latencies()),
        "sinks": {name: {"latency": _latency(*outcome.latencies(name))} for name in network.sinks},
        "streams": outcome.streams(network),
        "hosts": {name: {"busy": share} for name, share in _busy(outcome).items()},
        "balanced": outcome.balanced(network),
        "seconds": outcome.seconds,
        **({"gone": dict(outcome.gone)} if outcome.gone else {}),
    }


def _busy(outcome: Outcome) -> dict[str, float]:
    """Return the share of the time in which each host did a batch, of several at once as if it was one."""
    spans: dict[str, list[tuple[float, float]]] = {}
    first: dict[str, float] = {}
    for batch in outcome.batches:
        spans.setdefault(batch.host, []).append(batch.span)
        first[batch.query] = min(batch.start, first.get(batch.query, batch.start))
    # When batches were that are in the history is not known.
    known = [start for query, start in first.items() if outcome.history.upto.get(query, 0)]
    begin, end = max([outcome.epoch, *known]), outcome.stop
    return {
        host: sum(b - a for a, b in covered(rows, begin, end)) / (end - begin) for host, rows in sorted(spans.items())
    }


def _latency(values: Array, weights: Array) -> dict[str, float]:
    if not weights.sum():
        return {"mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0, "count": 0}
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()

    def quantile(level: float) -> float:
        place = min(int(np.searchsorted(share, level - 1e-12)), values.size - 1)
        return float(values[order][place])

    return {
        "mean": float(values @ weights / weights.sum()),
        "p50": quantile(0.5),
        "p99": quantile(0.99),
        "max": float(values.max()),
        "count": round(float(weights.sum())),
    }
