"""Rates that change in phases, and the tuples that come with them (Xing et al., section 5.1.2; Wang et al., 5.2).

Phases are edges, array (phases + 1,) in s, and factors, array (phases,): rates over the mean.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from penstock.workload.rates import Rates

Floats = NDArray[np.float64]
Phases = tuple[Floats, Floats]


def even_phases(count: int, duration: float, *, cycle: float, ratio: float) -> list[Phases]:
    """Return for each of ``count`` sources high and low phases of half a cycle (s); they are evenly out of step."""
    half, high = cycle / 2, 2 * ratio / (ratio + 1)
    found = []
    for c in range(count):
        edges = np.asarray(cycle * (c / count - 1) + np.arange(int(duration / half) + 5) * half, np.float64)
        found.append((edges, np.where(np.arange(len(edges) - 1) % 2 == 0, high, high / ratio)))
    return found


def burst_phases(count: int, duration: float, rng: np.random.Generator) -> list[Phases]:
    """Return on-off phases of 5 s each in the mean: a quarter independent, the others opposite to one, or shifted."""
    base = []
    for _ in range(max(1, count // 4)):
        edges = np.concatenate([[-20.0], -20.0 + np.cumsum(rng.exponential(5.0, int(duration) + 60))])
        first = int(rng.integers(2))
        base.append((edges, np.where(np.arange(len(edges) - 1) % 2 == first, 2.0, 0.0)))
    found = list(base)
    while len(found) < count:
        edges, factor = base[int(rng.integers(len(base)))]
        if rng.random() < 0.5:
            found.append((edges, 2.0 - factor))
        else:
            found.append((edges + rng.uniform(0.0, 10.0), factor))
    return found


def entering(phases: Phases, span: tuple[float, float], rate: float, rng: np.random.Generator | None) -> list[Floats]:
    """Return by phase the times (s) of tuples that enter within a span, at ``rate`` times its factor.

    They come by chance, or evenly without a generator.
    """
    edges, factor = phases
    cut = np.clip(edges, *span)
    found = []
    for first, last, high in zip(cut[:-1], cut[1:], factor, strict=True):
        if last > first and high > 0 and rng is None:
            found.append(np.asarray(np.arange(first, last, 1 / (rate * high)), np.float64))
        elif last > first and high > 0 and rng is not None:
            found.append(np.sort(rng.uniform(first, last, rng.poisson(rate * high * (last - first)))))
    return found


def alternating(
    sources: Iterable[str], duration: float, rng: np.random.Generator, *, high: float, ratio: float, step: float
) -> Rates:
    """Return rates that are ``high`` and a ``ratio``-th of it in turn, for N(12, 0.05) s each from random offsets.

    These are the fluctuating sources of Wang et al. (section 5.2), by periods of ``step`` s.
    """
    edges = np.arange(round(duration / step) + 1) * step
    series = {}
    for name in sources:
        spans = rng.normal(12.0, 0.05, int(duration / 12) + 6)
        ends = np.concatenate([[0.0], np.cumsum(spans)]) - rng.uniform(0.0, 24.0)
        level = np.where(np.arange(len(spans)) % 2 == 0, high, high / ratio)
        tuples = np.concatenate([[0.0], np.cumsum(spans * level)])
        series[name] = np.diff(np.interp(edges, ends, tuples)) / step
    return Rates.of(step, series)
