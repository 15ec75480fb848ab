"""What came of a run, as ``penstock run`` reports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import Array
from penstock.network import Network
from penstock.spark.run.outcome import Batch, Outcome

if TYPE_CHECKING:
    from penstock.files import Document


def summary(outcome: Outcome, network: Network, placement: Mapping[str, str], hosts: Iterable[str]) -> Document:
    """Return placement, latencies, counts of streams, how busy the hosts were, and whether nothing was lost."""
    busy = {**dict.fromkeys(hosts, 0.0), **_busy(outcome)}
    return {
        "placement": dict(sorted(placement.items())),
        "latency": _latency(*outcome.latencies()),
        "sinks": {name: {"latency": _latency(*outcome.latencies(name))} for name in network.sinks},
        "streams": outcome.streams(network),
        "hosts": {name: {"busy": share} for name, share in sorted(busy.items())},
        "balanced": outcome.balanced(network),
        "seconds": outcome.seconds,
        **({"gone": dict(outcome.gone)} if outcome.gone else {}),
        **({"skipped": dict(outcome.skipped)} if outcome.skipped else {}),
        **({"unfound": dict(outcome.unfound)} if outcome.unfound else {}),
        **({"unremoved": dict(outcome.unremoved)} if outcome.unremoved else {}),
    }


def _busy(outcome: Outcome) -> dict[str, float | None]:
    """Return the share of the time in which each host worked; None: not known."""
    batches: dict[str, list[Batch]] = {}
    first: dict[str, float] = {}
    for batch in outcome.batches:
        batches.setdefault(batch.host, []).append(batch)
        first[batch.query] = min(batch.start, first.get(batch.query, batch.start))
    # When batches were that are in the history is not known.
    known = [start for query, start in first.items() if outcome.history.upto.get(query, 0)]
    return {host: outcome.busy(each, max([outcome.epoch, *known])) for host, each in batches.items()}


def _latency(values: Array, weights: Array) -> dict[str, float | None]:
    """Return mean, p50, p99, max and count of latencies (s); None where there are none."""
    if not weights.sum():
        return {"mean": None, "p50": None, "p99": None, "max": None, "count": 0}
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
