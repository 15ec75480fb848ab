"""What comes to the topics that queries read: asked at each look, since a batch may last long."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import EngineError
from penstock.spark.compile import Query
from penstock.spark.compile.sources import asked_here
from penstock.spark.hop.rows import RowTopic
from penstock.spark.run.arriving import Arriving
from penstock.spark.run.between import KEPT, read_upto, topics_of
from penstock.spark.run.outcome import Batch
from penstock.spark.run.system import System
from penstock.spark.shipped.checkpoint import begun_and_ended

Waiting = tuple[float, float | None]
"""Rows that wait, and when the oldest of them came (s since 1970); None: none waits."""


class Coming:
    """The topics that a system's queries read, as far as their sources name them: each is asked once a look.

    Parameters
    ----------
    system
        What is observed.

    Attributes
    ----------
    topics
        By source or operator, what its topics have had by which time.
    came
        By source or operator, the messages that came since the look before.
    silent
        The sources and operators whose topics did not answer at the last look.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._at, self._closed = 0.0, False
        self.topics: dict[str, Arriving] = {}
        self.came: dict[str, int] = {}
        self.silent: set[str] = set()

    def look(self, now: float) -> None:
        """Ask all topics; ``now`` in s since 1970."""
        before, self._at = self._at, now
        self.came, self.silent = {}, set()
        if self._closed or self._system.deployment.kafka is None:
            return
        for name in sorted({origin.name for query in self._system.queries for origin in query.spec.origins}):
            # A broker may be away; then no more is known than before.
            try:
                if (topics := self._topics(name)) is not None:
                    topics.look()
            except EngineError:
                self.silent.add(name)
        self.came = {name: topics.between(before, now) for name, topics in self.topics.items()}

    def took(self, query: Query, batches: Sequence[Batch]) -> None:
        """Learn from what a query's new batches found at the offsets of sources."""
        network, mine = self._system.deployment.network, query.fragment.operators
        for name in network.sources.keys() & self.topics.keys() & {origin.name for origin in query.spec.origins}:
            streams = [stream for stream in network.outputs(name) if stream.reader in mine and stream.share > 0]
            numbers = {number for batch in batches for number in (batch.number - 1, batch.number)} if streams else ()
            upto = {number: read_upto(query.spec.checkpoint, self.topics[name].topics, number) for number in numbers}
            for batch in batches if streams else ():
                begin, end = upto[batch.number - 1], upto[batch.number]
                if begin is not None and end is not None:
                    self.topics[name].read(batch.read(streams), end - begin)

    @property
    def entered(self) -> dict[str, int]:
        """By source, the messages that came since the look before."""
        return {name: count for name, count in self.came.items() if name in self._system.deployment.network.sources}

    @property
    def unsure(self) -> set[str]:
        """The sources of whose topics it cannot be told how many messages came since the look before."""
        return {name for name in self.entered if name in self.silent or not self.topics[name].sure}

    def waiting(self, query: Query, name: str) -> Waiting | None:
        """Return what a source or an operator's topic holds that a query has not done with; None: not known."""
        topics = self.topics.get(name)
        if topics is None or topics.at is None:
            return None
        upto = read_upto(query.spec.checkpoint, topics.topics, begun_and_ended(query.spec.checkpoint)[1])
        if upto is None:
            return None
        left = max(0.0, topics.last - upto)
        return left * topics.share, topics.reached(topics.last - left) if left else None

    def close(self) -> None:
        """Let the topics go, and ask nothing any more."""
        self._closed = True
        for topics in self.topics.values():
            topics.close()

    def _topics(self, name: str) -> Arriving | None:
        """Return the topics of an origin; None where it has none, or does not name them."""
        if name not in self.topics:
            deployment = self._system.deployment
            source = deployment.network.sources.get(name)
            if name in deployment.real_time:
                topic = deployment.row_topics(self._system.claim.run).name(name)
                topics = [RowTopic(deployment.client, topic, "")]
            elif source is not None and source.format == "kafka" and asked_here(source):
                topics = topics_of(deployment, name)
            else:
                return None
            self.topics[name] = Arriving(topics, KEPT)
        return self.topics[name]
