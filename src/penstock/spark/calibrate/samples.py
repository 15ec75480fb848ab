"""Sample rows of every source, to calibrate with."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import attrs
import pyspark.sql.functions as F
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import InputError
from penstock.network import Network, Source
from penstock.spark.compile.blame import blame
from penstock.spark.compile.sources import read_source, whole
from penstock.spark.run import scheduled_rates
from penstock.spark.shipped.deliver import FILES
from penstock.spark.shipped.nexmark import ROWS
from penstock.spark.shipped.place import place_of
from penstock.workload import nexmark

ENDINGS = (".json", ".csv", ".parquet", ".orc", ".txt")
COMPRESSED = ("", ".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst")
"""What Spark tells by a name's end of a file that it has to unpack."""

LONGEST = 50_000
"""Rows of a source's own that are a sample."""

FIRST = 8
"""Files that they come from: consecutive ones, so that rows meet in windows and joins as they will in a run."""


def check_samples(network: Network, path: str | os.PathLike[str] | None) -> dict[str, Path]:
    """Return where the samples of sources are, of those that have some there; see `read_samples`.

    Raises
    ------
    InputError
        If a source has none, there or of its own.
    """
    plain = [name for name, source in network.sources.items() if not source.scheduled]
    if path is not None:
        return {name: _sample_of(Path(path), name, len(network.sources)) for name in plain}
    for name in plain:
        form = network.sources[name].format
        if form not in (*FILES, "kafka"):
            hint = "name a file or folder of rows"
            raise InputError(f"source {name!r} ({form}) has no rows before it runs", at="--sample", hint=hint)
    return {}


def read_samples(
    session: SparkSession,
    network: Network,
    path: str | os.PathLike[str] | None,
    events: int = 20_000,
    kafka: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Return sample rows of every source, with envelope.

    Parameters
    ----------
    path
        A folder with a file or folder per source (``clicks.json``, ``clicks/``), or one file if there is one source.
        None: the first rows that their folders and topics hold. Sources that make their own events need neither.
    events
        How many events of a Nexmark source.
    kafka
        Spark's options for the cluster's Kafka.
    """
    places = check_samples(network, path)
    found: dict[str, DataFrame] = {}
    own: dict[str, bool] = {}
    for name, source in network.sources.items():
        at = f"sources.{name}"
        if source.scheduled:
            found[name] = _events(session, source, events)
            continue
        if name not in places:
            with blame(at):
                found[name], own[name] = _own(session, source, kafka or {})
            continue
        place = places[name]
        form = source.format if source.format in FILES else _format_of(place)
        options = {**(source.options if source.format == form else {}), "path": place_of(str(place)).pattern}
        if form == "csv" and source.format != "csv":
            options.setdefault("header", "true")
            # Else Spark takes columns by their place, whatever the header calls them.
            options.setdefault("enforceSchema", "false")
        if form in ("csv", "json"):
            # Else a file that is no such thing would be a sample of empty rows.
            options.setdefault("mode", "FAILFAST")
        with blame(at):
            found[name] = read_source(session, attrs.evolve(source, format=form, options=options), {}, batch=True)
    return {**found, **_as_long({name: found[name] for name in own}, own)}


def _as_long(samples: Mapping[str, DataFrame], more: Mapping[str, bool]) -> Mapping[str, DataFrame]:
    """Return sources' own first rows up to the same event time: rows that meet have to be there on both sides.

    Samples that may have been cut off, since their source has ``more`` files or they are as long as can be, end before
    the source does. The first of them to end is where all do, except those of which nothing would be left.
    """
    if len(samples) < 2:
        return samples
    time, spans = F.unix_micros("__time"), {}
    for name, frame in samples.items():
        with blame(f"sources.{name}"):
            spans[name] = frame.agg(F.count("*"), F.min(time), F.max(time)).collect()[0]
    ends = [last for name, (rows, _, last) in spans.items() if last is not None and (more[name] or rows >= LONGEST)]
    if not ends:
        return samples
    end = min(ends)
    return {
        name: frame if first is None or first > end else frame.filter((time <= end) | time.isNull())
        for (name, frame), (_, first, _) in zip(samples.items(), spans.values(), strict=True)
    }


def _own(session: SparkSession, source: Source, kafka: Mapping[str, str]) -> tuple[DataFrame, bool]:
    """Return the first rows that a source's folder or topics hold, and whether a folder has more files."""
    rows = read_source(session, whole(source), kafka, batch=True)
    if source.format in FILES:
        files = sorted(rows.inputFiles())
        # By this filter Spark opens no other files.
        rows = rows.filter(F.col("_metadata.file_name").isin([file.rpartition("/")[2] for file in files[:FIRST]]))
        return rows.limit(LONGEST), len(files) > FIRST
    return rows.limit(LONGEST), False


def lengthened(
    session: SparkSession, network: Network, samples: Mapping[str, DataFrame], seconds: float
) -> dict[str, DataFrame]:
    """Return the samples, those of sources that make their own events so long that they cover some seconds."""
    return {
        name: _events(session, network.sources[name], 0, seconds) if network.sources[name].scheduled else frame
        for name, frame in samples.items()
    }


def _events(session: SparkSession, source: Source, events: int, seconds: float = 0.0) -> DataFrame:
    """Return events of a Nexmark source at its mean rate: so many, and for so long, at least."""
    try:
        schedule = nexmark.Schedule.of(scheduled_rates(source).of_source(source.name), 1.0)
    except InputError:
        schedule = nexmark.Schedule.of([1000.0], 1.0)
    rate = max(1.0, float(schedule.rates.mean()))
    events = max(events, math.ceil(rate * seconds) + 1)
    stream = nexmark.Nexmark(nexmark.Schedule.of([rate] * math.ceil(events / rate + 1), 1.0))
    rows = [(*row, row[0], row[0], row[3]) for row in stream.rows(0, events)]
    return session.createDataFrame(rows, ROWS)


def _sample_of(path: Path, name: str, sources: int) -> Path:
    if not path.exists():
        raise InputError("no such file or folder", file=path, hint="check --sample")
    if path.is_dir():
        for candidate in [path / name, *(path / f"{name}{end}{packed}" for packed in COMPRESSED for end in ENDINGS)]:
            if candidate.exists():
                return candidate
        if sources == 1:
            return path
        raise InputError(f"has no sample of source {name!r}", file=path, hint=f"expected {name}.json or {name}/")
    if sources > 1:
        raise InputError("expected a folder, since the network has several sources", file=path)
    return path


def _format_of(path: Path) -> str:
    names = [path.name] if path.is_file() else sorted(os.listdir(path))
    for name in names:
        for ending in ENDINGS:
            if ending in name:
                return {".txt": "text"}.get(ending, ending[1:])
    raise InputError("expected json, csv, parquet, orc or txt files", file=path)
