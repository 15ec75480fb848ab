"""Sources, sinks, logs and checkpoints on an object store that speaks S3 (moto's server)."""

from __future__ import annotations

import importlib
import io
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from penstock.cluster import Cluster, Host, SparkSettings
from penstock.network.file import parse_network
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

NETWORK = {
    "name": "stored",
    "sources": {
        "events": {
            "format": "json",
            "schema": "at timestamp, n bigint",
            "time": "at",
            "options": {"path": "s3a://bucket/in", "maxFilesPerTrigger": "2"},
        }
    },
    "operators": {
        "odd": {"kind": "filter", "input": "events", "where": "n % 2 = 1"},
        "counted": {"kind": "aggregate", "input": "odd", "window": "10 seconds", "select": "count(*) as n"},
    },
    "sinks": {
        "windows": {"input": "counted", "format": "json", "options": {"path": "s3a://bucket/windows"}},
        "rows": {"input": "odd", "options": {"path": "s3a://bucket/rows"}},
    },
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Two hosts, one of which works with two tasks, whose run is on an object store."""
    if shutil.which("mvn") is None:
        pytest.skip("no mvn to fetch Spark's jars for S3 with")
    script: Any = importlib.import_module("object_store")
    script.fetch()
    with pytest.MonkeyPatch.context() as patch, script.Store(tmp_path_factory.mktemp("store")) as store:
        for name, value in store.known.items():
            patch.setenv(name, value)
        settings = SparkSettings(trigger=0.5, conf=store.conf, jars=(str(script.HOME / "*.jar"),))
        cluster = Cluster.of([Host(name="h1"), Host(name="h2", cores=2)], spark=settings)
        with start_hosts(cluster) as hosts:
            yield Engine(cluster, hosts)


def put(files: range) -> None:
    """Put files of 20 rows, one a second, into the bucket."""
    system, folder = fs.FileSystem.from_uri("s3://bucket/in")
    for file in files:
        numbers = range(20 * file, 20 * file + 20)
        rows = [{"n": n, "at": f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z"} for n in numbers]
        with system.open_output_stream(f"{folder}/{file:03d}.json") as out:
            out.write("\n".join(map(json.dumps, rows)).encode())


def taken(name: str, ending: str) -> list[bytes]:
    """Return the files of a folder of the bucket."""
    system, folder = fs.FileSystem.from_uri(f"s3://bucket/{name}")
    paths = [info.path for info in system.get_file_info(fs.FileSelector(folder)) if info.path.endswith(ending)]
    return [system.open_input_file(path).read() for path in paths]


def test_everything_is_on_an_object_store(stored: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose files are all on an object store goes on where it stopped, and brings each row and window once."""
    monkeypatch.chdir(tmp_path)
    network = parse_network(NETWORK)
    placement = {"odd": "h1", "counted": "h2"}
    for files in (range(4), range(4, 9)):
        put(files)
        deployment = stored.prepare(network, placement, "s3a://bucket/run")
        assert stored.run_once(deployment).balanced(network)
    rows = Counter(
        row["n"] for file in taken("rows", ".parquet") for row in pq.read_table(io.BytesIO(file)).to_pylist()
    )
    assert rows == Counter(range(1, 180, 2))
    windows = [json.loads(line) for file in taken("windows", ".json") for line in file.splitlines()]
    starts = [(row["window_start"][14:19], row["n"]) for row in windows]
    # The last window is open still: the frontier has not passed it.
    assert sorted(starts) == [(f"{s // 60:02d}:{s % 60:02d}", 5) for s in range(0, 170, 10)]
    assert list(tmp_path.iterdir()) == []
