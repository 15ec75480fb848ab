"""One query in real-time mode under way.

It has no writer of ours: what it counts is in Spark's reports, at each of its checkpoints, and what it has left is in
its topics. When it begins or goes on, the topics are asked what they hold, and it writes the rest. When a run ends, a
last ordinary batch goes over what Spark has not reported yet: it counts, and writes nothing twice.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.errors import EngineError, InputError, PenstockError
from penstock.spark.compile import LEFT, PromptQuery
from penstock.spark.compile.sources import may_lose
from penstock.spark.hop.rows import Held, RowTopic, held
from penstock.spark.hosts.embedded import EmbeddedHost
from penstock.spark.left import said
from penstock.spark.run.between import begun, noted
from penstock.spark.run.gaps import gaps_of
from penstock.spark.run.reports import launch, short
from penstock.spark.run.runner import Runner
from penstock.spark.run.units import Unit
from penstock.spark.run.usage import Usage
from penstock.spark.shipped.checkpoint import begun_and_ended, clear_unnoted, forget_batch, offsets
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.progress import save
from penstock.spark.shipped.told import manifest_of, report_of
from penstock.spark.silent import Ask, waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from penstock.spark.hosts.base import SparkHost

PATIENCE = 120.0
"""How long (s) a query that ends may go over what Spark has not reported."""

AWAY = 0.3
"""How long (s) a message may be on its way after its query has ended."""

STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
"""Spark's settings of the kind of checkpoint that real-time mode takes; a checkpoint stays what it began as."""

SETTING = threading.Lock()
"""Held while a session has other settings than usual."""

REFUSED = "STREAMING_REAL_TIME_MODE"
"""What Spark calls its refusals of real-time mode."""


class PromptRunner(Runner):
    """A query in real-time mode.

    Parameters
    ----------
    unit, query
        What runs.
    client
        Settings of librdkafka, to ask what the topics hold.
    host
        Where it runs.
    checkpoint
        How often (s) Spark notes how far it has come; between two such moments each row passes by itself.
    """

    query: PromptQuery

    def __init__(
        self, unit: Unit, query: PromptQuery, client: Mapping[str, str], host: SparkHost, checkpoint: float
    ) -> None:
        super().__init__(unit, query)
        self.client, self.host, self.checkpoint = client, host, checkpoint
        self._usage = Usage({host.name: host})
        self._busy()
        self._since = time.time()
        self._then: float | None = None
        self._over = -1

    def launch(self, interval: float | None = None) -> None:
        """Start the query; None: over what there is now, in an ordinary batch.

        Raises
        ------
        InputError
            If messages that it was to read are gone, and its source does not say that they may be.
        """
        if interval is not None and self._gone():
            # Spark itself passes over what is gone in ordinary batches only. However long that takes, what it has
            # done counts once it has ended.
            self._then, interval = interval, None
        messages, spec = self.query.messages, self.query.spec
        frame = messages.missing(self.there())
        writer = frame.writeStream.format("kafka").options(**messages.options)
        writer = writer.option("checkpointLocation", spec.checkpoint.uri).outputMode("update").queryName(self.name)
        # Spark's own types know nothing of real time yet.
        every = f"{self.checkpoint:g} seconds"
        if interval is not None:
            self._since = time.time()
            self.handle = launch(writer.trigger(realTime=every))  # type: ignore[call-overload]
            return
        # A checkpoint that begins with an ordinary batch is to be one from which real-time mode can go on.
        with _taking(self.query.frame.sparkSession):
            self.handle = launch(writer.trigger(availableNow=True))

    def _gone(self) -> bool:
        """Whether messages are gone from topics that the query was to read, where they may be."""
        found = gaps_of(self.query, self.client, self.query.messages.outside)
        for gap in found:
            if not may_lose(gap.source):
                raise InputError(
                    f"messages {gap.begin} to {gap.end - 1} of partition {gap.partition} of the topic {gap.topic!r} "
                    "are gone, and were not read",
                    at=f"sources.{gap.source.name}.options.failOnDataLoss",
                    hint='set it to "false" to go on without them',
                )
        return bool(found)

    def there(self) -> list[dict[int, Held]]:
        """Return what the topic of each way holds of the rows that the query would write again."""
        spec = self.query.spec
        since, found = begun(spec, begun_and_ended(spec.checkpoint)[1]), []
        for way in self.query.messages.ways:
            with RowTopic(self.client, way.topic, way.label) as topic:
                # Rows of a lane are in one partition, unless it is the user's topic, with the user's keys.
                rows, partitions = topic.rows(topic.since(since)), topic.partitions if way.sink else 1
                found.append(held(rows, partitions, exactly=_unsure(spec.folder, spec.query).exists()))
        return found

    def ready(self, before: int) -> bool:
        """Whether rows pass; once the ordinary batch over a gap has ended, the query starts in real-time mode."""
        if self._then is not None:
            if not self.under_way.isActive and self.failed() is None:
                self.end(self.host)
                interval, self._then, self._over = self._then, None, self.marks[1]
                self.launch(interval)
            return False
        status = self.under_way.status
        return self.marks[1] > max(before, self._over) or str(status["message"]).startswith("Processing new data")

    def look(self, ask: Ask = waiting) -> None:
        """Keep what Spark reports of its batches."""
        spec, ended, handle = self.query.spec, self.marks[1], self.handle
        if ended < 0 or manifest_of(spec.folder, self.name, ended).exists() or handle is None:
            return
        last = ask(lambda: handle.lastProgress)
        if last is None or last.batchId < ended:
            return
        alone = ended == 0 or manifest_of(spec.folder, self.name, ended - 1).exists()
        for progress in [last] if alone and last.batchId == ended else ask(lambda: handle.recentProgress):
            number = progress.batchId
            if number <= ended and not manifest_of(spec.folder, self.name, number).exists() and save(progress, spec):
                self._since = publish(self.query, number, self._busy(), self._since)

    def _busy(self) -> float | None:
        """Return the share of a core that the host has used since the last call, at most 1; None: not known."""
        share = self._usage.look(time.monotonic(), [self.host.name])[self.host.name]
        return None if share is None else min(1.0, share)

    def check(self) -> None:
        """Raise the error that the query ended with, if it did."""
        with contextlib.suppress(PySparkException):
            error = self.under_way.exception()
            if error is not None and REFUSED in str(error):
                raise InputError(
                    f"Spark refuses to run it in real-time mode: {short(error)}",
                    at=f"query {self.name!r}",
                    hint="write it without that, or set mode = 'micro-batch'",
                )
        super().check()

    def end(self, host: SparkHost, patience: float = 30.0) -> bool:
        """Stop the query; what Spark has not reported is done again when it goes on, and nothing is written twice."""
        with contextlib.suppress(Exception):
            if self.handle is not None and host.alive():
                self.handle.stop()
                self.look()
                # What its producers still had is on its way.
                time.sleep(AWAY)
        return True

    def failed(self) -> str | None:
        """Return what the query ended with, if it did; its topics may then lack rows that are not the last ones."""
        error = super().failed()
        if error is not None:
            _unsure(self.query.spec.folder, self.name).replace(b"")
        return error

    def finish(self, host: SparkHost) -> None:
        """Go over what Spark has not reported, in an ordinary batch.

        Raises
        ------
        EngineError
            If the query or that batch has failed, or takes too long.
        """
        if self.handle is None or not host.alive():
            return
        super().check()
        # It may have ended a batch as it was stopped, and told nobody what that counted.
        recount_prompt(self.query)
        # What it was reading over a gap may be long: it goes on with that next time.
        if self._then is None:
            self._go_over(host)

    def _go_over(self, host: SparkHost) -> None:
        """Read what there is in an ordinary batch.

        Raises
        ------
        EngineError
            If it fails or takes too long.
        """
        self.launch()
        deadline = time.monotonic() + PATIENCE
        while (late := self.under_way.isActive) and time.monotonic() < deadline:
            time.sleep(0.05)
        error = "it lasts too long; run the same command again to go on" if late else self.failed()
        self.end(host)
        if error is not None:
            raise EngineError(f"the last batch of query {self.name!r} was not finished: {error}")


def _unsure(folder: Place, query: str) -> Place:
    """Return the file that says that a query has failed once: what it sent last does not tell what it sent before."""
    return folder / "unsure" / query


@contextlib.contextmanager
def _taking(session: SparkSession) -> Iterator[None]:
    """Let queries that a session starts make checkpoints as real-time mode takes them."""
    with SETTING:
        try:
            for key, value in STORE.items():
                session.conf.set(key, value)
            yield
        finally:
            # Real-time mode refuses sessions that say otherwise, even that it is as usual.
            for key in STORE:
                session.conf.unset(key)


def publish(query: PromptQuery, number: int, busy: float | None = None, since: float | None = None) -> float:
    """Write the manifest of a batch: readers of a run's folder know batches by it, also those whose report is lost.

    Parameters
    ----------
    busy
        Share of its time that its host worked; None: not known.
    since
        When the batch before ended, or the query began (s since 1970): the rows that the last, ordinary batch goes over
        passed from then on. None: when the batch itself began.

    Returns
    -------
    float
        When it ended (s since 1970).
    """
    spec = query.spec
    try:
        report = said(report_of(spec.folder, query.name, number))
    except FileNotFoundError:
        start = offsets(spec.checkpoint, number)[0]["batchTimestampMs"] / 1000
        report = {"start": start, "duration": 0.0, "counts": {}}
    end = report["start"] + report["duration"]
    content = {
        "batch": number,
        "host": spec.host,
        "frontiers": {},
        "latest": None,
        "rows": {name[1:]: [number, count] for name, (count, _) in report["counts"].items() if name[0] == LEFT},
        "counts": {},
        "busy": busy,
        "since": report["start"] if since is None else min(since, report["start"]),
        "visible": end,
    }
    manifest_of(spec.folder, query.name, number).publish(json.dumps(content).encode())
    return float(end)


def recount_prompt(query: PromptQuery, told: Sequence[StreamingQueryProgress] = ()) -> None:
    """Let Spark do again what it has not told the counts of: the topics say what is there already.

    Parameters
    ----------
    told
        What it has reported and nobody has kept.
    """
    spec = query.spec
    ended = begun_and_ended(spec.checkpoint)[1]
    for progress in told:
        if progress.batchId <= ended and not manifest_of(spec.folder, query.name, progress.batchId).exists():
            save(progress, spec)
    for number in (spec.folder / "progress" / query.name).numbers():
        if not manifest_of(spec.folder, query.name, number).exists():
            publish(query, number)
    last = noted(query)
    for number in range(ended, last, -1):
        forget_batch(spec.checkpoint, number)
    if last >= 0 and not manifest_of(spec.folder, query.name, last).exists():
        publish(query, last)
    # In real-time mode a batch is noted once it has ended, beside its commit.
    clear_unnoted(spec.checkpoint)


def end_left(
    hosts: Mapping[str, SparkHost], sessions: Mapping[str, str], names: Collection[str]
) -> dict[str, Sequence[StreamingQueryProgress]]:
    """End queries that a penstock that was killed has left running on hosts that outlived it.

    Parameters
    ----------
    sessions
        Its sessions by host.
    names
        Of the units.

    Returns
    -------
    dict
        By unit, what Spark reported of its last batches.
    """
    told: dict[str, Sequence[StreamingQueryProgress]] = {}
    for name, session in sessions.items():
        if name in hosts and not isinstance(hosts[name], EmbeddedHost):
            # A session that is gone has none.
            with contextlib.suppress(PenstockError, PySparkException):
                for query in hosts[name].session(session).streams.active:
                    if query.name in names:
                        told[query.name] = query.recentProgress
                        query.stop()
    return told
