"""What a controller saw in each period, for faces that look later: an engine in virtual time keeps nothing itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.control.folder import decision_in
from penstock.errors import writing
from penstock.files import Document, atomic
from penstock.steering import Observation

MOST = 32 * 2**20
"""Bytes of a file of periods; the one before is kept as well."""

NAME, BEFORE = "periods.jsonl", "periods-before.jsonl"


class Periods:
    """The periods of one run, one line each, in a controller's folder; of long runs the last ones.

    Parameters
    ----------
    folder
        ``DIR/control`` of the controller.
    most
        Bytes of a file.
    """

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.folder, self.most = folder, most
        self._placed: dict[str, str] = {}

    def begin(self) -> None:
        """Forget those of another run."""
        for name in (NAME, BEFORE):
            (self.folder / name).unlink(missing_ok=True)

    def cut(self, at: float) -> None:
        """Leave only the periods until a time (s), whole lines: a controller that goes on sees the others again."""
        for path in (self.folder / name for name in (NAME, BEFORE)):
            if path.exists():
                lines = path.read_bytes().splitlines(keepends=True)
                kept = [line for line in lines if (row := decision_in(line)) is not None and row["time"] <= at + 1e-9]
                if kept != lines:
                    with atomic(path, "wb") as file:
                        file.write(b"".join(kept))

    def add(self, seen: Observation) -> None:
        """Note a period."""
        path = self.folder / NAME
        if path.exists() and path.stat().st_size > self.most:
            path.replace(self.folder / BEFORE)
            self._placed = {}
        placed = dict(seen.placement)
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(period_of(seen, placed if placed != self._placed else None)) + "\n")
        self._placed = placed


def period_of(seen: Observation, placed: dict[str, str] | None) -> Document:
    """Return what a face shows of a period.

    Parameters
    ----------
    placed
        Where operators are, with copies; None where that has not changed.

    Returns
    -------
    dict
        ``time`` and ``since`` (s), ``busy`` by host, ``worst`` latency (s); where there are any, ``arrived`` and
        ``dropped`` tuples by stream and ``waiting`` ones by operator; ``placement`` if it has changed.
    """
    worst = [row.worst for row in seen.latency.values() if row.worst is not None]
    return {
        "time": seen.at,
        "since": seen.at - seen.period,
        "busy": {name: row.busy for name, row in seen.hosts.items()},
        "worst": max(worst, default=None),
        "arrived": _some(seen.streams, seen.arrived),
        "dropped": _some(seen.streams, seen.dropped),
        "waiting": _some(seen.operators, seen.waiting),
        **({} if placed is None else {"placement": placed}),
    }


def _some(names: Iterable[str], counts: NDArray[np.generic] | None) -> dict[str, float]:
    if counts is None:
        return {}
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count > 0}
