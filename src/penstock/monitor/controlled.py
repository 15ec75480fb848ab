"""A network under control in the simulator, looked at from its controller's folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from penstock.cluster import Host, Placement, base_name
from penstock.control.folder import Folder
from penstock.errors import InputError, locating
from penstock.files import Document, read_kept
from penstock.load.setting import setting_of
from penstock.monitor.board import BINS, Board
from penstock.monitor.decisions import Decisions
from penstock.monitor.run import ACTIONS
from penstock.monitor.view import Status, View, bins_for
from penstock.network import read_network_document
from penstock.shedding.program import build_program
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
        board = Board(names, setting.cluster.hosts, network.sinks, begin=0.0, bins=bins_for(len(names), BINS))
        super().__init__("run", str(folder), setting, board, virtual=True)
        self.begin, self.batches = 0.0, False
        self.controller, self._history = Folder(folder), Decisions(folder / "control")
        self._at, self._every, self._back = 0.0, 1.0, False
        self._seen: Document = {}
        self._waiting: dict[str, float] = {}

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
                    for row in found[len(self.decisions) :]:
                        if row["seen"]["worst"] is not None:
                            self.board.add_worst(float(row["seen"]["worst"]), float(row["time"]))
                    self.decisions = [{**row, "at": row["time"]} for row in found]
                    self.decided = self._history.count
                self.actions = actions
                self.revision += 1
            self.status = Status(word="running" if actions else "ended", since=0.0)
            document = self.controller.read() or {}
            # The simulator serves row by row unless it was given a trigger.
            identity = document.get("identity", {})
            self.batches = identity.get("options", [None])[0] is not None
            self._every = float(identity.get("every", 1.0))
            known = document.get("status")
            if known is None:
                return False
            if known["time"] > self._at:
                self._follow(known, document.get("state", {}).get("journal", ()))
                self._take(known)
                return True
            # What another run left was seen, before this one wrote anything.
            self._back = known["time"] < self._at
            if self._back or known == self._seen:
                return False
            self._seen = known  # the totals of the end come after the last period
            return True

    def act(self, kind: str, given: Document) -> Document:
        """Ask the controller for something; see `penstock.control.folder.Folder.ask`."""
        return self.controller.ask(kind, given)

    def _follow(self, known: Document, journal: Sequence[tuple[float, Document]]) -> None:
        """Take in the queries and hosts that came on the way, once the controller sees them run."""
        plans = [plan for _, plan in journal]
        added = {host["name"]: host for plan in plans for host in plan["add"]}
        hosts = {name: Host(**added[name]) for name in set(added) & set(known["hosts"]) - set(self.board.hosts)}
        grown = [plan["network"] for plan in plans if _runs(plan["network"], known)]
        if hosts or (grown and len(grown[-1]["operators"]) > len(self.network.operators)):
            network = read_network_document(grown[-1]) if grown else self.network
            self.grow(network, [hosts[name] for name in sorted(hosts)])

    def _take(self, known: Document) -> None:
        # A period ends before the bin that begins then.
        time, board = float(known["time"]), self.board
        end = math.nextafter(time, 0.0)
        if not self._seen:
            # What the controller says holds for its last period; nothing is known of the time before.
            self._at = max(0.0, time - self._every)
            board.since = math.floor(self._at / board.step)
        begin = self._at
        # Replicas are in no drawing: an operator is drawn where its first copy is.
        placed = {base_name(name): host for name, host in sorted(known["placement"].items(), reverse=True)}
        placed = {**self.setting.placement, **{n: h for n, h in placed.items() if n in self.network.operators}}
        if placed != dict(self.setting.placement):
            self.setting = attrs.evolve(self.setting, placement=Placement(placed))
            self._expected = None
            self.revision += 1
        for host, busy in known["busy"].items():
            board.add_share(host, float(busy or 0.0), begin, end)
        self._flow(known, begin, end)
        for name, row in known["operators"].items():
            more = float(row["waiting"]) - self._waiting.get(name, 0.0)
            self._waiting[name] = float(row["waiting"])
            if more and name in self.network.operators:
                stream = self.network.inputs(name)[0].name
                board.add_flow("put" if more > 0 else "taken", stream, abs(more), end, end)
        if known["worst"] is not None:
            board.add_worst(float(known["worst"]), end)
        self._at, self._seen = time, known

    def _flow(self, known: Document, begin: float, end: float) -> None:
        """Let what entered flow through the network, as costs and selectivities say, less what is dropped."""
        program = build_program(
            self.setting.statistics.complete(self.network), self.setting.cluster, self.setting.placement
        )
        rates = np.array([known["rates"].get(name) or 0.0 for name in program.sources])
        keep = {name: share for name, share in known["keep"].items() if name in program.streams}
        offered = program.offered(rates, program.flow(rates, keep))[program.arc]
        for name, arrived in zip(program.streams, (offered * (end - begin)).tolist(), strict=True):
            self.board.add_flow("arrived", name, arrived, begin, end)
            self.board.add_flow("dropped", name, arrived * (1 - keep.get(name, 1.0)), begin, end)

    def _totals(self) -> Document:
        """Return what the controller counted; one that counts nothing tells the latency of its last period only."""
        found, totals = super()._totals(), self._seen.get("totals")
        rows = self._seen.get("sinks", {}) if totals is None else totals["sinks"]
        for name, row in found["sinks"].items():
            told = rows.get(name)
            row["rows"] = None if totals is None or told is None else told["count"]
            row["latency"] = {**row["latency"], **(told or {})}
        for name, row in (totals or {}).get("streams", {}).items():
            arrived, dropped = row["arrived"], row["dropped"]
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


def _runs(network: Document | None, known: Document) -> bool:
    """Whether the controller sees all operators of a network that came on the way."""
    running = {base_name(name) for name in known["operators"]}
    return network is not None and all(row["name"] in running for row in network["operators"])
