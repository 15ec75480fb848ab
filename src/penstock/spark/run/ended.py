"""The batches of a run that goes on, each as soon as all of it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.spark.run.outcome import Batch, read_batch
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import manifest_of, report_of

Heard = Callable[[Sequence[Batch], float, float], None]
"""Told batches that have ended, when the run began, and the present (s since 1970)."""


class Ended:
    """Reads batches that end from now on.

    Parameters
    ----------
    folder
        The run's.

    Attributes
    ----------
    before
        By unit, the numbers of the batches that had ended already.
    """

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self.before = {unit: (folder / "batches" / unit).numbers() for unit in (folder / "batches").names()}
        self.next = {unit: max(numbers, default=-1) + 1 for unit, numbers in self.before.items()}

    def fresh(self, unit: str) -> list[Batch]:
        """Return a unit's batches since the last call, in order."""
        found: list[Batch] = []
        number = self.next.get(unit, 0)
        while manifest_of(self.folder, unit, number).exists():
            # A report that a kill has cost does not come any more; that of the last batch still may.
            reported = report_of(self.folder, unit, number).exists()
            if not (reported or manifest_of(self.folder, unit, number + 1).exists()):
                break
            found.append(read_batch(self.folder, unit, number))
            number += 1
        self.next[unit] = number
        return found
