"""SQL for what streams let through: fixed keep fractions, and those that follow a plan while a query runs.

What follows a plan is decided by the query's writer before it computes a batch (`penstock.spark.shipped.turn`). Where
tasks share the driver's JVM it is a property there, which they read for every row. Elsewhere it is in a file that Spark
reads when it begins the batch: as a subquery, whose one value it sends with the tasks. In real-time mode batches last
too long for that: a limit holds for rows by their stimulus times (`penstock.spark.run.moments`).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from penstock.spark.compile.sql import literal
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.turn import BUCKETS, EVER, LISTED, RECENT, SINCE, WIDTH, knob, packed


@attrs.frozen
class Drops:
    """What the streams of a run let through.

    Attributes
    ----------
    keep
        Fixed keep fractions by stream.
    live
        Streams whose keep fractions follow a plan.
    folder
        Of the run.
    file
        Where live fractions are read; None: from the host's JVM.
    copy
        Checkpoint of the copy that reads them; empty where there are none.
    timed
        Whether live fractions hold for rows by their stimulus times, and not batch by batch.
    """

    keep: Mapping[str, float] = attrs.field(factory=dict)
    live: frozenset[str] = frozenset()
    folder: Place = attrs.field(factory=lambda: Place("."))
    file: Place | None = None
    copy: str = ""
    timed: bool = False

    def limit(self, stream: str) -> str | None:
        """Return SQL for the buckets (`BUCKETS`) of a stream that pass; None if all do."""
        if stream in self.live:
            return f"CAST({self._read(stream, str(BUCKETS))} AS INT)"
        fraction = self.keep.get(stream, 1.0)
        return None if fraction >= 1 else str(round(fraction * BUCKETS))

    def since(self, stream: str) -> str:
        """Return SQL for the start (µs) of the first window that the present limit of a live stream holds for."""
        return f"CAST({self._read(stream + SINCE, str(EVER))} AS BIGINT)"

    def limits(self, stream: str) -> str:
        """Return SQL for the present limit of a live stream's windows and the one before, as one number."""
        return f"CAST({self._read(stream, str(packed(BUCKETS, BUCKETS)))} AS BIGINT)"

    def listed(self, stream: str) -> str:
        """Return SQL for all limits of a live stream, by the start of windows or by time; see `limit_since`."""
        return self._read(stream + LISTED, f"{EVER}:{BUCKETS}")

    def recent(self, stream: str) -> str:
        """Return SQL for the latest few limits of a live stream, by time."""
        return self._read(stream + RECENT, f"{EVER}:{BUCKETS}")

    def drops(self, stream: str) -> bool:
        """Whether a stream may drop anything."""
        return self.limit(stream) is not None

    def _read(self, name: str, default: str) -> str:
        if self.file is not None:
            path = self.file.pattern.replace("`", "``")
            said = f"(SELECT from_json(max(value), 'map<string,string>') FROM text.`{path}`)"  # noqa: S608 - a path
            return f"coalesce({said}[{literal(name)}], '{default}')"
        return f"java_method('java.lang.System', 'getProperty', '{knob(self.folder, name, self.copy)}', '{default}')"


def window_limit(start: str, names: tuple[str, str]) -> str:
    """Return SQL for the limit of a window that rows may still come to; the columns hold since when, and the limits."""
    since, limits = names
    return f"CASE WHEN {start} >= {since} THEN shiftright({limits}, {WIDTH}) ELSE {limits} & {2**WIDTH - 1}L END"


def limit_since(moment: str, listed: str) -> str:
    """Return SQL for the limit that holds at a moment (µs, as SQL), by SQL for the text with all limits."""
    since, limit = "CAST(split_part(entry, ':', 1) AS BIGINT)", "CAST(split_part(entry, ':', 2) AS INT)"
    entries = f"split({listed}, ',')"
    return f"aggregate({entries}, 0, (found, entry) -> CASE WHEN {since} <= {moment} THEN {limit} ELSE found END)"


def limit_of_row(recent: str, listed: str) -> str:
    """Return SQL for the limit that holds for a row, by the column with the latest limits and SQL for all limits.

    Most rows need the latest ones; only those that waited long, or that are done again, need the others.
    """
    first = f"CAST(split_part({recent}, ':', 1) AS BIGINT)"
    latest, any_of_all = (limit_since("__stimulus", each) for each in (recent, listed))
    return f"CASE WHEN {first} <= __stimulus THEN {latest} ELSE {any_of_all} END"
