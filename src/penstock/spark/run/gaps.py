"""Messages of the user's topics that are gone before a run that goes on has read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import attrs

from penstock.errors import EngineError
from penstock.network import Source
from penstock.spark.compile import Deployment, Query
from penstock.spark.compile.sources import asked_here, may_lose, topics_named
from penstock.spark.hop.rows import RowTopic
from penstock.spark.run.between import offsets_of
from penstock.spark.run.outside import can_ask


@attrs.frozen
class Gap:
    """Messages of a partition that are gone, and that a query has not read: from offset ``begin`` to before ``end``."""

    source: Source
    topic: str
    partition: int
    begin: int
    end: int


def gaps_of(query: Query, client: Mapping[str, str], sources: Mapping[str, Source]) -> list[Gap]:
    """Return what a query that goes on will not find in topics; ``sources`` read them, by topic."""
    found = []
    for topic, source in sources.items():
        if place := offsets_of(query, topic):
            with RowTopic(client, topic, "") as there:
                begins = there.begins()
            here = ((number, place.get(str(number), end), end) for number, end in begins.items())
            found += [Gap(source, topic, *each) for each in here if each[1] < each[2]]
    return found


def gone_from(deployment: Deployment, queries: Sequence[Query]) -> dict[str, int]:
    """Return by topic how many messages are gone that some query of a run that goes on has not read, where they may be.

    Topics that do not answer, or cannot be asked from here, are left out.
    """
    longest: dict[tuple[str, int], int] = {}
    for query in queries if deployment.kafka is not None and can_ask() else ():
        named = [deployment.network.sources.get(origin.name) for origin in query.spec.origins]
        read = [each for each in named if each is not None and each.format == "kafka" and asked_here(each)]
        sources = {topic: each for each in read if may_lose(each) for topic in topics_named(each)}
        with suppress(EngineError):
            for gap in gaps_of(query, deployment.client, sources):
                # All that is gone of a partition is its beginning.
                at = gap.topic, gap.partition
                longest[at] = max(gap.end - gap.begin, longest.get(at, 0))
    found: dict[str, int] = {}
    for (topic, _), count in longest.items():
        found[topic] = found.get(topic, 0) + count
    return found
