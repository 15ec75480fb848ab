"""The streams that a query reads: sources, logs of other queries, and what it knew before it was stopped."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.errors import InputError
from penstock.latency.fragments import Fragment
from penstock.network import Source
from penstock.network.nexmark import Events
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.rows import read_rows
from penstock.spark.compile.schemas import ENVELOPE_FIELDS
from penstock.spark.compile.sources import read_source
from penstock.spark.shipped.lockstep import COPY, Copy
from penstock.spark.shipped.nexmark import NexmarkSource
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.sources import LogSource
from penstock.workload import Rates, read_rates

if TYPE_CHECKING:
    from penstock.files import Document

RECALLED = "@recalled"
"""Stands for what a query knew of event time when it was stopped, among the sources and operators that it reads."""


SLOTS = "spark.sql.shuffle.partitions"
"""The setting of a session that says how many tasks its host does at a time."""


def slots_of(session: SparkSession) -> int:
    """Return how many tasks a session's host does at a time: logs have as many parts, and states."""
    return int(session.conf.get(SLOTS) or 1)


def register(session: SparkSession) -> None:
    """Make penstock's sources known to a host."""
    for source in (LogSource, NexmarkSource):
        session.dataSource.register(source)


def nexmark_options(source: Source, rates: Document, gate: str) -> dict[str, str]:
    """Return the options of a scheduled source: its rates, its seed, and the file that holds its epoch."""
    return {
        "name": source.name,
        "rates": json.dumps(rates),
        "seed": str(Events.of(source).seed),
        "lateness": str(round(source.lateness * 1e6)),
        "gate": gate,
    }


def read(
    session: SparkSession, deployment: Deployment, query: Fragment, name: str, run: str, slots: int = 1
) -> DataFrame:
    """Return the rows of a source or of an operator's log, or what is `RECALLED`, as a query reads it.

    It has a name in the session, and so is one source however often a plan refers to it. Without a name two references
    are one source only while Spark's server remembers the first, which depends on what else it was asked. A checkpoint
    numbers the sources of a plan: a query that goes on could take one source's notes for another's.

    Parameters
    ----------
    query
        It may begin in the middle of a log or schedule, and be limited in what a batch reads.
    name
        Of the source or operator, or `RECALLED`.
    run
        The run's identity.
    slots
        Tasks that read at a time.
    """
    frame = _read(session, deployment, query, name, run, slots)
    key = json.dumps([deployment.folder, query.name, name])
    view = f"penstock_{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    frame.createOrReplaceTempView(view)
    return session.table(view)


def _read(session: SparkSession, deployment: Deployment, query: Fragment, name: str, run: str, slots: int) -> DataFrame:
    if name == RECALLED:
        return _recalled(session, deployment, query.name)
    first = str(deployment.begins.get(query.name, {}).get(name, 0))
    if name in deployment.real_time:
        return read_rows(session, deployment, name, run, placed=False)
    if name in deployment.network.operators:
        shape = StructType([*deployment.schemas[name].fields, *ENVELOPE_FIELDS])
        reader = session.readStream.format("penstock-log").option("schema", shape.json())
        reader = reader.option("folder", deployment.place.uri).option("writer", name).option("begin", first)
        reader = reader.options(slots=str(slots), **_copy(deployment, query, name))
        if topics := deployment.topics(run):
            reader = reader.options(prefix=topics.prefix, partitions=str(topics.partitions))
            reader = reader.options(**{f"kafka.{key}": value for key, value in topics.client.items()})
        return reader.load()
    source = deployment.network.sources[name]
    bounds = (deployment.pace.most(name, query.host), deployment.fitting.get(name))
    most = min((bound for bound in bounds if bound is not None), default=None)
    if source.scheduled:
        options = {**deployment.schedules[name], "all": str(deployment.everything).lower(), "begin": first}
        options |= {"slots": str(slots), "most": str(most or 0), **_copy(deployment, query, name)}
        return session.readStream.format("penstock-nexmark").options(**options).load()
    return read_source(session, source, deployment.messages, most=most)


def _copy(deployment: Deployment, query: Fragment, name: str) -> dict[str, str]:
    """Return the option by which a source knows of which copy of a query it is; the first of a query's sources waits.

    Each of them has a process of its own.
    """
    if not deployment.copy:
        return {}
    first = deployment.network.inputs(query.operators[0])[0].writer
    return {COPY: Copy(deployment.place, query.name, deployment.copy, name == first).option}


def recalled_of(folder: Place, query: str) -> Place:
    """Return the place below a run's folder of what a query knew of event time when it was stopped."""
    return folder / "recalled" / query


def _recalled(session: SparkSession, deployment: Deployment, query: str) -> DataFrame:
    """Return what a query knew of its sources' event times when it was stopped (`penstock.spark.run.recall`)."""
    reader = session.readStream.format("json").schema("__origin int, at bigint")
    frame = reader.load(recalled_of(deployment.place, query).pattern)
    return frame.selectExpr("__origin", "timestamp_micros(at) AS __time")


def scheduled_rates(source: Source) -> Rates:
    """Return the rates of a Nexmark source, as its options say."""
    events, name = Events.of(source), source.name
    if events.rates is None:
        return Rates.constant({name: events.rate}, events.duration)
    rates = read_rates(events.rates)
    if name not in rates.sources:
        raise InputError(f"has no column {name!r}", file=events.rates)
    return rates
