"""Topics between queries of which the writer is in real-time mode: counted, cleaned, and the slots that they take."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.arrays import Array
from penstock.errors import InputError
from penstock.spark.compile import Deployment, PromptQuery, Query
from penstock.spark.compile.graph import Graph
from penstock.spark.compile.sources import topics_named
from penstock.spark.hop.rows import RowTopic
from penstock.spark.left import claimed
from penstock.spark.shipped.checkpoint import begun_and_ended, offsets, topic_offsets
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import WriterSpec
from penstock.spark.shipped.told import manifest_of

KEPT = 600.0
"""How long (s) rows between queries stay, at least, where a query may ask what it has written."""

SLACK = 60_000
"""How far (ms) the clocks of hosts and brokers may be apart."""

MOST = 1_000_000
"""Rows of a topic that are looked at to learn from them, at most."""


def taken_from_topics(deployment: Deployment, queries: Sequence[Query], written: Mapping[str, int]) -> dict[str, int]:
    """Return how many rows each stream out of a query in real-time mode brought its reader.

    Of what the operators have ``written``, as their queries counted, less what is left in the topics.
    """
    ways = [way for query in queries if isinstance(query, PromptQuery) for way in query.messages.ways if not way.sink]
    taken: dict[str, int] = {}
    kafka = deployment.kafka
    if kafka is None:
        return taken
    for way in ways:
        with RowTopic(kafka.native, way.topic, way.label) as topic:
            end = sum(topic.ends().values())
        for query in queries:
            if way.name in query.reads:
                left = end - sum(offsets_of(query, way.topic).values())
                for stream in deployment.network.outputs(way.name):
                    if stream.reader in query.fragment.operators and stream.share == 1:
                        taken[stream.name] = written.get(way.name, 0) - left
    return taken


def rows_between(deployment: Deployment, queries: Sequence[Query]) -> dict[str, tuple[Array, Array]]:
    """Return by operator when the topic behind its query had each row, and the rows' stimulus times (s since 1970).

    Those of the last `KEPT` seconds or more, the latest `MOST`.
    """
    found = {}
    for way in (way for query in queries if isinstance(query, PromptQuery) for way in query.messages.ways):
        if not way.sink:
            with RowTopic(deployment.client, way.topic, way.label) as topic:
                ends = topic.ends()
                begin = {number: max(at, ends[number] - MOST // len(ends)) for number, at in topic.begins().items()}
                rows = [(row.visible / 1e3, row.stimulus / 1e6) for row in topic.rows(begin, ends)]
            visible, stimulus = np.array(rows, float).reshape(-1, 2).T
            found[way.name] = visible, stimulus
    return found


def noted(query: Query) -> int:
    """Return the last ended batch that a query in real-time mode does not do again: its counts are known, or lost.

    A query that went on without penstock may have ended more batches than Spark keeps the offsets of: it goes on from
    the oldest, for which Spark asks for the one before as well.
    """
    checkpoint = query.spec.checkpoint
    ended, there = begun_and_ended(checkpoint)[1], {*(checkpoint / "offsets").numbers()}
    while ended >= 0 and not manifest_of(query.spec.folder, query.name, ended).exists():
        if ended > 1 and ended - 2 not in there:
            break
        ended -= 1
    return ended


def begun(spec: WriterSpec, ended: int) -> int:
    """Return since when (ms since 1970) topics may have rows of a query that came after a batch of it."""
    if ended >= 0:
        found = int(offsets(spec.checkpoint, ended)[0]["batchTimestampMs"])
    else:
        found = int(1000 * (claimed(spec.folder.path) or {}).get("made", 0.0))
    return max(0, found - SLACK)


def clean_topics(deployment: Deployment, queries: Sequence[Query]) -> None:
    """Remove the rows between queries that all readers have done with, and that no writer will ask for any more."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient

    if deployment.kafka is None:
        return
    ends: list[TopicPartition] = []
    for writer, way in ((each, way) for each in queries if isinstance(each, PromptQuery) for way in each.messages.ways):
        readers = [offsets_of(query, way.topic, before=1) for query in queries if way.name in query.reads]
        if way.sink or not readers:
            continue
        with RowTopic(deployment.kafka.native, way.topic, way.label) as topic:
            # One that goes on asks what has come since its last batch that counts, however long ago that was.
            old = topic.since(min(int(1000 * (time.time() - KEPT)), begun(writer.spec, noted(writer))))
        for partition, offset in old.items():
            passed = min(offset, *(reader.get(str(partition), 0) for reader in readers))
            if passed:
                ends.append(TopicPartition(way.topic, partition, passed))
    if ends:
        admin = AdminClient({"log_level": "0", **deployment.kafka.native})
        for future in admin.delete_records(ends).values():
            # What is left now goes next time.
            with contextlib.suppress(KafkaException):
                future.result(KEPT)


def offsets_of(query: Query, topic: str, before: int = 0) -> Mapping[str, int]:
    """Return up to where a query has done with each partition of a topic, by its last ended batch or one before it."""
    return _offsets_at(query.spec.checkpoint, topic, begun_and_ended(query.spec.checkpoint)[1] - before)


def _offsets_at(checkpoint: Place, topic: str, batch: int) -> Mapping[str, int]:
    """Return up to where a batch of a query has read each partition of a topic; none if it is not known any more."""
    try:
        lines = offsets(checkpoint, batch) if batch >= 0 else []
    except FileNotFoundError:
        return {}
    # A query may read a topic in several places.
    found = topic_offsets(lines, topic)
    return {number: min(each.get(number, 0) for each in found) for number in (found[0] if found else ())}


def read_upto(checkpoint: Place, topics: Sequence[RowTopic], batch: int) -> int | None:
    """Return the offset up to which a batch of a query has read topics, summed; None: it is not known any more."""
    read = [_offsets_at(checkpoint, each.topic, batch) for each in topics]
    return sum(sum(each.values()) for each in read) if all(read) else None


def check_slots(deployment: Deployment, slots: Mapping[str, int]) -> None:
    """Refuse hosts that cannot do all at once: a query in real-time mode holds a slot for each partition that it reads,
    and for each place in its plan that reads it.

    Parameters
    ----------
    slots
        Of the hosts in question.

    Raises
    ------
    InputError
        Naming the host, what it has and what it needs.
    """
    if deployment.kafka is None or not deployment.real_time:
        return
    for name, there in slots.items():
        mine = [part for part in deployment.fragments if part.host == name]
        scans = [Graph(deployment.network, part).scans for part in mine if deployment.prompt(part)]
        places = sum(scans, Counter[str]())
        needed = sum(count * _partitions(deployment, origin[1:]) for origin, count in places.items())
        needed += len(scans) < len(mine)
        if needed > there:
            raise InputError(
                f"has {there} slots, and its queries in real-time mode hold {needed} of them all the time",
                at=f"hosts.{name}",
                hint="place fewer operators there, or start it with more slots",
            )


def _partitions(deployment: Deployment, name: str) -> int:
    """Return how many partitions the topics of a source or operator have."""
    if deployment.kafka is None or name in deployment.network.operators:
        return deployment.partitions
    found = 0
    for each in topics_of(deployment, name):
        with each as topic:
            found += topic.partitions
    return found


def topics_of(deployment: Deployment, name: str) -> list[RowTopic]:
    """Return the topics of a source that names them, open."""
    return [RowTopic(deployment.client, topic, "") for topic in topics_named(deployment.network.sources[name])]
