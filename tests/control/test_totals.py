"""What a run adds up to in its controller's folder."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.control.totals import Totals

TWO = "examples/two-chains"


def test_the_folder_holds_what_the_report_says(penstock: Any, tmp_path: Path, root: Path) -> None:
    """Rows by stream and sink, latency and how busy hosts were in the folder are those of the run's report."""
    words = [f"{TWO}/network.toml", "--hosts", "3", "--rates", f"{TWO}/burst.csv", "--act", "--directory", tmp_path]
    placed = ["--placement", "views=h1,scored=h1,paid=h2,billed=h2", "--scenario", f"{TWO}/scenario.toml"]
    done = penstock("control", *words, *placed, "--policy", "replicate,rebalance,shed", "--json")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "control" / "state.json").read_text())["status"]["totals"]
    report = done.document
    assert set(found["sinks"]) == set(report["sinks"]) == {"alarms", "dashboard", "ledger"}
    for name, row in report["sinks"].items():
        mine, theirs = found["sinks"][name], row["latency"]
        assert mine["count"] == theirs["count"]
        assert mine["worst"] == theirs["max"]
        assert mine["mean"] == pytest.approx(theirs["mean"])
    for name, row in found["streams"].items():
        assert row == {key: report["streams"][name][key] for key in ("arrived", "dropped")}
    assert found["hosts"] == {name: {"busy": pytest.approx(row["busy"])} for name, row in report["hosts"].items()}


def test_totals_have_what_comes_at_the_very_end(penstock: Any, tmp_path: Path) -> None:
    """Windows that close with the input count in the folder as in the report."""
    network = tmp_path / "n.toml"
    network.write_text(
        'name = "n"\n[sources.taps]\n[operators.perhour]\nkind = "aggregate"\ninputs = ["taps"]\n'
        'cost = 0.001\nwindow = 7.0\nselectivity = 0.5\n[sinks.counts]\ninput = "perhour"\n'
    )
    words = ["--hosts", 1, "--rates", "taps=100", "--for", 20, "--directory", tmp_path / "run", "--json"]
    done = penstock("control", network, *words)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "run/control/state.json").read_text())["status"]["totals"]["sinks"]["counts"]
    theirs = done.document["sinks"]["counts"]["latency"]
    assert (found["count"], found["worst"]) == (theirs["count"], theirs["max"])


def test_totals_are_read_back() -> None:
    """A controller that goes on counts on from what its folder says, and one without counts from nothing."""
    written = {
        "seconds": 8.0,
        "streams": {"a->b": {"arrived": 7, "dropped": 2}},
        "sinks": {
            "t": {"count": 4, "mean": 0.5, "p99": None, "worst": 1.5},
            "u": {"count": 0, "mean": None, "p99": None, "worst": None},
        },
        "hosts": {"h1": {"busy": 0.25}},
    }
    assert Totals.read(written).document() == written
    nothing = {"streams": {}, "sinks": {}}
    assert Totals.read(None).document() == {"seconds": 0.0, **nothing, "hosts": {}}


def test_how_long_was_counted_is_told_from_the_beginning_or_not_at_all() -> None:
    """Totals of a version that did not count the time go on without it, and so without shares of it."""
    told = {"h1": SimpleNamespace(busy=0.5)}
    rows = np.array([100])
    seen = SimpleNamespace(streams=("a",), arrived=rows, dropped=rows * 0, latency={}, hosts=told, period=2.0)
    found = Totals.read({"streams": {"a": {"arrived": 7, "dropped": 0}}, "sinks": {}})
    for _ in range(2):
        found = Totals.read(json.loads(json.dumps(found.after(seen).document())))
    streams = {"a": {"arrived": 207, "dropped": 0}}
    assert found.document() == {"seconds": None, "streams": streams, "sinks": {}, "hosts": {}}
    assert Totals().after(seen).document()["hosts"] == {"h1": {"busy": 0.5}}


def test_streams_may_come_and_go() -> None:
    """What was counted of a stream stays, whatever streams other periods tell of and in whichever order."""
    found = Totals()
    for streams, arrived in ((("a", "b"), (1, 2)), (("c", "b", "a"), (10, 20, 30)), (("c",), (100,))):
        rows = np.array(arrived)
        seen = SimpleNamespace(streams=streams, arrived=rows, dropped=rows // 10, latency={}, hosts={}, period=1.0)
        found = found.after(seen)
    assert {name: (row["arrived"], row["dropped"]) for name, row in found.document()["streams"].items()} == {
        "a": (31, 3), "b": (22, 2), "c": (110, 11),
    }  # fmt: skip
