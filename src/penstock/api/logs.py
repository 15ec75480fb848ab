"""Inspecting existing jobs and advising on them, in a notebook."""

from __future__ import annotations

import html
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import attrs

from penstock.advice import Aims, Burst, Consultation, consult, deployed
from penstock.api.spelling import generator, naming_parameters, numbers
from penstock.errors import InputError
from penstock.files import Document, suggest
from penstock.inspection import Inspection, Query, moment
from penstock.inspection import inspect as measure
from penstock.telemetry import read_telemetry
from penstock.units import factor, human, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Path = str | os.PathLike[str]
Progress = Mapping[str, object]
"""A progress report, as ``query.lastProgress`` gives it."""


class Listening(Protocol):
    """What `penstock.Listener` is to this module, so that it needs no pyspark."""

    @property
    def folder(self) -> os.PathLike[str] | None:
        """Where its events are."""

    def flush(self) -> None:
        """Write what waits."""


def table(rows: Sequence[Document], index: str | None = None) -> DataFrame:
    """Return rows as a pandas data frame, or as they are where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return [dict(row) for row in rows]
    frame = pandas.DataFrame(list(rows))
    return frame.set_index(index) if index is not None and len(frame) else frame


@naming_parameters()
def inspect(
    source: Path | Progress | Sequence[Path] | Sequence[Progress] | Listening,
    *,
    since: str | float | None = None,
    until: str | float | None = None,
) -> Inspected:
    """Measure the streaming queries that logs tell of.

    Parameters
    ----------
    source
        An event log, a folder of them, JSON lines of progress, several of these, a `penstock.Listener`, or progress
        reports such as ``query.recentProgress``.
    since, until
        Only batches that began in this time: seconds since the epoch, a time such as ``"2026-01-31T10:00"``, or a
        duration before the last batch such as ``"2 hours"``.

    Raises
    ------
    InputError
        If nothing can be read, or no batch began in this time.
    """
    with _paths(source) as paths:
        told = read_telemetry(paths)
    begin, end = (None if t is None else moment(str(t), told, "since or until") for t in (since, until))
    return Inspected(measure(told, begin, end))


@contextmanager
def _paths(source: object) -> Iterator[list[str]]:
    """Give the paths of what is to be read; progress reports lie in a file meanwhile."""
    several = [source] if isinstance(source, str | os.PathLike | Mapping) else source
    if isinstance(several, Sequence):
        if all(isinstance(each, str | os.PathLike) for each in several):
            yield [os.fspath(path) for path in several]
            return
        if all(isinstance(each, Mapping) for each in several):
            with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
                file = pathlib.Path(folder) / "progress"
                file.write_text("".join(f"{json.dumps(dict(each), default=str)}\n" for each in several))
                try:
                    yield [str(file)]
                except InputError as error:
                    error.file = None  # nobody has given it
                    raise
            return
    if not (hasattr(source, "flush") and hasattr(source, "folder")):
        expected = "expected logs, a listener or progress reports such as query.recentProgress"
        raise InputError(f"{expected}, got {type(source).__name__}", at="source")
    source.flush()
    if source.folder is None:
        raise InputError("this listener keeps no events", at="source", hint='penstock.Listener("progress")')
    yield [os.fspath(source.folder)]


def _html(title: str, body: DataFrame, notes: Sequence[str] = ()) -> str:
    shown = body._repr_html_() if hasattr(body, "_repr_html_") else f"<pre>{html.escape(str(body))}</pre>"
    lines = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<h4>{html.escape(title)}</h4>{shown}" + (f"<ul>{lines}</ul>" if lines else "")


@attrs.frozen(eq=False)
class Inspected:
    """Queries measured from their logs, as tables and pictures.

    Attributes
    ----------
    inspection
        All that was found, as values.
    """

    inspection: Inspection

    @property
    def queries(self) -> DataFrame:
        """A row a query: batches, rates, overhead, cost, trigger, headroom, lag, state (SI units)."""
        rows = []
        for name, query in self.inspection.queries.items():
            told = query.document()
            plain = {key: value for key, value in told.items() if not isinstance(value, dict | list)}
            for key in ("seconds", "rate", "lag", "state"):
                plain |= {f"{key}_{part}": value for part, value in told[key].items()}
            rows.append({"query": name, **plain})
        return table(rows, "query")

    @property
    def findings(self) -> DataFrame:
        """A row a finding, the weightiest first."""
        return table([{"kind": f.kind, "about": f.about, "says": f.says} for f in self.inspection.findings])

    @property
    def applications(self) -> DataFrame:
        """A row an application: name, version, cores, busy share."""
        told = self.inspection.document()["apps"]
        return table([{"application": name, **row} for name, row in told.items()], "application")

    def batches(self, query: str) -> DataFrame:
        """Return a row a batch of one query: start (s since the epoch), duration (s), rows, lag, state, late.

        Raises
        ------
        InputError
            If there is no such query.
        """
        found = self._query(query)
        columns = ("number", "start", "duration", "rows", "lag", "output", "state_rows", "state_bytes", "late")
        values = [getattr(found.batches, name).tolist() for name in columns]
        return table([dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)])

    def plot(self, query: str | None = None, *, kind: str = "load") -> Figure:
        """Draw one query over time, or all queries.

        Parameters
        ----------
        query
            Its rate, batches, lag and state over time.
        kind
            Without a query: ``"load"`` (queries and time, the load as colour) or ``"correlation"`` (which queries peak
            together).

        Raises
        ------
        InputError
            If there is no such query, or no such kind.
        """
        from penstock.advice.pictures import heat_map, load_matrix, timeline

        if query is not None:
            return timeline(self._query(query))
        kinds = {"load": heat_map, "correlation": load_matrix}
        if kind not in kinds:
            raise InputError(f"expected load or correlation, got {kind!r}", at="plot", hint="or name a query")
        return kinds[kind](deployed(self.inspection))

    @naming_parameters()
    def advise(
        self,
        *,
        latency: str | float | None = None,
        weights: Mapping[str, float] | None = None,
        cores: Mapping[str, float] | None = None,
        burst: Burst | float | str = 1.0,
        forecast: str | None = None,
        seed: int = 0,
    ) -> Advised:
        """Return what to change, the best first; as ``penstock advise``.

        Parameters
        ----------
        latency
            Bound of the worst latency (s, or a duration); None: as little as possible.
        weights
            Worth of a second of latency, by query.
        cores
            Of drivers whose logs do not tell them, by application.
        burst
            So many times the mean rates for 60 s, as a number or ``"3x"``, or a `penstock.advice.Burst`.
        forecast
            How far to forecast the rates, such as ``"1d"``.

        Raises
        ------
        InputError
            If an argument is wrong, or the history too short for the forecast.
        """
        found = consult(
            deployed(self.inspection, numbers(weights or {}, "weights"), numbers(cores or {}, "cores")),
            Aims(latency=None if latency is None else seconds(latency)),
            burst if isinstance(burst, Burst) else Burst(factor=factor(burst)),
            generator(seed),
            None if forecast is None else seconds(forecast),
        )
        return Advised(found)

    def _query(self, name: str) -> Query:
        known = self.inspection.queries
        if name not in known:
            raise InputError(f"{name!r} is no query of these logs", hint=suggest(str(name), known, "queries"))
        return known[name]

    def __repr__(self) -> str:
        names = ", ".join(self.inspection.queries)
        return f"<{len(self.inspection.queries)} queries: {names}; {len(self.inspection.findings)} findings>"

    def _repr_html_(self) -> str:
        count = len(self.inspection.queries)
        notes = [f"{f.kind}: {f.about}: {f.says}" for f in self.inspection.findings[:20]]
        return _html("one query" if count == 1 else f"{count} queries", self.queries, notes)


@attrs.frozen(eq=False)
class Advised:
    """Advice on existing jobs, as a table and pictures.

    Attributes
    ----------
    consultation
        All of it, as values.
    """

    consultation: Consultation

    @property
    def table(self) -> DataFrame:
        """A row an advice, the best first; latencies are the middle of their intervals (s)."""
        return table(
            [
                {
                    "kind": a.proposal.kind,
                    "query": a.proposal.query,
                    "setting": a.proposal.setting,
                    "from": a.proposal.old,
                    "to": a.proposal.new,
                    "also": dict(a.proposal.also),
                    "worst_before": a.before.worst[1],
                    "worst_after": a.after.worst[1],
                    "why": a.proposal.why,
                }
                for a in self.consultation.report.advice
            ]
        )

    def document(self) -> Document:
        """Return what ``penstock advise --json`` prints."""
        return self.consultation.document()

    def plot(self, number: int = 1) -> Figure:
        """Draw latency over time before and after one advice; the best is number 1.

        Raises
        ------
        InputError
            If there is no such advice.
        """
        from penstock.advice.pictures import before_after

        report = self.consultation.report
        if not 1 <= number <= len(report.advice):
            raise InputError(f"expected an advice from 1 to {len(report.advice)}, got {number}", at="plot")
        return before_after(report, report.advice[number - 1])

    def __len__(self) -> int:
        return len(self.consultation.report.advice)

    def __repr__(self) -> str:
        lines = [
            f"{a.proposal.kind} {a.proposal.query}: {a.proposal.setting} {a.proposal.old} -> {a.proposal.new}, "
            + "".join(f"{name} -> {value}, " for name, value in a.proposal.also.items())
            + f"worst {human(a.before.worst[1])} -> {human(a.after.worst[1])}"
            for a in self.consultation.report.advice
        ]
        return "\n".join(lines) or self.consultation.report.none

    def _repr_html_(self) -> str:
        return _html("advice, the best first", self.table, self.consultation.report.notes)
