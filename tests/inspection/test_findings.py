"""Findings: each is made where a log was made to show it, with its numbers, and not where nothing is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from penstock.inspection import Finding, Inspection, alike, inspect
from penstock.inspection.findings import KINDS
from penstock.telemetry import read_telemetry


def found(path: Path) -> Inspection:
    """Inspect a log."""
    return inspect(read_telemetry([str(path)]))


def only(inspection: Inspection, kind: str) -> Finding:
    """Return the one finding of a kind."""
    (finding,) = [f for f in inspection.findings if f.kind == kind]
    return finding


def kinds(inspection: Inspection) -> set[str]:
    """Return the kinds of all findings."""
    return {finding.kind for finding in inspection.findings}


def test_findings_that_say_the_same_are_one() -> None:
    """What is said of several queries in the same words is said once, of all of them, where the first stood."""
    rows = (("skew", "a", "x"), ("behind", "a", "y"), ("behind", "b", "y"), ("skew", "b", "z"))
    said = [Finding(kind=kind, about=about, says=says) for kind, about, says in rows]
    assert alike(said) == [("skew", ["a"], "x"), ("behind", ["a", "b"], "y"), ("skew", ["b"], "z")]


def test_a_healthy_query_has_no_findings(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """A query that keeps up, is warm and of a steady state, has nothing to say."""
    assert kinds(found(write(make.paced(noise=0.03, state=5000, tasks=(0.1, 0.1, 0.12))))) == set()


def test_warm_up(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """First batches that take longer are told, and the fit is that of the others."""
    batches = make.paced(noise=0.02, trigger=4.0)
    slow = [attrs.evolve(b, seconds=b.seconds * (4 - 0.5 * b.number)) if b.number < 5 else b for b in batches]
    inspection = found(write(slow))
    assert only(inspection, "warm-up").evidence["batches"] == 5
    assert inspection.queries["clicks"].fit.cost == pytest.approx(0.001, rel=0.05)


def test_progress_without_durations(make: SimpleNamespace, tmp_path: Path, penstock: Any) -> None:
    """Without durations one finding says so, nothing is said about cost or warm-up, and nothing is nan."""
    batches = make.paced(state=100, lag=3)
    reports = [{**make.progress(batch), "durationMs": None} for batch in batches]
    for report in reports:
        del report["batchDuration"]
    path = tmp_path / "progress.jsonl"
    for count in (len(reports), 1):
        path.write_text("\n".join(json.dumps(report) for report in reports[:count]))
        inspection = found(path)
        (finding,) = inspection.findings
        assert finding.kind == "no-fit"
        assert "the progress has no durations" in finding.says
        assert inspection.queries["clicks"].document()["seconds"]["p50"] is None
        done = penstock("inspect", path)
        assert done.code == 0
        assert "nan" not in (done.out + done.err).lower()
        assert "?" in done.out
        refused = penstock("advise", path)
        assert refused.code == 2
        assert "no durations" in refused.err


def test_some_batches_without_durations(make: SimpleNamespace, tmp_path: Path) -> None:
    """Batches whose durations are not told are left out of the fit and of the median, and count as warm."""
    reports = [make.progress(batch) for batch in make.paced(count=80)]
    for report in reports[::4]:
        del report["durationMs"], report["batchDuration"]
    (tmp_path / "p").write_text("\n".join(json.dumps(report) for report in reports))
    query = found(tmp_path / "p").queries["clicks"]
    assert query.warm.all()
    assert query.fit.cost == pytest.approx(0.001, rel=0.05)
    assert query.document()["seconds"]["mean"] > 0.3


def test_contention(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """A query whose batches take longer beside another query's is told with the factor and the other's name."""
    rng = np.random.default_rng(0)
    other = [
        make.Batch(query="heavy", number=n, start=make.EPOCH + 20 * n, rows=int(rng.integers(10, 999)), seconds=10.0)
        for n in range(30)
    ]
    mine = []
    for batch in make.paced(count=280, noise=0.05, overhead=0.4, cost=0.0005):
        beside = (batch.start - make.EPOCH) % 20 < 10
        mine.append(attrs.evolve(batch, seconds=batch.seconds * (1.5 if beside else 1)))
    finding = only(found(write([*mine, *other])), "contention")
    assert finding.about == "clicks"
    assert finding.evidence["factor"] == pytest.approx(1.5, rel=0.05)
    assert finding.other == "heavy"


def test_state_growth(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """State that grows without end is told with its pace; state that fills up and stays is not."""
    growing = found(write(make.paced(state=lambda number: 1000 + 500 * number)))
    assert only(growing, "state-growth").evidence["rows_per_hour"] == pytest.approx(500 * 1800, rel=0.02)
    filling = found(write(make.paced(state=lambda number: round(10_000 * (1 - np.exp(-number / 10))))))
    assert "state-growth" not in kinds(filling)


def test_skew(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """One task that runs four times as long as the others of its stage is told."""
    finding = only(found(write(make.paced(tasks=(0.1, 0.1, 0.4)))), "skew")
    assert finding.evidence["ratio"] == pytest.approx(4, rel=1e-3)
    assert "skew" not in kinds(found(write(make.paced(tasks=(0.1, 0.12, 0.11)))))


def test_restarts_and_failure(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """A query that was started again is told with the longest pause, and one that failed at last with its error."""
    again = make.paced(count=30, begin=make.EPOCH + 200)
    batches = [*make.paced(count=30), *(attrs.evolve(b, number=30 + b.number, run=1) for b in again)]
    path = write(batches)
    inspection = found(path)
    assert inspection.queries["clicks"].restarts == 1
    last = max(b.start + b.seconds for b in batches if b.run == 0)
    assert only(inspection, "restart").evidence["pause"] == pytest.approx(make.EPOCH + 200 - last, abs=1e-3)
    ended = {
        "Event": f"{make.STREAMING}QueryTerminatedEvent",
        "id": make.identifier("clicks"),
        "runId": make.identifier("clicks", 1),
        "exception": "java.lang.OutOfMemoryError: heap\n at somewhere",
    }
    with path.open("a") as file:
        file.write(json.dumps(ended) + "\n")
    assert "OutOfMemoryError: heap" in only(found(path), "failed").says


PYTHON = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] [session: 4ad1] Found error inside \
foreachBatch Python process: Traceback (most recent call last):
  File "worker.py", line 110, in main
    process(df_ref_id, int(batch_id), cloned_session_id)
  File "gate.py", line 106, in check
    raise Wrong()
{}
 SQLSTATE: 38000
\tat org.apache.spark.sql.connect.planner.StreamingForeachBatchHelper$.x(StreamingForeachBatchHelper.scala:311)
Caused by: java.lang.Error: other"""


def test_of_a_python_error_its_cause_is_told_and_of_a_stop_nothing(
    make: SimpleNamespace, write: Callable[..., Path]
) -> None:
    """A query failed by the line that tells why, cut between words; that penstock stopped or moved it is no failure."""
    who = {"id": make.identifier("clicks"), "runId": make.identifier("clicks", 0)}

    def told(said: str) -> Inspection:
        path = write(make.paced())
        ended = {"Event": f"{make.STREAMING}QueryTerminatedEvent", **who, "exception": PYTHON.format(said)}
        with path.open("a") as file:
            file.write(json.dumps(ended) + "\n")
        return found(path)

    assert only(told("steps.Wrong: no such site"), "failed").says.endswith("exception: steps.Wrong: no such site")
    assert only(told("steps.Wrong: " + "word " * 100), "failed").says.endswith(" word …")
    assert only(told("steps.Wrong: " + "x" * 400), "failed").says.endswith("steps.Wrong: " + "x" * 285 + " …")
    assert "failed" not in kinds(told("penstock.spark.shipped.gate.Fenced: penstock has stopped m1"))


def stopped(make: SimpleNamespace, query: str, run: int, why: str, begin: float, app: str) -> bytes:
    """Return the log of an application whose query failed before its first batch."""
    who = {"id": make.identifier(query), "runId": make.identifier(query, run)}
    events = [
        {"Event": "SparkListenerApplicationStart", "App ID": app, "App Name": "made", "Timestamp": round(1000 * begin)},
        {"Event": f"{make.STREAMING}QueryStartedEvent", **who, "name": query, "timestamp": make.iso(begin + 5)},
        {"Event": f"{make.STREAMING}QueryTerminatedEvent", **who, "exception": f"{why}\n at somewhere"},
    ]
    return make.text(map(json.dumps, events))


def test_a_start_that_fails_before_its_first_batch(
    make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path
) -> None:
    """A query that ran well and failed at its next start is told as failed and restarted, whichever log comes first."""
    path = write(make.paced(), "logs/app-1")
    (tmp_path / "logs/app-0").write_bytes(stopped(make, "clicks", 1, "offsets are gone", make.EPOCH + 400, "app-0"))
    (tmp_path / "logs/app-2").write_bytes(stopped(make, "views", 0, "no such topic", make.EPOCH + 400, "app-2"))
    inspection = found(path.parent)
    assert "offsets are gone" in only(inspection, "failed").says
    assert only(inspection, "restart").says == "it was restarted once"
    query = inspection.queries["clicks"]
    assert query.restarts == 1
    assert query.log.app == "app-1"
    assert query.batches.run.tolist() == [0] * 60
    assert inspection.skipped == ("query 'views' of app-2: it ended before its first batch: no such topic",)
    read = read_telemetry([str(path.parent)])
    assert kinds(inspect(read, until=make.EPOCH + 300)) == set()
    assert kinds(inspect(read, since=make.EPOCH + 60)) == {"failed", "restart"}


def test_a_first_start_that_fails_is_no_failure_later(
    make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path
) -> None:
    """A run that failed before all batches counts as an error before a restart, not as the last run."""
    path = write(make.paced(run=1), "logs/app-1")
    (tmp_path / "logs/app-0").write_bytes(stopped(make, "clicks", 0, "offsets are gone", make.EPOCH - 400, "app-0"))
    inspection = found(path.parent)
    assert kinds(inspection) == {"restart"}
    assert only(inspection, "restart").says == "it was restarted once, after 1 error"
    assert set(inspection.queries["clicks"].batches.run.tolist()) == {1}


def test_a_query_without_any_batch_says_why(make: SimpleNamespace, tmp_path: Path, penstock: Any) -> None:
    """Where no query has a batch, the exception by which one ended is the reason."""
    (tmp_path / "app-1").write_bytes(stopped(make, "clicks", 0, "no such topic", make.EPOCH, "app-1"))
    done = penstock("inspect", tmp_path / "app-1")
    assert done.code == 2
    assert "query 'clicks' of app-1: it ended before its first batch: no such topic" in done.err
    assert "did a query run" not in done.err


def test_dynamic_allocation(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Executors that come and go while an application runs are told with the cores there were."""
    path = write(make.paced(count=400))
    events = [
        {
            "Event": "SparkListenerExecutorAdded",
            "Timestamp": (make.EPOCH + 300) * 1000 // 1,
            "Executor ID": "2",
            "Executor Info": {"Total Cores": 8},
        },
        {"Event": "SparkListenerExecutorRemoved", "Timestamp": (make.EPOCH + 500) * 1000 // 1, "Executor ID": "2"},
    ]
    for event in events:
        event["Timestamp"] = int(event["Timestamp"])  # type: ignore[call-overload]
    with path.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    inspection = found(path)
    evidence = only(inspection, "dynamic-allocation").evidence
    assert evidence == {"least": 4, "most": 12, "lost": 1}
    assert inspection.applications["app-1"].cores == pytest.approx(4 + 8 * 200 / 803, rel=0.02)


def test_behind_and_limit(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Rows that pile up behind a rate limit are told, with how many more each hour."""
    batches = make.paced(rate=lambda _: 500.0, lag=lambda number: 100 * number)
    inspection = found(write(batches))
    assert only(inspection, "behind").evidence["rows_per_hour"] == pytest.approx(100 * 1800, rel=0.05)
    assert only(inspection, "limit").evidence["limit"] == 1000
    assert inspection.queries["clicks"].lag_rows == 5900


def test_back_to_back_batches_that_leave_nothing_are_fine(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Without a trigger a query that keeps up never waits; it is behind only where rows wait or come too fast."""

    def back_to_back(batch: Callable[[int], tuple[int, float]], **more: Any) -> list[Any]:
        made, start, offset = [], make.EPOCH, 0
        for number in range(60):
            rows, seconds = batch(number)
            made.append(
                make.Batch(query="q", number=number, start=start, rows=rows, seconds=seconds, offset=offset, **more)
            )
            start, offset = start + seconds, offset + rows
        return made

    steady = back_to_back(lambda number: (200 + 10 * (number % 7), 0.2 + 1e-4 * (200 + 10 * (number % 7))))
    assert "behind" not in kinds(found(write(steady)))
    # Each batch takes what came during the one before, 1100 rows a second, and does 1000 of them in a second.
    sizes = [100.0]
    for _ in range(59):
        sizes.append(1100 * (0.01 + 0.001 * sizes[-1]))
    growing = back_to_back(lambda number: (round(sizes[number]), 0.01 + 0.001 * sizes[number]))
    says = only(found(write(growing)), "behind").says
    assert says == "batches run back to back, to catch up or because they cannot keep up"
    waiting = back_to_back(lambda _: (1000, 1.0), lag=5000)
    assert "behind" in kinds(found(write(waiting)))


def test_state_commits_are_told_of_tasks_only(
    make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path
) -> None:
    """Commits add up over tasks, so they are a share of the tasks' time; without tasks nothing is said."""
    batches = make.paced(state=5000, tasks=(0.3, 0.3))
    reports = [make.progress(batch) for batch in batches]
    for report in reports:
        report["stateOperators"][0]["commitTimeMs"] = 480
    (tmp_path / "p").write_text("\n".join(map(json.dumps, reports)))
    assert "state-commit" not in kinds(found(tmp_path / "p"))
    path = write(batches)
    path.write_text(path.read_text().replace('"commitTimeMs":4,', '"commitTimeMs":240,'))
    assert only(found(path), "state-commit").evidence["share"] == pytest.approx(0.4)


def test_overrun_and_late(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Batches longer than their trigger, and rows behind the watermark, are told."""
    batches = make.paced(
        rate=lambda number: 400 if number % 5 else 1500, state=100, late=lambda number: 2 * (number % 2)
    )
    inspection = found(write(batches))
    assert only(inspection, "overrun").evidence["share"] > 0.1
    assert only(inspection, "late").evidence["rows"] == 60
    assert inspection.queries["clicks"].document()["late"] == 60


def test_a_start_overruns_no_trigger(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Batches in which code warms up, and those without rows, are not held against the trigger, but told."""
    first, *batches = make.paced(noise=0.02, trigger=4.0)[:18]
    slow = [attrs.evolve(b, start=b.start + 28, seconds=b.seconds * (4 if b.number < 4 else 1)) for b in batches]
    inspection = found(write([attrs.evolve(first, rows=0, seconds=29.8), *slow]))
    assert "overrun" not in kinds(inspection)
    assert "and one without rows before it: 29.8 s" in only(inspection, "warm-up").says


def test_late_groups_are_no_rows(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Of a windowed aggregation at least so many rows were late; of other operators just so many, with their share."""
    path = write(make.paced(state=100, late=2))
    finding = only(found(path), "late")
    assert finding.says.startswith("at least 120 rows came behind the watermark")
    assert "share" not in finding.evidence
    path.write_text(path.read_text().replace("stateStoreSave", "dedupeWithinWatermark"))
    finding = only(found(path), "late")
    assert finding.says.startswith("120 rows came behind the watermark")
    assert finding.evidence["share"] > 0


def test_batches_that_are_read_twice_count_once(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Where Kafka's offsets show that each batch is read twice, its rows count once; other sources do not tell."""
    path = write(make.paced(lag=7))
    plain = found(path).queries["clicks"]
    assert "rereads" not in kinds(found(path))
    reports = path.read_text()
    twice = re.sub(r'"numInputRows":(\d+)', lambda rows: f'"numInputRows":{2 * int(rows[1])}', reports)
    path.write_text(twice)
    inspection = found(path)
    query = inspection.queries["clicks"]
    assert only(inspection, "rereads").evidence["times"] == 2
    assert query.batches.rows.tolist() == query.batches.source_rows[0].tolist() == plain.batches.rows.tolist()
    assert (query.rate, query.lag_rows, query.fit.cost) == (plain.rate, 7, plain.fit.cost)
    path.write_text(twice.replace("KafkaV2[", "Counted["))
    assert found(path).queries["clicks"].rate == pytest.approx(2 * plain.rate, rel=0.01)


def test_lag_is_that_of_the_source_that_is_farthest_behind(make: SimpleNamespace, tmp_path: Path) -> None:
    """Rows that wait at a slow topic do not count by the rate of a fast one."""
    reports = [make.progress(batch) for batch in make.paced(rate=lambda _: 1000.0, cost=1e-4)]
    for number, report in enumerate(reports):
        (fast,) = report["sources"]
        slow = {"slow": {"0": 20 * number}}, {"slow": {"0": 20 * (number + 1)}}, {"slow": {"0": 20 * number + 1020}}
        offsets = dict(zip(("startOffset", "endOffset", "latestOffset"), map(json.dumps, slow), strict=True))
        report["sources"] = [{**fast, "description": "KafkaV2[Subscribe[slow]]", "numInputRows": 20, **offsets}, fast]
    (tmp_path / "p").write_text("\n".join(map(json.dumps, reports)))
    query = found(tmp_path / "p").queries["clicks"]
    assert query.lag_rows == 1000
    assert query.lag_seconds == pytest.approx(100, rel=0.02)


def test_real_time_mode_is_told(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """A query whose jobs read in real-time mode is named, and nothing is made of how long its batches take."""
    path = write(make.paced(rate=lambda _: 500.0, lag=lambda number: 100 * number))
    assert {"behind", "limit"} <= kinds(found(path))
    operator = json.dumps({"id": "spark_plan_6", "name": "RealTimeStreamScan"})
    stage = json.dumps({"Stage ID": 0, "RDD Info": [{"RDD ID": 0, "Scope": operator}]})
    path.write_text(path.read_text().replace('"Stage Infos":[]', f'"Stage Infos":[{stage}]'))
    inspection = found(path)
    assert kinds(inspection) == {"real-time"}
    assert inspection.queries["clicks"].log.real_time


def test_every_kind_is_known(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Findings have a kind of the list and come in its order."""
    batches = make.paced(rate=lambda _: 250.0, lag=lambda number: 500 * number, tasks=(0.1, 0.9))
    order: list[Any] = [KINDS.index(finding.kind) for finding in found(write(batches)).findings]
    assert len(order) >= 3
    assert order == sorted(order)
