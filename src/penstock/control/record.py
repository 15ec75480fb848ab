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
from penstock.errors import InputError
from penstock.files import Document, atomic, user_cache
from penstock.load import Statistics
from penstock.load.statistics import HostStatistics

ENV = "PENSTOCK_RECORD"
"""Variable that names the file; empty for none."""

KEPT, COUNTED = 400, 40
"""Lines of the file, and the latest ones of a machine that count."""

TRUSTED = 2.0
"""Hosts busy for a whole run that the unrest of the calibration itself is worth."""

FAR = 0.7
"""A host that took twice as long, or half, is as far off as any can be."""


class Line(msgspec.Struct, frozen=True):
    """A host in a run.

    Attributes
    ----------
    place
        Its machine.
    level
        Logarithm of how many times as long as calibrated its batches took.
    busy
        Share of the run for which it worked.
    """

    place: str
    level: float
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

    def note(self, statistics: Statistics, cluster: Cluster, report: Document) -> None:
        """Add a run by its report, of hosts that had been calibrated in place."""
        rows = [
            Line(_place(cluster, name), math.log(row["slower"]), row["busy"])
            for name, row in report["hosts"].items()
            if row.get("slower") and statistics.hosts.get(name, HostStatistics()).speed is not None
        ]
        if self.file is None or not rows:
            return
        with contextlib.suppress(InputError), atomic(self.file, "wb") as file:
            file.write(msgspec.json.Encoder().encode_lines([*self._lines(), *rows][-KEPT:]))

    def applied(self, statistics: Statistics, cluster: Cluster) -> Statistics:
        """Return statistics whose hosts know how far earlier runs were off where they are."""
        lines = self._lines()

        def known(name: str, host: HostStatistics) -> HostStatistics:
            mine = [line for line in lines if line.place == _place(cluster, name)][-COUNTED:]
            alone = attrs.evolve(host, between_runs=None)
            return attrs.evolve(host, between_runs=spread(mine, alone.may_differ))

        hosts = {n: known(n, row) if n in cluster.hosts else row for n, row in statistics.hosts.items()}
        return attrs.evolve(statistics, hosts=hosts)

    def _lines(self) -> list[Line]:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return [] if self.file is None else msgspec.json.Decoder(Line).decode_lines(self.file.read_bytes())
        return []


NOTHING = Record(None)
"""The record of those who keep none."""


def spread(lines: Sequence[Line], before: float) -> float | None:
    """Return how far runs were off, a standard deviation of logarithms; None of no run.

    A host that hardly works says little of what work takes: each counts by how busy it was.

    Parameters
    ----------
    lines
        Of the record.
    before
        What calibration alone says, which counts for `TRUSTED` of them.
    """
    if not lines:
        return None
    level = np.clip([line.level for line in lines], -FAR, FAR)
    busy = np.clip([line.busy for line in lines], 0.0, 1.0)
    return math.sqrt((float(busy @ level**2) + TRUSTED * before**2) / (float(busy.sum()) + TRUSTED))


def _place(cluster: Cluster, name: str) -> str:
    """Return the machine of a host: where it listens, or this one."""
    return cluster.hosts[name].spark or "here"
