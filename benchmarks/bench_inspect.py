"""How long `penstock inspect` takes over a large event log, and how much memory; and what an event costs the listener.

Run: uv run python benchmarks/bench_inspect.py [--size 5.0] [--log examples/event-log/spark-4.3.zstd] [--out FILE.json]

The log is the recorded one, again and again with later times, until it has so many GB. The recorded one has no query
plans, which are half of what Spark writes and are passed over unparsed: so this is the harder half of a real log. With
``--log`` it is a log of your own, as Spark wrote it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from about import revision

import penstock
from penstock.telemetry.codecs import blocks

STAMP = re.compile(rb'"timestamp":"([^"]+)Z"')


def grown(log: Path, target: Path, size: float) -> None:
    """Write a log of so many GB: the recorded one, each time a day later."""
    with log.open("rb") as file:
        text = b"".join(blocks(file))
    with target.open("wb") as out:
        for day in range(int(size * 1e9 / len(text)) + 1):
            later = datetime.timedelta(days=day)

            def moved(found: re.Match[bytes], later: datetime.timedelta = later) -> bytes:
                when = datetime.datetime.fromisoformat(found[1].decode()) + later
                return b'"timestamp":"%sZ"' % when.isoformat(timespec="milliseconds").encode()

            out.write(STAMP.sub(moved, text))


def inspected(path: Path) -> dict[str, float]:
    """Inspect a log in a process of its own; return seconds and peak memory."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "penstock.cli.app", "inspect", str(path), "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    took = time.perf_counter() - begin
    return {"seconds": took, "peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}


def listened(folder: Path, count: int = 5000) -> dict[str, float]:
    """Return how long a listener holds up who tells it of an event (ms)."""
    source = {"description": "Kafka", "startOffset": {"t": {"0": 1}}, "endOffset": {"t": {"0": 2}}, "numInputRows": 1}
    report = {
        "id": "8df28d5b-6496-4f13-bec2-8ddb4d622161",
        "runId": "5d80189d-d8eb-4bbf-a438-83000783721a",
        "name": "clicks",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 1,
        "durationMs": {"triggerExecution": 200, "addBatch": 150},
        "sources": [source],
        "sink": {"description": "Files", "numOutputRows": -1},
    }
    event = SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report)))
    listener = penstock.Listener(folder, prometheus=0)
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        listener.onQueryProgress(event)
        took.append(1000 * (time.perf_counter() - begin))
    listener.close()
    took.sort()
    return {"p50_ms": took[count // 2], "p99_ms": took[int(0.99 * count)], "max_ms": took[-1]}


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=5.0, help="GB")
    parser.add_argument("--log", type=Path, default=Path("examples/event-log/spark-4.3.zstd"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/inspect.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-inspect-") as folder:
        large = Path(folder) / "app-large"
        grown(given.log, large, given.size)
        found = {
            "machine": {"system": platform.platform(), "cores": os.cpu_count(), "python": platform.python_version()},
            "revision": revision(),
            "load_before": os.getloadavg()[0],
            "bytes": large.stat().st_size,
            "inspect": inspected(large),
            "listener": listened(Path(folder) / "listener"),
        }
    given.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
