"""Metrics: counters of the whole run, and nothing that nobody measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from folders import BEGIN, NETWORK, Folder, setting

from penstock.inspection import Inspection, inspect
from penstock.monitor import View, open_view
from penstock.monitor.board import Board
from penstock.monitor.controlled import ControlledView
from penstock.monitor.decisions import Decisions
from penstock.monitor.exposition import exposition
from penstock.monitor.log import LogView
from penstock.monitor.run import RunView
from penstock.network import Network, network_document
from penstock.network.model import Operator, Sink, Source
from penstock.telemetry import read_telemetry

LOG = Path(__file__).parent.parent.parent / "examples/event-log/spark-4.3.zstd"
TWO = "examples/two-chains"


def told(view: View) -> dict[str, float]:
    """Return what is exposed of a view: each series with its labels, and its value."""
    lines = [line for line in exposition(view, 0.0).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.fixture
def controlled(penstock: Any, tmp_path: Path, root: Path) -> Path:
    """The folder of a controller that admitted one more query during its run."""
    words = [f"{TWO}/network.toml", "--hosts", "3", "--rates", f"{TWO}/burst.csv", "--act", "--directory", tmp_path]
    placed = ["--placement", "views=h1,scored=h1,paid=h2,billed=h2", "--scenario", f"{TWO}/scenario.toml"]
    done = penstock("control", *words, *placed, "--policy", "replicate,rebalance,shed", "--json")
    assert done.code == 0, done.err
    return tmp_path


def rewritten(folder: Path, time: float, rows: int) -> None:
    """Let the controller write, at a time, that so many rows came out of each sink in the whole run."""
    path = folder / "control" / "state.json"
    document = json.loads(path.read_text())
    known = document["status"]
    known["time"] = time
    known["totals"] = {
        "streams": {"buys->paid": {"arrived": 2 * rows, "dropped": 7}, "alarmed->alarms": {"arrived": 3, "dropped": 0}},
        "sinks": {name: {"count": rows, "mean": 0.1, "p99": None, "worst": 0.5} for name in known["sinks"]},
    }
    path.write_text(json.dumps(document))


def test_a_controllers_counters_are_of_the_whole_run(controlled: Path) -> None:
    """Rows and latency of a controller's folder are the totals that it wrote, not those of its last period."""
    rewritten(controlled, 80.0, 1864)
    view = ControlledView(controlled)
    view.look(0.0)
    found = told(view)
    assert found['penstock_sink_rows_total{sink="ledger"}'] == 1864
    assert found['penstock_sink_latency_seconds{sink="ledger",quantile="1"}'] == 0.5
    assert found['penstock_stream_rows_total{stream="buys->paid"}'] == 3728
    assert found['penstock_stream_dropped_rows_total{stream="buys->paid"}'] == 7
    rewritten(controlled, 80.0, 1870)
    view.look(0.0)
    assert told(view)['penstock_sink_rows_total{sink="ledger"}'] == 1870


def period(folder: Path, **changed: object) -> None:
    """Let the controller note one more period, which differs from the last one."""
    path = folder / "control" / "periods.jsonl"
    last = json.loads(path.read_text().splitlines()[-1])
    with path.open("a") as file:
        file.write(json.dumps({**last, "since": last["time"], "time": last["time"] + 1, **changed}) + "\n")


def test_a_stream_that_keeps_nothing_drops_all(controlled: Path) -> None:
    """A stream on which everything is dropped has the rate that arrives there, and nothing of it goes on."""
    period(controlled, arrived={"buys->paid": 20}, dropped={"buys->paid": 20})
    view = ControlledView(controlled)
    view.look(0.0)
    live = view.live(0.0)
    rates = {name: row[-1] for name, row in zip(view.board.streams, live["series"]["rates"], strict=True)}
    assert live["series"]["keep"]["buys->paid"][-1] == 0
    assert rates["buys->paid"] == pytest.approx(20, rel=1e-3)
    assert rates["paid->billed"] == 0


def test_what_a_controller_does_not_count_is_left_out(controlled: Path) -> None:
    """Where the folder holds only the last period, nothing of it stands under the name of a total."""
    path = controlled / "control" / "state.json"
    document = json.loads(path.read_text())
    document["status"].pop("totals", None)
    path.write_text(json.dumps(document))
    view = ControlledView(controlled)
    view.look(0.0)
    found = told(view)
    assert not [name for name in found if "rows_total" in name or "sink_latency" in name]
    assert found['penstock_host_busy_ratio{host="h1"}'] > 0
    live = view.live(0.0)
    assert live["totals"]["whole"] is False
    assert live["totals"]["sinks"]["ledger"]["latency"]["worst"] > 0


def test_queries_that_were_admitted_are_there(controlled: Path) -> None:
    """Operators, streams and sinks of a query that came during the run are in the drawing and in the metrics."""
    rewritten(controlled, 80.0, 63)
    view = ControlledView(controlled)
    assert "alarmed" not in view.about()["operators"]
    view.look(0.0)
    about, found = view.about(), told(view)
    assert {"rare", "alarmed"} <= set(about["operators"])
    assert about["placement"]["alarmed"] in about["hosts"]
    assert "alarmed->alarms" in [stream["name"] for stream in about["streams"]]
    assert found['penstock_sink_rows_total{sink="alarms"}'] == 63
    assert found['penstock_stream_rows_total{stream="alarmed->alarms"}'] == 3
    work = view.needs_expecting(0.0)
    assert work is not None
    work()
    assert 'penstock_sink_predicted_latency_seconds{sink="alarms",quantile="1"}' in told(view)
    rows = [json.loads(line) for line in (controlled / "control" / "periods.jsonl").read_text().splitlines()]
    changed = max(row["since"] for row in rows if "placement" in row)
    predicted = view.live(0.0)["series"]["predicted"]
    assert changed > 0
    assert [value is None for value in predicted[: int(changed) + 2]] == [True] * int(changed) + [False] * 2


def test_rows_count_once_however_many_copies_read_them(penstock: Any, tmp_path: Path, root: Path) -> None:
    """Copies of an operator each read the whole stream: its rate, and what it counts, are those that entered."""
    words = [f"{TWO}/network.toml", "--hosts", "3", "--rates", f"{TWO}/rates.csv", "--act", "--directory", tmp_path]
    placed = "views=h1,views#2=h2,scored=h3,scored#2=h1,paid=h2,billed=h3"
    done = penstock("control", *words, "--placement", placed, "--policy", "replicate", "--json")
    assert done.code == 0, done.err
    view = ControlledView(tmp_path)
    view.look(0.0)
    rates, offered = view.measured_rates(), view.setting.rates
    assert rates is not None
    assert offered is not None
    for source in ("clicks", "buys"):
        assert rates.of_source(source).mean() == pytest.approx(offered.of_source(source).mean(), rel=0.1)
    rows = done.document["streams"]["clicks->views"]["arrived"]
    assert told(view)['penstock_stream_rows_total{stream="clicks->views"}'] == pytest.approx(rows / 2, abs=1)


def test_hosts_that_were_added_are_there(controlled: Path) -> None:
    """A host that a controller added during the run has its share and its backlog."""
    plan = {"placement": {}, "network": None, "add": [{"name": "h4", "capacity": 2.0}], "retire": []}
    with (controlled / "control" / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"time": 70.0, "moves": [], "plan": plan}) + "\n")
    status = json.loads((controlled / "control" / "state.json").read_text())["status"]
    period(controlled, busy={**status["busy"], "h4": 0.25}, placement={**status["placement"], "views": "h4"})
    view = ControlledView(controlled)
    view.look(0.0)
    assert told(view)['penstock_host_busy_ratio{host="h4"}'] == pytest.approx(0.25 / 60), "of a minute"
    assert view.about()["placement"]["views"] == "h4"


def test_queries_attached_on_spark_are_there(tmp_path: Path) -> None:
    """A query that was attached to a run on Spark has its operators and the rows of its sink."""
    folder = Folder(tmp_path)
    view = RunView(tmp_path)
    folder.grow(2)
    view.look(BEGIN + 5)
    operators = [*NETWORK.operators.values(), Operator(name="more", kind="map", inputs=("views",))]
    sinks = [*NETWORK.sinks.values(), Sink(name="extra", input="more")]
    units = [{"name": name, "host": name, "operators": []} for name in ("h1", "h2")]
    run = json.loads((tmp_path / "run.json").read_text())
    run["units"] = [*units, {"name": "more", "host": "h2", "operators": ["more"]}]
    run["grown"] = network_document(Network.of("shop", NETWORK.sources.values(), operators, sinks))
    folder.write("run.json", run)
    for looked in (view, RunView(tmp_path)):
        folder.grow()
        stimulus = [BEGIN + 1.0, BEGIN + 1.5]
        (tmp_path / "latency" / "extra").mkdir(parents=True, exist_ok=True)
        row = (np.array([BEGIN + 3.0, *stimulus]) * 1e6).astype(np.int64)
        np.save(tmp_path / "latency" / "extra" / "more-000000000000.npy", row)
        looked.look(BEGIN + 9)
        assert looked.about()["placement"]["more"] == "h2"
        assert told(looked)['penstock_sink_rows_total{sink="extra"}'] == 2


@pytest.fixture(scope="module")
def log() -> LogView:
    """The recorded example, looked at."""
    found = open_view([str(LOG)])
    assert isinstance(found, LogView)
    return found


@pytest.fixture(scope="module")
def inspected() -> Inspection:
    """The recorded example, inspected."""
    return inspect(read_telemetry([str(LOG)]))


def test_logs_count_rows_where_sinks_do(log: LogView, inspected: Inspection) -> None:
    """The rows of a recorded query's sink are those that Spark counted; a sink that does not count has none."""
    found = told(log)
    for name, query in inspected.queries.items():
        series = f'penstock_sink_rows_total{{sink="{name}-out"}}'
        stream = f'penstock_stream_rows_total{{stream="{name}->{name}-out"}}'
        if np.isnan(query.batches.output).all():
            assert series not in found
            assert stream not in found
        else:
            assert found[series] == found[stream] == query.batches.output.sum()
    assert np.isnan(inspected.queries["files"].batches.output).all()


def test_logs_tell_batches_not_latency(log: LogView, inspected: Inspection) -> None:
    """Times of recorded batches stand under a name of their own; drops, decisions and unknown backlogs are left out."""
    found = told(log)
    longest = inspected.queries["join"].batches.duration.max()
    assert found['penstock_sink_batch_seconds{sink="join-out",quantile="1"}'] == pytest.approx(longest, rel=1e-6)
    # Spark told of most sources in the example no latest offset, and of joins not whose rows were late.
    absent = ("sink_latency", "dropped_rows", "decisions", "backlog", 'late_rows_total{stream="events-join')
    assert not [name for name in found if any(word in name for word in absent)]


def test_unknown_backlogs_are_not_nothing(log: LogView, inspected: Inspection) -> None:
    """Where sources do not tell what waits, the backlog of the host is unknown, and a note says for which queries."""
    (backlog,) = log.live(0.0)["series"]["backlog"]
    assert set(backlog) == {None}
    untold = [name for name, query in inspected.queries.items() if np.isnan(query.batches.lag).any()]
    (note,) = (note for note in log.about()["notes"] if "backlog" in note)
    assert note.endswith(f"what waits for {', '.join(untold)}.")


def test_a_run_knows_not_what_waits_at_other_sources(tmp_path: Path) -> None:
    """Of a host that reads only sources without a schedule nobody knows what waits for it; of others it is known."""
    clicks = Source(name="clicks", format="json", options={"path": "in"})
    network = Network.of("shop", [clicks], NETWORK.operators.values(), NETWORK.sinks.values())
    Folder(tmp_path, attrs.evolve(setting(), network=network)).grow(5)
    view = RunView(tmp_path)
    view.look(BEGIN + 14)
    found = told(view)
    assert 'penstock_host_backlog_rows{host="h1"}' not in found
    assert found['penstock_host_backlog_rows{host="h2"}'] == 0


def test_plans_measure_nothing(penstock: Any, tmp_path: Path, root: Path) -> None:
    """Of a plan there are predictions only."""
    assert penstock("inspect", LOG, "--out", tmp_path).code == 0
    found = told(open_view([str(tmp_path)]))
    assert set(found) == {"penstock_run_running"}


def test_decisions_are_counted_though_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of decisions grows on where the oldest are remembered no more."""
    monkeypatch.setattr("penstock.monitor.decisions.MOST", 3)
    lines = [json.dumps({"time": float(k)}) + "\n" for k in range(5)]
    (tmp_path / "history.jsonl").write_text("".join(lines))
    reader = Decisions(tmp_path)
    assert len(reader.look() or ()) == 3
    assert reader.count == 5


def test_boards_keep_what_they_know_when_they_grow() -> None:
    """Streams, hosts and sinks that come later begin at nothing, and the others keep their figures."""
    mine = Board(["a->b"], ["h1"], ["out"], begin=100.0, bins=10)
    mine.add_flow("arrived", "a->b", 6.0, 100.0, 103.0)
    mine.add_busy("h1", 101.0, 102.0)
    mine.add_latency("out", np.array([101.0]), 103.0)
    mine.count("a->b", 6, 1)
    mine.widen(["a->c", "a->b"], ["h0", "h1"], ["extra", "out"])
    assert mine.arrived.sum(axis=1).tolist() == pytest.approx([0.0, 6.0])
    assert mine.busy.sum(axis=1).tolist() == pytest.approx([0.0, 1.0])
    assert mine.totals[:, 1].tolist() == [6, 1, 0, 1]
    assert [row.count for row in mine.sinks.values()] == [0, 1]
    mine.add_flow("arrived", "a->c", 2.0, 103.0, 104.0)
    assert mine.arrived[0].sum() == pytest.approx(2.0)


def test_periods_in_two_files_are_all_shown(controlled: Path) -> None:
    """Periods of a long run are in two files, the older of which may begin late, and a kill may cut a line off."""
    path = controlled / "control" / "periods.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.with_name("periods-before.jsonl").write_text("".join(lines[20:40]))
    path.write_text(lines[40][:-9] + lines[41] + "".join(lines[42:]))
    view = ControlledView(controlled)
    view.look(0.0)
    busy = view.live(0.0)["series"]["busy"][0]
    assert [place for place, share in enumerate(busy) if share is None] == list(range(20))
    arrived = view.board.arrived[:, :80].any(axis=0)
    assert [place for place, some in enumerate(arrived.tolist()) if not some] == [*range(20), 40, 41]
