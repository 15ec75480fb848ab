"""Recorded queries, plans, decisions and metrics."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import BEGIN, Answering, Folder

from penstock.errors import InputError
from penstock.inspection import Inspection, inspect
from penstock.monitor import Question, open_view
from penstock.monitor.board import Board
from penstock.monitor.controlled import ControlledView
from penstock.monitor.decisions import Decisions
from penstock.monitor.exposition import METRICS, exposition
from penstock.monitor.log import LogView, PlanView
from penstock.monitor.run import RunView
from penstock.telemetry import read_telemetry

LOG = "examples/event-log/spark-4.3.zstd"


@pytest.fixture(scope="module")
def log() -> LogView:
    """The recorded example, looked at."""
    found = open_view([str(Path(__file__).parent.parent.parent / LOG)])
    assert isinstance(found, LogView)
    return found


def test_logs_show_queries_and_findings(log: LogView) -> None:
    """Of an event log every query is an operator, with its batches, its rows, and what is worth knowing."""
    about, live = log.about(), log.live(0.0)
    assert set(about["operators"]) >= {"aggregate", "dedup", "join"}
    assert about["findings"]
    assert live["status"]["word"] == "recorded"
    assert live["totals"]["latency"]["count"] > 100
    assert max(value for value in live["series"]["busy"][0] if value is not None) == pytest.approx(1.0)
    assert live["length"] <= 900


def test_rates_of_a_log_are_those_of_inspect(log: LogView) -> None:
    """Streams have the rates that ``inspect`` tells of their queries, while these were there; all has its own time."""
    totals = log.live(0.0)["totals"]
    streams = totals["streams"]
    for name, query in inspect(read_telemetry(log._paths)).queries.items():
        into = [streams[stream.name] for stream in log.network.inputs(name)]
        assert sum(row["rate"] for row in into) == pytest.approx(query.rate)
    place = log.board.streams.index("files->files-out")  # a sink that does not count
    assert set(log.live(0.0)["series"]["rates"][place]) == {None}
    assert totals["seconds"] == pytest.approx(379.63, abs=0.01)


def test_a_log_that_is_gone_is_told(tmp_path: Path) -> None:
    """A dashboard of a log that was deleted says so, its health check too, until the log is back."""
    path, away = tmp_path / "log.zstd", tmp_path / "away"
    shutil.copy(Path(__file__).parent.parent.parent / LOG, path)
    view = open_view([str(path)])
    view.look(0.0)
    path.rename(away)
    with pytest.raises(InputError, match="no such file or folder"):
        view.look(0.0)
    away.rename(path)
    view.look(0.0)


@pytest.mark.parametrize("lasts", [899.5, 900.0, 899.0])
def test_all_of_a_log_is_in_the_window(tmp_path: Path, lasts: float) -> None:
    """The window holds a log from its first to its last row, also where it begins within a bin."""
    begin = 1_767_225_600.9
    reports = []
    for number in range(900):
        when, seconds = begin + number, lasts - 899 if number == 899 else 0.5
        source = {"description": "RateStreamV2[rowsPerSecond=1000]", "numInputRows": 1000}
        report = {
            "id": "q", "runId": "r", "name": "q", "batchId": number, "sources": [source],
            "timestamp": datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds"),
            "durationMs": {"addBatch": 1000 * seconds, "triggerExecution": 1000 * seconds},
        }  # fmt: skip
        reports.append(json.dumps(report) + "\n")
    (tmp_path / "p").write_text("".join(reports))
    board = LogView([str(tmp_path / "p")]).board
    assert board.arrived.sum() == pytest.approx(900_000)
    assert board.start <= begin


def recorded(folder: Path, count: int, apart: float, **changes: Any) -> Path:
    """Return progress of two queries that run side by side, with batches of random sizes and rows that wait."""
    rng, path = np.random.default_rng(count), folder / "progress.json"
    with path.open("w") as file:
        for name in "ab":
            offset = 0
            for number in range(count):
                rows, waits = rng.integers(0, 1000, 2).tolist()
                offset += rows
                ends = {f"{kind}Offset": {"t": {"0": offset + more}} for kind, more in (("end", 0), ("latest", waits))}
                source = {
                    "description": f"KafkaV2[Subscribe[{name}]]", "startOffset": {"t": {"0": offset - rows}}, **ends,
                    "numInputRows": rows,
                }  # fmt: skip
                when = datetime.fromtimestamp(1_767_225_600.9 + apart * (number + 0.2 * rng.random()), UTC)
                seconds = 0.7 * apart * rng.random()
                report = {
                    "id": name, "runId": name, "name": name, "batchId": number, "sources": [source],
                    "numInputRows": rows, "timestamp": when.isoformat(timespec="milliseconds"),
                    "durationMs": {"triggerExecution": 1000 * seconds}, "sink": {"numOutputRows": rows // 2},
                }  # fmt: skip
                file.write(json.dumps({**report, **changes}) + "\n")
    return path


def plain_board(view: LogView, found: Inspection) -> Board:
    """Return what batches that are noted one by one make of the board of a log."""
    mine = view.board
    board = Board(mine.streams, mine.hosts, mine.sinks, begin=mine.start, step=mine.step, bins=mine.bins)
    busy, (host,) = [], mine.hosts
    for name, query in found.queries.items():
        batches, before, waited = query.batches, query.batches.start[0], 0.0
        alone = Board(mine.streams, mine.hosts, mine.sinks, begin=mine.start, step=mine.step, bins=mine.bins)
        columns = (batches.start, batches.end, batches.rows, batches.output, batches.lag)
        for start, end, rows, output, lag in zip(*(column.tolist() for column in columns), strict=True):
            board.add_flow("arrived", f"{name}-{name}->{name}", rows, before, start)
            board.add_flow("put" if lag > waited else "taken", f"{name}-{name}->{name}", abs(lag - waited), end, end)
            board.add_flow("arrived", f"{name}->{name}-out", output, start, end)
            alone.add_busy(host, start, end)
            board.add_latency(f"{name}-out", np.array([start]), end)
            before, waited = start, lag
        alone.slide(mine.last * mine.step)
        busy.append(alone.busy)
    board.busy = np.max(busy, axis=0)
    return board


@pytest.mark.parametrize(("count", "apart"), [(40, 1.0), (3000, 2.0), (50, 60.0)])
def test_a_log_shows_what_its_batches_show_one_by_one(tmp_path: Path, count: int, apart: float) -> None:
    """All batches of a log reach the window together, and it shows what it would if they came one after another."""
    path = recorded(tmp_path, count, apart)
    view = LogView([str(path)])
    board = plain_board(view, inspect(read_telemetry([str(path)])))
    for series in Board.SERIES:
        np.testing.assert_allclose(getattr(view.board, series), getattr(board, series), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(view.board.backlog(), board.backlog(), atol=1e-6)
    assert (view.board.first, view.board.last) == (board.first, board.last)
    for name, sink in board.sinks.items():
        assert view.board.sinks[name].classes.tolist() == sink.classes.tolist()


def test_what_waited_before_the_window_counts(tmp_path: Path) -> None:
    """Of a log that is longer than the window, five years, as many rows wait at its end as it tells."""
    path = recorded(tmp_path, 50, 40 * 86400.0)
    board = LogView([str(path)]).board
    assert board.first * board.step > 1_767_225_600 + 86400
    waits = dict(zip(board.streams, board.backlog()[:, board.length - 1], strict=True))
    for name, query in inspect(read_telemetry([str(path)])).queries.items():
        assert waits[f"{name}-{name}->{name}"] == pytest.approx(query.batches.lag[-1])


def test_a_long_log_opens_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are not noted one by one: what is done for each query does not grow with them."""
    for name in ("add_flow", "add_busy"):
        monkeypatch.setattr(Board, name, None)
    latencies, plain = [], Board.add_latency
    monkeypatch.setattr(Board, "add_latency", lambda *given: latencies.append(plain(*given)))
    LogView([str(recorded(tmp_path, 30, 1.0))])
    assert len(latencies) == 2


def test_a_log_that_names_no_sources_is_shown(tmp_path: Path) -> None:
    """Where progress does not tell sources, all rows of a query come from one."""
    view = LogView([str(recorded(tmp_path, 30, 1.0, sources=[]))])
    assert sum(name.endswith(("->a", "->b")) for name in view.board.streams) == 2


def test_logs_can_be_asked(log: LogView) -> None:
    """What-if questions work on recorded queries, at twice their rates."""
    usual = log.usual_rates()
    found = log.ask(Question(rates={name: 2 * rate for name, rate in usual.items()}))
    assert set(found["sinks"]) == set(log.network.sinks)


def test_exported_files_show_a_plan(penstock: object, tmp_path: Path, root: Path) -> None:
    """The folder that inspect --out writes is shown as a plan, with its rates and what they would mean."""
    done = penstock("inspect", LOG, "--out", tmp_path)  # type: ignore[operator]
    assert done.code == 0
    view = open_view([str(tmp_path)])
    assert isinstance(view, PlanView)
    work = view.needs_expecting(0.0)
    assert work is not None
    work()
    live = view.live(0.0)
    assert live["status"]["word"] == "planned"
    assert sum(value is not None for value in live["series"]["predicted"]) > 100


def planned(folder: Path, **costs: float) -> tuple[dict[str, Any], dict[str, list[float | None]]]:
    """Return what is live of a plan of two operators, with so many of their costs, and the rates by stream."""
    operators = {"views": {"kind": "filter", "inputs": ["clicks"]}, "scored": {"kind": "map", "inputs": ["views"]}}
    lines = ['name = "shop"', "[sources.clicks]", 'format = "nexmark"', "[sinks.out]", 'input = "scored"']
    for name, row in operators.items():
        lines += [f"[operators.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in row.items())]
        lines += ["selectivity = 0.5", *([f"cost = {costs[name]}"] if name in costs else [])]
    (folder / "network.toml").write_text("\n".join(lines) + "\n")
    (folder / "cluster.toml").write_text("[hosts.h1]\ncapacity = 1\n")
    (folder / "placement.json").write_text('{"placement": {"views": "h1", "scored": "h1"}}')
    (folder / "rates.csv").write_text("time,clicks\n0,100\n10,200\n")
    view = open_view([str(folder)])
    assert isinstance(view, PlanView)
    live = view.live(0.0)
    return live, dict(zip(view.board.streams, live["series"]["rates"], strict=True))


def test_a_plan_shows_the_rates_of_all_streams(tmp_path: Path) -> None:
    """Streams of a plan have the rates that follow from those of the sources; what only a run shows is not known."""
    live, rates = planned(tmp_path, views=0.001, scored=0.001)
    for name, share in (("clicks->views", 1.0), ("views->scored", 0.5), ("scored->out", 0.25)):
        assert rates[name][2] == pytest.approx(share * 100)
        assert rates[name][15] == pytest.approx(share * 200)
    assert {*live["series"]["busy"][0], *live["series"]["backlog"][0]} == {None}


def test_a_long_plan_opens_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rates of a plan reach the window in one step per stream, and none of its rows is lost or made."""
    planned(tmp_path, views=0.001, scored=0.001)
    rates = np.random.default_rng(0).integers(0, 200, 86_400)
    lines = [f"{time},{rate}" for time, rate in enumerate(rates.tolist())]
    (tmp_path / "rates.csv").write_text("\n".join(["time,clicks", *lines]) + "\n")
    monkeypatch.setattr(Board, "add_flow", None)
    board = open_view([str(tmp_path)]).board
    assert board.step > 1
    width = int(board.step)
    row = board.arrived[board.streams.index("clicks->views")]
    assert row[: 86_400 // width] == pytest.approx(rates.reshape(-1, width).sum(axis=1))
    assert row.sum() == pytest.approx(rates.sum())
    flows = dict(zip(board.streams, board.arrived, strict=True))
    assert flows["views->scored"] == pytest.approx(row / 2)
    assert flows["scored->out"] == pytest.approx(row / 4)


def test_a_plan_shows_no_rates_that_cannot_be_told(tmp_path: Path) -> None:
    """Where a cost is missing, only the streams of the sources have rates; the others are not known."""
    _, rates = planned(tmp_path, views=0.001)
    assert rates["clicks->views"][2] == pytest.approx(100)
    assert {*rates["views->scored"], *rates["scored->out"]} == {None}


def test_decisions_are_read_as_they_come(tmp_path: Path) -> None:
    """A history is read line by line; a half-written line waits, and one that is no decision is passed over."""
    path = tmp_path / "control" / "history.jsonl"
    reader = Decisions(path.parent)
    assert reader.look() is None
    path.parent.mkdir()
    first = {"time": 2.0, "seen": {"load": 1.2}, "decided": {"moves": []}, "why": "h1 is full", "expected": {}}
    path.write_text(json.dumps(first) + "\n" + '{"time": 4.0, "deci')
    assert reader.look() == [first]
    assert reader.look() is None
    with path.open("a") as file:
        file.write('ded": {}, "why": "x"}\nno json\n')
    assert [row["time"] for row in reader.look() or ()] == [2.0, 4.0]
    (path.parent / "state.json").write_text(json.dumps({"state": {"open": [[{**first, "time": 9.0}, None]]}}))
    assert [row["time"] for row in reader.look() or ()] == [2.0, 4.0, 9.0]
    path.write_text(json.dumps({**first, "time": 1.0}) + "\n")
    assert [row["time"] for row in reader.look() or ()] == [1.0, 9.0]


def test_a_controller_is_asked_and_answers(tmp_path: Path) -> None:
    """What is asked for reaches the controller with its token; where none runs, that is said."""
    Folder(tmp_path)
    view = RunView(tmp_path)
    view.look(BEGIN)
    assert view.actions == ()
    with pytest.raises(InputError, match="no controller runs here"):
        view.act("move", {"operator": "scored", "host": "h1"})
    with Answering(tmp_path) as controller:
        view.look(BEGIN)
        assert view.about()["actions"] == ["move", "drain", "stop"]
        found = view.act("move", {"operator": "scored", "host": "h1", "dry": True})
        assert found["why"] == "asked to move scored to h1"
        assert controller.asked[0]["token"] == "secret"  # noqa: S105
        assert controller.asked[0]["dry"] is True
    view.look(BEGIN)
    assert view.actions == ()


def test_metrics_are_prometheus_text(tmp_path: Path) -> None:
    """Every metric has its help and type once, and its values are those of the view."""
    folder = Folder(tmp_path)
    view = RunView(tmp_path)
    folder.grow(10, dropped=20)
    view.look(BEGIN + 22)
    text = exposition(view, BEGIN + 22)
    told = (Path(__file__).parent.parent.parent / "docs/reference/metrics.md").read_text()
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.type} |" in told
        assert text.count(f"# HELP {metric.name} ") == 1
        assert text.count(f"# TYPE {metric.name} {metric.type}\n") == 1
    assert 'penstock_stream_rows_total{stream="clicks->views"} 2000' in text
    assert 'penstock_stream_dropped_rows_total{stream="clicks->views"} 200' in text
    assert 'penstock_sink_rows_total{sink="out"} 900' in text
    assert "nan" not in text.lower().replace("dominan", "")


def test_a_simulated_controller_is_shown(penstock: Any, tmp_path: Path, root: Path) -> None:
    """What penstock control leaves of a simulated network is shown: placement, figures, decisions in virtual time."""
    two = "examples/two-chains"
    words = [f"{two}/network.toml", "--hosts", "2", "--rates", f"{two}/rates.csv", "--act", "--directory", tmp_path]
    done = penstock("control", *words, "--placement", "views=h1,scored=h1,paid=h1,billed=h1", "--json")
    assert done.code == 0, done.err
    view = open_view([str(tmp_path)])
    assert isinstance(view, ControlledView)
    view.look(0.0)
    about, live = view.about(), view.live(0.0)
    assert about["virtual"]
    assert len(about["decisions"]) == done.document["decisions"]
    assert about["placement"] == done.document["placement"]
    assert live["status"]["word"] == "ended"
    assert live["length"] >= 50
    # What was counted in each period is there, from the first one on.
    assert live["series"]["busy"][0][0] is not None
    assert live["series"]["busy"][0][-1] == pytest.approx(view._seen["busy"]["h1"], rel=1e-3)
    assert None not in live["series"]["measured"][1:-1]
    arrived = {name: sum(row) for name, row in zip(view.board.streams, view.board.arrived, strict=True)}
    told = {name: row["arrived"] for name, row in done.document["streams"].items()}
    assert {name: rows for name, rows in arrived.items() if rows} == pytest.approx(told, rel=0.01)
    assert "penstock_decisions_total" in exposition(view, 0.0)
    # How busy hosts were is told of the whole run.
    assert live["totals"]["seconds"] == pytest.approx(60)
    assert live["totals"]["hosts"] == {n: pytest.approx(row["busy"]) for n, row in done.document["hosts"].items()}
