"""``penstock inspect``: its document is what the logs were made from, and its files are what other commands take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.inspect import _rate
from penstock.cluster import read_cluster
from penstock.network import read_network
from penstock.workload import read_rates

KEYS = {
    "app", "batches", "rows", "trigger", "overhead", "cost", "error", "rate", "busy", "lag", "state", "late",
    "headroom", "restarts", "parts",
}  # fmt: skip


@pytest.fixture
def log(make: SimpleNamespace, write: Callable[..., Path]) -> Path:
    """A log of two queries, one of them with state, of a known cost."""
    clicks = make.paced("clicks", noise=0.02, tasks=(0.1, 0.1))
    orders = make.paced("orders", overhead=0.5, cost=0.0002, trigger=5.0, noise=0.02, count=30, state=1000, seed=1)
    return write([*clicks, *orders])


def test_document(penstock: Any, make: SimpleNamespace, log: Path) -> None:
    """The document has the keys of the contract with the numbers that the log was made from."""
    done = penstock("inspect", log, "--json")
    assert done.code == 0, done.err
    document = done.document
    assert set(document) >= {"queries", "apps", "warnings", "skipped"}
    for name, overhead, cost, trigger, count in (("clicks", 0.2, 0.001, 2.0, 60), ("orders", 0.5, 0.0002, 5.0, 30)):
        query = document["queries"][name]
        assert set(query) >= KEYS
        assert query["app"] == "app-1"
        assert query["batches"] == count
        assert query["overhead"] == pytest.approx(overhead, rel=0.05)
        assert query["cost"] == pytest.approx(cost, rel=0.05)
        assert 0 < query["error"] < 0.05
        assert query["trigger"] == trigger
        assert query["rate"]["mean"] == pytest.approx(400, rel=0.05)
        assert query["rate"]["max"] >= query["rate"]["mean"]
        assert query["busy"] == pytest.approx((overhead + 400 * trigger * cost) / trigger, rel=0.1)
        assert query["lag"] == {"rows": 0, "seconds": 0}
        assert query["restarts"] == 0
        assert query["headroom"] == pytest.approx(1 / (400 * cost), rel=0.1)
    assert document["queries"]["orders"]["state"] == {"rows": 1000, "bytes": 100_000}
    assert document["apps"]["app-1"]["queries"] == ["clicks", "orders"]
    assert document["apps"]["app-1"]["cores"] == 4
    span = 150.0 + 5.0
    assert document["apps"]["app-1"]["busy"] == pytest.approx(60 * 0.2 / (4 * span), rel=0.1)


def test_exported_files_work(penstock: Any, log: Path, tmp_path: Path) -> None:
    """Load, place, estimate and simulate take the written files at once, and agree with what was measured."""
    out = tmp_path / "out"
    done = penstock("inspect", log, "--out", out, "--json")
    assert done.code == 0, done.err
    assert {Path(path).name for path in done.document["written"]} >= {
        "network.toml", "rates.csv", "statistics.json", "cluster.toml",
    }  # fmt: skip
    files = [out / "network.toml", "--statistics", out / "statistics.json", "--rates", out / "rates.csv", "--json"]
    cluster = ["--cluster", out / "cluster.toml"]
    placement = ["--placement", out / "placement.json"]
    load = penstock("load", *files, *cluster, *placement)
    assert load.code == 0, load.err
    # The first query's log ends after 120 of 150 s, and no rows come then.
    assert load.document["operators"]["clicks"]["mean"] == pytest.approx(400 * 0.001 * 120 / 150, rel=0.1)
    assert load.document["operators"]["orders"]["mean"] == pytest.approx(400 * 0.0002, rel=0.1)
    placed = penstock("place", *files, "--hosts", 2, "--algorithm", "correlation")
    assert placed.code == 0, placed.err
    assert set(placed.document["placement"]) == {"clicks", "orders"}
    for model in ("mace", "microbatch"):
        estimate = penstock("estimate", *files, *cluster, *placement, "--model", model)
        assert estimate.code == 0, estimate.err
    assert estimate.document["worst"] > 2.0
    simulated = penstock("simulate", *files, *cluster, *placement)
    assert simulated.code == 0, simulated.err
    assert simulated.document["balanced"]


def test_shared_topics_are_one_source(
    penstock: Any, make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path
) -> None:
    """Queries that read one topic at the same rates share a source; those of other rates have their own."""
    one, two = make.paced("clicks"), make.paced("views", cost=0.0001)
    path = write([*one, *two, *make.paced("slow", rate=lambda _: 50.0)])
    path.write_text(
        path.read_text()
        .replace("Subscribe[views]", "Subscribe[clicks]")
        .replace("Subscribe[slow]", "Subscribe[clicks]")
    )
    done = penstock("inspect", path, "--out", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    network = read_network(tmp_path / "out/network.toml")
    # The names of a source and of an operator must differ.
    first, second, third = (network.operators[name].inputs for name in ("clicks", "views", "slow"))
    assert first == second != third
    rates = read_rates(tmp_path / "out/rates.csv")
    assert rates.of_source(third[0]).mean() == pytest.approx(50, rel=0.02)


def test_strange_names_can_be_written(
    penstock: Any, make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path
) -> None:
    """Names of any characters, and queries without a name, become names that the files take."""
    path = write([*make.paced('a "b" -> ü/\\\n'), *make.paced("..."), *make.paced("é" * 300)], app="app #1 = x")
    done = penstock("inspect", path, "--out", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    network = read_network(tmp_path / "out/network.toml")
    assert len(network.operators) == 3
    read_cluster(tmp_path / "out/cluster.toml")
    given = [tmp_path / "out" / name for name in ("network.toml", "statistics.json", "rates.csv")]
    load = penstock("load", given[0], "--statistics", given[1], "--rates", given[2], "--json")
    assert load.code == 0, load.err


def test_since_and_until(penstock: Any, make: SimpleNamespace, log: Path) -> None:
    """Only batches of the time that was asked for count, however the time is written."""
    begin = make.EPOCH + 60
    for since, until in (
        (make.iso(begin), make.iso(begin + 30)),
        (str(begin), str(begin + 30)),
        ("2026-01-01T00:01", "2026-01-01 00:01:30"),
        (str(begin), "20260101T000130"),
    ):
        done = penstock("inspect", log, "--since", since, "--until", until, "--json")
        assert done.code == 0, done.err
        assert done.document["queries"]["clicks"]["batches"] == 15
    late = penstock("inspect", log, "--since", "10 s", "--json")
    assert 1 <= late.document["queries"]["orders"]["batches"] <= 3
    never = penstock("inspect", log, "--since", "2027-01-01")
    assert never.code == 2
    assert "no batch began in this time" in never.err
    assert "no batch began in this time" in penstock("inspect", log, "--since", "20270101").err
    for wrong in ("yesterday", "2027", "3600", "20261301", "nan"):
        done = penstock("inspect", log, "--since", wrong)
        assert done.code == 2
        assert "expected a time or a duration" in done.err


def test_bad_input(penstock: Any, log: Path, tmp_path: Path) -> None:
    """What cannot be read at all is one sentence and exit 2; what is read in part is a warning and exit 0."""
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "other.json").write_text('{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n')
    (tmp_path / "folder").mkdir()
    for name in ("empty", "text", "other.json", "folder", "missing"):
        done = penstock("inspect", tmp_path / name)
        assert done.code == 2, name
        assert done.err.count("\n") == 1
        assert "Traceback" not in done.err
    log.write_bytes(log.read_bytes()[:-3000])
    done = penstock("inspect", log, tmp_path / "text", "--json")
    assert done.code == 0
    assert len(done.document["warnings"]) == 1
    assert len(done.document["skipped"]) == 1
    assert done.err.count("warning") == 2
    for number in range(30):
        (tmp_path / "folder" / f"{number}").write_text("hello\n")
    done = penstock("inspect", log, tmp_path / "folder")
    assert done.code == 0
    assert done.err.count("warning") == 2
    assert "skipped 30 files (0, 1, 10, …): each is neither an event log" in done.err
    assert penstock("inspect", log, "--out", tmp_path / "text").code == 2


def test_standard_input(penstock: Any, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may come through a pipe."""
    done = penstock("inspect", "-", "--json", stdin=log.read_bytes())
    assert done.code == 0, done.err
    assert set(done.document["queries"]) == {"clicks", "orders"}


def test_same_bytes(penstock: Any, log: Path) -> None:
    """The same log gives the same document, byte for byte."""
    assert penstock("inspect", log, "--json").out == penstock("inspect", log, "--json").out


def test_table_for_people(penstock: Any, log: Path) -> None:
    """The table has a row a query."""
    done = penstock("inspect", log)
    assert done.code == 0
    for word in ("clicks", "orders", "overhead", "headroom", "trigger"):
        assert word in done.out


def test_light_import() -> None:
    """Neither inspecting nor `import penstock` needs pyspark, and importing penstock needs nothing heavy."""
    code = (
        "import sys, penstock; heavy = [m for m in ('numpy', 'pyspark', 'pyarrow', 'attrs') if m in sys.modules]; "
        "assert not heavy, heavy; import penstock.telemetry, penstock.inspection; "
        "assert not [m for m in sys.modules if m.split('.')[0] in ('pyspark', 'matplotlib', 'scipy', 'numba')]; "
        "assert 'Listener' in penstock.__all__"
    )
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert time.perf_counter() - begin < 10


def test_plain_numbers_only(penstock: Any, make: SimpleNamespace, tmp_path: Path) -> None:
    """What cannot be told is null, and the document has no NaN."""
    path = tmp_path / "p.jsonl"
    report = make.progress(make.paced(count=1)[0])
    for source in report["sources"]:
        source.pop("latestOffset")
        source.pop("metrics")
    path.write_text(json.dumps(report) + "\n")
    query = penstock("inspect", path, "--json").document["queries"]["clicks"]
    assert query["batches"] == 1
    assert query["overhead"] is query["cost"] is query["error"] is query["trigger"] is query["headroom"] is None
    assert query["lag"] == {"rows": None, "seconds": None}
    assert query["rate"] == {"mean": None, "max": None}


@st.composite
def any_batches(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw batches as strange as a log may have them."""
    number = st.integers(0, 30)
    return draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "query": st.sampled_from(["a", "b"]),
                    "number": number,
                    "start": st.floats(1.5e9, 1.5e9 + 1e7),
                    "rows": st.one_of(st.just(0), st.integers(0, 10**12)),
                    "seconds": st.floats(0, 1e6),
                    "offset": st.integers(0, 10**12),
                    "lag": st.integers(0, 10**12),
                    "run": st.integers(0, 3),
                    "state": st.one_of(st.none(), st.integers(0, 10**12)),
                    "late": st.integers(0, 10**9),
                    "tasks": st.lists(st.floats(0, 1e6), max_size=4).map(tuple),
                }
            ),
            min_size=1,
            max_size=40,
        )
    )


@settings(max_examples=60)
@given(batches=any_batches())
def test_any_batches_make_sane_files(
    penstock: Any, make: SimpleNamespace, tmp_path: Path, batches: list[dict[str, Any]]
) -> None:
    """Whatever batches a log has, the document is sane and the files are taken by `load`."""
    path = tmp_path / "any"
    path.write_bytes(make.text(make.events([make.Batch(**batch) for batch in batches])))
    out = tmp_path / "out"
    done = penstock("inspect", path, "--out", out, "--json")
    assert done.code == 0, done.err
    for query in done.document["queries"].values():
        assert query["busy"] is None or 0 <= query["busy"] <= 1
        for key in ("overhead", "cost", "headroom", "headroom_least", "catch_up", "trigger"):
            assert query[key] is None or query[key] >= 0
        rate = query["rate"]
        assert rate == {"mean": None, "max": None} or rate["max"] >= rate["mean"] >= 0
    files = [out / "network.toml", "--statistics", out / "statistics.json", "--rates", out / "rates.csv"]
    load = penstock("load", *files, "--cluster", out / "cluster.toml", "--placement", out / "placement.json", "--json")
    assert load.code == 0, load.err
    assert penstock("inspect", path).code == 0


@pytest.mark.parametrize(
    ("rate", "said"), [(0.01234, "0.0123"), (99.96, "100"), (999.7, "1,000"), (1000.4, "1,000"), (12345.6, "12,346")]
)
def test_rates_are_numbers_as_people_write_them(rate: float, said: str) -> None:
    """No rate is written with a power of ten, at the edges of rounding neither."""
    assert _rate(rate) == said


def test_headroom_is_a_number_as_people_write_it(
    penstock: Any, make: SimpleNamespace, write: Callable[..., Path]
) -> None:
    """A large headroom is written in full."""
    log = write(make.paced("light", cost=5e-5, rate=lambda number: 40 + 30 * np.sin(number)))
    done = penstock("inspect", log)
    (headroom,) = re.findall(r" >?([0-9,]+)x ", done.out)
    assert 100 <= int(headroom.replace(",", "")) <= 2000
    assert "e+" not in done.out


def test_files_know_schedules_and_limits(penstock: Any, make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """How far runs are apart is a query's trigger in the files, its limit is theirs, and notes tell of both."""
    rate = lambda number: min(200.0 + 20 * (number % 20), 400.0)  # noqa: E731
    job = [
        make.Batch(query="job", number=h, run=h, start=make.EPOCH + 60 * h, rows=9000 + 50 * h, seconds=20)
        for h in range(5)
    ]
    log = write([*make.paced(rate=rate, lag=5), *job])
    out = log.parent / "out"
    done = penstock("inspect", log, "--out", out)
    measured = json.loads((out / "statistics.json").read_text())["measured"]
    assert measured["trigger"] == {"clicks": 2.0, "job": 60.0}
    assert measured["limit"] == {"clicks": 800.0, "job": None}
    assert "batches of clicks have at most 800 rows" in done.err
    assert "a scheduler runs job about every 60 s" in done.err
    files = ["--network", out / "network.toml", "--rates", out / "rates.csv", "--cluster", out / "cluster.toml"]
    told = penstock(
        "advise", *files, "--statistics", out / "statistics.json", "--placement", out / "placement.json", "--json"
    )
    assert told.document["queries"]["clicks"]["limit"] == 800
