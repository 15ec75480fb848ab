"""The scenario of four minutes, four times as fast: a burst, a drift, a host killed, a query admitted."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_living.py"
PACE = 4.0


@pytest.fixture(scope="module")
def living() -> ModuleType:
    """The script that measures it."""
    spec = importlib.util.spec_from_file_location("bench_living", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_query_lives_on_in_the_simulator(living, penstock, tmp_path):
    """It ends with every sink alive, the late query attached, every tuple accounted for, and each event answered."""
    folder = living.prepared(tmp_path / "living", PACE)
    done = penstock(*living.words("simulation", folder, "replicate,rebalance,shed"))
    assert done.code == 0
    lines = [
        json.loads(line) for line in (folder / "simulation" / "control" / "history.jsonl").read_text().splitlines()
    ]
    assert living.wrong("simulation", done.document) == []
    kinds = [line["policy"] for line in lines]
    assert {"shed", "rebalance", "replicate", "admit"} <= set(kinds)
    killed = next(line for line in lines if line["policy"] == "replicate")
    assert killed["time"] == pytest.approx(130 / PACE + 0.5, abs=1)
    assert done.document["latency"]["max"] < 5.0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_every_query_lives_on_on_spark(living, tmp_path):
    """On Spark no row comes twice or from nowhere, and no more are missing than were dropped."""
    folder = living.prepared(tmp_path / "living", PACE)
    run = living.controlled("spark", folder, "replicate,rebalance,shed")
    run["answers"] = living.answers(folder / "spark", run)
    assert living.wrong("spark", run) == []
