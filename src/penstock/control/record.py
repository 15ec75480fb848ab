"""How far runs were from what calibration had told: kept from one to the next, it says how far the next one may be."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
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


@attrs.frozen
class Record:
    """A file with a line for each host of each run: where, by how much its batches took longer, how busy it was.

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
            {"place": _place(cluster, name), "level": math.log(row["slower"]), "busy": row["busy"]}
            for name, row in report["hosts"].items()
            if row.get("slower") and statistics.hosts.get(name, HostStatistics()).speed is not None
        ]
        if self.file is None or not rows:
            return
        lines = [json.dumps(row) for row in [*self._rows(), *rows][-KEPT:]]
        with contextlib.suppress(InputError, OSError), atomic(self.file) as file:
            file.write("".join(f"{line}\n" for line in lines))

    def applied(self, statistics: Statistics, cluster: Cluster) -> Statistics:
        """Return statistics whose hosts know how far earlier runs were off where they are."""
        rows = self._rows()

        def known(name: str, host: HostStatistics) -> HostStatistics:
            mine = [row for row in rows if row["place"] == _place(cluster, name)][-COUNTED:]
            alone = attrs.evolve(host, between_runs=None)
            return attrs.evolve(host, between_runs=spread(mine, alone.may_differ))

        hosts = {n: known(n, row) if n in cluster.hosts else row for n, row in statistics.hosts.items()}
        return attrs.evolve(statistics, hosts=hosts)

    def _rows(self) -> list[Document]:
        found = []
        with contextlib.suppress(OSError, ValueError):
            for line in () if self.file is None else self.file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                found.append({"place": str(row["place"]), "level": float(row["level"]), "busy": float(row["busy"])})
        return found


NOTHING = Record(None)


def spread(rows: Sequence[Document], before: float) -> float | None:
    """Return how far runs were off, a standard deviation of logarithms; None of no run.

    A host that hardly works says little of what work takes: each counts by how busy it was.

    Parameters
    ----------
    rows
        Of the record, each with ``level`` and ``busy``.
    before
        What calibration alone says, which counts for `TRUSTED` of them.
    """
    if not rows:
        return None
    level = np.clip([row["level"] for row in rows], -FAR, FAR)
    busy = np.clip([row["busy"] for row in rows], 0.0, 1.0)
    return math.sqrt((float(busy @ level**2) + TRUSTED * before**2) / (float(busy.sum()) + TRUSTED))


def _place(cluster: Cluster, name: str) -> str:
    """Return the machine of a host: where it listens, or this one."""
    return cluster.hosts[name].spark or "here"
