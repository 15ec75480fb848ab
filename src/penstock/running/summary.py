"""Latencies in a few figures, and how far off the worst may be."""

from __future__ import annotations

import numpy as np

from penstock.arrays import Array
from penstock.files import Document
from penstock.latency.microbatch import weighted_quantile
from penstock.running.prediction import Prediction


def summary(latency: Array, weight: Array | None = None) -> dict[str, float | None]:
    """Return mean, p50, p99, max and count of latencies (s); None where there are none."""
    weights = np.ones(latency.size) if weight is None else weight
    total = float(weights.sum())
    if total <= 0:
        return {"mean": None, "p50": None, "p99": None, "max": None, "count": 0}
    there = weights > 0
    return {
        "mean": float(latency @ weights / total),
        "p50": weighted_quantile(latency, weights, 0.5),
        "p99": weighted_quantile(latency, weights, 0.99),
        "max": float(latency[there].max()),
        "count": round(total),
    }


def error_bar(prediction: Prediction) -> Document:
    """Return how an error of the bottleneck's cost shows in the worst latency."""
    bar = prediction.error
    return {"host": bar.host, "load": bar.load, "cost_error": bar.cost_error, "latency_error": bar.relative}
