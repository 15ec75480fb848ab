"""Keep fractions of queries in real-time mode: from which moment on which one holds, told to hosts while rows pass.

A batch there lasts as long as rows are to be noted as done (a minute), so that what is kept cannot wait for the next.
A fraction holds for rows by their stimulus times, from a moment a little ahead; the list of moments is in the run's
folder before a host is told. So a row that is done again, after a stop or a kill, is kept or dropped as it was.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from penstock.spark.compile.sql import literal
from penstock.spark.left import said
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.turn import BUCKETS, EVER, LISTED, RECENT, knob, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Live = Callable[[], Mapping[str, Collection[str]]]
"""Returns live streams by host."""

MOMENTS = "moments.json"

TOLD = "penstock_told"
"""Name of a variable of a host's session: whether it was told in time."""

AHEAD = 0.3
"""How far ahead (s) a fraction's moment is: hosts are told by then."""

FURTHEST = 5.0
"""How far ahead (s) a moment is at most, where hosts were told too late of nearer ones."""

KNOWN = 900.0
"""How long (s) a moment is known, at least: as long as a row may wait or be done again."""

LATEST = 4
"""Moments that every row is compared with; older rows look at all."""

NEAR = BUCKETS // 500
"""Fractions that are nearer to the one before are not worth a moment."""


class Moments:
    """The moments of a run's live streams in real-time mode.

    Parameters
    ----------
    folder
        Of the run.
    live
        Returns the streams that are live now, by host.
    sessions
        Returns those of the hosts that are there now: others hear of the moments when they `begin`.
    """

    def __init__(self, folder: Place, live: Live, sessions: Callable[[], Mapping[str, SparkSession]]) -> None:
        self.folder, self._live, self._sessions = folder, live, sessions
        self._lock = threading.RLock()

    @cached_property
    def known(self) -> dict[str, list[tuple[int, int]]]:
        """By stream since when (µs) which limit holds, as the folder says at first."""
        try:
            before = said(self.folder / MOMENTS)
        except FileNotFoundError:
            return {}
        return {name: [(since, limit) for since, limit in entries] for name, entries in before.items()}

    def begin(self, session: SparkSession, names: Collection[str]) -> None:
        """Tell a host the moments of streams, before any of their rows comes there."""
        with self._lock:
            self._tell(session, names)

    def share(self, stream: str, begin: float, end: float) -> float:
        """Return the share of a stream's rows that is kept of those that came evenly between two times (s)."""
        entries = self.known.get(stream, [(EVER, BUCKETS)])
        if end <= begin:
            return entries[-1][1] / BUCKETS
        times = np.clip([*(since / 1e6 for since, _ in entries), np.inf], begin, end)
        return float(np.diff(times) @ [limit / BUCKETS for _, limit in entries] / (end - begin))

    def keep(self, fractions: Mapping[str, float]) -> None:
        """Let keep fractions by stream (1 where not named) hold from a moment on that is a little ahead."""
        with self._lock:
            wanted = {
                name: round(fractions.get(name, 1.0) * BUCKETS)
                for name in sorted({name for mine in self._live().values() for name in mine})
            }
            changed = [name for name, limit in wanted.items() if _differ(limit, self._entries(name)[-1][1])]
            ahead = AHEAD
            while changed:
                since = self._now(ahead)
                for name in changed:
                    self.known[name] = [*_lasting(self._entries(name), self._now(-KNOWN)), (since, wanted[name])]
                (self.folder / MOMENTS).replace(json.dumps(self.known).encode())
                changed = self._refused(changed, since)
                for name in changed:
                    # Rows of that moment have passed by the fraction before: it begins later.
                    self.known[name].pop()
                ahead = min(2 * ahead, FURTHEST)

    def _entries(self, name: str) -> list[tuple[int, int]]:
        return self.known.setdefault(name, [(EVER, BUCKETS)])

    def _refused(self, names: Sequence[str], since: int) -> list[str]:
        """Tell the hosts that are there; return the streams of those that hear of a moment (µs) when it has passed."""
        sessions, live = self._sessions(), self._live()
        mine = {host: {*live[host]}.intersection(names) for host in live if host in sessions}
        with ThreadPoolExecutor(max(1, len(mine))) as pool:
            heard = [*pool.map(lambda host: self._tell(sessions[host], mine[host], since), mine)]
        late = [host for host, in_time in zip(mine, heard, strict=True) if not in_time]
        return sorted({name for host in late for name in mine[host]})

    def _tell(self, session: SparkSession, names: Collection[str], before: int | None = None) -> bool:
        """Write the moments of streams where a host's tasks read them; ``before`` a moment (µs), or not at all.

        Returns whether they are written.
        """
        calls = []
        for name in sorted(names):
            # The whole list comes first: rows older than the latest entries look there.
            for behind, entries in ((LISTED, self._entries(name)), (RECENT, self._entries(name)[-LATEST:])):
                key = literal(knob(self.folder, name + behind))
                calls.append(f"java_method('java.lang.System', 'setProperty', {key}, {literal(listed(entries))})")
        if not calls:
            return True
        told = f"concat_ws('', 'told', {', '.join(calls)})"
        if before is not None:
            now = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)"
            told = f"if({now} < {before // 1000}, {told}, 'late')"
        # The default of a variable is worked out at once, by the driver alone: half of what a query takes there.
        session.sql(f"DECLARE OR REPLACE VARIABLE {TOLD} STRING DEFAULT {told}")
        if before is None or self._now() < before:
            return True
        return bool(session.sql(f"SELECT {TOLD} LIKE 'told%'").collect()[0][0])

    @staticmethod
    def _now(later: float = 0.0) -> int:
        return round((time.time() + later) * 1e6)


def _differ(limit: int, before: int) -> bool:
    return abs(limit - before) > NEAR or (limit != before and limit in (0, BUCKETS))


def _lasting(entries: Sequence[tuple[int, int]], since: int) -> list[tuple[int, int]]:
    """Return the entries that hold at some time after a moment; the first of them for all times before as well."""
    ends = [*(begin for begin, _ in entries[1:]), since + 1]
    (_, first), *rest = [entry for entry, end in zip(entries, ends, strict=True) if end > since]
    # Rows may be older than what is remembered: topics hold what senders say.
    return [(EVER, first), *rest]
