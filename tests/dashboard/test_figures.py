"""The figures on the page, as its own scripts write them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from folders import BEGIN, Folder, setting

from penstock.cluster import Placement
from penstock.files import Document, compact
from penstock.load import OperatorStatistics, Statistics
from penstock.monitor.run import RunView
from penstock.monitor.view import View
from penstock.network import Network
from penstock.network.model import Operator, Sink, Source
from penstock.workload import Rates

NODE = shutil.which("node")
HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "src/penstock/dashboard/page"

pytestmark = pytest.mark.skipif(NODE is None, reason="no Node is installed")


def shown(view: View, now: float, folder: Path) -> dict[str, Any]:
    """Return the texts of a page that shows a view."""
    return page_of(folder, view.about(), [view.live(now)], {})


def page_of(folder: Path, about: Document, lives: list[Document], typed: dict[str, str]) -> dict[str, Any]:
    """Return the texts of a page after what was live, one after the other; ``typed``: by source, before the last."""
    shutil.copytree(PAGE, folder)
    documents = {"package": {"type": "module"}, "about": about, "lives": lives, "typed": typed}
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(compact(document))
    assert NODE is not None
    done = subprocess.run([NODE, HERE / "shown.mjs", folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def view(tmp_path: Path) -> RunView:
    """A run of three queries that read one source, at a tenth of the rate that was told, and drop half of it each.

    One of them routes its rows to two sinks.
    """
    names = ("split", "b", "c")
    operators = [Operator(name=name, kind="map", inputs=("s",)) for name in names]
    operators[0] = attrs.evolve(operators[0], route={"left": 0.2, "right": 0.8})
    ends = {"left": "split", "right": "split", "y": "b", "z": "c"}
    sinks = [Sink(name=name, input=given) for name, given in ends.items()]
    cost = OperatorStatistics(cost=(0.004,), selectivity=(1.0,), error=0.0, tuples=5_000)
    what = attrs.evolve(
        setting(),
        network=Network.of("side", [Source(name="s", format="nexmark")], operators, sinks),
        placement=Placement(dict.fromkeys(names, "h1")),
        statistics=Statistics(operators=dict.fromkeys(names, cost)),
        rates=Rates.of(1.0, {"s": np.full(60, 500.0)}),
    )
    folder = Folder(tmp_path / "run", what)
    for number in range(20):
        for name in names:
            outs = {sink: 50 for sink, given in ends.items() if given == name}
            if name == "split":
                outs = {"left": 10, "right": 40}
            counts = {f"s->{name}": [100, 50], **{f"{name}->{sink}": [rows, 0] for sink, rows in outs.items()}}
            figures = (number, BEGIN + 2 * (number + 1), 2.0, 100)
            folder._batch(name, figures, counts, {})
    units = [{"name": name, "host": "h1", "operators": [name]} for name in names]
    folder.write("run.json", {**json.loads((folder.path / "run.json").read_text()), "units": units})
    found = RunView(folder.path)
    found.look(BEGIN + 43)
    return found


def test_what_comes_in_is_what_was_measured(view: RunView, tmp_path: Path) -> None:
    """Rows in are those that the streams had, whatever rate was told, and what waits is a time of them."""
    page = shown(view, BEGIN + 43, tmp_path / "page")
    assert page["s-rate"] == "50/s"
    assert page["s-rate-sub"] == "2,000 so far"
    waiting = float(page["s-backlog"].split()[0]) * (1000 if page["s-backlog"].endswith("k") else 1)
    number, unit = page["s-backlog-sub"].removesuffix(" of input").split()
    assert float(number) * {"s": 1, "min": 60}[unit] == pytest.approx(waiting / 50, rel=0.02)


def test_latency_stands_beside_that_of_the_same_moment(view: RunView, tmp_path: Path) -> None:
    """What is predicted beside a measured latency is that of the rows that were measured, not of those on their way."""
    live = view.live(BEGIN + 43)
    measured: list[float | None] = [1.0] * 30 + [None] * (live["length"] - 30)
    predicted = [2.0] * 30 + [5.0] * (live["length"] - 30)
    live["series"] |= {"measured": measured, "predicted": predicted}
    page = page_of(tmp_path / "page", view.about(), [live], {})
    assert (page["s-latency"], page["s-latency-sub"]) == ("1 s", "predicted 2 s")


def test_drops_are_a_share_of_what_came_there(view: RunView, tmp_path: Path) -> None:
    """Where three readers of a source drop half each, half is dropped."""
    page = shown(view, BEGIN + 43, tmp_path / "page")
    assert page["s-dropped"] == "3,000"
    assert page["s-dropped-sub"] == "50 % on 3 streams"


def test_what_goes_out_of_a_split_is_all_of_it(view: RunView, tmp_path: Path) -> None:
    """An operator that routes its rows puts out what all its readers get."""
    details = shown(view, BEGIN + 43, tmp_path / "page")["details"]
    assert "50 rows/s in · 25 rows/s out" in details["split"]
    assert "50 rows/s in · 25 rows/s out" in details["b"]


def test_the_form_has_the_rates_that_came(tmp_path: Path) -> None:
    """Where nobody told the rates, the form takes those that are measured, but for what somebody typed there."""
    sources = [Source(name=name, format="nexmark") for name in ("clicks", "buys")]
    operator = Operator(name="all", kind="union", inputs=("clicks", "buys"))
    network = Network.of("shop", sources, [operator], [Sink(name="out", input="all")])
    folder = Folder(
        tmp_path / "run", attrs.evolve(setting(), network=network, placement=Placement({"all": "h1"}), rates=None)
    )
    view = RunView(folder.path)
    view.look(BEGIN)
    about, lives = view.about(), [view.live(BEGIN)]
    counts = {"clicks->all": [200, 0], "buys->all": [100, 0]}
    for number in range(10):
        folder._batch("h1", (number, BEGIN + 2 * (number + 1), 0.5, 300), counts, {})
    view.look(BEGIN + 22)
    lives.append(view.live(BEGIN + 22))
    assert view.about()["revision"] == about["revision"]
    assert page_of(tmp_path / "early", about, lives[:1], {})["form"] == {"buys": "0", "clicks": "0"}
    assert page_of(tmp_path / "late", about, lives, {})["form"] == {"buys": "50", "clicks": "100"}
    assert page_of(tmp_path / "typed", about, lives, {"buys": "7"})["form"] == {"buys": "7", "clicks": "100"}
