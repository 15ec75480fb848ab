"""What passes through queries in real-time mode between two looks, told by the topics before and behind them.

Spark says what such a query has done once a checkpoint. The rows that come out say it at once: how long they took, and
so how far the query has come in what came in. What it has done since its last checkpoint is estimated from that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from penstock.arrays import Array
from penstock.errors import EngineError
from penstock.network import Network, Stream
from penstock.spark.compile import PromptQuery, Way
from penstock.spark.hop.rows import RowTopic
from penstock.spark.run.arriving import Total
from penstock.spark.run.between import KEPT
from penstock.spark.run.coming import Coming
from penstock.spark.run.lengths import work_in
from penstock.spark.run.meter import looks_of, metered
from penstock.spark.run.outcome import Batch, Counts, added, read_latency, taken_by
from penstock.spark.run.queues import Queue, from_outside, together
from penstock.spark.run.system import System
from penstock.spark.run.usage import Usage
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import note_of

SURE = 20
"""Rows of which an operator must have told what it made, for that to be believed of the next ones."""

SLOW = 0.1
"""How much longer (s) than twice the shortest time ever a row takes where a query has more to do than it can."""

REMEMBERED, FEW = 40, 4
"""Looks at a query with too much to do that tell what a dropped row costs, at most and at least."""


class Passing:
    """Looks at the topics of a system's queries in real-time mode.

    Parameters
    ----------
    system
        What is observed.
    coming
        What came to the topics before them, looked at first.

    Attributes
    ----------
    busy
        Share of its cores that each host with such queries has used; None: not known.
    """

    def __init__(self, system: System, coming: Coming) -> None:
        self._system, self._coming = system, coming
        self._left: dict[str, _Leaving] = {}
        self._noted: dict[str, _Noted] = {}
        self._units: dict[str, _Unit] = {}
        self._usage = Usage(system.hosts)
        self._at, self._period, self._closed = 0.0, 0.0, False
        self.busy: dict[str, float | None] = {}

    def look(self, now: float, cores: Mapping[str, int]) -> None:
        """Ask all topics; ``now`` in s since 1970, ``cores`` of the hosts."""
        before, self._at = self._at, now
        self._period = max(0.0, now - before) if before else 0.0
        if self._closed:
            return
        network, come = self._system.deployment.network, self._coming.came
        queries = [query for query in self._system.queries if isinstance(query, PromptQuery)]
        silent = {way.name for query in queries for way in query.messages.ways if not self._heard(way)}
        for query in queries:
            unit, origins = self._units.setdefault(query.name, _Unit(now)), _origins(query)
            for stream in _doors(query, network):
                arrived = come.get(stream.writer, 0) * stream.share
                unit.came(now, stream.name, arrived, self._system.moments.share(stream.name, before, now))
            # A broker may be away; then no more is known than before.
            if silent.isdisjoint(way.name for way in query.messages.ways) and self._coming.silent.isdisjoint(origins):
                unit.passed(now, self._own(query), any(come.get(name) for name in origins))
        used = self._usage.look(now, {query.fragment.host for query in queries})
        self.busy = {
            name: None if share is None else min(1.0, share / cores.get(name, 1)) for name, share in used.items()
        }

    def queues(self, query: PromptQuery) -> dict[str, Queue | None]:
        """Return what waits for a query, by source or operator that it reads; None: nothing tells it."""
        since, topics = None if query.name not in self._units else self._units[query.name].since, self._coming.topics
        return {
            name: None if since is None or name not in topics else _queue(topics[name], since)
            for name in _origins(query)
        }

    def by_operator(self, query: PromptQuery) -> dict[str, Queue | None]:
        """Return what waits for a query's operators and will not be dropped at their doors."""
        unit = self._units.get(query.name)
        found: dict[str, list[Queue | None]] = {name: [] for name in query.fragment.operators}
        for stream in _doors(query, self._system.deployment.network):
            since = None if unit is None else unit.since
            waits = None if unit is None or since is None else _queue(unit.kept[stream.name], since)
            found[stream.reader].append(waits)
        return {name: together(queues) for name, queues in found.items()}

    def counts(self, query: PromptQuery, batches: Sequence[Batch], keep: Mapping[str, float]) -> Counts:
        """Return what arrived and was dropped since the last call, by stream: as reported, and estimated since then.

        Parameters
        ----------
        batches
            Those that were reported since the last call.
        keep
            Keep fractions in force.
        """
        unit, network = self._units.setdefault(query.name, _Unit(self._at)), self._system.deployment.network
        unit.told(batches)
        counts = unit.counts(query, network, keep)
        size, lost = work_in(network, query.fragment.operators, counts), sum(dropped for _, dropped in counts.values())
        unit.worked(size, lost, self._period)
        return counts

    def work(self, name: str) -> tuple[float | None, float]:
        """Return how long (s) a unit has worked on rows that it kept since the look before, and the error of that.

        It was all the time that those it dropped have left where rows queue, and else at most as long as its host was
        busy.
        """
        units, unit = self._system.units, self._units.get(name)
        alone = sum(other.host == units[name].host for other in units.values()) == 1
        if alone and unit is not None and unit.overloaded:
            return self._period * (1 - unit.wasted), 0.0
        used = self.busy.get(units[name].host)
        return (None, 0.0) if used is None else (used * self._period / 2, used * self._period / 2)

    def speed(self, host: str) -> float | None:
        """Return the share of its time that a host has for rows that are kept; None where it has no such query."""
        there = [name for name, unit in self._system.units.items() if unit.host == host and name in self._units]
        return max(0.1, 1 - sum(self._units[name].wasted for name in there)) if there else None

    def latencies(self, sink: str) -> Array:
        """Return the latencies (s) of the rows that were found in a sink's topic since the last call."""
        noted = self._noted.setdefault(sink, _Noted(self._system.deployment.place, sink))
        return np.concatenate([np.zeros(0), *(visible - stimulus for visible, stimulus in noted.fresh())])

    def close(self) -> None:
        """Let the topics go, and ask nothing any more."""
        self._closed = True
        for left in self._left.values():
            left.close()

    def _own(self, query: PromptQuery) -> float | None:
        """Return how long (s) the newest row that left a query was with it; None: none has left."""
        took = [each for way in query.messages.ways if (each := self._leaving(way).took) is not None]
        before = [self._left[name].took or 0.0 for name in _origins(query) if name in self._left]
        return max(0.0, max(took) - min(before, default=0.0)) if took else None

    def _heard(self, way: Way) -> bool:
        """Look at the topic behind a query; return whether it answered."""
        try:
            self._leaving(way).look()
        except EngineError:
            return False
        return True

    def _leaving(self, way: Way) -> _Leaving:
        if way.name not in self._left:
            self._left[way.name] = _Leaving(RowTopic(self._system.deployment.client, way.topic, way.label))
        return self._left[way.name]


class _Unit:
    """A query in real-time mode: how far it is in what it reads, and what it has told of that.

    ``since`` is the stimulus time of the newest row that has left it, None while none does though some come; ``kept``
    are the rows that came through each stream from outside; ``wasted`` is the share of its time that goes to rows that
    it reads and drops.
    """

    def __init__(self, now: float) -> None:
        self.since: float | None = now
        self.overloaded = False
        self.kept: dict[str, Total] = {}
        self._come: dict[str, Total] = {}
        self._reached = Total(KEPT)
        self._reached.see(now, now)
        self._reported: dict[str, tuple[int, int]] = {}
        self._shown: dict[str, tuple[int, int]] = {}
        self._upto = now
        self._slow = False
        self._least = np.inf
        self._full: deque[tuple[float, float, float]] = deque(maxlen=REMEMBERED)
        self._reading = self.wasted = 0.0

    def came(self, now: float, stream: str, arrived: float, share: float) -> None:
        """Take in what came on a stream from outside, and the share of it that is kept."""
        for totals, more in ((self._come, arrived), (self.kept, share * arrived)):
            total = totals.setdefault(stream, Total(KEPT))
            total.see(now, total.last + more)

    def passed(self, now: float, own: float | None, came: bool) -> None:
        """Take in how long (s) the newest row was with it, None where none has left, and whether any came."""
        self.since = now - own if own is not None else None if came else now
        if self.since is not None:
            self._reached.see(now, max(self.since, self._reached.last))
        self._least = self._least if own is None else min(self._least, own)
        slow = own is not None and own > 2 * self._least + SLOW
        self._slow, self.overloaded = slow, slow and self._slow

    def worked(self, size: float, dropped: float, period: float) -> None:
        """Take in how much it did in a period (s), and how many rows it dropped.

        Where it was busy all the time the two share the period: over several, that tells what a dropped row costs.
        """
        if self.overloaded and size > 0:
            self._full.append((size, dropped, period))
            if len(self._full) >= FEW:
                self._reading = shared(*np.array(self._full).T)
        self.wasted = min(1.0, self._reading * dropped / period) if period > 0 else 0.0

    def told(self, batches: Sequence[Batch]) -> None:
        """Take in what Spark reported."""
        self._reported = added([self._reported, *(batch.counts for batch in batches)])
        self._upto = max([self._upto, *(batch.start + batch.duration for batch in batches)])

    def counts(self, query: PromptQuery, network: Network, keep: Mapping[str, float]) -> Counts:
        """Return what is to be shown besides what was shown already."""
        to = self._reached.last
        begin = to - self._reached.since(self._upto)

        def between(total: Total) -> float:
            return total.since(begin) - total.since(to)

        come = {name: (between(total), between(self.kept[name])) for name, total in self._come.items()}
        taken = {name: (arrived, arrived - kept) for name, (arrived, kept) in come.items()}
        found = {}
        for name, more in since_reported(query.fragment.operators, network, taken, keep, self._reported).items():
            known, shown = self._reported.get(name, (0, 0)), self._shown.get(name, (0, 0))
            arrived, dropped = (max(0, round(k + m - s)) for k, m, s in zip(known, more, shown, strict=True))
            found[name] = arrived, dropped
        self._shown = added([self._shown, found])
        return found


def shared(sizes: Array, lost: Array, spent: Array) -> float:
    """Return what one of the ``lost`` cost, where they and the ``sizes`` share what was ``spent``.

    Least squares without negative costs; all are arrays (looks,), not negative. (SciPy has it for any number of them,
    and takes a third of a second to import, for which a run that goes on would wait.)
    """
    one, two = np.linalg.lstsq(np.stack([sizes, lost], axis=1), spent, rcond=None)[0]
    if one < 0 and lost.any():
        return float(lost @ spent / (lost @ lost))
    return max(0.0, float(two))


def since_reported(
    operators: Sequence[str],
    network: Network,
    taken: Mapping[str, tuple[float, float]],
    keep: Mapping[str, float],
    reported: Counts,
) -> dict[str, tuple[float, float]]:
    """Return what about arrived and was dropped on each stream of a query, of the rows that it has taken.

    Parameters
    ----------
    operators
        Of the query, in topological order.
    taken
        Arrived and dropped on the streams from outside.
    keep
        Keep fractions of the others.
    reported
        What it has told of earlier rows: so many rows an operator makes of one; before that, as the network says.
    """
    found: dict[str, tuple[float, float]] = {}
    served: dict[str, float] = {}
    for name in [*operators, *network.sinks]:
        for stream in network.inputs(name):
            if stream.writer in served:
                arrived = served[stream.writer] * _made(network, stream.writer, stream.name, stream.share, reported)
                found[stream.name] = arrived, arrived * (1 - keep.get(stream.name, 1.0))
            elif name in operators:
                found[stream.name] = taken.get(stream.name, (0.0, 0.0))
        if name in operators:
            served[name] = taken_by(network, name, found)
    return found


def _made(network: Network, operator: str, stream: str, share: float, reported: Counts) -> float:
    """Return how many rows on a stream become of one that an operator serves."""
    took = taken_by(network, operator, reported)
    if took >= SURE:
        return reported.get(stream, (0, 0))[0] / took
    given = network.operators[operator].selectivity
    return share * (1.0 if given is None else float(np.mean(given)))


def _queue(come: Total, since: float) -> Queue:
    """Return the rows that have come after a moment."""
    rows = come.since(since)
    return rows, since if rows else None


def _origins(query: PromptQuery) -> list[str]:
    return [origin.name for origin in query.spec.origins]


def _doors(query: PromptQuery, network: Network) -> list[Stream]:
    """Return the streams that reach a query from outside."""
    return [stream for name in query.fragment.operators for stream in from_outside(network, query.fragment, name)]


class _Leaving:
    """The topic behind a query: ``took`` is how long (s) the newest row took to get there, None if none is new."""

    def __init__(self, topic: RowTopic) -> None:
        self.topic = topic
        self.took: float | None = None
        self._ends: dict[int, int] | None = None

    def look(self) -> None:
        """Look at the newest row."""
        self.took = None
        ends = self.topic.ends()
        before = self._ends or ends
        last = {number: max(0, end - 1) if end > before.get(number, 0) else end for number, end in ends.items()}
        took = [row.visible / 1e3 - row.stimulus / 1e6 for row in self.topic.rows(last, ends) if row.stimulus]
        self.took, self._ends = max(took, default=None), ends

    def close(self) -> None:
        """Let the topic go."""
        self.topic.__exit__()


class _Noted:
    """The notes of a sink's meter, each read once."""

    def __init__(self, folder: Place, sink: str) -> None:
        self._folder, self._sink = folder, sink
        self._next = looks_of(folder, sink)

    def fresh(self) -> Iterator[tuple[Array, Array]]:
        """Yield when rows became visible, and their stimulus times."""
        while (note := note_of(self._folder, metered(self._sink), self._next, self._sink)).exists():
            yield read_latency(note)
            self._next += 1
