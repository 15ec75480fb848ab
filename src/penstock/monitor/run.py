"""A run of ``penstock run`` or ``penstock demo``, looked at from its folder."""

from __future__ import annotations

import math
import os
from pathlib import Path

import attrs
import numpy as np

from penstock.cluster import Placement, base_name
from penstock.control.folder import Folder
from penstock.errors import InputError, locating
from penstock.files import Document, read_kept
from penstock.load.setting import setting_of
from penstock.monitor.board import BINS, Board, step_of
from penstock.monitor.decisions import Decisions
from penstock.monitor.periods import WITHIN
from penstock.monitor.view import Status, View, bins_for
from penstock.monitor.worked import Worked
from penstock.network import read_network_document
from penstock.telemetry.run_news import News, RunBatch
from penstock.telemetry.runs import ABOUT, RunReader

ACTIONS = ("move", "drain", "stop")
"""What a controller can be asked for."""

QUIET = 30.0
"""Seconds without a batch after which a run counts as ended where nobody tells whether somebody holds its folder."""

SILENT = 60.0
"""Seconds after which a stream of which no batch has brought a row counts as one on which none came."""


class RunView(View):
    """A run: what its queries read, how long their batches take, and when rows become visible.

    Parameters
    ----------
    folder
        Of the run, on this machine.

    Raises
    ------
    InputError
        If no run is there, or it does not tell what is deployed.
    """

    def __init__(self, folder: Path) -> None:
        self.reader = RunReader(folder)
        self.identity = self.reader.run.get("run")
        about = self.reader.about
        if about is None:
            raise InputError(
                "the run does not tell what is deployed", file=folder, hint="run it again with this version of penstock"
            )
        with locating(folder / ABOUT):
            setting = setting_of(about)
        network = setting.network
        bins = bins_for(len(network.streams), BINS)
        begin = self.reader.epoch or (folder / "run.json").stat().st_mtime
        step = 1.0 if _held(folder / "lock") else step_of(_latest(folder) - begin, bins - 1)
        names = [stream.name for stream in network.streams]
        board = Board(names, setting.cluster.hosts, network.sinks, begin=begin, step=step, bins=bins)
        board.until[:] = begin
        super().__init__("run", str(folder), setting, board)
        self.begin = self.reader.epoch
        self._host: dict[str, str] = {}
        self._worked = Worked(self.reader.past.get("upto", ()))
        self._whole: Document = {}
        self._before: dict[str, float] = {}
        self._scheduled = {name for name, source in network.sources.items() if source.scheduled}
        self._schedules = setting.rates
        self._busy_until: dict[str, float] = {}
        self._last: float | None = None
        """Until when a batch is known to have run (s since the epoch); None before there was one."""
        self._put_until: dict[str, float] = {}
        self.controller, self._history = Folder(folder), Decisions(folder / "control")
        self._placed()
        self._past()
        if self._scheduled != set(network.sources):
            self.notes.append("The backlog leaves out rows that wait at the sources: Spark does not report them.")

    def begun_anew(self) -> bool:
        """Return whether another run has begun in the folder."""
        return self.identity != RunReader(Path(self.folder)).run.get("run")

    def look(self, now: float) -> bool:
        """Take in what is new."""
        with self.lock:
            if self.begin is None:
                self.begin = self.reader.epoch
                if self.begin is not None:
                    self.revision += 1
            self._placed()
            self._decided()
            news = self.reader.look()
            self._take(news)
            before = self.status
            self.status = self._status(now)
            if news.batches or before != self.status:
                self._whole = {}
            if self.status.word == "running":
                self.board.slide(now)  # time goes on where nothing comes, too
                for query, start in self.reader.underway().items():
                    self._work(query, start, now)
                    self._last = now
                self._enter(now)
            elif self._last is not None:
                self._enter(self._last)
            self.board.know((self.board.last + 1) * self.board.step - SILENT)
            return bool(news.batches or news.rows) or before != self.status

    def _decided(self) -> None:
        """Take in what a controller has decided, and whether it can be asked for something."""
        found = self._history.look()
        actions = ACTIONS if self.controller.alive else ()
        if found is not None or actions != self.actions:
            if found is not None:
                begin = self.begin or 0.0
                self.decisions = [{**row, "at": begin + float(row["time"])} for row in found]
                self.decided = self._history.count
            self.actions = actions
            self.revision += 1

    def _totals(self) -> Document:
        found = super()._totals()
        if self.status.word == "ended" and self.begin is not None:
            if not self._whole:
                ran, shares = self._worked.told(self.reader.begun, self.reader.ended)
                self._whole = {"seconds": ran, "hosts": {**dict.fromkeys(self.board.hosts, 0.0), **shares}}
            found |= self._whole
        return found

    def _placed(self) -> None:
        """Take in where the queries are; a controller moves them."""
        run = self.reader.run_now()
        if run is None:
            return
        units = run.get("units", ())
        self._host = {unit["name"]: unit["host"] for unit in units}
        grown, placement = run.get("grown"), dict(run["placement"])
        when = self.reader.written / 1e9
        if grown is not None:
            for unit in units:
                for name in unit["operators"]:
                    placement.setdefault(base_name(name), unit["host"])
            if len(grown["operators"]) > len(self.network.operators):
                self.grow(read_network_document(grown), when=when)
        if dict(self.setting.placement) != placement:
            self.change(attrs.evolve(self.setting, placement=Placement(placement)), when=when)

    def act(self, kind: str, given: Document) -> Document:
        """Ask the controller for something; see `penstock.control.folder.Folder.ask`."""
        return self.controller.ask(kind, given)

    def _past(self) -> None:
        """Take in what older batches add up to."""
        past = self.reader.past
        for stream, (arrived, dropped) in past.get("counts", {}).items():
            self.board.count(stream, int(arrived), int(dropped), int(past.get("late", {}).get(stream, 0)))
        for sink, classes in past.get("classes", {}).items():
            if sink in self.board.sinks:
                self.board.sinks[sink].add_classes(classes, past.get("worst", {}).get(sink, 0.0))
        begin, logged = self.board.start, past.get("rows", {})
        for stream in self.network.streams:
            if self._waits(stream.writer, stream.reader, stream.share):
                self.board.add_flow("taken", stream.name, past.get("counts", {}).get(stream.name, [0])[0], begin, begin)
                self.board.add_flow("put", stream.name, logged.get(stream.writer, 0), begin, begin)

    def _take(self, news: News) -> None:
        for batch in sorted(news.batches, key=lambda each: each.start):
            self._batch(batch)
        for seen in news.rows:
            if seen.sink in self.board.sinks:
                self.board.add_latency(seen.sink, seen.stimulus, seen.visible)

    def _batch(self, batch: RunBatch) -> None:
        board, end = self.board, max(batch.start + batch.duration, batch.start)
        self._last = max(end, self._last or end)
        self._worked.take(batch, batch.host or self._host.get(batch.query, ""))
        if batch.since is None:
            self._work(batch.query, batch.start, end)
        elif batch.query in self._host:
            # Each query of a host tells the share of the whole host.
            host = self._host[batch.query]
            since = max(batch.since, board.told.get(host, batch.since))
            if end > since:
                board.add_share(host, batch.busy, since, end)
        begun = self.begin or batch.start
        since = max(self._before.get(batch.query, begun), begun)
        self._before[batch.query] = batch.start
        for stream in self.network.streams:
            if stream.name in batch.counts:
                arrived, dropped = batch.counts[stream.name]
                # What a source brought came since the batch before; what is made of it comes while the batch runs.
                span = (
                    (min(since, batch.start), batch.start)
                    if stream.writer in self.network.sources
                    else (batch.start, end)
                )
                board.add_flow("arrived", stream.name, arrived, *span)
                board.add_flow("dropped", stream.name, dropped, *span)
                if arrived:  # sources may bring rows in lumps, and batches in between have none of them
                    board.know(span[1], stream.name)
                board.count(stream.name, arrived, dropped, int(batch.late.get(stream.name, 0)))
                if self._waits(stream.writer, stream.reader, stream.share):
                    board.add_flow("taken", stream.name, arrived, end, end)
            if stream.writer in batch.logged and self._waits(stream.writer, stream.reader, stream.share):
                board.add_flow("put", stream.name, batch.logged[stream.writer], batch.visible, batch.visible)

    def _work(self, query: str, start: float, until: float) -> None:
        """Note that a query worked since a batch began, without what was noted of that batch before."""
        since = max(start, self._busy_until.get(query, start))
        if query in self._host and until > since:
            self.board.add_busy(self._host[query], since, until)
            self._busy_until[query] = until

    def _waits(self, writer: str, reader: str, share: float) -> bool:
        """Whether it is known how many rows wait on a stream: it crosses a log, or its source has a schedule."""
        if share != 1 or reader not in self.setting.placement:
            return False
        if writer in self._scheduled:
            return self._schedules is not None
        return self._crosses(writer, reader)

    def _untold(self) -> set[str]:
        known: dict[bool, set[str]] = {True: set(), False: set()}
        for stream in self.network.streams:
            waits = self._waits(stream.writer, stream.reader, stream.share)
            if waits or stream.writer in self.network.sources:
                known[waits].add(self.setting.placement.get(stream.reader, ""))
        return known[False] - known[True]

    def _enter(self, until: float) -> None:
        """Let scheduled sources put what their rates say up to a time (s since the epoch)."""
        rates, begin = self._schedules, self.begin
        if rates is None or begin is None:
            return
        until = min(until, begin + rates.duration)
        for stream in self.network.streams:
            done = self._put_until.get(stream.name, begin)
            if until <= done or stream.writer not in self._scheduled:
                continue
            if self._waits(stream.writer, stream.reader, stream.share):
                first = int((done - begin) / rates.period + WITHIN)
                behind = max(first + 1, math.ceil((until - begin) / rates.period - WITHIN))
                edges = np.clip(begin + rates.period * np.arange(first, behind + 1), done, until)
                values = rates.of_source(stream.writer)
                rows = values[np.minimum(np.arange(first, behind), values.size - 1)] * np.diff(edges)
                self.board.slide(until)
                self.board.add_flows("put", stream.name, rows, edges[:-1], edges[1:])
                self._put_until[stream.name] = until

    def _status(self, now: float) -> Status:
        errors = self.reader.errors
        says = "; ".join(f"{query}: {error[:300]}" for query, error in errors.items())
        held = _held(Path(self.folder) / "lock")
        latest = (self.board.since + 1) * self.board.step if self._last is None else self._last
        if held or (held is None and now - latest < max(QUIET, 10 * self.setting.cluster.spark.trigger)):
            return Status(word="running", since=self.begin, says=says)
        return Status(word="ended", since=self._last, says=says)


def _latest(folder: Path) -> float:
    """When the last batch became visible (s since the epoch); 0 before there was one."""
    last = [max(path.glob("*.json"), default=None) for path in (folder / "batches").glob("*")]
    manifests = [found for path in last if path is not None and (found := read_kept(path)) is not None]
    return max((float(found["visible"]) for found in manifests), default=0.0)


def _held(lock: Path) -> bool | None:
    """Whether a process of this machine holds a run's folder; None where that cannot be told."""
    try:
        state = os.stat(lock)
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    return any(line.split()[-3].endswith(f":{state.st_ino}") for line in locks if len(line.split()) >= 8)
