"""How fast hosts are, for operators that burn processor time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import SparkSession

from penstock.spark.run.asking import asked

if TYPE_CHECKING:
    from penstock.spark.hosts.base import SparkHost

ROWS, TIMES, LONGEST = 350, 7, 1.0
"""Rows of a large job, and how many times those of a small one they are: the difference of their times is what is
taken; seconds that the large one is to take at most. Longer ones vary as much.
"""

STEPS = 20_000
"""Steps of the loop for each of them."""


class Speeds:
    """The steps of a delay's loop that each host does per second, measured once.

    Parameters
    ----------
    hosts, sessions
        By name; others may be added later.
    """

    def __init__(self, hosts: Mapping[str, SparkHost], sessions: Mapping[str, SparkSession]) -> None:
        self._hosts, self._sessions = hosts, sessions
        self._known: dict[str, float] = {}

    def of(self, name: str) -> float:
        """Return a host's speed."""
        if name not in self._known:
            self._known[name] = asked(partial(speed_of, self._sessions[name]))
        return self._known[name]

    def now(self, name: str) -> float:
        """Return a host's speed while others run: as measured before, there or on another host of this machine."""
        here = [host for host in self._known if self._local(host)]
        if name not in self._known and self._local(name) and here:
            return float(np.median([self._known[host] for host in here]))
        return self.of(name)

    def _local(self, name: str) -> bool:
        return name in self._hosts and self._hosts[name].pid is not None


def speed_of(session: SparkSession) -> float:
    """Return how many steps of a delay's loop a warm host does per second (slope of two sizes)."""

    def spend(rows: int) -> float:
        loop = f"aggregate(sequence(1, {STEPS}), id, (a, x) -> xxhash64(a, x)) <> 42"
        begin = time.perf_counter()
        session.range(rows).filter(loop).write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begin

    first = 2 * ROWS // TIMES
    warm = min(spend(first) for _ in range(3))
    few = max(1, round(min(ROWS, first * LONGEST / warm) / TIMES))
    many = TIMES * few
    slopes = []
    for _ in range(5):
        small, large = spend(few), spend(many)
        slopes.append((large - small) / ((many - few) * STEPS))
    return 1 / float(np.median(slopes))
