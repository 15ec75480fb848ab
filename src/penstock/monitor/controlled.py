"""A network under control in the simulator, looked at from its controller's folder."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import attrs

from penstock.cluster import Host, Placement, base_name
from penstock.control.folder import JOURNAL, Folder, decision_in
from penstock.control.periods import BEFORE, NAME
from penstock.errors import InputError, locating
from penstock.files import Document, read_kept
from penstock.load.setting import setting_of
from penstock.monitor.board import BINS, Board, step_of
from penstock.monitor.decisions import Decisions
from penstock.monitor.lines import Lines
from penstock.monitor.run import ACTIONS
from penstock.monitor.view import Status, View, bins_for
from penstock.network import read_network_document
from penstock.telemetry.runs import ABOUT


class ControlledView(View):
    """What a controller of the simulator last wrote of it; its time is virtual, seconds since the run began.

    Parameters
    ----------
    folder
        The controller's folder.

    Raises
    ------
    InputError
        If it does not tell what is deployed.
    """

    def __init__(self, folder: Path) -> None:
        about = folder / "control" / ABOUT
        self._began, document = _written(about), read_kept(about)
        if document is None:
            raise InputError(
                "the controller does not tell what is deployed", file=folder, hint="start penstock control again"
            )
        with locating(about):
            setting = setting_of(document)
        network = setting.network
        names = [stream.name for stream in network.streams]
        state, bins = read_kept(folder / "control" / "state.json") or {}, bins_for(len(names), BINS)
        # All of a run that is over fits the window; of one that goes on, the last quarter of an hour.
        status = state.get("status") if state.get("over") else None
        step = step_of(float(status["time"]) if isinstance(status, dict) else 0.0, bins)
        board = Board(names, setting.cluster.hosts, network.sinks, begin=0.0, step=step, bins=bins)
        super().__init__("run", str(folder), setting, board, virtual=True)
        self.begin, self.batches = 0.0, False
        self.controller, self._history = Folder(folder), Decisions(folder / "control")
        self._files = [Lines(folder / "control" / name) for name in (BEFORE, NAME)]
        self._journal = Lines(folder / "control" / JOURNAL)
        # An earlier version kept them in the state.
        self._plans = [row[1] for row in state.get("state", {}).get("journal", ())]
        self._at, self._back = 0.0, False
        self._seen: Document = {}
        self._waiting: dict[str, float] = {}
        self._placed: dict[str, str] = {}
        self._copied: Counter[str] = Counter()

    def begun_anew(self) -> bool:
        """Return whether another run has begun in the folder."""
        written = _written(Path(self.folder) / "control" / ABOUT)
        if written is None:
            raise InputError("the controller's files are gone", file=self.folder)
        return self._back or written != self._began

    def look(self, now: float) -> bool:
        """Take in what is new."""
        with self.lock:
            found = self._history.look()
            actions = ACTIONS if self.controller.alive else ()
            if found is not None or actions != self.actions:
                if found is not None:
                    self.decisions = [{**row, "at": row["time"]} for row in found]
                    self.decided = self._history.count
                self.actions = actions
                self.revision += 1
            self.status = Status(word="running" if actions else "ended", since=0.0)
            document = self.controller.read() or {}
            # The simulator serves row by row unless it was given a trigger.
            identity = document.get("identity", {})
            self.batches = identity.get("options", [None])[0] is not None
            fresh = self._periods()
            known = document.get("status")
            if known is None or known == self._seen:
                return fresh
            # What another run left was seen, before this one wrote anything.
            self._back = known["time"] < self._seen.get("time", 0.0)
            self._seen = known  # the totals of the end come after the last period
            return True

    def act(self, kind: str, given: Document) -> Document:
        """Ask the controller for something; see `penstock.control.folder.Folder.ask`."""
        return self.controller.ask(kind, given)

    def _periods(self) -> bool:
        """Take in the periods that are new; return whether there are any."""
        before, now = self._files
        # The file before never grows: what is in it was looked at when it was the newer one.
        lines = [*(before.look() if not self._at else ()), *now.look()]
        rows = [row for line in lines if (row := decision_in(line)) is not None and row["time"] > self._at]
        plans = [row["plan"] for line in self._journal.look() if "plan" in (row := decision_in(line) or {})]
        self._plans += [plan for plan in plans if plan["add"] or plan["network"]]
        if rows and not self._at:
            self.board.since = math.floor(rows[0]["since"] / self.board.step)
        for row in rows:
            if "placement" in row:
                self._placed = row["placement"]
                self._copied = Counter(map(base_name, self._placed))
            self._follow(row)
            self._take(row)
        return bool(rows)

    def _follow(self, row: Document) -> None:
        """Take in the queries and hosts that came on the way, once the controller sees them run."""
        added = {host["name"]: host for plan in self._plans for host in plan["add"]}
        hosts = {name: Host(**added[name]) for name in set(added) & set(row["busy"]) - set(self.board.hosts)}
        running = {base_name(name) for name in self._placed}
        grown = [plan["network"] for plan in self._plans if _runs(plan["network"], running)]
        if hosts or (grown and len(grown[-1]["operators"]) > len(self.network.operators)):
            network = read_network_document(grown[-1]) if grown else self.network
            self.grow(network, [hosts[name] for name in sorted(hosts)], when=float(row["since"]))

    def _take(self, row: Document) -> None:
        board, begin = self.board, float(row["since"])
        # A period ends before the bin that begins then.
        time = float(row["time"])
        end = math.nextafter(time, 0.0)
        # Replicas are in no drawing: an operator is drawn where its first copy is.
        placed = {base_name(name): host for name, host in sorted(self._placed.items(), reverse=True)}
        placed = {**self.setting.placement, **{n: h for n, h in placed.items() if n in self.network.operators}}
        if placed != dict(self.setting.placement):
            self.change(attrs.evolve(self.setting, placement=Placement(placed)), when=begin)
        for host, busy in row["busy"].items():
            board.add_share(host, busy, begin, end)
        for series in ("arrived", "dropped"):
            for name, rows in row[series].items():
                board.add_flow(series, name, rows / self._copies(name), begin, end)
        for name in {*row["waiting"], *self._waiting} & set(self.network.operators):
            more = row["waiting"].get(name, 0.0) - self._waiting.get(name, 0.0)
            if more:
                stream = self.network.inputs(name)[0].name
                board.add_flow("put" if more > 0 else "taken", stream, abs(more), end, end)
        self._waiting = row["waiting"]
        board.until[:] = time
        if row["worst"] is not None:
            board.add_worst(float(row["worst"]), end)
        self._at = time

    def _copies(self, stream: str) -> int:
        """Return how many copies of its reader count the rows of a stream: each of them counts all."""
        return max(1, self._copied[stream.partition("->")[2]])

    def _totals(self) -> Document:
        """Return what the controller counted; one that counts nothing tells the latency of its last period only."""
        found, totals = super()._totals(), self._seen.get("totals")
        rows = self._seen.get("sinks", {}) if totals is None else totals["sinks"]
        for name, row in found["sinks"].items():
            told = rows.get(name)
            row["rows"] = None if totals is None or told is None else told["count"]
            row["latency"] = {**row["latency"], **(told or {})}
        for name, row in (totals or {}).get("streams", {}).items():
            arrived, dropped = (round(row[key] / self._copies(name)) for key in ("arrived", "dropped"))
            found["streams"][name] = {
                "arrived": arrived,
                "delivered": arrived - dropped,
                "dropped": dropped,
                "late": None,
            }
        if totals is not None and "seconds" in totals:
            found["seconds"] = totals["seconds"]
            found["hosts"] = {name: row["busy"] for name, row in totals["hosts"].items()}
        known = [row["worst"] for row in rows.values() if row["worst"] is not None]
        found["latency"] = {**found["latency"], "worst": max(known, default=None)}
        if totals is not None:
            told = [row for row in rows.values() if row["mean"] is not None]
            count = sum(row["count"] for row in told)
            mean = sum(row["count"] * row["mean"] for row in told) / count if count else None
            found["latency"] |= {"count": count, "mean": mean}
        found["whole"] = totals is not None
        return found


def _written(path: Path) -> int | None:
    """Return when a file was written (ns since the epoch), None where it is not there."""
    try:
        return path.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None


def _runs(network: Document | None, running: set[str]) -> bool:
    """Whether all operators of a network that came on the way are among those that run."""
    return network is not None and all(row["name"] in running for row in network["operators"])
