"""How often hosts begin a micro-batch, and how much of a source one may read: what changes while a run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import attrs

from penstock.errors import InputError
from penstock.network import Network, Source, reading
from penstock.spark.left import said
from penstock.spark.shipped.deliver import FILES
from penstock.spark.shipped.place import Place
from penstock.steering import rows_a_batch

FILE = "pace.json"


@attrs.frozen
class Pace:
    """How fast a run goes.

    Attributes
    ----------
    interval, triggers
        Interval of the micro-batches (s): of all hosts, and of those that have another.
    limits
        Most tuples/s to be read, by source.
    rows
        Of limited sources that are files: tuples a file.
    reading
        Options by source that say how the network's sources are read: see `penstock.network.reading`.
    """

    interval: float = 0.0
    triggers: Mapping[str, float] = attrs.field(factory=dict)
    limits: Mapping[str, float] = attrs.field(factory=dict)
    rows: Mapping[str, float] = attrs.field(factory=dict)
    reading: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)

    @classmethod
    def noted(cls, folder: Place) -> Pace | None:
        """Return the pace that an earlier controller of a run has noted, if there was one."""
        try:
            known = said(folder / FILE)
        except FileNotFoundError:
            return None
        return cls(**known)

    @classmethod
    def of(cls, interval: float, network: Network, folder: Place) -> Pace:
        """Return the pace that an earlier controller of a run has noted; interval and options are those of now."""
        return attrs.evolve(cls.noted(folder) or cls(), interval=interval, reading=reading(network))

    def differs(self, other: Pace, host: str, given: Iterable[str]) -> bool:
        """Whether a query on a host would run otherwise at another pace; ``given``: what it reads, sources or not."""
        return self.on(host) != other.on(host) or any(self.reading.get(n) != other.reading.get(n) for n in given)

    def note(self, folder: Place) -> None:
        """Write it down for a controller that comes after this one."""
        (folder / FILE).replace(json.dumps(attrs.asdict(self)).encode())

    def limited(self, source: str, limit: float | None, rows: float) -> Pace:
        """Return the pace with another limit of a source, whose files have so many tuples; None: no limit."""
        limits, sizes = ({k: v for k, v in old.items() if k != source} for old in (self.limits, self.rows))
        if limit is None:
            return attrs.evolve(self, limits=limits, rows=sizes)
        return attrs.evolve(self, limits={**limits, source: limit}, rows={**sizes, source: rows})

    def paced(self, host: str, interval: float) -> Pace:
        """Return the pace with another interval of a host's micro-batches (s)."""
        others = {name: step for name, step in self.triggers.items() if name != host}
        return attrs.evolve(self, triggers=others if interval == self.interval else {**others, host: interval})

    def on(self, host: str) -> float:
        """Return the interval of a host's micro-batches (s)."""
        return self.triggers.get(host, self.interval)

    def most(self, source: str, host: str) -> int | None:
        """Return what a host's batch may read of a source: files of one that is files, else tuples; None: anything."""
        limit = self.limits.get(source)
        if limit is None:
            return None
        return rows_a_batch(limit / self.rows.get(source, 1.0), self.on(host))


def refuse_limit(source: Source) -> None:
    """Refuse to limit what is read of a source where Spark cannot.

    Raises
    ------
    InputError
        Saying why.
    """
    at = f"limits.{source.name}"
    if not (source.scheduled or source.format == "kafka" or source.format in FILES):
        raise InputError(f"what is read of a source of format {source.format!r} cannot be limited", at=at)
    if any(key.lower() == "maxbytespertrigger" for key in source.options):
        raise InputError("its batches are bounded by maxBytesPerTrigger, and Spark takes one bound", at=at)
