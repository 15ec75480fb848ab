"""A host that decides alone: its own table, its own rates, and what other hosts announce, before each batch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.shedding.alone import arrays_of, shares
from penstock.spark.shipped.checkpoint import offsets
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import Door, WriterSpec
from penstock.spark.shipped.told import manifest_of, report_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from penstock.files import Document

TABLES, RATES = "tables", "rates"

SHORTEST = 0.1
"""Time (s) below which rates are not measured: Spark follows a batch that moved event time by one without rows."""


class Local:
    """What one query knows of its host: the table, and the rates at the doors that it reads through.

    Queries of other hosts, and others of this one, announce theirs in files of the run's folder. Nobody else is asked,
    so it goes on as long as the host does.
    """

    def __init__(self, spec: WriterSpec) -> None:
        self.spec, self.doors = spec, spec.knobs.doors if spec.knobs is not None else ()
        self.place = spec.folder / TABLES / spec.host
        self.rates: dict[str, float] = {}
        self._table: tuple[int, Document | None, Document] | None = None
        self._total = dict.fromkeys((door.name for door in self.doors), 0.0)
        self._since: dict[str, tuple[float, float]] = {}

    def keep(self, batch: int) -> Mapping[str, float] | None:
        """Return keep fractions for a batch that is about to be computed; None where the host has no table."""
        numbers = self.place.numbers()
        if not numbers:
            return None
        if self._table is None or self._table[0] != numbers[-1]:
            document = json.loads((self.place / f"{numbers[-1]:06d}.json").read())
            self._table = numbers[-1], document, {} if document is None else arrays_of(document)
        _, table, arrays = self._table
        if table is None:
            return None
        for door in self.doors:
            self._measure(door, batch)
        announced = self.spec.folder / RATES
        (announced / f"{self.spec.query}.json").replace(json.dumps(self.rates).encode())
        known: dict[str, float] = {}
        for name in announced.names():
            if name.endswith(".json"):
                with contextlib.suppress(OSError, ValueError):
                    known |= json.loads((announced / name).read())
        return shares(arrays, table["thins"], _row({**known, **self.rates}, table["inputs"]))

    def _measure(self, door: Door, batch: int) -> None:
        """Take in what comes through a door with this batch, or has come with the one before."""
        try:
            if door.scheduled:
                # Where limits are read from a file, a batch is decided before Spark plans it.
                ahead = self.spec.knobs is not None and self.spec.knobs.file is not None
                lines = offsets(self.spec.checkpoint, batch - 1 if ahead else batch)
                told = (float(line["event"]) for line in lines if line.get("source") == door.writer)
                self._total[door.name] = next(told, self._total[door.name])
            else:
                lines = offsets(self.spec.checkpoint, batch - 1)
                self._total[door.name] += self._come(door, batch - 1) / door.share
            at = lines[0]["batchTimestampMs"] / 1000
        except (OSError, ValueError, LookupError):
            self._since.pop(door.name, None)
            return
        before = self._since.get(door.name)
        if before is not None and at - before[0] < SHORTEST:
            return
        if before is not None:
            self.rates[door.name] = max(0.0, (self._total[door.name] - before[1]) / (at - before[0]))
        self._since[door.name] = at, self._total[door.name]

    def _come(self, door: Door, batch: int) -> int:
        """Return the rows that a batch took through a door."""
        found: dict[str, list[int]] = {}
        for file in (
            manifest_of(self.spec.folder, self.spec.query, batch),
            report_of(self.spec.folder, self.spec.query, batch),
        ):
            with contextlib.suppress(OSError):
                found |= json.loads(file.read())["counts"]
        return int(found[door.stream][0]) if door.stream in found else 0


def tables_of(folder: Place, documents: Mapping[str, Document | None]) -> None:
    """Give hosts other tables; a document that is None takes a host's away."""
    for host, document in documents.items():
        place = folder / TABLES / host
        number = max(place.numbers(), default=-1) + 1
        (place / f"{number:06d}.json").publish(json.dumps(document).encode())
        for old in place.names()[:-2]:
            (place / old).remove()


def tables_there(folder: Place) -> dict[str, str]:
    """Return the ids of the tables that hosts have."""
    found = {}
    for host in (folder / TABLES).names():
        numbers = (folder / TABLES / host).numbers()
        document = json.loads((folder / TABLES / host / f"{numbers[-1]:06d}.json").read()) if numbers else None
        if document is not None:
            found[host] = str(document["id"])
    return found


def _row(rates: Mapping[str, float], names: Sequence[str]) -> npt.NDArray[np.float64]:
    import numpy as np

    return np.array([rates.get(name, 0.0) for name in names])
