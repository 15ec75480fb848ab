"""Queries that somebody else runs, looked at from their event logs; and plans, of which nothing was measured."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock.errors import InputError
from penstock.files import Document
from penstock.inspection import Inspection, Query, alike, export, inspect
from penstock.inspection.export import Exported, named_in
from penstock.load import load_model
from penstock.load.setting import Setting, read_setting
from penstock.monitor.board import BINS, Board, step_of
from penstock.monitor.view import Status, View, bins_for
from penstock.telemetry import read_telemetry
from penstock.telemetry.batches import Batches
from penstock.workload import Rates


class LogView(View):
    """Recorded queries: rates, batches and lag from their logs, beside what the model says of the same rates.

    Each query is one operator; each application is a host. Logs do not tell how long a row took, so that the latency
    that was predicted stands beside how long batches took.

    Parameters
    ----------
    paths
        Event logs, folders of them, or JSON lines of progress.

    Raises
    ------
    InputError
        If no query is in them.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        found = inspect(read_telemetry(paths))
        setting = setting_of_logs(found)
        network = setting.network
        begin = min(float(query.batches.start[0]) for query in found.queries.values())
        end = max(float(query.batches.end.max()) for query in found.queries.values())
        bins = bins_for(len(network.streams), BINS)
        board = Board(
            [stream.name for stream in network.streams],
            setting.cluster.hosts,
            network.sinks,
            begin=begin,
            step=step_of(end - begin, bins - 1),  # a log that begins within a bin reaches into one more
            bins=bins,
        )
        super().__init__("log", ", ".join(paths), setting, board, measured="batches took")
        self._paths = tuple(paths)
        self.begin = begin
        self.status = Status(word="recorded", since=end)
        self.findings = [
            {"kind": kind, "about": ", ".join(about), "says": says} for kind, about, says in alike(found.findings)
        ]
        self.notes += [*found.warnings, *(f"skipped {line}" for line in found.skipped)]
        names = named_in(found)
        board.slide(end)
        board.until[:] = board.start
        self._late: dict[str, int] = {}
        self._output: dict[str, int] = {}
        self._rates: dict[str, float] = {}
        """By stream, rows a second while its query was there: queries of a log need not be there all the time."""
        self._unknown: dict[str, str] = {}
        """Hosts of the queries whose sources do not tell what waits."""
        for name, query in found.queries.items():
            self._query(names, name, query)
        if self._unknown:
            hosts = ", ".join(dict.fromkeys(self._unknown.values()))
            queries = ", ".join(self._unknown)
            self.notes.append(f"The backlog of {hosts} is unknown: Spark does not report what waits for {queries}.")

    def look(self, now: float) -> bool:
        """Return that nothing is new: logs are read once.

        Raises
        ------
        InputError
            If one of them is gone: what is shown can then be read no more.
        """
        for path in map(Path, self._paths):
            if not path.exists():
                raise InputError("no such file or folder", file=path)
        return False

    def _query(self, names: Exported, name: str, query: Query) -> None:
        board, batches, operator = self.board, query.batches, names.operators[name]
        sink = next(each.name for each in self.network.sinks.values() if each.input == operator)
        out = f"{operator}->{sink}"
        start, end = batches.start, batches.end
        for source, rows in zip(names.sources[name], batches.by_source, strict=True):
            stream = f"{source}->{operator}"
            board.add_flows("arrived", stream, rows, np.append(start[:1], start[:-1]), start)
            board.count(stream, int(rows.sum()), 0)
            board.know(float(start[-1]), stream)
        main = f"{names.sources[name][0]}->{operator}" if names.sources[name] else out
        waited = np.diff(np.nan_to_num(batches.lag), prepend=0.0)
        board.add_flows("put", main, np.maximum(waited, 0.0), end, end)
        board.add_flows("taken", main, np.maximum(-waited, 0.0), end, end)
        board.add_flows("arrived", out, np.nan_to_num(batches.output), start, end)
        if not np.isnan(batches.output).all():
            board.know(float(end.max()), out)
        host = names.hosts[query.log.app]
        self._count(names.sources[name], operator, sink, batches)
        came = query.arrivals[:, 1:].sum(axis=1)
        self._rates[out] = query.rate * np.nansum(batches.output) / max(batches.rows.sum(), 1)
        for source, rows in zip(names.sources[name], came, strict=True):
            self._rates[f"{source}->{operator}"] = query.rate * rows / max(came.sum(), 1)
        if np.isnan(batches.lag).any():
            self._unknown[name] = host
        row = board.hosts.index(host)
        # Batches of several queries run side by side; the busiest query is the first to fall behind.
        board.busy[row] = np.maximum(board.busy[row], board.spread((end - start) / board.step, start, end))
        board.add_latency(sink, start, end)

    def _count(self, sources: Sequence[str], operator: str, sink: str, batches: Batches) -> None:
        """Count what a query's log tells: not the rows of a sink that does not count them."""
        if len(sources) == 1:
            # Of several sources nobody says whose rows were late.
            self._late[f"{sources[0]}->{operator}"] = int(batches.late.sum())
        if not np.isnan(batches.output[batches.rows > 0]).any():
            self._output[sink] = int(np.nansum(batches.output))
            self.board.count(f"{operator}->{sink}", self._output[sink], 0)

    def _untold(self) -> set[str]:
        return set(self._unknown.values())

    def _totals(self) -> Document:
        found = super()._totals()
        for name, row in found["streams"].items():
            rate = self._rates[name]
            found["streams"][name] = {
                **row,
                "delivered": None,
                "dropped": None,
                "late": self._late.get(name),
                "rate": rate if math.isfinite(rate) else None,
            }
        for name, row in found["sinks"].items():
            row["rows"] = self._output.get(name)
        return {**found, "seconds": (self.status.since or 0.0) - (self.begin or 0.0)}


class PlanView(View):
    """A folder of network, cluster, placement, rates and statistics, as ``penstock inspect --out`` writes it."""

    def __init__(self, folder: Path) -> None:
        setting = read_setting(folder)
        network, rates = setting.network, setting.rates
        bins = bins_for(len(network.streams), BINS)
        step = step_of(60.0 if rates is None else rates.duration, bins)
        board = Board(
            [stream.name for stream in network.streams],
            setting.cluster.hosts,
            network.sinks,
            begin=0.0,
            step=step,
            bins=bins,
        )
        super().__init__("plan", str(folder), setting, board, virtual=True)
        self.begin = 0.0
        # Nobody has looked at how busy hosts are and what waits, nor at rates that cannot be told.
        for unknown in (board.busy, board.waiting, board.arrived):
            unknown[:] = np.nan
        if rates is not None:
            board.slide(rates.duration - step / 2)
            board.until[:] = rates.duration
            self._flow(rates)

    def _flow(self, rates: Rates) -> None:
        """Let the rates flow: on all streams as the load model has it, on those of the sources where it lacks costs."""
        network, board, flows = self.network, self.board, {}
        with contextlib.suppress(InputError):
            flows = dict(enumerate(load_model(self.setting.statistics.complete(network), rates).arrivals))
        for number, stream in enumerate(network.streams):
            if number not in flows and stream.writer in network.sources:
                flows[number] = rates.of_source(stream.writer)
        for number, series in flows.items():
            board.arrived[number] = board.flowing(series, rates.period)


def setting_of_logs(found: Inspection) -> Setting:
    """Return the network, cluster, placement, rates and statistics that ``penstock inspect --out`` would write."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        export(found, folder)
        return read_setting(Path(folder))
