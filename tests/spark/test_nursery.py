"""Where the workers of streaming queries come from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hosts_kit import within

from penstock.spark.hosts import EmbeddedHost
from penstock.spark.hosts.processes import family

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the nursery"),
]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[EmbeddedHost]:
    """A host whose nursery the test may kill."""
    with EmbeddedHost("h1", folder=tmp_path / "h") as running:
        yield running


def from_nursery(process: psutil.Process) -> bool:
    """Return whether a process is the nursery, or an unchanged fork of it."""
    return any(word.endswith("nursery.py") for word in process.cmdline())


def started(host: EmbeddedHost, checkpoint: Path, work: Any) -> Any:
    """Start a query that does this with each of its batches."""
    rate = host.session().readStream.format("rate").load()
    return rate.writeStream.foreachBatch(work).option("checkpointLocation", str(checkpoint)).start()


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
