"""A network under control in the simulator, looked at from its controller's folder."""

from __future__ import annotations

import json
import math
from pathlib import Path

import attrs
import numpy as np

from penstock.cluster import Placement
from penstock.control.folder import Folder
from penstock.errors import InputError
from penstock.files import Document
from penstock.load.setting import setting_of
from penstock.monitor.board import BINS, Board
from penstock.monitor.decisions import Decisions
from penstock.monitor.run import ACTIONS
from penstock.monitor.view import Status, View, bins_for
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
        try:
            setting = setting_of(json.loads((folder / "control" / ABOUT).read_bytes()))
        except (FileNotFoundError, ValueError):
            raise InputError(
                "the controller does not tell what is deployed", file=folder, hint="start penstock control again"
            ) from None
        network = setting.network
        names = [stream.name for stream in network.streams]
        board = Board(names, setting.cluster.hosts, network.sinks, begin=0.0, bins=bins_for(len(names), BINS))
        super().__init__("run", str(folder), setting, board, virtual=True)
        self.begin, self.batches = 0.0, False
        self.controller, self._history = Folder(folder), Decisions(folder / "control")
        self._at, self._every = 0.0, 1.0
        self._seen: Document = {}
        self._waiting: dict[str, float] = {}

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
                self.actions = actions
                self.revision += 1
            self.status = Status(word="running" if actions else "ended", since=0.0)
            document = self.controller.read() or {}
            # The simulator serves row by row unless it was given a trigger.
            identity = document.get("identity", {})
            self.batches = identity.get("options", [None])[0] is not None
            self._every = float(identity.get("every", 1.0))
            known = document.get("status")
            if known is None or known["time"] <= self._at:
                return False
            self._take(known)
            return True

    def act(self, kind: str, given: Document) -> Document:
        """Ask the controller for something; see `penstock.control.folder.Folder.ask`."""
        return self.controller.ask(kind, given)

    def _take(self, known: Document) -> None:
        # A period ends before the bin that begins then.
        time, board = float(known["time"]), self.board
        end = math.nextafter(time, 0.0)
        if not self._seen:
            # What the controller says holds for its last period; nothing is known of the time before.
            self._at = max(0.0, time - self._every)
            board.since = math.floor(self._at / board.step)
        begin = self._at
        # Operators that were attached later are in no drawing.
        placed = {name: known["placement"].get(name, host) for name, host in self.setting.placement.items()}
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
        rates = np.array([known["rates"].get(name, 0.0) for name in program.sources])
        keep = {name: share for name, share in known["keep"].items() if name in program.streams}
        kept = program.flow(rates, keep)[program.arc]
        for name, rate in zip(program.streams, kept.tolist(), strict=True):
            share = keep.get(name, 1.0)
            arrived = (rate / share if share > 0 else 0.0) * (end - begin)
            self.board.add_flow("arrived", name, arrived, begin, end)
            self.board.add_flow("dropped", name, arrived * (1 - share), begin, end)
            self.board.count(name, round(arrived), round(arrived * (1 - share)))

    def _totals(self) -> Document:
        found = super()._totals()
        rows = self._seen.get("sinks", {})
        for name, row in rows.items():
            if name in found["sinks"]:
                found["sinks"][name]["latency"] = {"p50": None, **row}
        known = [row["worst"] for row in rows.values() if row["worst"] is not None]
        found["latency"] = {**found["latency"], "worst": max(known, default=None)}
        return found
