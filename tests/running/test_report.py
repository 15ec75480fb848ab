"""The report of a run: its interval, its forecasts and drift, from batches that need no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from test_forecast import CLUSTER, NETWORK, PLACEMENT, STATISTICS, world

from penstock.cli.run import show
from penstock.files import to_json
from penstock.latency.microbatch import MicrobatchResult
from penstock.load import load_model
from penstock.running.drift import YOUNG, Drift
from penstock.running.job import Job, finish
from penstock.running.record import Record
from penstock.spark.run import Batch, Outcome
from penstock.spark.run.history import History
from penstock.workload import Rates

EPOCH = 1_000.0
STREAMS = {"o1.1": ("s1->o1.1", 0.004), "o1.2": ("o1.1->o1.2", 0.003)}


def outcome_of(result: MicrobatchResult) -> Outcome:
    """Return what a run would leave behind whose batches and latencies are these."""
    batches = []
    for number, batch in enumerate(result.batches):
        stream, cost = STREAMS[batch.query]
        rows = round(batch.load / cost)
        batches.append(Batch(batch.query, number, EPOCH + batch.start, batch.duration, rows, {stream: (rows, 0)}))
    stimulus, latency, _ = result.whole()
    sink = next(iter(NETWORK.sinks))
    return Outcome(
        epoch=EPOCH,
        batches=batches,
        visible={sink: EPOCH + stimulus + latency},
        stimulus={sink: EPOCH + stimulus},
        taken={},
        seconds=120.0,
    )


@pytest.mark.parametrize("slow", [1.0, 1.5])
def test_report_says_what_was_expected_and_what_came(slow: float) -> None:
    """The report has the interval of the prediction, forecasts beside what came, and drift if there was some."""
    course, _, result = world(np.random.default_rng(4), 120, (60, slow))
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS, rates=course.rates)
    found = finish(job, outcome_of(result)).report
    assert found["interval"]["worst"][0] <= found["predicted"]["max"] <= found["interval"]["worst"][1]
    assert found["draws"] == 200
    assert [(row["time"], row["horizon"]) for row in found["forecast"]] == [
        (10.0 * k, horizon) for k in range(1, 12) for horizon in (10.0, 60.0)
    ]
    assert all(row["low"] <= row["predicted"] <= row["high"] for row in found["forecast"])
    assert all(row["measured"] > 0 for row in found["forecast"])
    assert found["drift"] == (slow > 1)
    assert [drift["host"] for drift in found["drifts"]] == ["h1"] * len(found["drifts"])
    series = found["series"]["latency"]
    assert len(series["low"]) == len(series["high"]) == len(found["series"]["time"])
    assert to_json(found)
    assert finish(job, outcome_of(result)).report["forecast"] == found["forecast"]


def test_a_run_that_is_asked_to_end_is_compared_as_far_as_it_went() -> None:
    """What was predicted for rates that never came stands beside nothing."""
    course, _, result = world(np.random.default_rng(4), 60)
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS, rates=course.rates)
    outcome = attrs.evolve(outcome_of(result), seconds=60.0)
    whole, cut = (finish(job, attrs.evolve(outcome, asked=asked)).report for asked in (None, EPOCH + 20.0))
    until = attrs.evolve(job, seconds=20.0)
    assert cut["predicted"] == finish(until, outcome).report["predicted"]
    assert cut["predicted"]["count"] < whole["predicted"]["count"]


def test_unmeasured_overhead_is_told_and_teaches_nothing(tmp_path: Path) -> None:
    """Where no host's overhead is known the report says so, and its errors are none of the machine's."""
    course, _, result = world(np.random.default_rng(4), 60)
    bare = {name: attrs.evolve(row, overhead=0.0, speed=3e7) for name, row in STATISTICS.hosts.items()}
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=attrs.evolve(STATISTICS, hosts=bare), rates=course.rates)
    outcome, record = attrs.evolve(outcome_of(result), seconds=60.0), Record(tmp_path / "record.jsonl")
    assert any("overhead not measured" in note for note in finish(job, outcome, record=record).report["notes"])
    assert not record.file.exists() or '"off"' not in record.file.read_text()
    assert "notes" not in finish(attrs.evolve(job, statistics=STATISTICS), outcome).report


def test_rows_that_had_waited_before_the_run_are_held_against_no_prediction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where rows lay in a folder before a run, how far off their latency is is neither told nor kept."""
    course, _, result = world(np.random.default_rng(4), 60)
    quick = {name: attrs.evolve(row, speed=3e7) for name, row in STATISTICS.hosts.items()}
    known = attrs.evolve(STATISTICS, hosts=quick)
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=known, rates=course.rates)
    fresh = attrs.evolve(outcome_of(result), seconds=60.0)
    old = attrs.evolve(fresh, stimulus={name: times - 3600.0 for name, times in fresh.stimulus.items()})
    # A second run in the folder delivers what came while there was none; in a third that is in the history.
    resumed = attrs.evolve(fresh, begun=(EPOCH, EPOCH + 61), visible={n: t + 100.0 for n, t in fresh.visible.items()})
    lay = {name: len(times) for name, times in fresh.stimulus.items()}
    past = History(
        classes={name: {"9": count} for name, count in lay.items()}, worst=dict.fromkeys(lay, 60.0), waited=lay
    )
    later = attrs.evolve(fresh, history=past)
    assert (resumed.waited, later.waited) == (1.0, 0.5)
    for outcome, told in ((fresh, False), (resumed, True), (old, True)):
        record = Record(tmp_path / f"{told}.jsonl")
        report = finish(job, outcome, record=record).report
        assert ("waited" in report) == told
        assert (record.file.exists() and '"off"' in record.file.read_text()) != told
        show(report)
        shown = "".join(capsys.readouterr())
        assert ("100% of the rows at sinks had come to their folders or topics before" in shown) == told
        assert (" %" in shown.split("streams: rows")[0]) != told
    assert old.waited == report["waited"] == 1.0


def test_a_run_without_a_batch_has_a_report() -> None:
    """Where nothing was there to read nothing was delivered, no host was busy, and all is accounted for."""
    empty = {name: np.zeros(0) for name in NETWORK.sinks}
    nothing = Outcome(epoch=1.8e9, batches=[], visible=empty, stimulus=empty, taken={}, seconds=3.0)
    found = finish(Job(NETWORK, CLUSTER, PLACEMENT, "none"), nothing).report
    assert {name: row["busy"] for name, row in found["hosts"].items()} == {"h1": 0.0, "h2": 0.0}
    assert found["latency"] == {"mean": None, "p50": None, "p99": None, "max": None, "count": 0}
    assert found["balanced"]


def test_a_host_of_a_run_that_went_on_is_busy_for_its_share_of_the_time_that_is_known() -> None:
    """Where older batches are in the history, no time before the newer ones and none between runs makes a host idle."""
    nothing = {name: np.zeros(0) for name in NETWORK.sinks}
    spans = [(1096.0, 1.0), (1098.0, 2.0), (2000.0, 1.0), (2003.0, 1.0)]
    batches = [Batch("o1.1", 5 + n, start, took, 0, {}, host="h1") for n, (start, took) in enumerate(spans)]
    outcome = Outcome(
        EPOCH, batches, nothing, nothing, {}, 10.0, history=History(upto={"o1.1": 5}), begun=[EPOCH, 2000.0]
    )
    hosts = finish(Job(NETWORK, CLUSTER, PLACEMENT, "none"), outcome).report["hosts"]
    assert {name: row["busy"] for name, row in hosts.items()} == {"h1": pytest.approx(5 / 8), "h2": 0.0}


def test_report_says_how_fast_cores_were() -> None:
    """Each host's core is compared with what it was while calibrated, and has a series, where batches looked at it."""
    course, _, result = world(np.random.default_rng(4), 30)
    calibrated = {name: attrs.evolve(row, speed=3e7) for name, row in STATISTICS.hosts.items()}
    job = Job(
        NETWORK, CLUSTER, PLACEMENT, "none", statistics=attrs.evolve(STATISTICS, hosts=calibrated), rates=course.rates
    )
    outcome = outcome_of(result)
    looked = [attrs.evolve(b, speed=[(b.start, 2.4e7), (b.start + b.duration, 2.4e7)]) for b in outcome.batches]
    found = finish(job, attrs.evolve(outcome, batches=looked)).report
    for name, row in found["hosts"].items():
        assert (row["speed"], row["core"]) == pytest.approx((2.4e7, 0.8))
        series = found["series"]["hosts"][name]["speed"]
        assert len(series) == len(found["series"]["time"])
        assert {speed for speed in series if speed is not None} == {2.4e7}
    assert all("core" not in row for row in finish(job, outcome).report["hosts"].values())


def test_a_run_that_is_to_stop_is_predicted_until_then(tmp_path: Path) -> None:
    """Rates that a run does not come to are no part of its prediction, and the record is told of whole runs only."""
    course, _, result = world(np.random.default_rng(4), 120)
    calibrated = {name: attrs.evolve(row, speed=3e7) for name, row in STATISTICS.hosts.items()}
    known = attrs.evolve(STATISTICS, hosts=calibrated)
    whole = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=known, rates=course.rates)
    cut = attrs.evolve(whole, seconds=30.0)
    short = attrs.evolve(whole, rates=course.rates.until(30.0))
    outcome = outcome_of(result)
    assert finish(cut, outcome).report["predicted"] == finish(short, outcome).report["predicted"]
    assert {row["time"] for row in finish(cut, outcome).report["forecast"]} == {10.0, 20.0}
    runs = [(cut, 120.0), (whole, 60.0), (whole, 120.0), (attrs.evolve(whole, seconds=120.0), 120.0)]
    for number, (job, seconds) in enumerate(runs):
        record = Record(tmp_path / f"{number}.jsonl")
        finish(job, attrs.evolve(outcome, seconds=seconds), record=record)
        assert ('"off"' in record.file.read_text()) == (number > 1)


def test_long_periods_are_divided() -> None:
    """Rates that are given by the minute are forecast by the second: what entered before is no part of a forecast."""
    course, _, result = world(np.random.default_rng(4), 120)
    coarse = Rates.of(30.0, {"s1": course.rates.of_source("s1").reshape(4, 30).mean(axis=1)})
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS, rates=coarse)
    found = finish(job, outcome_of(result)).report["forecast"]
    assert len({row["predicted"] for row in found if row["horizon"] == 10}) > 4


def test_without_expected_rates_the_measured_ones_serve() -> None:
    """A run whose rates nobody told is compared with a prediction from measured ones; forecasts know the past."""
    _, _, result = world(np.random.default_rng(4), 60)
    found = finish(Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS), outcome_of(result)).report
    assert found["predicted"]["max"] == pytest.approx(found["latency"]["max"], rel=0.5)
    assert found["forecast"]


def test_what_is_predicted_of_measured_rates_lies_where_it_came() -> None:
    """Where the first rows come late, rate, predicted and measured latency begin in the same seconds."""
    _, _, result = world(np.random.default_rng(4), 60)
    early = outcome_of(result)
    late = attrs.evolve(
        early,
        batches=[attrs.evolve(batch, start=batch.start + 33) for batch in early.batches],
        visible={sink: times + 33 for sink, times in early.visible.items()},
        stimulus={sink: times + 33 for sink, times in early.stimulus.items()},
    )
    found = finish(Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS), late).report
    series = found["series"]
    assert not any(series["rate"]["s1"][:33])
    first = {
        name: next(k for k, value in enumerate(series["latency"][name]) if value is not None)
        for name in ("predicted", "measured")
    }
    assert first["measured"] == 33
    assert first["predicted"] == pytest.approx(33, abs=1)
    assert {row["time"] for row in found["forecast"]} >= {40.0, 50.0, 80.0}


def test_no_costs_no_prediction() -> None:
    """Without the cost of every operator there is neither prediction nor forecast."""
    _, _, result = world(np.random.default_rng(4), 30)
    rows = [attrs.evolve(operator, cost=None) for operator in NETWORK.operators.values()]
    bare = type(NETWORK).of("bare", NETWORK.sources.values(), rows, NETWORK.sinks.values())
    rates = Rates.of(1.0, {"s1": np.full(30, 120.0)})
    found = finish(Job(bare, CLUSTER, PLACEMENT, "none", rates=rates), outcome_of(result)).report
    assert found["predicted"] is None
    assert (found["forecast"], found["drift"], found["drifts"]) == ([], None, [])


def test_hosts_without_operators_are_idle() -> None:
    """A host of the cluster on which nothing ran is in the report, with nothing done."""
    _, _, result = world(np.random.default_rng(4), 30)
    cluster = attrs.evolve(CLUSTER, hosts={**CLUSTER.hosts, "h9": attrs.evolve(CLUSTER.hosts["h1"], name="h9")})
    found = finish(Job(NETWORK, cluster, PLACEMENT, "none", statistics=STATISTICS), outcome_of(result)).report
    assert found["hosts"]["h9"] == {"busy": 0.0}
    assert found["hosts"]["h1"]["busy"] > 0


def test_a_busy_share_that_is_not_known_is_left_open(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a host does not tell how much it worked, a run's report says so, in JSON, its series and for people."""
    course, _, result = world(np.random.default_rng(4), 30)
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS, rates=course.rates)
    outcome = outcome_of(result)
    silent = [attrs.evolve(row, busy=None) if PLACEMENT[row.query] == "h1" else row for row in outcome.batches]
    report = json.loads(to_json(finish(job, attrs.evolve(outcome, batches=silent)).report))
    assert report["hosts"]["h1"]["busy"] is None
    assert report["hosts"]["h2"]["busy"] > 0
    assert report["series"]["hosts"]["h1"]["measured"] is None
    show(report)
    assert "h1 busy unknown" in capsys.readouterr().err


def test_a_run_in_real_time_mode_says_how_many_rows_it_expects() -> None:
    """What the model of real-time mode predicts has all keys of a prediction, also at each sink."""
    course, _, result = world(np.random.default_rng(4), 30)
    prompt = attrs.evolve(CLUSTER, spark=attrs.evolve(CLUSTER.spark, mode="real-time"))
    job = Job(NETWORK, prompt, PLACEMENT, "none", statistics=STATISTICS, rates=course.rates)
    report = finish(job, outcome_of(result)).report
    expected = load_model(NETWORK, course.rates)
    sink, *none = NETWORK.sinks
    assert not none
    count = round(float(expected.arrivals[expected.stream_index[NETWORK.inputs(sink)[0].name]].sum()))
    assert report["predicted"].keys() == report["latency"].keys()
    assert report["predicted"]["count"] == report["sinks"][sink]["predicted"]["count"] == count > 0


def test_the_time_between_two_runs_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that went on after a stop is reported without the stop, and hosts that started again do not drift."""
    course, _, result = world(np.random.default_rng(4), 120)
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS, rates=course.rates, young=YOUNG)
    fresh = outcome_of(result)
    kept = [b for b in fresh.batches if not 40 <= b.start - EPOCH < 80]
    slow = [attrs.evolve(b, duration=3 * b.duration) if 80 <= b.start - EPOCH < 92 else b for b in kept]
    once = attrs.evolve(fresh, batches=slow, begun=(EPOCH,))
    twice = attrs.evolve(once, begun=(EPOCH, EPOCH + 80))
    before, after = (json.loads(to_json(finish(job, each).report)) for each in (once, twice))
    (first, stopped), (again, _) = twice.runs
    assert (first, again) == (EPOCH, EPOCH + 80)
    assert stopped == pytest.approx(EPOCH + 40, abs=2)
    assert ("runs" in before, after["runs"]) == (False, 2)
    assert after["hosts"]["h1"]["busy"] == pytest.approx(before["hosts"]["h1"]["busy"] * 1.5, rel=0.05)
    gone = {row["time"] for row in before["forecast"]} - {row["time"] for row in after["forecast"]}
    assert gone == {50.0, 60.0, 70.0}
    assert not {*range(43, 78)} & {*after["series"]["time"]}
    assert {*range(40), *range(80, 120)} <= {*after["series"]["time"]}
    assert len(after["series"]["latency"]["low"]) == len(after["series"]["time"])
    assert before["drifts"]
    assert not after["drifts"]
    late = [attrs.evolve(b, duration=3 * b.duration) if b.start - EPOCH >= 100 else b for b in kept]
    drift = Drift(**finish(job, attrs.evolve(twice, batches=late)).report["drifts"][0])
    assert (drift.began, f"from {drift.since - 80:.0f} s on" in drift.says) == (80, True)
    show(after)
    assert "over the folder's 2 runs" in capsys.readouterr().err


def test_where_nothing_was_predicted_there_is_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    """Of sinks that no row was predicted to reach the interval is null, and left blank for people."""
    course, _, result = world(np.random.default_rng(4), 60)
    job = Job(NETWORK, CLUSTER, PLACEMENT, "none", statistics=STATISTICS, rates=course.rates.scaled(0.0))
    report = finish(job, outcome_of(result)).report
    assert (report["predicted"]["max"], report["interval"]["worst"]) == (None, None)
    assert to_json(report)
    show(report)
    assert "0 to 0" not in capsys.readouterr().out
