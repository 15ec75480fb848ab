"""What kinds of advice share."""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs

from penstock.advice.values import Deployment


def on_driver(deployment: Deployment, driver: str) -> Deployment:
    """Return one driver with its queries; drivers do not touch each other."""
    jobs = {name: deployment.jobs[name] for name in deployment.on(driver)}
    return attrs.evolve(deployment, jobs=jobs, drivers={driver: deployment.drivers[driver]})


def known(deployment: Deployment, driver: str) -> bool:
    """Return whether a driver's cores can be advised on."""
    return all(deployment.jobs[name].advisable for name in deployment.on(driver))


def moved(deployment: Deployment, names: Iterable[str], driver: str, cores: float) -> Deployment:
    """Return the deployment with some queries on another driver, which is there from then on."""
    jobs = dict(deployment.jobs)
    for name in names:
        jobs[name] = attrs.evolve(jobs[name], driver=driver)
    drivers = {**deployment.drivers, driver: cores}
    used = {job.driver for job in jobs.values()}
    return attrs.evolve(deployment, jobs=jobs, drivers={name: c for name, c in drivers.items() if name in used})


def rounded(value: float, digits: int = 2) -> float:
    """Return a number of rows that people can read: two significant digits.

    Examples
    --------
    >>> rounded(12_345.0), rounded(7.2)
    (12000.0, 7.0)
    """
    if value < 10:
        return float(max(round(value), 1))
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return round(value / unit) * unit


def rows_per_second(rate: float) -> str:
    """Return a rate for people."""
    return f"{rate:,.0f} rows/s" if rate >= 10 else f"{rate:.2g} rows/s"


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a name for a further driver."""
    known = set(taken)
    return next(found for number in range(2, len(known) + 3) if (found := f"{name}-{number}") not in known)
