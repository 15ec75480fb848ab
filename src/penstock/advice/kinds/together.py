"""``together``: queries that share a driver well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from penstock.advice.kinds.common import known, moved
from penstock.advice.replay import replay
from penstock.advice.values import Aims, Deployment, Proposal
from penstock.arrays import Array

SLOWER = 1.05
"""Without a bound, the worst latency of a query may grow by this factor."""

ROOM = 0.9
"""Share of a driver's cores that the queries may want at their common peak."""

MOST = 12
"""Drivers of which all pairs are tried."""


def together(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose one driver for two that run at the same time, and whose queries peak at different times or are light.

    The queries of the driver with fewer cores move; every query must keep the bound, or, without one, wait no longer.
    """
    loads = {
        driver: sum((deployment.jobs[name].load() for name in deployment.on(driver)), np.zeros(deployment.periods))
        for driver in deployment.drivers
        if known(deployment, driver)
    }
    light = sorted(loads, key=lambda driver: (float(loads[driver].mean()), driver))[:MOST]
    for pair in combinations(light, 2):
        small, large = sorted(pair, key=lambda driver: (deployment.drivers[driver], loads[driver].mean(), driver))
        if not _met(deployment.spans, small, large):
            continue
        cores = deployment.drivers[large]
        peak = float((loads[small] + loads[large]).max())
        if peak > ROOM * cores:
            continue
        names = (*deployment.on(small), *deployment.on(large))
        after = moved(deployment, deployment.on(small), large, cores)
        before, then = replay(deployment), replay(after)
        if not all(_bearable(before[n].latency.worst, then[n].latency.worst, aims) for n in names):
            continue
        yield Proposal(
            kind="together",
            query=",".join(deployment.on(small)),
            setting="driver",
            old=small,
            new=large,
            why=f"together the queries of both drivers want {peak:.2g} of {cores:.3g} cores at most"
            + _alike(loads[small][: deployment.recorded], loads[large][: deployment.recorded]),
            after=after,
            about=names,
            saves=deployment.drivers[small],
        )


def _met(spans: Mapping[str, tuple[float, float]], one: str, other: str) -> bool:
    """Return whether two drivers were there at the same time: one that has followed the other takes nothing from it."""
    if one not in spans or other not in spans:
        return True
    return max(spans[one][0], spans[other][0]) < min(spans[one][1], spans[other][1])


def _alike(one: Array, other: Array) -> str:
    """Return how alike two recorded loads are, in words; nothing of loads that never change."""
    if not (one.std() > 0 and other.std() > 0):
        return ""
    return f" (load correlation {np.corrcoef(one, other)[0, 1]:+.2f})"


def _bearable(before: float, after: float, aims: Aims) -> bool:
    return after <= SLOWER * before or (aims.latency is not None and after <= 0.8 * aims.latency)
