"""A run's directory stays small, and what is removed is still counted, without Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.network.file import parse_network
from penstock.spark.compile import Deployment, Query
from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.run import outcome as outcome_module
from penstock.spark.run.meter import Known, meter_of, metered
from penstock.spark.run.outcome import collect
from penstock.spark.run.upkeep import clean_logs, fold
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import LogExit, SinkExit, WriterSpec
from penstock.spark.shipped.told import manifest_of, note_of, report_of

NETWORK = parse_network(
    {
        "name": "two",
        "sources": {"events": {"format": "json", "schema": "n bigint"}},
        "operators": {
            "first": {"kind": "filter", "input": "events", "where": "true"},
            "second": {"kind": "filter", "input": "first", "where": "true"},
        },
        "sinks": {"out": {"input": "second"}},
    }
)
EACH = 3
"""Rows of a batch."""


def query(deployment: Deployment, number: int, **exits: Any) -> Query:
    """Return a query as the compiler would describe it, without its frame."""
    fragment = deployment.fragments[number]
    parts = {"logs": (), "sinks": (), **exits}
    spec = WriterSpec(
        deployment.place, fragment.name, (), parts["logs"], parts["sinks"], (), {}, (), timed=False, knobs=None
    )
    frame: Any = None
    return Query(fragment, frame, spec, ("first",) if number else ())


def write_batch(deployment: Deployment, at: int) -> None:
    """Leave what one batch of each query leaves."""
    folder = deployment.place
    streams = {"first": {"events->first": [EACH, 0]}, "second": {"first->second": [EACH, 0], "second->out": [EACH, 1]}}
    for name, counts in streams.items():
        rows = {"first": [at, EACH]} if name == "first" else {}
        manifest = {"counts": counts, "rows": rows, "visible": float(at), "frontiers": {}, "latest": None}
        manifest_of(folder, name, at).publish(json.dumps(manifest).encode())
        report = {"start": float(at), "duration": 0.1, "rows": EACH, "counts": {}, "late": {"events->first": 1}}
        report_of(folder, name, at).publish(json.dumps(report).encode())
        (folder / "checkpoints" / name / "commits" / str(at)).publish(b"v1\n{}")
        read = {"log": "first", "batch": at + 1, "piece": 0, "starts": 0} if name == "second" else {"logOffset": at}
        offsets = f"v1\n{json.dumps({'batchWatermarkMs': 0})}\n{json.dumps(read)}"
        (folder / "checkpoints" / name / "offsets" / str(at)).publish(offsets.encode())
    table = pa.table({"n": list(range(EACH))})
    DirectoryLog(folder / "logs" / "first").write(at, table, (at, at))
    content = io.BytesIO()
    np.save(content, np.array([(at + 1) * 1_000_000, at * 1_000_000, (at - 1) * 1_000_000]))
    (folder / "latency" / "out" / f"second-{at:012d}.npy").publish(content.getvalue())


def test_a_thousand_runs_leave_a_small_directory(tmp_path: Path) -> None:
    """After 1,000 runs of four batches there are some dozen files, and every row is still counted."""
    deployment = Deployment(NETWORK, {"first": "h1", "second": "h2"}, str(tmp_path))
    queries = [
        query(deployment, 0, logs=(LogExit("first", "_e0", (), (0,), False, False),)),
        query(deployment, 1, sinks=(SinkExit("out", (0, 1), (), None, {}, ""),)),
    ]
    batches = most = 0
    for run in range(1000):
        for _ in range(4):
            write_batch(deployment, batches)
            batches += 1
        clean_logs(deployment, queries)
        fold(deployment, queries, keep=2)
        for place in (
            Place(str(tmp_path)) / "checkpoints" / name / part
            for name in ("first", "second")
            for part in ("offsets", "commits")
        ):
            for name in sorted(place.names(), key=int)[:-2]:  # as Spark does
                (place / name).remove()
        if run % 100 == 0:
            outcome = collect(deployment, queries, 1.0)
            streams = outcome.streams(NETWORK)
            assert streams["first->second"]["arrived"] == EACH * batches
            assert streams["second->out"]["delivered"] == (EACH - 1) * batches
            assert streams["events->first"]["late"] == 2 * batches
            assert outcome.balanced(NETWORK)
            latency, weights = outcome.latencies("out")
            assert weights.sum() == 2 * batches
            assert latency.max() == 2.0
            most = max(most, sum(path.is_file() for path in tmp_path.rglob("*")))
    assert most < 60


def test_real_time_mode_leaves_a_small_directory_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What meters have noted and what was written for other queries become history, and every row is still counted."""
    placement = {"first": "h1", "second": "h2"}
    deployment = Deployment(NETWORK, placement, str(tmp_path), real_time=frozenset(placement))
    queries, written = [query(deployment, 0), query(deployment, 1)], dict[str, int]()
    folder = deployment.place

    def taken(_: object, __: object, counts: Mapping[str, int]) -> dict[str, int]:
        written.update(counts)
        return {}

    monkeypatch.setattr(outcome_module, "taken_from_topics", taken)
    for at in range(100):
        content = io.BytesIO()
        np.save(content, np.array([[(at + 1) * 1_000_000] * 2, [at * 1_000_000, (at - 1) * 1_000_000]]))
        note_of(folder, metered("out"), at, "out").replace(content.getvalue())
        Known(at + 1, {0: 2 * at}).write(meter_of(folder, "out"))
        manifest = {"rows": {"first": [at, EACH]}, "counts": {}, "visible": float(at)}
        manifest_of(folder, "first", at).publish(json.dumps(manifest).encode())
        if at % 5 == 0:
            fold(deployment, queries, keep=2)
            outcome = collect(deployment, queries, 1.0)
            latency, weights = outcome.latencies("out")
            assert weights.sum() == 2 * (at + 1)
            assert latency.max() == 2.0
            assert written["first"] == EACH * (at + 1)
            assert sum(path.is_file() for path in tmp_path.rglob("*")) == 2 + 2 * min(2, at + 1) - (at == 0)
