"""What a run's older batches add up to, so that its folder stays small however long it goes on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.spark.left import said
from penstock.spark.run.folder import begins_of
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import note_of
from penstock.telemetry.notes import row_by_row

FILE = "history.json"
CLASSES = 200
"""Classes of latency per factor of e: each is half a per cent wide."""

LEAST = 1e-4
"""Latencies below (s) are one class."""


@attrs.frozen(eq=False)
class History:
    """Sums over batches whose files are gone.

    Attributes
    ----------
    upto
        By query, and by meter of a sink, the first batch or look that is not in here.
    counts, late
        By stream: arrived and dropped, and late rows.
    rows
        By operator, rows that its log had.
    classes
        By sink, number of tuples by class of latency.
    worst
        By sink, the largest latency (s).
    waited
        By sink, tuples whose stimulus came before the run began in which they became visible.
    """

    upto: Mapping[str, int] = attrs.field(factory=dict)
    counts: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)
    late: Mapping[str, int] = attrs.field(factory=dict)
    rows: Mapping[str, int] = attrs.field(factory=dict)
    classes: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    worst: Mapping[str, float] = attrs.field(factory=dict)
    waited: Mapping[str, int] = attrs.field(factory=dict)

    def delivered(self, sink: str) -> int:
        """Return the tuples that came to a sink."""
        return sum(self.classes.get(sink, {}).values())

    def holds(self, name: str) -> bool:
        """Whether the batch of a file ``QUERY-NUMBER.npy`` is in here."""
        query, _, number = name.rpartition(".")[0].rpartition("-")
        return number.isdigit() and int(number) < self.upto.get(query, 0)

    def with_notes(self, folder: Place, unit: str, numbers: range, sink: str) -> History:
        """Return a history that also holds the latencies that a unit, or a meter, has noted at a sink."""
        classes, worst = dict(self.classes.get(sink, {})), self.worst.get(sink, 0.0)
        waited, begins = self.waited.get(sink, 0), begins_of(folder)
        for file in (note_of(folder, unit, number, sink) for number in numbers):
            if file.exists():
                visible, stimulus = row_by_row(file.read())
                worst = max(worst, float(np.max(visible - stimulus, initial=0.0)))
                waited += int(had_waited(visible, stimulus, begins).sum())
                for name, count in classed(visible - stimulus).items():
                    classes[name] = classes.get(name, 0) + count
        return attrs.evolve(
            self,
            upto={**self.upto, unit: numbers.stop},
            classes={**self.classes, sink: classes},
            worst={**self.worst, sink: worst},
            waited={**self.waited, sink: waited},
        )

    def latency(self, sink: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the latencies (s) of a sink's classes, the largest exactly, and the tuples of each."""
        found = sorted((int(number), count) for number, count in self.classes.get(sink, {}).items())
        values = np.array([LEAST * math.exp(number / CLASSES) for number, _ in found])
        if len(values):
            values[-1] = self.worst[sink]
        return values, np.array([float(count) for _, count in found])


def read_history(folder: Place) -> History:
    """Read a run's history; an empty one if it has none yet."""
    try:
        document = said(folder / FILE)
    except FileNotFoundError:
        return History()
    document["counts"] = {name: (int(a), int(d)) for name, (a, d) in document["counts"].items()}
    return History(**document)


def last_counted(folder: Place, unit: str) -> int:
    """Return the last batch of a unit that a run's folder knows to be shown; -1 for none."""
    return max([*(folder / "batches" / unit).numbers(), read_history(folder).upto.get(unit, 0) - 1])


def write_history(folder: Place, history: History) -> None:
    """Write a run's history."""
    (folder / FILE).replace(json.dumps(attrs.asdict(history)).encode(), lasting=True)


def had_waited(
    visible: NDArray[np.float64], stimulus: NDArray[np.float64], begins: Sequence[float]
) -> NDArray[np.bool_]:
    """Return which rows came before the run began in which they became visible, by when each run began."""
    run = np.searchsorted(begins, visible, side="right") - 1
    found: NDArray[np.bool_] = stimulus < np.asarray(begins)[np.maximum(run, 0)]
    return found


def classed(latency: NDArray[np.float64]) -> dict[str, int]:
    """Return how many latencies are in each class."""
    numbers = np.round(np.log(np.maximum(latency, LEAST) / LEAST) * CLASSES).astype(int)
    found, counts = np.unique(numbers, return_counts=True)
    return {str(number): int(count) for number, count in zip(found, counts, strict=True)}
