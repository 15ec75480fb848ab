"""Keep fractions of queries in real-time mode: from which moment on which one holds, told to hosts while rows pass.

A batch there lasts as long as rows are to be noted as done (a minute), so that what is kept cannot wait for the next.
A fraction holds for rows by their stimulus times, from a moment a little ahead; the list of moments is in the run's
folder before a host is told. So a row that is done again, after a stop or a kill, is kept or dropped as it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock.spark.compile.sql import literal
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.turn import BUCKETS, EVER, LISTED, RECENT, knob, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOMENTS = "moments.json"

AHEAD = 0.3
"""How far ahead (s) a fraction's moment is: hosts are told by then."""

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
        The streams by host.
    sessions
        By host.
    """

    def __init__(
        self, folder: Place, live: Mapping[str, Collection[str]], sessions: Mapping[str, SparkSession]
    ) -> None:
        self.folder, self._sessions, self._live = folder, sessions, live
        try:
            before = json.loads((folder / MOMENTS).read())
        except FileNotFoundError:
            before = {}
        names = sorted({name for mine in live.values() for name in mine})
        self.known: dict[str, list[tuple[int, int]]] = {
            name: [(since, limit) for since, limit in before.get(name, [[EVER, BUCKETS]])] for name in names
        }
        self._tell(names)

    def keep(self, fractions: Mapping[str, float]) -> None:
        """Let keep fractions by stream (1 where not named) hold from a moment on that is a little ahead."""
        wanted = {name: round(fractions.get(name, 1.0) * BUCKETS) for name in self.known}
        changed = [name for name, limit in wanted.items() if _differ(limit, self.known[name][-1][1])]
        while changed:
            since = self._now(AHEAD)
            for name in changed:
                self.known[name] = [*_lasting(self.known[name], self._now(-KNOWN)), (since, wanted[name])]
            (self.folder / MOMENTS).replace(json.dumps(self.known).encode())
            self._tell(changed)
            if self._now() < since:
                return
            # Rows of that moment have passed by the fraction before: it begins later.
            for name in changed:
                self.known[name].pop()

    def _tell(self, names: Sequence[str]) -> None:
        """Write the moments of streams where tasks read them."""

        def tell(host: str) -> None:
            calls = []
            for name in sorted({*self._live[host]}.intersection(names)):
                # The whole list comes first: rows older than the latest entries look there.
                for behind, entries in ((LISTED, self.known[name]), (RECENT, self.known[name][-LATEST:])):
                    key = literal(knob(self.folder, name + behind))
                    calls.append(f"java_method('java.lang.System', 'setProperty', {key}, {literal(listed(entries))})")
            if calls:
                self._sessions[host].sql(f"SELECT {', '.join(calls)}").collect()

        with ThreadPoolExecutor(max(1, len(self._live))) as pool:
            list(pool.map(tell, self._live))

    @staticmethod
    def _now(later: float = 0.0) -> int:
        return round((time.time() + later) * 1e6)


def _differ(limit: int, before: int) -> bool:
    return abs(limit - before) > NEAR or (limit != before and limit in (0, BUCKETS))


def _lasting(entries: Sequence[tuple[int, int]], since: int) -> list[tuple[int, int]]:
    """Return the entries that hold at some time after a moment."""
    ends = [*(begin for begin, _ in entries[1:]), since + 1]
    return [entry for entry, end in zip(entries, ends, strict=True) if end > since]
