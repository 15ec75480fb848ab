"""How far runs were from what calibration had told: kept from one to the next, it says how far the next one may be."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import msgspec
import numpy as np

from penstock.cluster import Cluster
from penstock.control.forecast import Seen
from penstock.errors import InputError
from penstock.files import atomic, user_cache
from penstock.load import Statistics
from penstock.load.statistics import HostStatistics

ENV = "PENSTOCK_RECORD"
"""Variable that names the file; empty for none."""

KEPT, COUNTED = 800, 80
"""Lines of the file, and the latest ones of a machine that count."""

TRUSTED = 2.0
"""Hosts busy for a whole run that the unrest of the calibration itself is worth."""

FAR = 0.7
"""A host that took twice as long, or half, is as far off as any can be."""

ROUNDS, LEAST = 100, 0.01
"""Rounds until variances have settled, and the standard deviation that they start from at least."""


class Line(msgspec.Struct, frozen=True):
    """A host's short batches in a run, which are mostly overhead, or its long ones.

    Attributes
    ----------
    place
        Its machine.
    level
        Logarithm of how many times as long as calibrated they took.
    fixed
        Share of the overhead in what they should have taken.
    busy
        Share of the run that they took.
    """

    place: str
    level: float
    fixed: float
    busy: float


@attrs.frozen
class Record:
    """A file with a line for each host of each run.

    A file that cannot be read or written is none: what it holds only makes predictions more honest.

    Attributes
    ----------
    file
        None: nothing is kept.
    """

    file: Path | None

    @classmethod
    def of_user(cls, environ: Mapping[str, str] = os.environ) -> Record:
        """Return the record of this user on this machine."""
        named = environ.get(ENV)
        return cls(user_cache() / "runs.jsonl" if named is None else Path(named) if named else None)

    def note(self, statistics: Statistics, cluster: Cluster, batches: Sequence[Seen]) -> None:
        """Add a run by its batches, of hosts that had been calibrated in place."""
        known = [b for b in batches if statistics.hosts.get(b.host, HostStatistics()).speed is not None]
        rows = _lines_of(known, cluster)
        if self.file is None or not rows:
            return
        with contextlib.suppress(InputError), atomic(self.file, "wb") as file:
            file.write(msgspec.json.Encoder().encode_lines([*self._lines(), *rows][-KEPT:]))

    def applied(self, statistics: Statistics, cluster: Cluster) -> Statistics:
        """Return statistics whose hosts know how far earlier runs were off where they are."""
        lines = self._lines()

        def known(name: str, host: HostStatistics) -> HostStatistics:
            mine = [line for line in lines if line.place == _place(cluster, name)][-COUNTED:]
            alone = attrs.evolve(host, between_runs=None, overhead_between_runs=None)
            both = spread(mine, alone.may_differ) if mine else (None, None)
            return attrs.evolve(host, between_runs=both[0], overhead_between_runs=both[1])

        hosts = {n: known(n, row) if n in cluster.hosts else row for n, row in statistics.hosts.items()}
        return attrs.evolve(statistics, hosts=hosts)

    def _lines(self) -> list[Line]:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return [] if self.file is None else msgspec.json.Decoder(Line).decode_lines(self.file.read_bytes())
        return []


NOTHING = Record(None)
"""The record of those who keep none."""


def spread(lines: Sequence[Line], before: float) -> tuple[float, float]:
    """Return how far runs were off: standard deviations of the logarithm of a host's speed, and of its overhead.

    A level is the speed's plus the overhead's times its share, both normal: the likeliest variances, by expectation and
    maximization. What hardly ran says little of what work takes: each line counts by how busy it was.

    Parameters
    ----------
    lines
        Of the record.
    before
        What calibration alone says of both, which counts for `TRUSTED` of them.
    """
    level = np.clip([line.level for line in lines], -FAR, FAR)
    parts = np.stack([np.ones(len(lines)), np.clip([line.fixed for line in lines], 0.0, 1.0)])
    busy = np.clip([line.busy for line in lines], 0.0, 1.0)
    found = np.full(2, max(before, LEAST) ** 2)
    for _ in range(ROUNDS):
        mine = found[:, None] * parts
        total = (mine * parts).sum(axis=0)
        expected = (mine / total * level) ** 2 + found[:, None] - mine**2 / total
        found = (expected @ busy + TRUSTED * before**2) / (busy.sum() + TRUSTED)
    return float(math.sqrt(found[0])), float(math.sqrt(found[1]))


def _lines_of(batches: Sequence[Seen], cluster: Cluster) -> list[Line]:
    """Return a run's lines: for each host one of its short and one of its long batches, where it had any."""
    groups: dict[tuple[str, bool], list[Seen]] = {}
    for batch in batches:
        groups.setdefault((batch.host, batch.fixed > batch.expected / 2), []).append(batch)
    length = max((batch.end for batch in batches), default=0.0)
    found = []
    for (host, _), mine in sorted(groups.items()):
        took, expected = sum(batch.duration for batch in mine), sum(batch.expected for batch in mine)
        if min(took, expected, length) > 0:
            fixed = float(sum(batch.fixed for batch in mine) / expected)
            found.append(Line(_place(cluster, host), math.log(took / expected), fixed, float(took / length)))
    return found


def _place(cluster: Cluster, name: str) -> str:
    """Return the machine of a host: where it listens, or this one."""
    return cluster.hosts[name].spark or "here"
