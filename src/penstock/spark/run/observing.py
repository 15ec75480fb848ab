"""What a run did between two looks, from the files that its queries leave: manifests, reports, offsets, latencies.

Nothing is asked of the hosts. Files are looked for by number and each is read once, so that a look costs the same
however long the run has gone on.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.latency.cores import covered
from penstock.network import Network
from penstock.spark.compile import Query
from penstock.spark.hop import START
from penstock.spark.run.ended import Ended
from penstock.spark.run.folder import epoch_of
from penstock.spark.run.lengths import Lengths
from penstock.spark.run.outcome import Batch, read_batch, read_latency
from penstock.spark.run.runner import Runner
from penstock.spark.run.system import System
from penstock.spark.shipped.checkpoint import begun_and_ended, offsets
from penstock.steering import HostSeen, LatencySeen, UnitSeen
from penstock.workload.nexmark import Schedule

if TYPE_CHECKING:
    from penstock.files import Document

Queue = tuple[float, float | None]
"""Rows that wait, and when the oldest of them came (s since 1970); None: none waits."""


@attrs.define
class _Log:
    """Rows of a log that not all readers have taken: number, rows and time of each batch."""

    entries: deque[tuple[int, int, float]] = attrs.field(factory=deque)

    def waiting(self, position: Mapping[str, int]) -> tuple[int, float | None]:
        """Return the rows behind a position, and when the oldest of them came (s since 1970)."""
        batch, taken = position["batch"], position.get("rows", 0)
        rows, since = 0, None
        for number, count, came in self.entries:
            left = count if number > batch else max(0, count - taken) if number == batch else 0
            rows += left
            since = came if left and since is None else since
        return rows, since


@attrs.frozen(eq=False)
class Seen:
    """What one look found.

    Attributes
    ----------
    counts
        By stream: arrived and dropped.
    entered
        By scheduled source the tuples that were due; of other sources it is known only once they are read.
    queues
        By operator what waits for it; None: not known. Inside a query nothing waits.
    hosts, units, latency
        As an `penstock.steering.Observation` has them.
    """

    counts: Mapping[str, tuple[int, int]]
    entered: Mapping[str, int]
    queues: Mapping[str, Queue | None]
    hosts: Mapping[str, HostSeen]
    units: tuple[UnitSeen, ...]
    latency: Mapping[str, LatencySeen]


class Observer:
    """Reads what comes between two looks.

    Parameters
    ----------
    system
        What is observed.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.ended = Ended(system.deployment.place)
        self._at = time.time()
        self._logs: dict[str, _Log] = {}
        self._lengths: dict[str, Lengths] = {}
        self._ahead: dict[str, tuple[float, Mapping[str, int]]] = {}
        self._schedules: dict[str, tuple[str, Schedule]] = {}
        self._came = {name: self._due_by(name, self._at) for name in system.deployment.schedules}
        for unit, numbers in self.ended.before.items():
            for number in numbers:
                self._log(read_batch(system.deployment.place, unit, number))

    def look(self, moving: Sequence[str], down: Sequence[str]) -> Seen:
        """Return what has come since the last look; ``moving`` are units, ``down`` hosts."""
        system, now = self.system, time.time()
        batches = {name: self._fresh(name) for name in sorted({*system.units, *self.ended.next})}
        for name, each in batches.items():
            self._lengths.setdefault(name, Lengths()).add(each)
            for batch in each:
                self._ahead[name] = (batch.start, batch.ahead) if batch.known else (0.0, {})
        counts: dict[str, tuple[int, int]] = {}
        for batch in (batch for each in batches.values() for batch in each):
            for stream, (arrived, dropped) in batch.counts.items():
                before = counts.get(stream, (0, 0))
                counts[stream] = (before[0] + arrived, before[1] + dropped)
        queues = {name: self._queues(query) for name, query in system.compiled.items()}
        seen = Seen(
            counts,
            self._entered(now),
            self._waiting(queues),
            self._hosts(batches, now),
            self._units(batches, queues, moving, down, now),
            self._latency(batches),
        )
        self._at = now
        self._forget()
        return seen

    def _entered(self, now: float) -> dict[str, int]:
        """Return what became due since the last look: a long batch, or a queue worked off, is no other rate."""
        begins, found = self.system.deployment.begins.values(), {}
        for name in self.system.deployment.schedules:
            if name not in self._came:
                self._came[name] = min((row[name] for row in begins if name in row), default=0)
            before, self._came[name] = self._came[name], self._due_by(name, now)
            found[name] = self._came[name] - before
        return found

    def _fresh(self, unit: str) -> list[Batch]:
        """Return a unit's batches since the last look, in order, each once all of it is known."""
        found = self.ended.fresh(unit)
        for batch in found:
            self._log(batch)
        return found

    def _log(self, batch: Batch) -> None:
        for writer, (number, rows) in batch.logged.items():
            entries = self._logs.setdefault(writer, _Log()).entries
            if rows and (not entries or entries[-1][0] < number):
                entries.append((number, rows, batch.visible))

    def _forget(self) -> None:
        """Forget rows that all readers of a log have taken."""
        for name, log in self._logs.items():
            readers = [position for query in self.system.queries if (position := self._position(query, name))]
            while log.entries and readers and all(log.entries[0][0] < batch for batch, _ in readers):
                log.entries.popleft()

    def _position(self, query: Query, name: str) -> tuple[int, int] | None:
        if name not in query.reads:
            return None
        return next(((o["batch"], o["piece"]) for o in _ended(query) if o.get("log") == name), (0, 0))

    def _hosts(self, batches: Mapping[str, Sequence[Batch]], now: float) -> dict[str, HostSeen]:
        """Return how busy the hosts were: the share of the period in which a batch of theirs ran."""
        spans: dict[str, list[tuple[float, float]]] = {name: [] for name in self.system.hosts}
        ended = dict.fromkeys(self.system.hosts, 0)
        for batch in (batch for each in batches.values() for batch in each):
            if batch.host not in spans:
                continue
            ended[batch.host] += 1
            if batch.known:
                spans[batch.host].append((batch.start, batch.start + batch.duration))
        for name, runner in [*self.system.runners.items()]:
            begun, done = runner.marks
            if begun > done and (since := _since(runner)) is not None and runner.unit.host in spans:
                spans[self.system.units[name].host].append((since, now))
        return {
            name: HostSeen(
                busy=_share(spans[name], self._at, now),
                batches=ended[name],
                overhead=self._overhead(name),
            )
            for name in spans
        }

    def _units(
        self,
        batches: Mapping[str, Sequence[Batch]],
        queues: Mapping[str, Mapping[str, Queue | None]],
        moving: Sequence[str],
        down: Sequence[str],
        now: float,
    ) -> tuple[UnitSeen, ...]:
        found = []
        for name, unit in sorted(self.system.units.items()):
            query = self.system.compiled.get(name)
            mine = batches.get(name, ())
            queue = _together([*queues[name].values()]) if name in queues else None
            # Batches of a host share its cores: their durations add up to more than was worked.
            work, doubt = self._lengths[name].work(mine) if name in self._lengths else (0.0, 0.0)
            found.append(
                UnitSeen(
                    name=name,
                    operators=unit.fragment.operators,
                    host=unit.host,
                    generation=0 if query is None else query.spec.generation,
                    running=name in self.system.runners and name not in moving and unit.host not in down,
                    waiting=None if queue is None else round(queue[0]),
                    behind=age(queue, now),
                    batches=len(mine),
                    work=work,
                    doubt=doubt,
                )
            )
        return tuple(found)

    def _overhead(self, host: str) -> float | None:
        """Return the overhead of a batch of a host: that of its units in the middle."""
        mine = (each.fixed for name, each in self._lengths.items() if each.host == host and name in self.system.units)
        known = [fixed for fixed in mine if fixed is not None]
        return float(np.median(known)) if known else None

    def _queues(self, query: Query) -> dict[str, Queue | None]:
        """Return what waits for a query, by source or log that it reads; None of what cannot be counted."""
        found: dict[str, Queue | None] = {}
        known = {o.get("log", o.get("source")): o for o in _ended(query)}
        begins = self.system.deployment.begins.get(query.name, {})
        for origin in query.spec.origins:
            name, first = origin.name, begins.get(origin.name, 0)
            if name in query.reads:
                at = known.get(name, {**START, "batch": first})
                found[name] = self._logs.setdefault(name, _Log()).waiting(at)
            elif name in self.system.deployment.schedules:
                found[name] = self._due(name, known.get(name, {"event": first})["event"])
            else:
                found[name] = self._at_topic(query.name, name)
        return found

    def _at_topic(self, unit: str, source: str) -> Queue | None:
        """Return what waited at a source's topic when the unit's last batch was planned; None: not known."""
        since, ahead = self._ahead.get(unit, (0.0, {}))
        topic = self.system.deployment.network.sources[source].options.get("subscribe", "")
        if topic not in ahead:
            return None
        return ahead[topic], since if ahead[topic] else None

    def _waiting(self, queues: Mapping[str, Mapping[str, Queue | None]]) -> dict[str, Queue | None]:
        """Return what waits for each operator: rows of a source or log wait for those that read it, and no others."""
        network, found = self.system.deployment.network, {}
        for unit, queue in queues.items():
            part = self.system.units[unit].fragment
            for name in part.operators:
                outside = [s for s in network.inputs(name) if s.writer not in part.operators or s.name in part.cuts]
                found[name] = _together([_part(queue.get(s.writer), s.share) for s in outside])
        return found

    def _due(self, source: str, event: int) -> tuple[int, float | None]:
        """Return the events of a scheduled source that are due behind one, and when the first of them was."""
        count = self._due_by(source, time.time()) - event
        epoch = epoch_of(self.system.deployment.place)
        return (count, epoch + self._schedule(source).time_of(event)) if count > 0 else (0, None)

    def _due_by(self, source: str, now: float) -> int:
        """Return the events of a scheduled source that are due by a time (s since 1970)."""
        epoch = epoch_of(self.system.deployment.place)
        return self._schedule(source).count_by(max(0.0, now - epoch)) if epoch else 0

    def _schedule(self, source: str) -> Schedule:
        text = self.system.deployment.schedules[source]["rates"]
        if self._schedules.get(source, ("", None))[0] != text:
            rates = json.loads(text)
            self._schedules[source] = text, Schedule.of(rates["values"], rates["period"])
        return self._schedules[source][1]

    def _latency(self, batches: Mapping[str, Sequence[Batch]]) -> dict[str, LatencySeen]:
        """Return the latencies of the tuples that these batches brought to sinks."""
        folder = self.system.deployment.place
        parts: dict[str, list[Array]] = {sink: [] for sink in self.system.deployment.network.sinks}
        for name, query in self.system.compiled.items():
            for way in query.spec.sinks:
                for batch in batches.get(name, ()):
                    file = folder / "latency" / way.name / f"{name}-{batch.number:012d}.npy"
                    # Windows also close in batches without rows.
                    if file.exists():
                        visible, stimulus = read_latency(file)
                        parts[way.name].append(visible - stimulus)
        found = {}
        for sink, arrays in parts.items():
            values = np.concatenate([np.zeros(0), *arrays])
            found[sink] = LatencySeen() if not values.size else LatencySeen(
                count=int(values.size), mean=float(values.mean()), p99=float(np.quantile(values, 0.99)),
                worst=float(values.max()),
            )  # fmt: skip
        return found


def age(queue: Queue | None, now: float) -> float | None:
    """Return the age of the oldest row that waits (s)."""
    if queue is None:
        return None
    return 0.0 if queue[1] is None else max(0.0, now - queue[1])


def _together(queues: Sequence[Queue | None]) -> Queue | None:
    """Return several queues as one."""
    known = [queue for queue in queues if queue is not None]
    if len(known) < len(queues):
        return None
    return sum(rows for rows, _ in known), min((since for _, since in known if since is not None), default=None)


def _part(queue: Queue | None, share: float) -> Queue | None:
    """Return what of a queue is for a reader that gets a share of it."""
    return None if queue is None else (queue[0] * share, queue[1])


def operators_seen(
    network: Network, counts: Mapping[str, tuple[int, int]], entered: Mapping[str, int]
) -> dict[str, NDArray[np.int64]]:
    """Return ``served``, ``tried`` and ``emitted`` of each operator, and ``entered`` of each source.

    What ``entered`` does not say of a source is taken from the counts: tuples enter when they are read.
    """

    def arrived(names: Sequence[tuple[str, float]]) -> int:
        return max((round(counts.get(name, (0, 0))[0] / share) for name, share in names if share > 0), default=0)

    def taken(name: str) -> int:
        return sum(a - d for a, d in (counts.get(stream.name, (0, 0)) for stream in network.inputs(name)))

    def out(name: str) -> int:
        return arrived([(stream.name, stream.share) for stream in network.outputs(name)])

    served = np.array([taken(name) for name in network.operators], np.int64)
    return {
        "served": served,
        "tried": served,
        "emitted": np.array([out(name) for name in network.operators], np.int64),
        "entered": np.array([entered.get(name, out(name)) for name in network.sources], np.int64),
    }


def _ended(query: Query) -> list[Document]:
    """Return the offsets up to which a query has ended its batches."""
    ended = begun_and_ended(query.spec.checkpoint)[1]
    try:
        return offsets(query.spec.checkpoint, ended) if ended >= 0 else []
    except (FileNotFoundError, ValueError):
        return []


def _since(runner: Runner) -> float | None:
    """Return when the batch that runs was planned (s since 1970)."""
    try:
        return float(offsets(runner.query.spec.checkpoint, runner.marks[0])[0]["batchTimestampMs"]) / 1000
    except (FileNotFoundError, ValueError, LookupError):
        return None


def _share(spans: Sequence[tuple[float, float]], begin: float, end: float) -> float | None:
    """Return the share of a time that some spans cover."""
    return sum(stop - start for start, stop in covered(spans, begin, end)) / (end - begin) if end > begin else None
