"""Nothing lost, nothing twice: runs that are killed again and again, and then go on to the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from penstock.workload import nexmark

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("PENSTOCK_KILLS", "6"))
CHAIN = 3
"""So many kills are survived by one run."""

RATE = 80.0

NETWORK = """
name = "killed"
[sources.events]
format = "nexmark"
options = {{ rate = "{rate}", duration = "{duration}" }}
[operators.bids]
kind = "filter"
input = "events"
where = "kind = 'bid'"
[operators.euros]
kind = "map"
input = "bids"
select = ["event", "auction", "price * 908 as price"]
[operators.busy]
kind = "aggregate"
input = "bids"
by = "auction"
window = "4 seconds"
select = "count(*) as n"
[operators.people]
kind = "filter"
input = "events"
where = "kind = 'person'"
[operators.auctions]
kind = "filter"
input = "events"
where = "kind = 'auction'"
[operators.newcomers]
kind = "join"
inputs = ["people", "auctions"]
on = "people.id = auctions.seller"
within = "5 seconds"
select = "people.id as person, auctions.id as auction"
[sinks.converted]
input = "euros"
format = "json"
options = {{ path = "converted" }}
[sinks.bidding]
input = "bids"
[sinks.counted]
input = "busy"
[sinks.joined]
input = "newcomers"
"""

PLACEMENT = "bids=h1,people=h1,auctions=h2,newcomers=h1,euros=h2,busy=h2"


def start(here: Path, *words: str) -> subprocess.Popen[str]:
    """Start ``penstock run`` in a folder, with a folder of its own for what is temporary."""
    (here / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.app", "run", "network.toml", *words, "--directory", "run", "--json"],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(here / "tmp")},
    )


def related(here: Path) -> list[psutil.Process]:
    """Return the processes that were started for a folder, by what they were given."""
    mark = str(here / "tmp")
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.environ().get("TMPDIR", ""):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def javas(here: Path) -> list[psutil.Process]:
    """Return the hosts of a folder's run."""
    found = []
    for process in related(here):
        try:
            if "java" in process.name():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return sorted(found, key=lambda process: process.pid)


def kill(here: Path, penstock: subprocess.Popen[str], rng: np.random.Generator) -> str:
    """Kill penstock, a host, or both; check what is said, and that nothing is left; return what was killed."""
    what = str(rng.choice(["penstock", "host", "both"]))
    hosts = javas(here)
    victims = [penstock.pid] if what != "host" or not hosts else []
    if what != "penstock" and hosts:
        victims.append(hosts[int(rng.integers(len(hosts)))].pid)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    out, err = penstock.communicate(timeout=60)
    assert out == ""
    if penstock.pid not in victims:
        assert penstock.returncode == 2, err
        assert len(err.strip().splitlines()) == 1, err
        assert "host" in err
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and (related(here) or os.listdir(here / "tmp")):
        time.sleep(0.2)
    assert [process.cmdline() for process in related(here)] == []
    assert os.listdir(here / "tmp") == []
    return what


def finish(here: Path, *words: str) -> dict[str, Any]:
    """Let a run come to its end, and return its report."""
    penstock = start(here, *words)
    out, err = penstock.communicate(timeout=300)
    assert penstock.returncode == 0, err
    assert related(here) == []
    assert os.listdir(here / "tmp") == []
    document: dict[str, Any] = json.loads(out)
    assert document["balanced"] is True
    return document


def read_json(folder: Path) -> list[dict[str, Any]]:
    names = sorted(os.listdir(folder))
    assert all(name.startswith("part-") and name.endswith(".json") for name in names), names
    return [json.loads(line) for name in names for line in (folder / name).read_text().splitlines()]


def read_parquet(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def events_of(here: Path, duration: float) -> list[dict[str, Any]]:
    """Return the events of a run: they follow from its epoch."""
    schedule = nexmark.Schedule.of(np.full(round(duration), RATE), 1.0)
    stream = nexmark.Nexmark(schedule, 0, int((here / "run/epoch").read_text()))
    return [dict(zip(nexmark.COLUMNS, row, strict=True)) for row in stream.rows(0, schedule.total)]


def check_answers(here: Path, duration: float, document: dict[str, Any]) -> None:
    """Compare every sink, and every count, with what follows from the events."""
    events = events_of(here, duration)
    bids, people, auctions = ([e for e in events if e["kind"] == kind] for kind in ("bid", "person", "auction"))

    converted = Counter((r["event"], r["auction"], r["price"]) for r in read_json(here / "converted"))
    assert converted == Counter((b["event"], b["auction"], b["price"] * 908) for b in bids)

    assert Counter(r["event"] for r in read_parquet(here / "run/sinks/bidding")) == Counter(b["event"] for b in bids)

    close = timedelta(seconds=5)
    pairs = Counter(
        (p["id"], a["id"])
        for p in people
        for a in auctions
        if p["id"] == a["seller"] and abs(p["at"] - a["at"]) <= close
    )
    assert Counter((r["person"], r["auction"]) for r in read_parquet(here / "run/sinks/joined")) == pairs

    def window(at: Any) -> int:
        return int(at.timestamp()) // 4

    counts = Counter((window(b["at"]), b["auction"]) for b in bids)
    rows = read_parquet(here / "run/sinks/counted")
    counted = Counter((window(r["window_start"]), r["auction"], r["n"]) for r in rows)
    # The window that the last event lies in has not closed.
    last = window(events[-1]["at"])
    assert counted == Counter((start, auction, n) for (start, auction), n in counts.items() if start < last)

    arrived = {
        "events->bids": len(events), "events->people": len(events), "events->auctions": len(events),
        "bids->euros": len(bids), "bids->busy": len(bids), "bids->bidding": len(bids), "euros->converted": len(bids),
        "people->newcomers": len(people), "auctions->newcomers": len(auctions),
        "newcomers->joined": sum(pairs.values()), "busy->counted": len(rows),
    }  # fmt: skip
    assert {name: row["arrived"] for name, row in document["streams"].items()} == arrived
    assert document["latency"]["count"] == 2 * len(bids) + sum(pairs.values()) + len(rows)


@pytest.mark.parametrize("seed", range(-(-KILLS // CHAIN)))
def test_kills_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    """Penstock, a host or both are killed at random moments; in the end every sink and every count is exact."""
    rng = np.random.default_rng(seed)
    kills = min(CHAIN, KILLS - seed * CHAIN)
    duration = 8.0 * kills + 6.0
    (tmp_path / "network.toml").write_text(NETWORK.format(rate=RATE, duration=duration))
    words = ["--hosts", "2", "--placement", PLACEMENT]
    for _ in range(kills):
        penstock = start(tmp_path, *words)
        begin = time.time()
        if rng.random() < 0.8:
            # While batches run: some time after this run has begun to deliver.
            owner = tmp_path / "run/owner"
            while penstock.poll() is None and not (owner.exists() and owner.stat().st_mtime > begin):
                assert time.time() - begin < 120
                time.sleep(0.05)
            time.sleep(float(rng.uniform(0.2, 8.0)))
        else:
            time.sleep(float(rng.uniform(1.0, 8.0)))
        assert penstock.poll() is None, penstock.communicate()
        kill(tmp_path, penstock, rng)
    check_answers(tmp_path, duration, finish(tmp_path, *words))


def test_kills_while_files_are_processed_once(tmp_path: Path) -> None:
    """A run over JSON files that is killed twice delivers each row once, to a JSON sink and to the run's folder."""
    rng = np.random.default_rng(7)
    (tmp_path / "network.toml").write_text("""
        name = "files"
        [sources.numbers]
        format = "json"
        schema = "n bigint"
        options = { path = "numbers", maxFilesPerTrigger = "1" }
        [operators.odd]
        kind = "filter"
        input = "numbers"
        where = "n % 2 = 1"
        [operators.squares]
        kind = "map"
        input = "odd"
        select = ["n", "n * n as square"]
        [sinks.kept]
        input = "odd"
        [sinks.squared]
        input = "squares"
        format = "json"
        options = { path = "squared" }
    """)
    (tmp_path / "numbers").mkdir()
    for part in range(60):
        rows = "".join(json.dumps({"n": n}) + "\n" for n in range(part * 100, part * 100 + 100))
        (tmp_path / f"numbers/{part:02d}.json").write_text(rows)
    words = ["--hosts", "2", "--placement", "odd=h1,squares=h2", "--once"]
    for _ in range(2):
        penstock = start(tmp_path, *words)
        before = len(list(tmp_path.glob("run/batches/*/*.json")))
        while penstock.poll() is None and len(list(tmp_path.glob("run/batches/*/*.json"))) < before + 3:
            time.sleep(0.02)
        time.sleep(float(rng.uniform(0.0, 1.5)))
        assert penstock.poll() is None, penstock.communicate()
        kill(tmp_path, penstock, rng)
    document = finish(tmp_path, *words)
    odd = list(range(1, 6000, 2))
    assert sorted(r["n"] for r in read_parquet(tmp_path / "run/sinks/kept")) == odd
    assert sorted((r["n"], r["square"]) for r in read_json(tmp_path / "squared")) == [(n, n * n) for n in odd]
    assert {name: row["arrived"] for name, row in document["streams"].items()} == {
        "numbers->odd": 6000, "odd->kept": 3000, "odd->squares": 3000, "squares->squared": 3000,
    }  # fmt: skip
    assert document["latency"]["count"] == 6000
