"""Units in another shape: queries that end at the border of a batch, and others that go on from where they were.

Spark ties a checkpoint to a plan. So a query whose plan has changed gets a checkpoint that is written here: the offsets
of every place where the plan reads something, taken from the queries that read it before, the lists of files that
these had seen, and the state where there is some. It begins with a border, a batch that was none; behind it the query
goes on in the same logs, with the frontiers that had been reached.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from penstock.errors import EngineError
from penstock.spark.compile import RECALLED, Query
from penstock.spark.hop.logs import log_of
from penstock.spark.left import said
from penstock.spark.run.history import last_counted
from penstock.spark.run.reports import marks
from penstock.spark.run.units import Unit
from penstock.spark.shipped.checkpoint import border
from penstock.spark.shipped.gate import Fenced
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.settle import intent_of
from penstock.spark.shipped.told import error_of, manifest_of, report_of
from penstock.spark.shipped.turn import KNOBS, decided_last
from penstock.spark.shipped.writer import frontier_of, known

if TYPE_CHECKING:
    from penstock.files import Document


@attrs.frozen(eq=False)
class Border:
    """Where a query has stopped.

    Attributes
    ----------
    query
        The query.
    batch
        Its last batch.
    head
        Spark's notes on that batch, as JSON.
    lines
        The offset of each source, log or `RECALLED` that it reads, as its checkpoint has it.
    seen
        Where its checkpoint keeps the list of files of each source that is files.
    frontiers
        How far event time had come, by what it reads; as the writer knew it, and as Spark's reports had it.
    latest
        Event time of its latest row.
    """

    query: Query
    batch: int
    head: str
    lines: Mapping[str, str]
    seen: Mapping[str, Place]
    frontiers: tuple[Mapping[str, int], Mapping[str, int]]
    latest: int | None

    @classmethod
    def of(cls, query: Query) -> Border:
        """Read where a query has stopped.

        Raises
        ------
        EngineError
            If it was not at the end of a batch, its report is lost, or it has read an input up to two places.
        """
        ended = marks(query)[1]
        spec = query.spec
        if ended < 0 or _left_something(query, ended + 1):
            raise EngineError(f"{query.name!r} has not stopped at the end of a batch")
        told = report_of(spec.folder, query.name, ended)
        if spec.observed and not told.exists():
            raise EngineError(f"{query.name!r} has stopped, and what its last batch counted is not known")
        head, *offsets = (spec.checkpoint / "offsets" / str(ended)).read().decode().splitlines()[1:]
        if len(offsets) != len(query.inputs):
            raise EngineError(f"{query.name!r} reads {len(query.inputs)} inputs and its checkpoint {len(offsets)}")
        manifest = said(manifest_of(spec.folder, query.name, ended))
        report = _read(told)
        return cls(
            query,
            ended,
            head,
            _joined([{name: at} for name, at in zip(query.inputs, offsets, strict=True)], f"{query.name} has"),
            {name: spec.checkpoint / "sources" / str(number) for name, number in query.numbers.items()},
            (_own(query, manifest["frontiers"]), _own(query, report.get("frontiers", {}))),
            manifest["latest"],
        )


def go_on(query: Query, unit: Unit, before: Sequence[Border]) -> Unit:
    """Write the checkpoint with which a query of another shape goes on behind the borders of others.

    Returns
    -------
    Unit
        With its checkpoint, and the numbers of its batches in its logs. Where none of the others wrote a log, it begins
        with a batch without rows, which tells readers of the frontiers.

    Raises
    ------
    EngineError
        If it would have to go on from two positions at once, or its state has no place.
    """
    spec, folder = query.spec, query.spec.folder
    mine = next((each for each in before if each.query.name == unit.name), None)
    # What was recalled belongs to the unit that it was recalled for.
    parts = [{n: at for n, at in each.lines.items() if each is mine or n != RECALLED} for each in before]
    lines = _joined(parts, " and ".join(each.query.name for each in before) + " have")
    seen = {n: place for each in before for n, place in each.seen.items() if each is mine or n != RECALLED}
    batch = max(last_counted(folder, unit.name), *(each.batch for each in before))
    stateful = bool(spec.stateful)
    if stateful and (mine is None or mine.batch != batch or mine.query.spec.stateful != spec.stateful):
        raise EngineError(f"the state of {unit.name!r} cannot go on in another query")
    head = (mine or before[0]).head
    saved = f"{unit.name}@{batch}-{time.time_ns() // 1_000_000}"
    checkpoint = folder / "checkpoints" / saved
    border(checkpoint, batch, head, [lines.get(name) or _newest(query, name) for name in query.inputs])
    for name, number in query.numbers.items():
        if name in seen:
            seen[name].copy(checkpoint / "sources" / str(number))
    if stateful and mine is not None:
        (mine.query.spec.checkpoint / "state").copy(checkpoint / "state")
    _border_files(query, unit.name, batch, before)
    reached, latest = known(spec, batch)
    written = {way.writer for each in before for way in each.query.spec.logs}
    bases = dict(unit.bases)
    for way in spec.logs:
        if mine is None or way.writer not in {other.writer for other in mine.query.spec.logs} or mine.batch != batch:
            log = log_of(folder, spec.topics, way.writer)
            frontier = frontier_of(way, checkpoint, batch, reached)
            # Its readers would wait for a source that stands still. A log that was written goes on in its numbers if a
            # kill comes now.
            if way.writer not in written and frontier is not None:
                log.append(log.length(), [], (frontier, latest))
            bases[way.writer] = log.length() - (batch + 1)
            log.close()
    return attrs.evolve(unit, saved=saved, bases=bases)


def _newest(query: Query, name: str) -> str:
    """Return the position behind all that a log has: what came before went another way; ``-`` for other inputs."""
    if name not in query.reads:
        return "-"
    log = log_of(query.spec.folder, query.spec.topics, name)
    return json.dumps({"log": name, **log.at(log.length()), "starts": 0})


def _border_files(query: Query, unit: str, batch: int, before: Sequence[Border]) -> None:
    """Leave manifest and report of the border: they hold the frontiers, and counts if the batch was a real one.

    All that was known stays in them: after a kill it may be the query before that goes on.
    """
    spec, folder = query.spec, query.spec.folder
    told, counted = ({n: at for each in before for n, at in each.frontiers[kind].items()} for kind in (0, 1))
    # A writer that had nothing to tell of event time is told what Spark has counted.
    reached = {name: max(each[name] for each in (told, counted) if name in each) for name in {**told, **counted}}
    latest = max((each.latest for each in before if each.latest is not None), default=None)
    file = manifest_of(folder, unit, batch)
    empty = {"batch": batch, "host": spec.host, "rows": {}, "counts": {}, "visible": time.time()}
    empty["border"] = not file.exists()
    file.replace(json.dumps({**empty, **_read(file), "frontiers": reached, "latest": latest}).encode())
    file = report_of(folder, unit, batch)
    empty = {"batch": batch, "start": time.time(), "duration": 0.0, "rows": 0, "counts": {}, "late": {}}
    file.replace(json.dumps({"durations": {}, **empty, **_read(file), "frontiers": counted}).encode())
    decided = [decided_last(folder / KNOBS / each.query.name) for each in before]
    if any(each["limits"] or each["windows"] for each in decided):
        whole = {key: {k: v for each in decided for k, v in each[key].items()} for key in ("limits", "windows")}
        (folder / KNOBS / unit / f"{batch:012d}.json").replace(json.dumps(whole).encode())


def _left_something(query: Query, batch: int) -> bool:
    """Whether a batch that was not ended has left anything."""
    folder, spec = query.spec.folder, query.spec
    if any(place(folder, query.name, batch).exists() for place in (manifest_of, intent_of)):
        return True
    said = _read(error_of(folder, query.name))
    failed = said.get("batch") == batch and not said["error"].startswith(Fenced.__name__)
    if failed and any(way.format == "kafka" for way in spec.sinks):
        # A topic may have some of its messages.
        return True
    return any(log_of(folder, spec.topics, way.writer).length() > way.base + batch for way in spec.logs)


def _joined(parts: Sequence[Mapping[str, str]], whose: str) -> dict[str, str]:
    """Return the positions to which inputs have been read in several places, which must agree."""
    found: dict[str, str] = {}
    for part in parts:
        for name, value in part.items():
            if found.setdefault(name, value) != value:
                raise EngineError(f"{whose} come to different positions in {name!r}")
    return found


def _own(query: Query, frontiers: Mapping[str, int]) -> dict[str, int]:
    """Return the frontiers of what a query reads."""
    return {origin.name: frontiers[origin.name] for origin in query.spec.origins if origin.name in frontiers}


def _read(file: Place) -> Document:
    try:
        return said(file)
    except FileNotFoundError:
        return {}
