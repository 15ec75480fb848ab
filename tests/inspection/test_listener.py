"""The listener: what it keeps is what `inspect` reads, it holds nobody up, and whatever goes wrong stays with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import penstock as package
from penstock.errors import InputError
from penstock.spark.hosts.java import find
from penstock.telemetry import read_telemetry
from penstock.telemetry.events import Progress, QueryStarted, QueryTerminated
from penstock.telemetry.exposition import METRICS
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.recorder import FILES, Recorder
from penstock.telemetry.worker import Worker


def event(report: dict[str, Any]) -> Any:
    """Return a progress event as pyspark hands it to listeners."""
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report)))


def feed(listener: Any, make: SimpleNamespace, batches: list[Any]) -> None:
    """Tell a listener of a query's whole life."""
    first = make.progress(batches[0])
    listener.onQueryStarted(
        SimpleNamespace(id=first["id"], runId=first["runId"], name=first["name"], timestamp=first["timestamp"])
    )
    for batch in batches:
        listener.onQueryProgress(event(make.progress(batch, text_offsets=False)))
    listener.onQueryTerminated(SimpleNamespace(id=first["id"], runId=first["runId"], exception=None))


def test_folder_is_read_back(penstock: Any, make: SimpleNamespace, tmp_path: Path) -> None:
    """What a listener was told of is what `inspect` finds in its folder."""
    batches = make.paced(lag=5, noise=0.01)
    listener = package.Listener(tmp_path / "progress")
    feed(listener, make, batches)
    listener.close()
    table = read_telemetry([str(tmp_path / "progress")]).queries["clicks"].batches
    assert table.rows.tolist() == [batch.rows for batch in batches]
    assert table.lag.tolist() == [5.0] * len(batches)
    document = penstock("inspect", tmp_path / "progress", "--json").document
    assert document["queries"]["clicks"]["cost"] == pytest.approx(0.001, rel=0.05)
    assert not document["warnings"]


def test_folder_stays_bounded(make: SimpleNamespace, tmp_path: Path) -> None:
    """However long a query runs, the folder keeps its bound, and holds the newest batches."""
    limit = 400_000
    listener = package.Listener(tmp_path, limit=limit)
    batches = make.paced(count=2000)
    feed(listener, make, batches)
    listener.close()
    files = list(tmp_path.iterdir())
    assert len(files) <= FILES
    assert sum(path.stat().st_size for path in files) <= limit
    read = read_telemetry([str(tmp_path)])
    numbers = read.queries["clicks"].batches.number
    assert numbers[-1] == 1999
    assert 100 < len(numbers) < 2000
    assert list(read.applications) == [read.queries["clicks"].app]


def test_folder_stays_bounded_over_restarts(tmp_path: Path) -> None:
    """What earlier starts of a job left counts against the bound, once nobody writes to it any more."""
    for _ in range(6):
        recorder = Recorder(tmp_path, limit=64 * 1024)
        for _ in range(400):
            recorder.write(b"x" * 500)
        recorder.close()
        for path in tmp_path.iterdir():
            os.utime(path, (1e9, 1e9))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 64 * 1024


@pytest.mark.parametrize("limit", [120_000, 4_000_000])
def test_queries_are_told_with_their_own_application(
    make: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """A listener of several sessions, one after the other, keeps each query with its application, as many as fit."""
    listener = package.Listener(tmp_path, limit=limit)
    session: dict[str, str] = {}
    monkeypatch.setattr("penstock.spark.listener._conf", lambda _: session if session else 1 / 0)
    for number in range(2 * FILES):
        session.update({"spark.app.id": f"app-{number}", "spark.app.name": f"job {number}"})
        feed(listener, make, make.paced(f"q{number}", count=5))
        listener.flush()
        session.clear()  # what ends after its session
        listener.onQueryProgress(event(make.progress(make.paced(f"q{number}", count=6)[-1])))
        listener.flush()
    feed(listener, make, make.paced("late", count=1))
    listener.close()
    files = list(tmp_path.iterdir())
    size = sum(path.stat().st_size for path in files)
    assert limit / 2 < size <= limit if limit < 1_000_000 else len(files) == 2 * FILES
    read = read_telemetry([str(tmp_path)])
    kept = range(2 * FILES - len(files), 2 * FILES)
    assert {name: log.app for name, log in read.queries.items()} == {
        **{f"q{number}": f"app-{number}" for number in kept}, "late": f"app-{kept[-1]}",
    }  # fmt: skip
    assert all(len(read.queries[f"q{number}"].batches) == 6 for number in kept)
    assert [read.applications[f"app-{number}"].name for number in kept] == [f"job {number}" for number in kept]


def test_an_event_takes_less_than_a_millisecond(make: SimpleNamespace, tmp_path: Path) -> None:
    """Who tells the listener of an event waits a millisecond at most, also while the folder does not answer."""
    listener = package.Listener(tmp_path, prometheus=0)
    held = threading.Event()
    listener._recorder.write = lambda line: held.wait(20)
    told = event(make.progress(make.paced(count=1)[0]))
    took = []
    for _ in range(2000):
        begin = time.perf_counter()
        listener.onQueryProgress(told)
        took.append(time.perf_counter() - begin)
    held.set()
    listener.close()
    assert sorted(took)[int(0.99 * len(took))] < 0.001


def test_errors_become_one_warning(make: SimpleNamespace, tmp_path: Path) -> None:
    """Whatever fails in the listener warns once, and later events are still kept."""
    listener = package.Listener(tmp_path)
    batches = make.paced(count=10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            listener.onQueryProgress(SimpleNamespace(progress=None))
        feed(listener, make, batches)
        listener.close()
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert listener._worker.failed == 5
    assert len(read_telemetry([str(tmp_path)]).queries["clicks"].batches) == 10


def test_a_full_queue_drops_and_counts() -> None:
    """Where events come faster than they can be kept, the queue stays bounded and what is left out is counted."""
    held = threading.Event()
    worker = Worker("test", limit=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(100):
            worker.put(lambda: held.wait(20) and None)
    assert 88 <= worker.dropped <= 90
    held.set()
    worker.close()


def scrape(port: int) -> str:
    """Return the metrics of a listener."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def test_metrics(make: SimpleNamespace) -> None:
    """The metrics are Prometheus' text, and their numbers are those of the batches."""
    listener = package.Listener(prometheus=0)
    batches = make.paced(lag=8, state=300, late=2)
    feed(listener, make, batches)
    listener._worker.close()
    text = scrape(listener.port)
    values = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            found = re.fullmatch(r'([a-z_]+(?:\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})?) (\S+)', line)
            assert found, line
            values[found[1]] = float(found[2])
    query = '{query="clicks"}'
    assert values[f"penstock_query_rows_total{query}"] == sum(batch.rows for batch in batches)
    assert values[f"penstock_query_batch_seconds_count{query}"] == len(batches)
    assert values[f"penstock_query_batch_seconds_sum{query}"] == pytest.approx(
        sum(b.seconds for b in batches), abs=0.05
    )
    assert values[f"penstock_query_late_rows_total{query}"] == 2 * len(batches)
    assert values[f"penstock_query_state_rows{query}"] == 300
    assert values[f"penstock_query_running{query}"] == 0
    # A single report cannot tell how many rows an offset stands for: Kafka's are rows.
    assert values[f"penstock_query_lag_rows{query}"] == 8
    for metric in METRICS:
        assert f"# TYPE {metric.name} {metric.type}" in text
    listener.close()
    with pytest.raises(urllib.error.URLError):
        scrape(listener.port or 1)


def test_failures_are_counted_from_nought() -> None:
    """A query's counters are there before it fails, also of one that began before the listener: the first is seen."""
    metrics = Metrics()
    metrics.take(QueryStarted(id="i", run_id="r", name="begun"))
    assert 'penstock_query_failures_total{query="begun"} 0' in metrics.text()
    metrics.take(QueryTerminated(id="i", run_id="r", exception="boom"))
    assert 'penstock_query_failures_total{query="begun"} 1' in metrics.text()
    report = {"id": "j", "runId": "r", "name": "goes on", "batchId": 1, "timestamp": "2026-01-01T10:00:00.123Z"}
    metrics.take(msgspec.convert(report, Progress))
    for what in ("starts", "failures"):
        assert f'penstock_query_{what}_total{{query="goes on"}} 0' in metrics.text()


def test_labels_are_escaped(make: SimpleNamespace) -> None:
    """A query's name may hold quotes and line ends, and the text stays readable."""
    listener = package.Listener(prometheus=0)
    report = {**make.progress(make.paced(count=1)[0]), "name": 'a"b\\\nc'}
    listener.onQueryProgress(event(report))
    listener._worker.close()
    assert '{query="a\\"b\\\\\\nc"}' in scrape(listener.port)
    listener.close()


def test_bad_arguments(tmp_path: Path) -> None:
    """Neither folder nor port, a taken port and a file for a folder are refused where the listener is made."""
    with pytest.raises(InputError, match="folder, a port or both"):
        package.Listener()
    listener = package.Listener(prometheus=0)
    with pytest.raises(InputError, match="cannot listen"):
        package.Listener(prometheus=listener.port)
    listener.close()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        package.Listener(tmp_path / "file")


@pytest.mark.parametrize(
    "given",
    [
        {"folder": "s3a://b/x"}, {"folder": "file://b/x"}, {"folder": "x", "limit": "1g"},
        {"prometheus": "9090"}, {"prometheus": True}, {"prometheus": 1.5},
    ],
)  # fmt: skip
def test_arguments_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    """What is no folder of this machine, no number of bytes or no port is refused, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        package.Listener(**given)
    assert [*tmp_path.iterdir()] == []


def test_a_local_folder_may_be_a_uri(tmp_path: Path) -> None:
    """A file URI names the folder, and no folder is made that is called like it."""
    for uri in (tmp_path.as_uri(), f"file:{tmp_path}"):
        listener = package.Listener(uri)
        assert listener.folder == tmp_path
        listener.close()


def test_dashboard_shows_only_metrics_that_there_are() -> None:
    """Each metric that the Grafana dashboard asks for is one that the listener serves."""
    path = Path(__file__).resolve().parents[2] / "docs/reference/grafana-dashboard.json"
    asked = set(re.findall(r"penstock_\w+", json.dumps(json.loads(path.read_text())["panels"])))
    served = {metric.name for metric in METRICS}
    assert asked
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= served


CLASSIC = """
    import os, sys, penstock
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master("local[1]").appName("classic").config("spark.ui.enabled", "false")
             .config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "1").getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    listener = penstock.Listener(sys.argv[1], prometheus=0)
    spark.streams.addListener(listener)
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
    query = rate.writeStream.queryName("ticks").format("noop").start()
    while query.lastProgress is None or query.lastProgress["batchId"] < 3:
        import time; time.sleep(0.1)
    query.stop()
    time.sleep(1)
    spark.streams.removeListener(listener)
    listener.close()
    spark.stop()
"""


@pytest.mark.spark
def test_classic_session(tmp_path: Path) -> None:
    """With a classic session the listener records a query's start, batches and end."""
    environment = {"JAVA_HOME": str(find().resolve().parent.parent), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    environment["PYSPARK_PYTHON"] = sys.executable
    # Code that runs once is not worth the second compiler.
    environment["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CLASSIC), str(tmp_path / "kept")],
        check=True, timeout=200, env=environment, cwd=tmp_path,
    )  # fmt: skip
    read = read_telemetry([str(tmp_path / "kept")])
    log = read.queries["ticks"]
    assert len(log.batches) >= 4
    assert set(log.batches.rows.tolist()) <= {0.0, 50.0}
    assert log.runs[0].end is not None
    assert read.applications[log.app].name == "classic"


@pytest.mark.spark
@pytest.mark.slow
def test_connect_session(tmp_path: Path) -> None:
    """With Spark Connect, where listeners run in the client, the same is recorded."""
    from penstock.cluster import Cluster
    from penstock.spark.hosts import start_hosts

    with start_hosts(Cluster.uniform(1)) as hosts:
        spark = next(iter(hosts.values())).session()
        listener = package.Listener(tmp_path)
        spark.streams.addListener(listener)
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
        query = (
            rate.writeStream.queryName("ticks")
            .format("noop")
            .option("checkpointLocation", str(tmp_path / ".checkpoint"))
            .start()
        )
        end = time.monotonic() + 60
        while (query.lastProgress is None or query.lastProgress.batchId < 3) and time.monotonic() < end:
            time.sleep(0.2)
        query.stop()
        time.sleep(1)
        spark.streams.removeListener(listener)
        listener.close()
    log = read_telemetry([str(tmp_path)]).queries["ticks"]
    assert len(log.batches) >= 3
    assert set(log.batches.rows.tolist()) <= {0.0, 50.0}
