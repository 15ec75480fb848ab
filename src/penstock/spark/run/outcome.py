"""What came of a run, read from its folder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.load.spans import known_since, runs_of, share
from penstock.network import Network, Stream
from penstock.spark.compile import Deployment, Query
from penstock.spark.hop import START, Position
from penstock.spark.left import said
from penstock.spark.run.between import taken_from_topics
from penstock.spark.run.folder import begun, ended, epoch_of
from penstock.spark.run.held import held_back
from penstock.spark.run.history import History, had_waited, read_history
from penstock.spark.run.meter import repeated_of
from penstock.spark.run.unread import never_read, not_found
from penstock.spark.shipped.checkpoint import begun_and_ended, offsets, own_offsets
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import manifest_of, report_of
from penstock.telemetry.notes import read_note, row_by_row


@attrs.frozen(eq=False)
class Batch:
    """One micro-batch.

    ``start`` in s since 1970, ``duration`` in s, ``counts`` by stream: arrived and dropped, ``late`` by stream;
    ``known`` is False where Spark's report of it was lost, so that its duration and rows are not known; ``logged``
    holds its number in a log and the rows that left to it, by operator; ``host`` is where it was done; ``visible`` is
    when its rows could be read (s since 1970); ``speed`` holds moments of it (s since 1970) and how fast its core then
    was, in steps of a fixed loop a second; ``busy`` is the share of the time in which its host worked: in real-time
    mode batches last whether there are rows or not, and of a host elsewhere it is not known (None); ``ahead`` holds the
    rows of each topic that were there when it was planned and that it did not read; ``state`` what the operators behind
    streams kept (bytes), and how long their tasks took to commit it (s); ``early`` says whether the watermark stood at
    1970, where it begins; ``border`` that it is none, but where a query of another shape begins.
    """

    query: str
    number: int
    start: float
    duration: float
    rows: int
    counts: Mapping[str, tuple[int, int]]
    late: Mapping[str, int] = attrs.field(factory=dict)
    known: bool = True
    logged: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)
    host: str = ""
    visible: float = 0.0
    speed: Sequence[tuple[float, float]] = ()
    busy: float | None = 1.0
    ahead: Mapping[str, int] = attrs.field(factory=dict)
    state: Mapping[str, tuple[int, float]] = attrs.field(factory=dict)
    early: bool = False
    border: bool = False

    def read(self, streams: Iterable[Stream]) -> float:
        """Return the rows that it read of a source, by the streams out of that which it counted."""
        counted = (self.counts.get(s.name, (0, 0))[0] / s.share for s in streams if s.share > 0)
        return max(counted, default=0.0)

    @property
    def span(self) -> tuple[float, float] | None:
        """From when to when (s since 1970) its host worked for it, as if at a stretch; None: not known."""
        return None if self.busy is None else (self.start, self.start + self.busy * self.duration)


@attrs.frozen(eq=False)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    epoch
        When scheduled sources began, or the run did (s since 1970).
    batches
        Of all queries, by query and number; the history holds older ones.
    visible, stimulus
        By sink: when each tuple became visible, and its stimulus time (s since 1970).
    taken
        By stream that crosses a log: rows that the log held as far as its reader has come, less those that it had
        before the reader began there, and with those that came another way before.
    seconds
        How long it ran.
    refused
        Streams on which a plan wanted to drop and nothing can be dropped.
    history
        What was before those batches.
    repeated
        By sink, rows that came to its topic twice.
    weight
        By sink: how many tuples had each of these pairs of times; else one.
    down
        Hosts that died on the way, and whose operators had copies elsewhere.
    missing
        Copies that were left out since their queries failed, and why.
    gone
        By topic, how many messages were gone when the run went on, of those that it had still to read.
    skipped
        By source, how many files of its folder no query reads, since they are much older than those that were read.
    unfound
        By source, the path at which it has found no file yet, of those that have not.
    unremoved
        By operator whose topic keeps rows that all readers have passed, why a broker refuses to remove them.
    between
        By operator in real-time mode whose rows leave its query for another one, where that was asked for: when its
        topic had each row, and the row's stimulus time (s since 1970); of old rows only as far as they were kept.
    begun
        When each run of the folder began (s since 1970); empty where that is not known.
    ended
        When they ended (s since 1970), those that were not killed.
    asked
        When it was asked to end (s since 1970), where that was before its end.
    """

    epoch: float
    batches: Sequence[Batch]
    visible: Mapping[str, Array]
    stimulus: Mapping[str, Array]
    taken: Mapping[str, int]
    seconds: float
    refused: frozenset[str] = frozenset()
    history: History = attrs.field(factory=History)
    repeated: Mapping[str, int] = attrs.field(factory=dict)
    weight: Mapping[str, Array] = attrs.field(factory=dict)
    down: frozenset[str] = frozenset()
    missing: Mapping[str, str] = attrs.field(factory=dict)
    gone: Mapping[str, int] = attrs.field(factory=dict)
    skipped: Mapping[str, int] = attrs.field(factory=dict)
    unfound: Mapping[str, str] = attrs.field(factory=dict)
    unremoved: Mapping[str, str] = attrs.field(factory=dict)
    between: Mapping[str, tuple[Array, Array]] = attrs.field(factory=dict)
    begun: Sequence[float] = ()
    ended: Sequence[float] = ()
    asked: float | None = None

    def latency(self, sink: str | None = None) -> Array:
        """Return the latencies (s) of the pairs of times at a sink, or at all; without those of the history."""
        names = [sink] if sink is not None else sorted(self.visible)
        return np.concatenate([np.zeros(0), *(self.visible[name] - self.stimulus[name] for name in names)])

    @property
    def runs(self) -> list[tuple[float, float]]:
        """From when to when it ran (s since 1970): once, and once more each time that it went on after a stop."""
        # Sources that have no schedule are read while queries still start.
        first = min([self.epoch, *(batch.start for batch in self.batches if batch.rows)])
        starts = [first, *self.begun[1:]]
        return runs_of(starts, self.ended, [(batch.start, batch.start + batch.duration) for batch in self.batches])

    @property
    def since(self) -> float:
        """From when on all batches are among those here (s since 1970): when others were the history does not say."""
        first: dict[str, float] = {}
        for batch in self.batches:
            first[batch.query] = min(batch.start, first.get(batch.query, math.inf))
        return known_since(self.runs, (at for query, at in first.items() if self.history.upto.get(query, 0)))

    def busy(self, batches: Iterable[Batch]) -> float | None:
        """Return the share of the time that it ran in which a host worked, as far as known; None: not known.

        Parameters
        ----------
        batches
            Of the host; several at once count as if they were one.
        """
        return share([batch.span for batch in batches], self.runs, self.since)

    def latencies(self, sink: str | None = None) -> tuple[Array, Array]:
        """Return latencies (s) at a sink, or at all, and how many tuples had each, those of the history in classes."""
        names = [sink] if sink is not None else sorted(self.visible)
        recent = self.latency(sink)
        older = [self.history.latency(name) for name in names]
        values = np.concatenate([recent, *(row[0] for row in older)])
        return values, np.concatenate([np.zeros(0), *map(self._weight, names), *(row[1] for row in older)])

    @property
    def waited(self) -> float:
        """Share of the tuples at sinks that came to their sources before the run began in which they became visible."""
        begins, waited, count = [self.epoch, *self.begun[1:]], 0.0, 0.0
        for sink, times in self.stimulus.items():
            weight = self._weight(sink)
            waited += float(weight[had_waited(self.visible[sink], times, begins)].sum())
            count += float(weight.sum()) + self.history.delivered(sink)
        return (waited + sum(self.history.waited.values())) / max(1.0, count)

    def _weight(self, sink: str) -> Array:
        return self.weight.get(sink, np.ones(len(self.visible.get(sink, ()))))

    def streams(self, network: Network) -> dict[str, dict[str, int]]:
        """Return arrived, delivered, dropped and late tuples of every stream; late ones were delivered too."""
        found = {stream.name: [*self.history.counts.get(stream.name, (0, 0))] for stream in network.streams}
        late = {stream.name: self.history.late.get(stream.name, 0) for stream in network.streams}
        for batch in self.batches:
            # A folder's run may have had queries attached of which this network does not know.
            for name, (arrived, dropped) in batch.counts.items():
                if name in found:
                    found[name][0] += arrived
                    found[name][1] += dropped
            for name, rows in batch.late.items():
                if name in late:
                    late[name] += rows
        return {
            name: {
                "arrived": arrived,
                "delivered": arrived - dropped,
                "dropped": dropped,
                # Spark counts a row once for each window that it is too late for, and a join's of both inputs.
                "late": min(late[name], arrived - dropped),
            }
            for name, (arrived, dropped) in found.items()
        }

    def held(self, network: Network) -> dict[str, list[str]]:
        """Return, by operator whose windows hold rows, the sources without any row so far that they wait for."""
        return held_back(network, {name: row["arrived"] for name, row in self.streams(network).items()})

    @property
    def early(self) -> bool:
        """Whether rows from before 1970 came before Spark's watermark had left that: later they are late as others."""
        return any(batch.early and sum(batch.late.values()) for batch in self.batches)

    def balanced(self, network: Network) -> bool:
        """Whether nothing was lost: readers of a log found every row, sinks have what arrived at them.

        Rows that came too late for a window are delivered to it all the same, and counted.
        """
        streams = self.streams(network)
        if any(streams[name]["arrived"] != rows for name, rows in self.taken.items() if name in streams):
            return False
        return all(
            round(self._weight(sink).sum()) + self.history.delivered(sink)
            == streams[network.inputs(sink)[0].name]["delivered"]
            for sink in network.sinks
        )


Counts = Mapping[str, tuple[int, int]]
"""By stream: arrived and dropped."""


def added(counts: Iterable[Counts]) -> dict[str, tuple[int, int]]:
    """Return the sums of what arrived and was dropped, by stream."""
    found: dict[str, tuple[int, int]] = {}
    for stream, (arrived, dropped) in (each for part in counts for each in part.items()):
        before = found.get(stream, (0, 0))
        found[stream] = before[0] + arrived, before[1] + dropped
    return found


def taken_by(network: Network, operator: str, counts: Mapping[str, tuple[float, float]]) -> float:
    """Return the rows that an operator takes: what arrives at it and is not dropped."""
    return sum(a - d for a, d in (counts.get(stream.name, (0, 0)) for stream in network.inputs(operator)))


def collect(deployment: Deployment, queries: Sequence[Query], seconds: float) -> Outcome:
    """Read what a run left in its folder, also what queries left that are no more."""
    folder = deployment.place
    history = read_history(folder)
    batches = [
        read_batch(folder, unit, number)
        for unit in (folder / "batches").names()
        for number in (folder / "batches" / unit).numbers()
        if number >= history.upto.get(unit, 0)
    ]
    visible, stimulus, weight = {}, {}, {}
    for sink in deployment.network.sinks:
        place = folder / "latency" / sink
        parts = [read_note((place / name).read()) for name in place.names() if not history.holds(name)]
        visible[sink], stimulus[sink], weight[sink] = (
            np.concatenate([np.zeros(0), *(part[number] for part in parts)]) for number in range(3)
        )
    taken = _taken(deployment, queries, batches, history)
    repeated = {sink: repeated_of(folder, sink) for sink in deployment.network.sinks}
    return Outcome(
        epoch_of(folder), batches, visible, stimulus, taken, seconds, history=history, repeated=repeated, weight=weight,
        skipped=never_read(deployment.network, queries), unfound=not_found(deployment.network, queries),
        begun=begun(folder), ended=ended(folder),
    )  # fmt: skip


def read_batch(folder: Place, query: str, number: int) -> Batch:
    """Read a batch's manifest and report; a kill may have come between the two."""
    manifest = said(manifest_of(folder, query, number))
    try:
        report = said(report_of(folder, query, number))
    except FileNotFoundError:
        report = {"start": manifest["visible"], "duration": 0.0, "rows": 0, "counts": {}, "late": {}}
        known = False
    else:
        known = True
    counts = {name: (int(a), int(d)) for name, (a, d) in {**report["counts"], **manifest["counts"]}.items()}
    # In real-time mode rows pass before the batch that tells of them begins.
    start: float = manifest["since"] if "since" in manifest else report["start"]
    figures = (start, report["duration"] + (report["start"] - start), report["rows"])
    logged = {writer: (int(at), int(rows)) for writer, (at, rows) in manifest["rows"].items()}
    speed = [(float(at), float(steps)) for at, steps in manifest.get("speed", ())]
    host, visible, busy = manifest.get("host", ""), float(manifest["visible"]), manifest.get("busy", 1.0)
    ahead = report.get("ahead", {})
    state = {name: (int(size), float(spent)) for name, (size, spent) in report.get("state", {}).items()}
    early, border = not report.get("begun", True), manifest.get("border", False)
    return Batch(
        query, number, *figures, counts, report["late"], known, logged, host, visible, speed, busy, ahead, state, early,
        border,
    )  # fmt: skip


def read_latency(file: Place) -> tuple[Array, Array]:
    """Return when each row of a note became visible, and its stimulus time (s since 1970)."""
    return row_by_row(file.read())


def reached(query: Query, before: int = 0) -> dict[str, Position]:
    """Return the position in each log up to which a query has come with its last ended batch, or one before it."""
    ended = begun_and_ended(query.spec.checkpoint)[1] - before
    if ended < 0:
        return {}
    try:
        found = offsets(query.spec.checkpoint, ended)
    except FileNotFoundError:
        # Of a checkpoint that began with the batch after it.
        return {}
    return {name: offset for name, offset in own_offsets(found).items() if "log" in offset}


def _taken(
    deployment: Deployment, queries: Sequence[Query], batches: Sequence[Batch], history: History
) -> dict[str, int]:
    """Return how many rows each stream that crosses a log brought its reader, as the writer of the log counted."""
    network = deployment.network
    logged = {way.writer for query in queries for way in query.spec.logs}
    rows: dict[str, list[tuple[int, int]]] = {writer: [] for writer in logged}
    for batch in batches:
        for writer, entry in batch.logged.items():
            rows.setdefault(writer, []).append(entry)
    written = {name: history.rows.get(name, 0) for name in (*rows, *history.rows)}
    for name, entries in rows.items():
        written[name] += sum(count for _, count in entries)
    taken = taken_from_topics(deployment, queries, written)
    for query in queries:
        come = reached(query)
        for stream in network.streams:
            inside = stream.writer in query.fragment.operators and stream.name not in query.fragment.cuts
            if stream.reader not in query.fragment.operators or stream.writer not in logged or inside:
                continue
            if stream.share == 1:
                place = come.get(stream.writer, START)
                most = place.get("rows", 0)
                whole = sum(count for number, count in rows[stream.writer] if number < place["batch"])
                part = sum(min(n, most) for number, n in rows[stream.writer] if number == place["batch"])
                before = history.rows.get(stream.writer, 0) - deployment.since.get(stream.name, 0)
                taken[stream.name] = before + whole + part
    return taken
