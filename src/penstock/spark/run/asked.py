"""What comes to the topics that queries in micro-batches read: asked at each look, since a batch may last long."""

from __future__ import annotations

import contextlib

from penstock.errors import EngineError
from penstock.spark.compile import PromptQuery, Query
from penstock.spark.hop.rows import RowTopic
from penstock.spark.run.arriving import Arriving
from penstock.spark.run.between import KEPT, offsets_of, topics_of
from penstock.spark.run.system import System

Waiting = tuple[float, float | None]
"""Rows that wait, and when the oldest of them came (s since 1970); None: none waits."""


class Asked:
    """The topics of a system's queries in micro-batches, as far as their sources name them.

    Parameters
    ----------
    system
        What is observed.

    Attributes
    ----------
    entered
        By source, the messages that came since the look before.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._come: dict[str, Arriving] = {}
        self._at, self._closed = 0.0, False
        self.entered: dict[str, int] = {}

    def look(self, now: float) -> None:
        """Ask all topics; ``now`` in s since 1970."""
        before, self._at = self._at, now
        self.entered = {}
        if self._closed or self._system.deployment.kafka is None:
            return
        queries = [query for query in self._system.queries if not isinstance(query, PromptQuery)]
        for name in sorted({origin.name for query in queries for origin in query.spec.origins}):
            # A broker may be away; then no more is known than before.
            with contextlib.suppress(EngineError):
                if (come := self._arriving(name)) is not None:
                    come.look()
        sources = self._system.deployment.network.sources
        self.entered = {name: come.between(before, now) for name, come in self._come.items() if name in sources}

    def waiting(self, query: Query, name: str) -> Waiting | None:
        """Return what a source or an operator's topic holds that a query has not done with; None: not known."""
        come = self._come.get(name)
        read = [] if come is None else [offsets_of(query, topic.topic) for topic in come.topics]
        if come is None or come.at is None or not all(read):
            return None
        rows = max(0.0, come.last - sum(sum(each.values()) for each in read))
        return rows, come.reached(come.last - rows) if rows else None

    def close(self) -> None:
        """Let the topics go, and ask nothing any more."""
        self._closed = True
        for come in self._come.values():
            come.close()

    def _arriving(self, name: str) -> Arriving | None:
        """Return the topics of an origin; None where it has none, or does not name them."""
        if name not in self._come:
            deployment = self._system.deployment
            source = deployment.network.sources.get(name)
            if name in deployment.real_time:
                topic = deployment.row_topics(self._system.claim.run).name(name)
                topics = [RowTopic(deployment.client, topic, "")]
            elif source is not None and source.format == "kafka" and "subscribe" in source.options:
                topics = topics_of(deployment, name)
            else:
                return None
            self._come[name] = Arriving(topics, KEPT)
        return self._come[name]
