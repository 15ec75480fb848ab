"""Where the workers of streaming queries come from."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hosts_kit import within
from pyspark.errors.exceptions.connect import SparkConnectException

from penstock.spark.hosts import EmbeddedHost, Launch, nursery, settings
from penstock.spark.hosts.processes import family
from penstock.spark.run.reports import SLOW

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the nursery"),
]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[EmbeddedHost]:
    """A host whose nursery the test may kill."""
    with EmbeddedHost("h1", launch=Launch(folder=tmp_path / "h")) as running:
        yield running


@pytest.fixture
def near() -> Iterator[Path]:
    """A folder whose path is short enough for sockets, whatever pytest's is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_daemon_without_workers_ends(near: Path) -> None:
    """A daemon makes workers until it has had none for a while; then its door is gone, and so is it."""
    source = Path(nursery.__file__)
    door, lifeline, idle = near / "nursery", near / "line", 1.0
    os.mkfifo(lifeline)
    held = os.open(lifeline, os.O_RDWR)
    environ = {
        **os.environ, "PENSTOCK_LIFELINE": str(lifeline), "PENSTOCK_NURSERY": str(door), "PYTHONUNBUFFERED": "YES",
        "PYTHONPATH": os.pathsep.join([str(source.with_name("beginning")), *sys.path]),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": str(near),
    }  # fmt: skip
    parent = subprocess.Popen([sys.executable, str(source), str(door), str(idle)])
    try:
        assert within(60, door.exists)
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        daemon = subprocess.Popen([sys.executable, "-m", nursery.DAEMON, "pyspark.worker"], env=environ, **pipe)
        path = daemon.stdout.read(int.from_bytes(daemon.stdout.read(4), "big")).decode()
        with socket.socket(socket.AF_UNIX) as call:
            call.connect(path)
            worker = psutil.Process(int.from_bytes(call.recv(4), "big"))
            time.sleep(3 * idle)
            assert worker.is_running()
            assert daemon.poll() is None
        assert within(10, lambda: not worker.is_running())
        assert daemon.wait(10) == 0
        assert not Path(path).exists()
        assert parent.poll() is None
    finally:
        parent.kill()
        os.close(held)


def from_nursery(process: psutil.Process) -> bool:
    """Return whether a process is the nursery, or an unchanged fork of it."""
    with contextlib.suppress(psutil.Error):  # one that has just ended
        return any(word.endswith("nursery.py") for word in process.cmdline())
    return False


def started(host: EmbeddedHost, checkpoint: Path, work: Any) -> Any:
    """Start a query that does this with each of its batches; Spark waits for its worker for 10 s only: then again."""
    rate = host.session().readStream.format("rate").load()
    query = rate.writeStream.foreachBatch(work).option("checkpointLocation", str(checkpoint))
    try:
        return query.start()
    except SparkConnectException as error:
        if SLOW not in str(error):
            raise
        return query.start()


def test_streaming_workers_are_forks_that_end_with_their_query(host: EmbeddedHost, tmp_path: Path) -> None:
    """A worker is a fork of the nursery, says and costs what it does, and ends with its query; without it Spark starts
    one.
    """
    notes = tmp_path / "pids"
    notes.mkdir()
    where = str(notes)

    def note(_frame: Any, batch: int) -> None:
        import os
        from pathlib import Path

        print(f"batch {batch} is here")  # noqa: T201 - it must reach the log
        (Path(where) / f"{os.getpid()}-{os.getppid()}").touch()

    before = host.cpu_seconds()
    query = started(host, tmp_path / "one", note)
    try:
        assert within(60, lambda: any(notes.iterdir()))
        worker, parent = (psutil.Process(int(pid)) for pid in next(notes.iterdir()).name.split("-"))
        assert from_nursery(parent)
        assert host.cpu_seconds() > before
        assert "batch 0 is here" in host.log.read_text()
    finally:
        query.stop()
    assert within(30, lambda: not worker.is_running())
    assert parent.is_running()

    (nursery,) = filter(from_nursery, family(host._root))
    nursery.kill()
    assert within(5, lambda: not nursery.is_running())
    again = notes / "again"
    query = started(host, tmp_path / "two", lambda frame, batch: again.touch())
    try:
        assert within(60, again.exists)
    finally:
        query.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_session_whose_daemon_has_ended_gets_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons end some time after the last query that used them, and a session that needs one again has one."""
    from pyspark.sql.functions import udf

    plain = settings.nursery
    monkeypatch.setattr(settings, "nursery", lambda door: [*plain(door), "3"])
    with EmbeddedHost("h1", launch=Launch(folder=tmp_path / "h")) as host:
        session = host.session()
        more = udf(lambda number: number + 1, "long")
        for _ in range(2):
            assert session.range(3).select(more("id").alias("n")).toPandas()["n"].tolist() == [1, 2, 3]
            assert daemons(host)
            # Spark itself keeps workers for a minute.
            assert within(120, lambda: not daemons(host))


def daemons(host: EmbeddedHost) -> list[psutil.Process]:
    """Return the host's processes that make workers."""
    return [process for process in family(host._root) if nursery.DAEMON in process.cmdline()]
