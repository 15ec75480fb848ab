"""Folders of runs as ``penstock run`` leaves them, made without Spark."""

from __future__ import annotations

import fcntl
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from penstock.cluster import Cluster, Placement, SparkSettings
from penstock.load import OperatorStatistics, Statistics
from penstock.load.setting import Setting
from penstock.load.statistics import HostStatistics
from penstock.network import Network
from penstock.network.model import Operator, Sink, Source
from penstock.workload import Rates

BEGIN = 1_800_000_000.0
"""When the runs began (s since the epoch)."""

NETWORK = Network.of(
    "shop",
    [Source(name="clicks", format="nexmark", options={"password": "secret"})],
    [
        Operator(name="views", kind="filter", inputs=("clicks",), where="kind = 'view'"),
        Operator(name="scored", kind="map", inputs=("views",)),
    ],
    [Sink(name="out", input="scored")],
)
STATISTICS = Statistics(
    operators={
        "views": OperatorStatistics(cost=(0.001,), selectivity=(0.5,), error=0.02, tuples=5_000),
        "scored": OperatorStatistics(cost=(0.004,), selectivity=(1.0,), error=0.02, tuples=5_000),
    },
    hosts={name: HostStatistics(overhead=0.1, factor=1.0, error=0.02) for name in ("h1", "h2")},
)


def setting(seconds: int = 60, rate: float = 100.0) -> Setting:
    """Two operators, each on a host of its own, under a rate that doubles in the middle third."""
    cluster = Cluster.of(Cluster.uniform(2).hosts.values(), spark=SparkSettings(trigger=2.0, given=True))
    values = np.full(seconds, rate)
    values[seconds // 3 : 2 * seconds // 3] *= 2
    return Setting(
        network=NETWORK,
        cluster=cluster,
        placement=Placement({"views": "h1", "scored": "h2"}),
        statistics=STATISTICS,
        rates=Rates.of(1.0, {"clicks": values}),
    )


class Folder:
    """A run's folder that grows batch by batch; each batch of 2 s takes all that came since the one before."""

    def __init__(self, path: Path, what: Setting | None = None, begin: float = BEGIN, run: str = "1234abcd") -> None:
        self.path, self.what, self.begin, self.number = path, what or setting(), begin, 0
        self.write("about.json", self.what.document())
        placement = dict(self.what.placement)
        # One query a host, called like it.
        units = [{"name": host, "host": host} for host in sorted(set(placement.values()))]
        self.write("run.json", {"network": self.what.network.name, "placement": placement, "run": run, "units": units})
        (path / "epoch").write_text(str(int(begin * 1e6)))

    def write(self, name: str, document: Any) -> None:
        """Write a JSON document."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document))

    def grow(self, batches: int = 1, dropped: int = 0) -> None:
        """Add batches of both queries."""
        rates = self.what.rates
        assert rates is not None
        for _ in range(batches):
            number, start = self.number, self.begin + 2 * (self.number + 1)
            came = int(rates.of_source("clicks")[2 * number : 2 * number + 2].sum())
            through = (came - dropped) // 2
            took = 0.1 + 0.001 * came
            first = {"clicks->views": [came, dropped]}
            second = {"views->scored": [through, 0], "scored->out": [through, 0]}
            self._batch("h1", (number, start, took, came), first, {"views": through})
            self._batch("h2", (number, start + took, 0.1 + 0.004 * through, through), second, {})
            visible = start + took + 0.1 + 0.004 * through
            stimulus = start - 2 + 2 * (np.arange(through) + 0.5) / max(1, through)
            row = (np.concatenate([[visible], stimulus]) * 1e6).astype(np.int64)
            (self.path / "latency" / "out").mkdir(parents=True, exist_ok=True)
            np.save(self.path / "latency" / "out" / f"h2-{number:012d}.npy", row)
            self.number += 1

    def _batch(
        self, query: str, figures: tuple[int, float, float, int], counts: dict[str, list[int]], logged: dict[str, int]
    ) -> None:
        number, start, took, rows = figures
        same = {"batch": number, "frontiers": {}}
        report = {**same, "start": start, "duration": took, "rows": rows, "counts": {}, "late": {}}
        manifest = {
            **same,
            "visible": start + took,
            "rows": {writer: [number, rows] for writer, rows in logged.items()},
            "counts": counts,
            "latest": None,
        }
        self.write(f"progress/{query}/{number:012d}.json", report)
        self.write(f"batches/{query}/{number:012d}.json", manifest)


class Answering:
    """A controller that says yes to everything, in a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self.path, self.asked = directory / "control", []  # type: Path, list[dict[str, Any]]
        self._ended = threading.Event()
        for name in ("requests", "replies"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        (self.path / "token").write_text("secret")

    def __enter__(self) -> Answering:
        self._lock = open(self.path / "lock", "w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._lock.close()

    def decide(self, when: float, decided: dict[str, Any], why: str) -> None:
        """Write a decision down."""
        line = {"time": when, "seen": {}, "decided": decided, "why": why, "expected": {"worst": 2.0}, "came": None}
        with open(self.path / "history.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def _answer(self) -> None:
        while not self._ended.wait(0.02):
            for path in (self.path / "requests").glob("*.json"):
                wanted = json.loads(path.read_text())
                self.asked.append(wanted)
                path.unlink()
                why = f"asked to {wanted['kind']} {wanted.get('operator')} to {wanted.get('host')}"
                moves = [{"operator": wanted.get("operator"), "from": "h2", "to": wanted.get("host")}]
                reply = {"done": not wanted.get("dry"), "why": why, "decided": {"moves": moves}}
                part = self.path / "replies" / f".{path.stem}"
                part.write_text(json.dumps(reply))
                part.rename(self.path / "replies" / path.name)
