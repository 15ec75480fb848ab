"""What came of a run, as ``penstock run`` reports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import Array
from penstock.network import Network
from penstock.spark.run.outcome import Outcome

if TYPE_CHECKING:
    from penstock.files import Document


def summary(outcome: Outcome, network: Network, placement: Mapping[str, str]) -> Document:
    """Return placement, latencies, counts of streams, how busy the hosts were, and whether nothing was lost."""
    stop = outcome.stop
    busy: dict[str, float] = {}
    for batch in outcome.batches:
        span = min(batch.start + batch.duration, stop) - max(batch.start, outcome.epoch)
        busy[batch.host] = busy.get(batch.host, 0.0) + max(0.0, span)
    return {
        "placement": dict(sorted(placement.items())),
        "latency": _latency(*outcome.latencies()),
        "sinks": {name: {"latency": _latency(*outcome.latencies(name))} for name in network.sinks},
        "streams": outcome.streams(network),
        "hosts": {name: {"busy": total / (stop - outcome.epoch)} for name, total in sorted(busy.items())},
        "balanced": outcome.balanced(network),
        "seconds": outcome.seconds,
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
