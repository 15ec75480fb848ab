"""Nothing lost, nothing twice: runs that are killed again and again, and then go on to the end."""

from __future__ import annotations

import json
import os
import re
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
import pytest
from sinks_kit import read_json, read_parquet

from penstock.workload import nexmark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("PENSTOCK_KILLS", "1"))
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


COPIED = PLACEMENT + "".join(
    f",{name}#2={'h2' if host == 'h1' else 'h1'}" for name, host in (each.split("=") for each in PLACEMENT.split(","))
)
"""Each operator also on the other host."""


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
        # Milestones of the run's progress come before it.
        *milestones, said = err.strip().splitlines()
        assert all(re.fullmatch(r" *\d+ s +\d+%  [a-z ]+", line) for line in milestones), err
        assert said.startswith("penstock: host "), err
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


@pytest.mark.slow
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
            owner = tmp_path / "run/owners"
            while penstock.poll() is None and not (owner.exists() and owner.stat().st_mtime > begin):
                assert time.time() - begin < 120
                time.sleep(0.05)
            time.sleep(float(rng.uniform(0.2, 8.0)))
        else:
            time.sleep(float(rng.uniform(1.0, 8.0)))
        assert penstock.poll() is None, penstock.communicate()
        kill(tmp_path, penstock, rng)
    check_answers(tmp_path, duration, finish(tmp_path, *words))


def follow(owners: Path, since: float) -> bool:
    """Whether copies of all units follow, since a time (s since 1970)."""
    told = [file.read_text() for file in owners.glob("*.json") if file.stat().st_mtime > since]
    return len(told) > 1 and all(json.loads(text)["following"] for text in told)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [0, 2])
def test_a_run_with_copies_outlives_a_host(tmp_path: Path, kills: int) -> None:
    """A host is killed while all has copies on the other one: the run ends as if nothing had happened, and says so.

    So it does where runs before it were killed themselves, after one of their hosts was.
    """
    rng, duration = np.random.default_rng(7), 14.0 + 10 * kills
    (tmp_path / "network.toml").write_text(NETWORK.format(rate=RATE, duration=duration))
    words = ["--hosts", "2", "--placement", COPIED]
    for left in reversed(range(kills + 1)):
        penstock, begin = start(tmp_path, *words), time.time()
        while not follow(tmp_path / "run/owners", begin):
            assert penstock.poll() is None, penstock.communicate()
            assert time.time() - begin < 120
            time.sleep(0.05)
        time.sleep(float(rng.uniform(2.0, 6.0)))
        os.kill(javas(tmp_path)[int(rng.integers(2))].pid, signal.SIGKILL)
        if left:
            time.sleep(float(rng.uniform(0.0, 3.0)))
            assert penstock.poll() is None, penstock.communicate()
            penstock.kill()
            penstock.communicate(timeout=60)
    out, err = penstock.communicate(timeout=300)
    assert penstock.returncode == 0, err
    document = json.loads(out)
    assert document["balanced"] is True
    assert kills or document["down"] in (["h1"], ["h2"])
    assert related(tmp_path) == []
    check_answers(tmp_path, duration, document)


FILES = """
name = "files"
[sources.numbers]
format = "json"
schema = "n bigint, at timestamp"
time = "at"
lateness = "5 seconds"
options = { path = "numbers", maxFilesPerTrigger = "2" }
[operators.odd]
kind = "filter"
input = "numbers"
where = "n % 2 = 1"
[operators.fours]
kind = "filter"
input = "numbers"
where = "n % 4 = 1"
[operators.both]
kind = "union"
inputs = ["odd", "fours"]
[operators.counted]
kind = "aggregate"
input = "both"
window = "10 seconds"
select = "count(*) as n, min(n) as least"
[operators.squares]
kind = "map"
input = "odd"
select = ["n", "n * n as square"]
[sinks.kept]
input = "both"
[sinks.windows]
input = "counted"
[sinks.squared]
input = "squares"
format = "json"
options = { path = "squared" }
"""


def write_numbers(here: Path, files: int) -> list[tuple[int, float]]:
    """Write files of numbers, four a second, in disorder of up to 5 s; return number and second of each."""
    rng = np.random.default_rng(1)
    (here / "numbers").mkdir()
    rows = []
    for part in range(files):
        numbers = range(part * 40, part * 40 + 40)
        times = [(n, 3600.0 + n / 4 - float(rng.uniform(0, 5)) * (n % 3 == 0)) for n in numbers]
        rows += times
        lines = [json.dumps({"n": n, "at": f"2026-01-01T{stamp(second)}Z"}) + "\n" for n, second in times]
        path = here / f"numbers/{part:03d}.json"
        path.write_text("".join(lines))
        os.utime(path, (1_700_000_000 + part,) * 2)
    return rows


def stamp(second: float) -> str:
    """Return the time of day of a second."""
    micros = round(second * 1e6)
    minutes, rest = divmod(micros, 60_000_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1_000_000:02d}.{rest % 1_000_000:06d}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(-(-KILLS // CHAIN)))
def test_kills_while_files_are_processed_once(tmp_path: Path, seed: int) -> None:
    """A union and windows over JSON files, on two hosts, killed again and again, deliver each row and window once."""
    rng = np.random.default_rng(100 + seed)
    (tmp_path / "network.toml").write_text(FILES)
    rows = write_numbers(tmp_path, 40)
    words = ["--hosts", "2", "--placement", "odd=h1,fours=h2,both=h1,counted=h2,squares=h2", "--once"]
    for _ in range(min(CHAIN, KILLS - seed * CHAIN)):
        penstock = start(tmp_path, *words)
        before = len(list(tmp_path.glob("run/batches/*/*.json")))
        while penstock.poll() is None and len(list(tmp_path.glob("run/batches/*/*.json"))) < before + 3:
            time.sleep(0.02)
        time.sleep(float(rng.uniform(0.0, 2.0)))
        if penstock.poll() is not None:
            break
        kill(tmp_path, penstock, rng)
    document = finish(tmp_path, *words)
    odd, fours = [n for n, _ in rows if n % 2 == 1], [n for n, _ in rows if n % 4 == 1]
    assert sorted(r["n"] for r in read_parquet(tmp_path / "run/sinks/kept")) == sorted(odd + fours)
    assert sorted((r["n"], r["square"]) for r in read_json(tmp_path / "squared")) == [(n, n * n) for n in odd]
    frontier = max(second for _, second in rows) - 5
    want: dict[int, list[int]] = {}
    for n, second in rows:
        if n % 2 == 1:
            want.setdefault(int(second // 10), []).extend([n] * (2 if n % 4 == 1 else 1))
    closed = {start: (len(found), min(found)) for start, found in want.items() if (start + 1) * 10 <= frontier}
    got = read_parquet(tmp_path / "run/sinks/windows")
    day = int(got[0]["window_start"].timestamp()) // 86_400 * 86_400
    assert Counter((int(r["window_start"].timestamp() - day) // 10, r["n"], r["least"]) for r in got) == Counter(
        (start, *found) for start, found in closed.items()
    )
    arrived = {name: row["arrived"] for name, row in document["streams"].items()}
    assert arrived["numbers->odd"] == arrived["numbers->fours"] == len(rows)
    assert arrived["both->counted"] == len(odd) + len(fours)
    assert all(row["late"] == 0 for row in document["streams"].values())
    assert document["latency"]["count"] == len(odd) + len(fours) + len(odd) + len(got)
