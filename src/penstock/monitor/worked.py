"""How long a run went, and how busy its hosts were, of one that is over: as its report has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from penstock.load.spans import known_since, runs_of, share
from penstock.telemetry.run_news import RunBatch

MOST = 7_200
"""Batches of a query that are remembered, as many as its folder keeps."""


class Worked:
    """The batches of a run, as far as they tell how much hosts worked.

    Parameters
    ----------
    folded
        Queries whose first batches are known no longer.
    """

    def __init__(self, folded: Iterable[str]) -> None:
        self._folded = {*folded}
        self._batches: dict[str, deque[tuple[str, float, float, float | None]]] = {}
        self._first: float | None = None

    def take(self, batch: RunBatch, host: str) -> None:
        """Take in a batch, and where it was done."""
        rows = self._batches.setdefault(batch.query, deque(maxlen=MOST))
        if len(rows) == MOST:
            self._folded.add(batch.query)
        start = batch.start if batch.since is None else batch.since
        rows.append((host, start, batch.start + batch.duration, batch.busy))
        if batch.rows:
            self._first = min(start, self._first or start)

    def told(self, begins: list[float], ends: Iterable[float]) -> tuple[float, dict[str, float | None]]:
        """Return how long it ran (s), without the time between runs, and by host the share in which it worked.

        Parameters
        ----------
        begins, ends
            When each run of the folder began, and when they ended that were not killed (s since 1970).
        """
        batches = [row for rows in self._batches.values() for row in rows]
        first = min(begins[0], self._first or begins[0])
        runs = runs_of([first, *begins[1:]], ends, [(start, end) for _, start, end, _ in batches])
        since = known_since(runs, (rows[0][1] for query, rows in self._batches.items() if query in self._folded))
        spans: dict[str, list[tuple[float, float] | None]] = {}
        for host, start, end, busy in batches:
            spans.setdefault(host, []).append(None if busy is None else (start, start + busy * (end - start)))
        return sum(b - a for a, b in runs), {host: share(rows, runs, since) for host, rows in spans.items()}
