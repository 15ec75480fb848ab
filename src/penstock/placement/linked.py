"""Latency where links are not free: what a placement is worth then, and the best one near those for free links.

The kernels know of hosts only, whose cumulative excess is below what comes with links: a link is one more host
(Chandramouli et al., section IV), and its delay adds to the way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import product

import numpy as np

from penstock.errors import InputError
from penstock.latency.mace import mace
from penstock.placement.base import TIE, Arrays, Ints, Problem
from penstock.placement.correlation import Connected
from penstock.placement.objective import latency
from penstock.placement.verify import over_link, over_memory, over_quota

EVERY, MOVES = 20_000, 2_000
"""Placements up to which all are tried, and single moves."""

WORK = 60_000_000
"""Streams and hosts times periods that are looked at while single moves are tried: some seconds."""

TRIED = 6_000_000
"""The same while moves that cost something are taken back, each of which is measured in full."""


def trials(problem: Problem) -> int:
    """Return how many placements may be measured one by one."""
    model = problem.model
    each = (len(model.network.streams) + len(problem.cluster.hosts)) * int(model.load.shape[1])
    return max(1, TRIED // max(each, 1))


def matters(problem: Problem, measure: str) -> bool:
    """Whether links count in an objective beside the hosts."""
    return measure == "latency" and not problem.cluster.free_links


def linked_latency(problem: Problem, arrays: Arrays, where: Ints) -> float:
    """Return the worst of Mace with links (s)."""
    return mace(problem.model, arrays.placement(where), problem.cluster).total.worst


def whole(arrays: Arrays) -> Ints:
    """Return the placement that keeps queries whole where hosts have room for them; single moves seldom lead there."""
    return Connected()(arrays, np.random.default_rng(0))


def improved(
    problem: Problem, arrays: Arrays, where: Ints, *, quotas: bool = True, seconds: float | None = None
) -> Ints:
    """Return the placement of least latency with links: of all on small networks, and else as far as moves lead.

    Parameters
    ----------
    quotas
        Whether they are to be kept.
    seconds
        After which the best so far is taken.
    """
    until = math.inf if seconds is None else time.monotonic() + seconds
    free, count = np.flatnonzero(arrays.fixed < 0), len(arrays.hosts)

    def better(tried: Ints, least: float) -> float | None:
        """Return a placement's latency where it is allowed and below another."""
        # Hosts alone are a lower bound, and cheap.
        if time.monotonic() > until or latency(arrays, tried) >= least * (1 - TIE):
            return None
        if (quotas and over_quota(arrays, tried)) or over_link(arrays, tried) or over_memory(arrays, tried):
            return None
        value = linked_latency(problem, arrays, tried)
        return value if value < least * (1 - TIE) else None

    least = linked_latency(problem, arrays, where)
    if count**free.size <= EVERY:
        for tried in _all(where, free, count):
            value = better(tried, least)
            if value is not None:
                where, least = tried, value
        return where
    together = whole(arrays)
    value = better(together, least)
    if value is not None:
        where, least = together, value
    ways = free.size * (count - 1)
    each = ways * (len(problem.model.network.streams) + count) * arrays.load.shape[1]
    for _ in range(max(1, WORK // max(each, 1)) if ways <= MOVES else 0):
        found = min(
            ((value, tried) for tried in _moved(where, free, count) if (value := better(tried, least)) is not None),
            key=lambda pair: pair[0], default=None,
        )  # fmt: skip
        if found is None:
            break
        least, where = found
    return where


def check_least(problem: Problem, arrays: Arrays, alone: Ints, where: Ints) -> None:
    """Refuse a placement of `improved` that may not be the least of all; ``alone``: the best for free links.

    Raises
    ------
    InputError
        If not all were tried, and hosts alone would have less.
    """
    count, free = len(arrays.hosts), int(np.count_nonzero(arrays.fixed < 0))
    if count**free > EVERY and linked_latency(problem, arrays, where) > latency(arrays, alone) * (1 + TIE) + TIE:
        raise InputError(
            f"{len(arrays.names)} operators on {count} hosts are too many to try all placements with their links",
            at="--algorithm",
            hint="take mace-climb",
        )


def _all(where: Ints, free: Ints, hosts: int) -> Iterator[Ints]:
    """Return every placement of some operators."""
    for chosen in product(range(hosts), repeat=free.size):
        tried = where.copy()
        tried[free] = chosen
        yield tried


def _moved(where: Ints, free: Ints, hosts: int) -> Iterator[Ints]:
    """Return every placement in which one operator is on another host."""
    for index, host in product(free.tolist(), range(hosts)):
        if host != where[index]:
            tried = where.copy()
            tried[index] = host
            yield tried
