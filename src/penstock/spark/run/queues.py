"""What waits for the queries of a run: in logs, at schedules, at topics, in folders and by the clock."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from penstock.latency.fragments import Fragment
from penstock.network import Network, Source, Stream
from penstock.spark.compile import Query
from penstock.spark.compile.sources import topics_named
from penstock.spark.hop import START
from penstock.spark.hop.topics import Topics
from penstock.spark.run.coming import Coming
from penstock.spark.run.folder import epoch_of
from penstock.spark.run.outcome import Batch
from penstock.spark.run.system import System
from penstock.spark.run.ticking import Ticking
from penstock.spark.run.unread import Unread, tells
from penstock.spark.shipped.checkpoint import begun_and_ended, offsets, own_offsets, read_upto
from penstock.spark.shipped.deliver import FILES
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


class Queues:
    """Counts what waits.

    Parameters
    ----------
    system
        Whose queries read.
    coming
        What came to their topics.
    """

    def __init__(self, system: System, coming: Coming) -> None:
        self._system, self._coming = system, coming
        self._logs: dict[str, _Log] = {}
        self._ahead: dict[str, tuple[float, Mapping[str, int]]] = {}
        self._schedules: dict[str, tuple[str, Schedule]] = {}
        self._seen: dict[tuple[str, str], tuple[str, Unread | Ticking]] = {}

    def took(self, unit: str, batches: Sequence[Batch]) -> None:
        """Take in what a unit's new batches read, and what they left of topics."""
        query = self._system.compiled.get(unit)
        for batch in batches:
            self._ahead[unit] = (batch.start, batch.ahead) if batch.known else (0.0, {})
        if query is None or not batches:
            return
        self._coming.took(query, batches)
        network, mine = self._system.deployment.network, query.fragment.operators
        for name in network.sources.keys() & {origin.name for origin in query.spec.origins}:
            source = self._source(query, name)
            if source is not None:
                streams = [stream for stream in network.outputs(name) if stream.reader in mine]
                rows = sum(batch.read(streams) for batch in batches)
                source.took(rows, *(_read_upto(query, name, n) for n in (batches[0].number - 1, batches[-1].number)))

    def looked_at(self, unit: str, source: str) -> bool:
        """Whether what waits at a source is looked at now, rather than known since the unit's last batch."""
        seen = self._seen.get((unit, source))
        return seen is not None and seen[1].known

    def counted(self, unit: str, source: str) -> bool:
        """Whether what waits at a source can be known at all."""
        about = self._system.deployment.network.sources[source]
        return self.looked_at(unit, source) or (about.format == "kafka" and _told(about))

    def logged(self, batch: Batch) -> None:
        """Take in what a batch wrote to logs; in real-time mode there are none."""
        prompt = self._system.deployment.real_time
        for writer, (number, rows) in batch.logged.items():
            if writer in prompt:
                continue
            entries = self._logs.setdefault(writer, _Log()).entries
            if rows and (not entries or entries[-1][0] < number):
                entries.append((number, rows, batch.visible))

    def forget(self) -> None:
        """Forget rows that all readers of a log have taken."""
        for name, log in self._logs.items():
            readers = [position for query in self._system.queries if (position := self._position(query, name))]
            while log.entries and readers and all(log.entries[0][0] < batch for batch, _ in readers):
                log.entries.popleft()

    def of(self, query: Query) -> dict[str, Queue | None]:
        """Return what waits for a query, by source or log that it reads; None of what cannot be counted."""
        found: dict[str, Queue | None] = {}
        known = _ended(query)
        begins = self._system.deployment.begins.get(query.name, {})
        for origin in query.spec.origins:
            name, first = origin.name, begins.get(origin.name, 0)
            waits = self._coming.waiting(query, name)
            if waits is not None:
                found[name] = waits
            elif name in self._system.deployment.real_time:
                found[name] = self._at_topic(query.name, self._rows.name(name))
            elif name in query.reads:
                at = known.get(name, {**START, "batch": first})
                found[name] = self._logs.setdefault(name, _Log()).waiting(at)
            elif name in self._system.deployment.schedules:
                found[name] = self._due(name, known.get(name, {"event": first})["event"])
            elif (source := self._source(query, name)) is not None:
                found[name] = source.waiting(_read_upto(query, name))
            else:
                topics = topics_named(self._system.deployment.network.sources[name])
                found[name] = together([self._at_topic(query.name, topic) for topic in topics]) if topics else None
        return found

    def by_operator(self, queues: Mapping[str, Mapping[str, Queue | None]]) -> dict[str, Queue | None]:
        """Return what waits for each operator: rows of a source or log wait for those that read it, and no others."""
        network, found = self._system.deployment.network, {}
        for unit, queue in queues.items():
            part = self._system.units[unit].fragment
            for name in part.operators:
                outside = from_outside(network, part, name)
                found[name] = together([_part(queue.get(s.writer), s.share) for s in outside])
        return found

    def due_by(self, source: str, now: float) -> int:
        """Return the events of a scheduled source that are due by a time (s since 1970)."""
        epoch = epoch_of(self._system.deployment.place)
        return self._schedule(source).count_by(max(0.0, now - epoch)) if epoch else 0

    def _position(self, query: Query, name: str) -> tuple[int, int] | None:
        if name not in query.reads:
            return None
        at = _ended(query).get(name, START)
        return at["batch"], at["piece"]

    def _source(self, query: Query, source: str) -> Unread | Ticking | None:
        """Return a source into which can be looked, as a query reads it; a new checkpoint begins anew."""
        about, checkpoint = self._system.deployment.network.sources[source], query.spec.checkpoint
        kind = Unread if about.format in FILES else Ticking if about.format == "rate" else None
        if kind is None or source not in query.inputs:
            return None
        path, found = self._seen.get((query.name, source), ("", None))
        if found is None or path != checkpoint.path:
            found = kind(about, checkpoint, query.numbers[source])
            self._seen[query.name, source] = checkpoint.path, found
        return found

    @property
    def _rows(self) -> Topics:
        return self._system.deployment.row_topics(self._system.claim.run)

    def _at_topic(self, unit: str, topic: str) -> Queue | None:
        """Return what waited at a topic when the unit's last batch was planned; None: not known."""
        since, ahead = self._ahead.get(unit, (0.0, {}))
        if topic not in ahead:
            return None
        return ahead[topic], since if ahead[topic] else None

    def _due(self, source: str, event: int) -> tuple[int, float | None]:
        """Return the events of a scheduled source that are due behind one, and when the first of them was."""
        count = self.due_by(source, time.time()) - event
        epoch = epoch_of(self._system.deployment.place)
        return (count, epoch + self._schedule(source).time_of(event)) if count > 0 else (0, None)

    def _schedule(self, source: str) -> Schedule:
        text = self._system.deployment.schedules[source]["rates"]
        if self._schedules.get(source, ("", None))[0] != text:
            rates = json.loads(text)
            self._schedules[source] = text, Schedule.of(rates["values"], rates["period"])
        return self._schedules[source][1]


def uncounted(network: Network) -> list[str]:
    """Return the sources of which cannot be told what waits there.

    Each batch of ``rate-micro-batch`` reads all that its source has.
    """
    return [name for name, source in network.sources.items() if not _told(source)]


def _told(source: Source) -> bool:
    if source.format == "kafka":
        return bool(topics_named(source))
    if source.format in FILES:
        return tells(source)
    return source.scheduled or source.format in ("rate", "rate-micro-batch")


def from_outside(network: Network, part: Fragment, operator: str) -> list[Stream]:
    """Return the streams that reach an operator of a query from outside it."""
    return [s for s in network.inputs(operator) if s.writer not in part.operators or s.name in part.cuts]


def age(queue: Queue | None, now: float) -> float | None:
    """Return the age of the oldest row that waits (s)."""
    if queue is None:
        return None
    return 0.0 if queue[1] is None else max(0.0, now - queue[1])


def together(queues: Sequence[Queue | None]) -> Queue | None:
    """Return several queues as one."""
    known = [queue for queue in queues if queue is not None]
    if len(known) < len(queues):
        return None
    return sum(rows for rows, _ in known), min((since for _, since in known if since is not None), default=None)


def _part(queue: Queue | None, share: float) -> Queue | None:
    """Return what of a queue is for a reader that gets a share of it."""
    return None if queue is None else (queue[0] * share, queue[1])


def _ended(query: Query) -> dict[str, Document]:
    """Return the offsets up to which a query has ended its batches, by log or scheduled source."""
    ended = begun_and_ended(query.spec.checkpoint)[1]
    try:
        return own_offsets(offsets(query.spec.checkpoint, ended)) if ended >= 0 else {}
    except (FileNotFoundError, ValueError):
        return {}


def _read_upto(query: Query, source: str, batch: int | None = None) -> int:
    """Return the offset up to which a batch, the last that ended, has read files or numbers; -1 for none."""
    batch = begun_and_ended(query.spec.checkpoint)[1] if batch is None else batch
    try:
        return read_upto(query.spec.checkpoint, batch, query.inputs.index(source)) if batch >= 0 else -1
    except (FileNotFoundError, ValueError, LookupError):
        return -1
