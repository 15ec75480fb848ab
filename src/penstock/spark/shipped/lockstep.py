"""Copies of a unit in lockstep: what a batch takes, the copy that leads says; what it has computed, that one shows.

So copies have the same state at about the same time. When another one comes to lead, it has computed the batch that is
missing, or is about to, and readers and sinks see one writer all the time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.spark.shipped import Offset
from penstock.spark.shipped.checkpoint import offsets
from penstock.spark.shipped.gate import Fenced, check, owner_of
from penstock.spark.shipped.parts import Parts
from penstock.spark.shipped.place import Place, place_of
from penstock.spark.shipped.spec import WriterSpec

COPY = "copy"
"""Option of a source: folder, unit and checkpoint of the copy that reads it, as JSON."""

POLL = 0.01
"""Seconds between two looks at what the copy that leads has said or shown."""


PATIENCE = 5.0
"""Seconds for which the copy that leads waits once for another that has fallen behind, which it then leaves behind."""


@dataclass(frozen=True)
class Copy:
    """A copy of a unit, as its sources see it.

    Attributes
    ----------
    folder, unit, name
        The run's folder, the unit, and the name of the copy's checkpoint.
    waits
        Whether this source waits for copies that are behind while the copy leads: one of a query's sources does.
    began, kept
        By generation the last batch that a copy had begun when it was seen first; and the generations that have kept
        up since. One that is just being started, or has been left behind, has yet to.
    """

    folder: Place
    unit: str
    name: str
    waits: bool = True
    began: dict[int, int] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Copy | None:
        """Return the copy that a source's options name; None where the unit has no copies."""
        if COPY not in options:
            return None
        folder, unit, name, waits = json.loads(options[COPY])
        return cls(place_of(folder), unit, name, waits)

    @property
    def option(self) -> str:
        """The option that names it."""
        return json.dumps([self.folder.uri, self.unit, self.name, self.waits])

    def end(self, key: str, start: Offset) -> Offset | None:
        """Return up to where the next batch reads a source; None: that is for this copy to say.

        A copy that follows waits until it is told. If it simply brought nothing, Spark might do a batch without rows
        where the copy that leads takes some. The one that leads waits for others that had kept up and are
        more than a batch behind.

        Parameters
        ----------
        key
            Where offsets of the source say that they are its own.
        start
            Where the batch begins.

        Raises
        ------
        Fenced
            If the copy is to follow no longer.
        RuntimeError
            If the copy is so far behind that what the batch takes is known no longer.
        """
        batch = self._begun(self.name) + 1
        since = time.monotonic()
        while True:
            owner = owner_of(self.folder, self.unit)
            leads = owner["led"][:1] == [self.name]
            # One that has come to lead does what the one before had planned, which may have shown some of it.
            for name in owner["led"][1:] if leads else owner["led"][:1]:
                if (told := self._planned(name, batch, key, start[key])) is not None:
                    return told
            if leads and (owner["closing"] or not (late := self._late(owner["following"], batch))):
                return None
            if leads and time.monotonic() - since > PATIENCE:
                self.kept.difference_update(late)
                return None
            if not leads and self.name not in owner["following"]:
                raise Fenced(f"penstock has stopped {self.name}")
            time.sleep(POLL)

    def _late(self, following: Mapping[str, int], batch: int) -> set[int]:
        """Return the generations for which to wait: those that had kept up, and are more than a batch behind."""
        late = set()
        for name, generation in following.items() if self.waits else ():
            begun = self._begun(name)
            first = self.began.setdefault(generation, begun)
            if begun < batch - 1:
                late.add(generation)
            elif begun > first:
                self.kept.add(generation)
        return late & self.kept

    def _planned(self, name: str, batch: int, key: str, value: str) -> Offset | None:
        """Return up to where a copy has planned to read a source in a batch; None: it has not planned it."""
        checkpoint = self._checkpoint(name)
        try:
            lines = offsets(checkpoint, batch)
        except FileNotFoundError:
            first = min((checkpoint / "offsets").numbers(), default=0)
            if first <= batch:
                return None
            raise RuntimeError(f"copy {self.name} is too far behind: batch {batch} of {name} is gone") from None
        return next(line for line in lines if line.get(key) == value)

    def _begun(self, name: str) -> int:
        """Return the last batch that a copy has planned."""
        return max((self._checkpoint(name) / "offsets").numbers(), default=-1)

    def _checkpoint(self, name: str) -> Place:
        return self.folder / "checkpoints" / name


def told_end(copy: Copy | None, parts: Parts, keys: tuple[str, str], start: Offset) -> Offset | None:
    """Return up to where a reader reads next, if another copy says so; None: that is for the reader to say.

    A copy counts its own starts: it repeats the mark at which it begins, and Spark does its first batch in any case.

    Parameters
    ----------
    copy
        That reads; None where there is one only.
    parts
        What the reader takes at once; one that comes to lead has kept up.
    keys
        Where offsets say whose they are, and how far they are.
    """
    told = None if copy is None else copy.end(keys[0], start)
    if told is None:
        return None
    starts = start["starts"] + parts.begin(middle=start[keys[1]] > 0)
    parts.took(0, caught_up=True)
    return {**told, "starts": starts}


def appeared(spec: WriterSpec, file: Place) -> bool:
    """Wait until a file of the copy that leads is there, or this copy leads; return whether it is there.

    Raises
    ------
    Fenced
        If the copy is to follow no longer.
    """
    while not file.exists():
        if check(spec.folder, spec.query, spec.generation, begins=False):
            return False
        time.sleep(POLL)
    return True


def first_begun(spec: WriterSpec, batch: int) -> int:
    """Return when a batch was begun first (ms since 1970), by this copy or one that has led."""
    names = {spec.saved or spec.query, *owner_of(spec.folder, spec.query)["led"]}
    found = []
    for name in names:
        try:
            found.append(int(offsets(spec.folder / "checkpoints" / name, batch)[0]["batchTimestampMs"]))
        except FileNotFoundError:
            continue
    return min(found)
