"""The batches of a run that goes on, each as soon as all of it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, takewhile

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
        self._saved: dict[str, str] = {}

    def fresh(self, unit: str, saved: str = "") -> list[Batch]:
        """Return a unit's batches since the last call, in order.

        Parameters
        ----------
        saved
            Name of the unit's checkpoint: on another one its numbers may go on further up.
        """
        found: list[Batch] = []
        numbers = self._numbers(unit, saved)
        for number in numbers:
            # A report that a kill has cost does not come any more; that of the last batch still may.
            if number == numbers[-1] and not report_of(self.folder, unit, number).exists():
                break
            batch = read_batch(self.folder, unit, number)
            if not batch.border:
                found.append(batch)
            self.next[unit] = number + 1
        return found

    def _numbers(self, unit: str, saved: str) -> list[int]:
        """Return the numbers of a unit's batches since the last call."""
        first = self.next.setdefault(unit, 0)
        if self._saved.get(unit) == saved:
            return [*takewhile(lambda number: manifest_of(self.folder, unit, number).exists(), count(first))]
        # The border with which a checkpoint begins is there before the unit is known to have it.
        self._saved[unit] = saved
        return [number for number in (self.folder / "batches" / unit).numbers() if number >= first]
