"""``separate``: queries that share a driver badly."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.advice.kinds.common import fresh, moved, on_driver
from penstock.advice.measure import correlation, crowded, harm_of
from penstock.advice.replay import replay
from penstock.advice.values import Aims, Deployment, Proposal

MOST = 3
"""Queries of a driver that are proposed at most."""


TOGETHER = 0.3
"""Load correlation from which on two queries are said to peak together."""


def separate(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose a driver of its own for queries that peak together with others where cores are short.

    Each query of a driver is taken out in turn, onto a driver with as many cores.
    """
    for driver, cores in deployment.drivers.items():
        here = on_driver(deployment, driver)
        if len(here.jobs) < 2:
            continue
        short = crowded(here, replay(here), driver)
        if short <= 0:
            continue
        matrix = correlation(here)
        names = list(here.jobs)
        now = harm_of(here, aims)
        other = fresh(driver, deployment.drivers)
        found = []
        for number, name in enumerate(names):
            if not here.jobs[name].measured:
                continue
            left = now - harm_of(moved(here, [name], other, cores), aims)
            if left > 0.02 * now:
                found.append((left, number, name))
        for _, number, name in sorted(found, key=lambda row: (-row[0], row[2]))[:MOST]:
            nearest = max((k for k in range(len(names)) if k != number), key=lambda k, n=number: matrix[n, k])  # type: ignore[misc]
            yield Proposal(
                kind="separate",
                query=name,
                setting="driver",
                old=driver,
                new=other,
                why=f"for {short:.0%} of the driver's busy time, batches want more than its {cores:.3g} cores; on a "
                f"driver of its own this query slows no other" + _peaks(names[nearest], float(matrix[number, nearest])),
                after=moved(deployment, [name], other, cores),
                about=tuple(names),
                saves=-cores,
                remark=f"needs one more driver with {cores:.3g} cores",
            )


def _peaks(other: str, together: float) -> str:
    if together < TOGETHER:
        return ""
    return f"; of those beside it {other!r} peaks with it most (load correlation {together:+.2f})"
