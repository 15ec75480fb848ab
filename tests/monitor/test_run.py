"""A run looked at from its folder, while it grows and after it has ended."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

import attrs
import numpy as np
import pytest
from folders import BEGIN, NETWORK, Folder, setting

from penstock.errors import InputError
from penstock.load.setting import setting_of
from penstock.monitor import open_view, recent_runs
from penstock.monitor.exposition import exposition
from penstock.monitor.run import RunView
from penstock.network import Network
from penstock.network.model import Operator, Sink
from penstock.telemetry.runs import RunReader


def test_each_batch_is_read_once(tmp_path: Path) -> None:
    """However often one looks, each batch and each sink's rows are told once, in order."""
    folder = Folder(tmp_path)
    reader = RunReader(tmp_path)
    assert reader.look().batches == ()
    folder.grow(3)
    news = reader.look()
    assert [(b.query, b.number) for b in news.batches] == [(q, n) for q in ("h1", "h2") for n in range(3)]
    assert sum(seen.stimulus.size for seen in news.rows) == 300
    assert reader.look().batches == ()
    folder.grow()
    assert [b.number for b in reader.look().batches] == [3, 3]


def test_latencies_are_read_however_they_are_noted(tmp_path: Path) -> None:
    """Notes say the same by rows of a batch, by times and how many rows had each, and by rows that came one by one."""
    folder = Folder(tmp_path)
    folder.grow()
    file = tmp_path / "latency/out/h2-000000000000.npy"
    row = np.load(file)
    times, counts = np.unique(row[1:], return_counts=True)
    grouped = np.stack([np.full(times.size, row[0]), times, counts])
    kinds = [row, grouped, np.stack([np.full(row.size - 1, row[0]), row[1:]])]
    found = []
    for kind in kinds:
        np.save(file, kind)
        view = RunView(tmp_path)
        view.look(BEGIN + 4)
        found.append(view.live(BEGIN + 4)["totals"]["latency"])
    assert found[0]["count"] == 100
    assert found[0] == found[1] == found[2]
    np.save(file, row[:1])
    assert RunReader(tmp_path).look().rows == ()


def test_a_report_is_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    """A batch without Spark's report waits for it, until two more batches show that it was lost."""
    folder = Folder(tmp_path)
    folder.grow()
    (tmp_path / "progress/h1/000000000000.json").unlink()
    reader = RunReader(tmp_path)
    assert [b.query for b in reader.look().batches] == ["h2"]
    folder.grow(2)
    lost = next(b for b in reader.look().batches if b.query == "h1")
    assert lost.number == 0
    assert lost.duration == 0.0
    assert lost.counts["clicks->views"] == (200, 0)


def test_batches_that_became_history_are_passed_over(tmp_path: Path) -> None:
    """Batches whose files are gone are not waited for."""
    folder = Folder(tmp_path)
    reader = RunReader(tmp_path)
    folder.grow(2)
    reader.look()
    folder.grow(3)
    for query in ("h1", "h2"):
        for number in (2, 3):
            (tmp_path / f"batches/{query}/{number:012d}.json").unlink()
    assert [b.number for b in reader.look().batches] == [4, 4]


def test_figures_are_those_of_the_batches(tmp_path: Path) -> None:
    """Rates, busy shares, counts and latencies of the view are those of what the batches tell."""
    folder = Folder(tmp_path)
    view = RunView(tmp_path)
    folder.grow(30)
    view.look(BEGIN + 62)
    live = view.live(BEGIN + 62)
    rates = np.array(live["series"]["rates"][view.board.streams.index("clicks->views")], float)
    assert rates[5] == pytest.approx(100, rel=0.01)
    assert rates[30] == pytest.approx(200, rel=0.01)
    busy = np.array(live["series"]["busy"], float)
    # 200 rows a batch: 0.1 + 0.2 s of 2 s on h1, 0.1 + 0.4 s on h2.
    assert busy[0, 4:18].mean() == pytest.approx(0.15, abs=0.02)
    assert busy[1, 4:18].mean() == pytest.approx(0.25, abs=0.02)
    totals = live["totals"]
    assert totals["streams"]["clicks->views"] == {"arrived": 8000, "delivered": 8000, "dropped": 0, "late": 0}
    assert totals["latency"]["count"] == 4000
    assert totals["latency"]["worst"] == pytest.approx(2 + 0.1 + 0.4 + 0.1 + 0.8, abs=0.02)
    assert view.begin == BEGIN


def test_queries_side_by_side_keep_a_host_busy_once(tmp_path: Path) -> None:
    """Where the batches of two queries of a host run at once, it is busy for as long as any of them runs."""
    folder = Folder(tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    folder.write("run.json", {**run, "units": [{"name": name, "host": "h1"} for name in ("a", "b")]})
    for number in range(29):
        for query, took in (("a", 0.3), ("b", 0.6)):
            folder._batch(query, (number, BEGIN + 2 * (number + 1), took, 100), {}, {})
    view = RunView(tmp_path)
    view.look(BEGIN + 60)
    busy = np.array(view.live(BEGIN + 60)["series"]["busy"][0], float)
    assert busy[2:58].mean() == pytest.approx(0.3)
    metrics = dict(line.rsplit(" ", 1) for line in exposition(view, BEGIN + 60).splitlines())
    assert float(metrics['penstock_host_busy_ratio{host="h1"}']) == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("share", [0.25, None])
def test_usage_in_real_time_mode_is_that_of_the_host(tmp_path: Path, share: float | None) -> None:
    """Batches that last whether rows come or not tell the host's share, which counts once, or that it is not known."""
    folder = Folder(tmp_path)
    folder.grow(4)
    for file in (tmp_path / "batches/h1").iterdir():
        manifest = json.loads(file.read_text())
        told = {**manifest, "busy": share, "since": manifest["visible"] - 2.0}
        report = json.loads((tmp_path / "progress/h1" / file.name).read_text())
        for query in ("h1", "also"):
            folder.write(f"batches/{query}/{file.name}", told)
            folder.write(f"progress/{query}/{file.name}", report)
    units = [{"name": name, "host": host} for name, host in (("h1", "h1"), ("also", "h1"), ("h2", "h2"))]
    folder.write("run.json", {**json.loads((tmp_path / "run.json").read_text()), "units": units})
    view = RunView(tmp_path)
    view.look(BEGIN + 12)
    busy = view.live(BEGIN + 12)["series"]["busy"]
    assert set(busy[0][3:8]) == {share}
    assert max(busy[1]) > 0.25


def test_backlog_is_what_was_not_taken(tmp_path: Path) -> None:
    """What the schedule put and no batch took waits; it is worked off when batches come."""
    folder = Folder(tmp_path)
    view = RunView(tmp_path)
    folder.grow(2)
    view.look(BEGIN + 8)
    host = list(view.setting.cluster.hosts).index("h1")
    live = view.live(BEGIN + 8)
    # Batches 0 and 1 took what came until 4 s; 100 a second have come since.
    assert live["series"]["backlog"][host][-1] == pytest.approx(400, abs=1)
    folder.grow(2)
    view.look(BEGIN + 8.5)
    assert view.live(BEGIN + 8.5)["series"]["backlog"][host][-1] <= 250


@pytest.mark.parametrize("folded", [0, 300])
def test_backlog_is_the_same_for_who_comes_late(tmp_path: Path, folded: int) -> None:
    """Who opens a run more than a quarter of an hour after its beginning sees what waits, also of what is history."""
    folder = Folder(tmp_path, setting(seconds=1200))
    folder.grow(500)
    counts = {"clicks->views": [0, 0], "views->scored": [0, 0]}
    rows = {"views": 0}
    for query in ("h1", "h2"):
        for number in range(folded):
            file = tmp_path / f"batches/{query}/{number:012d}.json"
            manifest = json.loads(file.read_text())
            for name, (arrived, dropped) in manifest["counts"].items():
                counts[name] = [sum(pair) for pair in zip(counts.get(name, [0, 0]), (arrived, dropped), strict=True)]
            rows["views"] += manifest["rows"].get("views", [0, 0])[1]
            file.unlink()
    folder.write("history.json", {"counts": counts, "rows": rows})
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it goes on: the window is a quarter of an hour
        view = RunView(tmp_path)
        view.look(BEGIN + 1010)
    assert view.board.start > BEGIN
    backlog = view.live(BEGIN + 1010)["series"]["backlog"]
    # 10 s of rows came since the last batch of h1 began; h2 has taken all that h1 put.
    first, second = (row[-1] for row in backlog)
    assert first == pytest.approx(1000, abs=1)
    assert second == 0


def test_prediction_stands_beside_measurement(tmp_path: Path) -> None:
    """Latency and busy share are predicted for the seconds of the run, with an interval that holds them."""
    folder = Folder(tmp_path)
    view = RunView(tmp_path)
    folder.grow(30)
    view.look(BEGIN + 61)
    work = view.needs_expecting(BEGIN + 61)
    assert work is not None
    work()
    assert view.needs_expecting(BEGIN + 62) is None
    live = view.live(BEGIN + 62)
    predicted, low, high = (live["series"][key] for key in ("predicted", "low", "high"))
    inside = [k for k in range(60) if predicted[k] is not None]
    assert len(inside) >= 58
    assert all(low[k] <= predicted[k] * 1.001 and predicted[k] <= high[k] * 1.001 for k in inside)
    # At 200 rows a second: 2 s, a batch of 0.5 s, up to 2 s until h2 begins its own, and 0.9 s.
    assert 3 < live["totals"]["predicted"]["worst"] < 5.5
    assert live["totals"]["interval"]["worst"][0] <= live["totals"]["predicted"]["worst"]


def test_no_interval_is_shown_where_none_is_known(tmp_path: Path) -> None:
    """Where nothing is known to be uncertain the prediction stands alone: its interval is not itself."""
    what = setting()
    rows = {name: attrs.evolve(row, error=0.0) for name, row in what.statistics.operators.items()}
    hosts = {name: attrs.evolve(row, error=0.0) for name, row in what.statistics.hosts.items()}
    Folder(tmp_path, attrs.evolve(what, statistics=attrs.evolve(what.statistics, operators=rows, hosts=hosts))).grow(30)
    view = RunView(tmp_path)
    view.look(BEGIN + 61)
    work = view.needs_expecting(BEGIN + 61)
    assert work is not None
    work()
    live = view.live(BEGIN + 62)
    assert live["totals"]["interval"] is None
    assert "predicted" in live["series"]
    assert not {"low", "high"} & set(live["series"])


def test_without_rates_those_that_came_are_expected(tmp_path: Path) -> None:
    """Where nobody told the rates, the prediction follows those that were measured, again and again."""
    folder = Folder(tmp_path)
    folder.write("about.json", attrs.evolve(folder.what, rates=None).document())
    view = RunView(tmp_path)
    assert view.needs_expecting(BEGIN) is None
    folder.grow(20)
    view.look(BEGIN + 42)
    work = view.needs_expecting(BEGIN + 42)
    assert work is not None
    work()
    assert view.needs_expecting(BEGIN + 45) is None
    assert view.needs_expecting(BEGIN + 53) is not None
    assert view.live(BEGIN + 45)["totals"]["predicted"]["worst"] > 2


def test_unknown_costs_are_told(tmp_path: Path) -> None:
    """Without costs nothing is predicted, and the page says why."""
    folder = Folder(tmp_path)
    bare = attrs.evolve(folder.what, statistics=attrs.evolve(folder.what.statistics, operators={}))
    folder.write("about.json", bare.document())
    view = RunView(tmp_path)
    folder.grow(5)
    view.look(BEGIN + 12)
    work = view.needs_expecting(BEGIN + 12)
    assert work is not None
    work()
    assert any("cost of views, scored is unknown" in note for note in view.about()["notes"])


def test_settings_come_back_without_secrets() -> None:
    """What a run tells of itself can be read again, and holds no options: they may be passwords."""
    before = setting()
    text = json.dumps(before.document())
    assert "secret" not in text
    after = setting_of(json.loads(text))
    assert after.network.operators == before.network.operators
    assert [s.name for s in after.network.streams] == [s.name for s in before.network.streams]
    assert after.cluster.hosts == before.cluster.hosts
    assert after.cluster.spark == before.cluster.spark
    assert dict(after.placement) == dict(before.placement)
    assert after.statistics == before.statistics
    assert after.rates is not None
    np.testing.assert_array_equal(after.rates.values, before.rates.values)  # type: ignore[union-attr]


def test_operators_that_move_are_followed(tmp_path: Path) -> None:
    """When a controller moves an operator, the view shows it where it is, and whose time its batches take."""
    folder = Folder(tmp_path)
    view = RunView(tmp_path)
    folder.grow(2)
    view.look(BEGIN + 5)
    before = view.revision
    units = [{"name": "h1", "host": "h1"}, {"name": "h2", "host": "h1"}]
    folder.write(
        "run.json", {"network": "shop", "run": "1", "placement": {"views": "h1", "scored": "h1"}, "units": units}
    )
    folder.grow(2)
    view.look(BEGIN + 9)
    assert view.revision > before
    assert view.about()["placement"] == {"views": "h1", "scored": "h1"}
    assert not any(stream["crosses"] for stream in view.about()["streams"])
    h1, h2 = view.board.busy
    assert h2.sum() == pytest.approx(2 * 0.5, abs=0.01)
    assert h1.sum() == pytest.approx(4 * 0.3 + 2 * 0.5, abs=0.01)


def moved(folder: Folder, when: float) -> None:
    """Let all operators of a run be on one host from a time on (s since the epoch)."""
    units = [{"name": "h1", "host": "h1"}, {"name": "h2", "host": "h1"}]
    run = {"network": "shop", "run": "1", "placement": {"views": "h1", "scored": "h1"}, "units": units}
    folder.write("run.json", run)
    os.utime(folder.path / "run.json", (when, when))


@pytest.mark.parametrize("told", [True, False])
def test_nothing_is_predicted_before_the_last_move(tmp_path: Path, told: bool) -> None:
    """The placement of now predicts what came since it is so, with the rates of then, and a note says since when."""
    what = setting() if told else attrs.evolve(setting(), rates=None)
    folder = Folder(tmp_path)
    folder.write("about.json", what.document())
    view = RunView(tmp_path)
    folder.grow(30)
    view.look(BEGIN + 30)
    stale = view.needs_expecting(BEGIN + 30)
    moved(folder, BEGIN + 41)
    view.look(BEGIN + 61)
    assert stale is not None
    stale()
    assert "predicted" not in view.live(BEGIN + 61)["series"]
    work = view.needs_expecting(BEGIN + 61)
    assert work is not None
    work()
    live = view.live(BEGIN + 61)
    predicted, load = live["series"]["predicted"], live["series"]["load"][0]
    assert set(predicted[:41]) == set(load[:41]) == {None}
    assert None not in (predicted[41], load[41])
    # In the last third the rate is no longer doubled.
    assert load[45] == pytest.approx(100 * 0.001 + 50 * 0.004 + 0.1 / 2, rel=0.02 if told else 0.3)
    assert any("begins 41 s after the run did" in note for note in view.about()["notes"])


def test_a_run_that_ended_when_it_changed_has_no_prediction(tmp_path: Path) -> None:
    """Where no rates came after a change, nothing is predicted."""
    folder = Folder(tmp_path)
    folder.grow(30)
    moved(folder, BEGIN + 60)
    view = RunView(tmp_path)
    view.look(BEGIN + 61)
    assert view.needs_expecting(BEGIN + 61) is None


def test_why_nothing_is_predicted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the model refuses, pages get the reason with the next look."""

    def refused(*_: object, **__: object) -> None:
        raise InputError("too large")

    Folder(tmp_path).grow(5)
    view = RunView(tmp_path)
    view.look(BEGIN + 12)
    before, work = view.about(), view.needs_expecting(BEGIN + 12)
    assert work is not None
    monkeypatch.setattr("penstock.monitor.view.expect", refused)
    work()
    after = view.about()
    assert after["revision"] > before["revision"]
    assert after["notes"] == [*before["notes"], "No prediction: too large"]


def test_the_newest_run_is_found(tmp_path: Path) -> None:
    """Of several runs below a folder the one that was begun last is shown."""
    import os

    for age, name in ((2, "one"), (1, "two/run"), (3, "three")):
        Folder(tmp_path / name, run=name)
        for file in ("run.json", "about.json"):
            os.utime(tmp_path / name / file, (BEGIN - age, BEGIN - age))
    assert recent_runs(tmp_path) == [tmp_path / name for name in ("two/run", "one", "three")]
    view = open_view([str(tmp_path)])
    assert isinstance(view, RunView)
    assert view.identity == "two/run"


def test_a_run_that_tells_nothing_is_refused(tmp_path: Path) -> None:
    """The folder of an older penstock, which does not tell what is deployed, is refused with a remedy."""
    Folder(tmp_path)
    (tmp_path / "about.json").unlink()
    with pytest.raises(InputError, match="does not tell what is deployed"):
        RunView(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        open_view([str(tmp_path / "nowhere")])


def test_an_ended_run_fits_its_window(tmp_path: Path) -> None:
    """A run of hours that has ended is shown whole, in longer steps."""
    folder = Folder(tmp_path, setting(seconds=3000))
    folder.grow(1490)
    import os

    for path in (tmp_path / "batches").iterdir():
        os.utime(path, (BEGIN + 2990, BEGIN + 2990))
    view = RunView(tmp_path)
    view.look(BEGIN + 10_000)
    assert view.status.word == "ended"
    live = view.live(BEGIN + 10_000)
    assert live["step"] == 5.0
    assert live["start"] <= BEGIN
    place = view.board.streams.index("clicks->views")
    assert view.board.totals[0, place] == pytest.approx(view.board.arrived[place].sum())
    assert view.board.totals[0, place] == pytest.approx(397_000, rel=0.02)


def test_totals_of_a_run_that_went_on_are_without_the_time_between(tmp_path: Path) -> None:
    """Where a run is over, how long it ran and how busy hosts were is what its report says, without its pauses."""
    folder = Folder(tmp_path, setting(seconds=2000))
    folder.grow(5)
    folder.number = 500
    folder.grow(5)
    folder.write("begun.json", [BEGIN, BEGIN + 1000])
    folder.write("ended.json", [BEGIN + 20, BEGIN + 1030])
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        view = RunView(tmp_path)
        view.look(BEGIN + 1030)
        assert view.live(BEGIN + 1030)["totals"]["seconds"] is None
    view.look(BEGIN + 1031)
    totals = view.live(BEGIN + 1031)["totals"]
    # Five batches of 200 rows and five of 400, a thousandth of a second a row and a tenth each.
    assert totals["seconds"] == pytest.approx(50)
    assert totals["hosts"] == {"h1": pytest.approx(4 / 50), "h2": pytest.approx(7 / 50)}
    # What is in the history tells no time: shares are those of the time since.
    folder.write("history.json", {"upto": {"h1": 3, "h2": 3}})
    for file in (file for number in range(3) for file in (tmp_path / "batches").glob(f"*/{number:012d}.json")):
        file.unlink()
    view = RunView(tmp_path)
    view.look(BEGIN + 1031)
    assert view.live(BEGIN + 1031)["totals"]["hosts"]["h1"] == pytest.approx(2.8 / (50 - 8.3))


@pytest.mark.parametrize("early", [0.0003, 0.7])
def test_rates_are_of_what_batches_have_told(tmp_path: Path, early: float) -> None:
    """The second into which the last batch reaches has the rate of what is told of it, or none, as those behind it."""
    folder = Folder(tmp_path, begin=BEGIN + early)
    view = RunView(tmp_path)
    folder.grow(5)
    view.look(BEGIN + 12)
    row = view.live(BEGIN + 12)["series"]["rates"][view.board.streams.index("clicks->views")]
    assert row[1:10] == pytest.approx([100.0] * 9, rel=1e-3)
    assert [rate is None for rate in row[10:]] == [early < 0.5, *[True] * (len(row) - 11)]
    assert row[10] is None or row[10] == pytest.approx(100, rel=1e-3)
    # What no batch has told of for a minute did not come.
    view.board.slide(BEGIN + 100)
    view.look(BEGIN + 100)
    row = view.live(BEGIN + 100)["series"]["rates"][0]
    assert row[12:40] == [0.0] * 28
    assert row[42:] == [None] * (len(row) - 42)


def test_time_goes_on_where_nothing_comes(tmp_path: Path) -> None:
    """A run that goes on shows now, also where its sources have fallen silent; the last minute is the last one."""
    folder = Folder(tmp_path)
    folder.write("about.json", attrs.evolve(folder.what, rates=None).document())
    folder.grow(10)
    now = BEGIN + 700
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        view = RunView(tmp_path)
        view.look(now)
        live = view.live(now)
    assert live["length"] == 701
    assert live["series"]["rates"][0][100:640] == [0.0] * 540
    metrics = dict(line.rsplit(" ", 1) for line in exposition(view, now).splitlines())
    assert float(metrics['penstock_host_busy_ratio{host="h1"}']) == 0


def test_a_share_that_is_told_afterwards_is_unknown_before(tmp_path: Path) -> None:
    """Where a host tells its share at each checkpoint, nobody knows it since the last one: it is not idle."""
    folder = Folder(tmp_path)
    folder.grow()
    file = tmp_path / "batches/h1/000000000000.json"
    manifest = json.loads(file.read_text())
    folder.write(f"batches/h1/{file.name}", {**manifest, "busy": 0.5, "since": BEGIN})
    view = RunView(tmp_path)
    view.look(BEGIN + 20)
    busy = view.live(BEGIN + 20)["series"]["busy"]
    assert busy[0][:2] == [0.5, 0.5]
    assert busy[0][3:] == [None] * 18
    assert busy[1][-1] == 0


@pytest.mark.parametrize("seen", [BEGIN + 30, BEGIN + 700])
def test_a_dead_run_ends_with_its_last_batch(tmp_path: Path, seen: float) -> None:
    """A run that died under a schedule is as long as it ran, whenever one looks: its means are those of that time."""
    folder = Folder(tmp_path, setting(seconds=600))
    (tmp_path / "lock").touch()
    folder.grow(10)
    view = RunView(tmp_path)
    view.look(seen)
    live = view.live(seen)
    assert live["status"]["word"] == "ended"
    assert live["length"] == 21
    assert live["series"]["backlog"][0][-1] == pytest.approx(80, abs=1)  # of 0.8 s: h1 began its last one then


def test_a_long_schedule_is_taken_in_at_once(tmp_path: Path) -> None:
    """Who opens a run a day after its beginning waits no seconds for what its schedule has put."""
    folder = Folder(tmp_path, setting(seconds=86_400))
    folder.number = 43_000
    folder.grow(1)
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        view = RunView(tmp_path)
        begin = time.process_time()
        view.look(BEGIN + 86_100)
    assert time.process_time() - begin < 0.2
    assert view.board.backlog()[0, -1] == pytest.approx(86_100 * 100 + 28_800 * 100 - 200)


def test_a_copied_run_fits_its_window(tmp_path: Path) -> None:
    """How long a run took is told by what its batches say, not by when its files were copied."""
    folder = Folder(tmp_path)
    folder.grow(30)
    assert RunView(tmp_path).board.step == 1.0


def test_a_source_is_as_fast_as_its_fullest_reader(tmp_path: Path) -> None:
    """A query that was admitted late does not tell the rate of the source that it reads."""
    Folder(tmp_path).grow(5)
    view = RunView(tmp_path)
    view.look(BEGIN + 10)
    before = view.usual_rates()
    late = Operator(name="a_late", kind="filter", inputs=("clicks",), where="kind = 'view'")
    sinks = [*NETWORK.sinks.values(), Sink(name="more", input="a_late")]
    view.grow(Network.of("shop", NETWORK.sources.values(), [late, *NETWORK.operators.values()], sinks), when=BEGIN)
    rates = view.measured_rates()
    assert rates is not None
    assert rates.of_source("clicks").mean() > 0.5 * before["clicks"]
