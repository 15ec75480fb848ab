"""``penstock advise`` on logs and on networks: its document, its exits, its pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

KEYS = {"kind", "query", "setting", "from", "to", "why", "before", "after"}
KINDS = {"rate-limit", "trigger", "separate", "together", "hosts", "shuffle", "source", "defer"}


def checked(document: Any) -> Any:
    """Return the advice of a document after a look at its keys."""
    for advice in document["advice"]:
        assert set(advice) >= KEYS
        assert advice["kind"] in KINDS
        assert advice["why"]
        for side in ("before", "after"):
            assert set(advice[side]) == {"p50", "p99", "worst"}
            assert all(row == sorted(row) and len(row) == 3 for row in advice[side].values())
    return document["advice"]


def test_the_recorded_log(penstock: Any, root: Path) -> None:
    """On the recorded event log with a burst, advice comes with evidence and effect, the best first."""
    done = penstock("advise", "examples/event-log/spark-4.3.zstd", "--latency", "30", "--burst", "3", "--json")
    assert done.code == 0, done.err
    advice = checked(done.document)
    assert advice
    gains = [row["gain"][1] for row in advice]
    assert gains == sorted(gains, reverse=True)
    assert set(done.document["queries"]) >= {"filter", "join", "union"}
    assert [row["factor"] for row in done.document["growth"]] == [1, 2, 5]


def test_one_query_of_the_recorded_log(penstock: Any, root: Path) -> None:
    """Advice on a part of the log is about what ran in that part."""
    words = ["examples/event-log/spark-4.3.zstd", "--until", "2026-11-22T10:32:40", "--latency", "6", "--burst", "12"]
    done = penstock("advise", *words)
    assert done.code == 0, done.err
    assert "filter" in done.out
    assert "because" in done.out
    assert "union" not in done.out


def test_a_burst_with_and_without_the_advised_limit(penstock: Any, make: Any, write: Any) -> None:
    """Under a 3x burst the bound is missed; the advised maxOffsetsPerTrigger keeps it, with its interval."""
    log = write(make.paced(count=200, rate=lambda n: 400 + 100 * np.sin(n), noise=0.02))
    done = penstock("advise", log, "--latency", "10.5", "--burst", "3", "--burst-length", "20", "--json")
    assert done.code == 0, done.err
    (limit,) = [row for row in checked(done.document) if row["kind"] == "rate-limit"]
    assert limit["setting"] == "maxOffsetsPerTrigger"
    assert limit["before"]["worst"][0] > 10.5
    assert limit["after"]["worst"][2] < 10.5
    assert limit["from"] is None
    assert 400 <= limit["to"] <= 6000


def test_weights_choose_who_waits(penstock: Any, make: Any, write: Any) -> None:
    """The query with the least weight is deferred."""
    log = write([b for name in "abc" for b in make.paced(name, count=100, tasks=lambda n: (1.0,))], cores=1)
    for weights in (["--weight", "a=3,b=2"], ["--weight", "a=3", "--weight", "b=2"]):
        done = penstock("advise", log, "--latency", "8", "--burst", "4", *weights, "--json")
        assert done.code == 0, done.err
        (waits,) = [row for row in checked(done.document) if row["kind"] == "defer"]
        assert waits["query"] == "c"


def test_a_network_gets_advice_too(penstock: Any, root: Path) -> None:
    """The files that inspect writes give advice on the same queries."""
    folder = "examples/event-log"
    done = penstock(
        "advise", "--network", f"{folder}/network.toml", "--cluster", f"{folder}/cluster.toml", "--rates",
        f"{folder}/rates.csv", "--statistics", f"{folder}/statistics.json", "--placement",
        f"{folder}/placement.json", "--latency", "30", "--burst", "3", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    checked(done.document)
    assert set(done.document["queries"]) >= {"filter", "join", "union"}
    assert done.document["queries"]["aggregate"]["trigger"] == 3.0
    two = penstock(
        "advise", "--network", "examples/two-chains/network.toml", "--hosts", "2", "--rates", "clicks=100,buys=20",
        "--json",
    )  # fmt: skip
    assert two.code == 0, two.err
    checked(two.document)


def test_hosts_of_a_network_have_their_cores(penstock: Any, tmp_path: Path) -> None:
    """Advice on a network's hosts counts their cores, which change nothing where capacity and work stay."""
    found = []
    for cores in (1, 2):
        cluster = tmp_path / f"{cores}.toml"
        cluster.write_text(f"[hosts.h1]\ncapacity = 2\ncores = {cores}\n")
        done = penstock(
            "advise", "--network", "examples/two-chains/network.toml", "--cluster", cluster, "--rates",
            "clicks=700,buys=20", "--latency", "10", "--json",
        )  # fmt: skip
        assert done.code == 0, done.err
        assert done.document["drivers"] == {"h1": cores}
        found.append({name: row["worst"] for name, row in done.document["queries"].items()})
    assert found[0] == found[1]


def test_cores_of_a_progress_log(penstock: Any, make: Any, tmp_path: Path) -> None:
    """Of progress one core is assumed, which is said; --cores says more, once or several times."""
    paths = []
    for name in ("clicks", "orders"):
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("\n".join(json.dumps(make.progress(batch)) for batch in make.paced(name)))
    done = penstock("advise", *paths, "--json")
    assert done.document["drivers"] == {"clicks.jsonl": 1, "orders.jsonl": 1}
    says = "progress does not tell the driver's cores; 1 is assumed for clicks.jsonl, orders.jsonl"
    assert any(note.startswith(says) for note in done.document["notes"])
    assert f"note: {says}" in penstock("advise", *paths).err
    one = penstock("advise", *paths, "--cores", "clicks.jsonl=16", "--json").document
    assert one["drivers"] == {"clicks.jsonl": 16, "orders.jsonl": 1}
    assert any("1 is assumed for orders.jsonl" in note for note in one["notes"])
    for words in (
        ["--cores", "clicks.jsonl=16,orders.jsonl=4"],
        ["--cores", "clicks.jsonl=16", "--cores", "orders.jsonl=4"],
    ):
        both = penstock("advise", *paths, *words, "--json").document
        assert both["drivers"] == {"clicks.jsonl": 16, "orders.jsonl": 4}
        assert not any("assumed" in note for note in both["notes"])


def test_an_event_log_tells_its_cores(penstock: Any, make: Any, write: Any) -> None:
    """Nothing is assumed of an event log's cores."""
    assert "assumed" not in penstock("advise", write(make.paced())).err


def test_queries_without_durations_are_left_out(penstock: Any, make: Any, tmp_path: Path) -> None:
    """Advice is about the queries whose durations are told, and the others are named."""
    reports = [make.progress(batch) for name in ("clicks", "orders") for batch in make.paced(name)]
    for report in reports[60:]:
        del report["durationMs"], report["batchDuration"]
    (tmp_path / "p").write_text("\n".join(json.dumps(report) for report in reports))
    done = penstock("advise", tmp_path / "p", "--json", "--plot", tmp_path / "out")
    assert done.code == 0, done.err
    assert set(done.document["queries"]) == {"clicks"}
    assert any(note.startswith("left out: orders; ") for note in done.document["notes"])


def test_one_batch_a_run_tells_no_rate(penstock: Any, make: Any, tmp_path: Path) -> None:
    """A query of a single batch, or of two runs of one each, has no rate of arrivals, and is not replayed."""
    once = [make.Batch(query="once", number=0, start=make.EPOCH, rows=5000, seconds=2.0)]
    twice = [attrs.evolve(once[0], query="twice", number=n, start=make.EPOCH + 60 * n, run=n) for n in range(2)]
    for name, batches in (("alone", once), ("log", [*once, *twice, *make.paced("clicks")])):
        (tmp_path / name).write_text("\n".join(json.dumps(make.progress(batch)) for batch in batches))
    assert " ?  " in penstock("inspect", tmp_path / "alone").out.split("once")[1][:20]
    alone = penstock("advise", tmp_path / "alone")
    assert alone.code == 2
    assert "one batch a run does not tell how its rows come" in alone.err
    done = penstock("advise", tmp_path / "log", "--json")
    assert set(done.document["queries"]) == {"clicks"}
    assert any(note.startswith("left out: once, twice; one batch a run") for note in done.document["notes"])


def test_an_untold_trigger_is_told_of(penstock: Any, make: Any, write: Any) -> None:
    """Where the batches do not tell a trigger, a note says that none is replayed."""
    said = "the trigger of clicks is not told"
    assert said in penstock("advise", write(make.paced(trigger=2.0, overhead=5.0, count=40))).err
    assert said not in penstock("advise", write(make.paced())).err


def test_what_was_replayed_is_in_the_title(penstock: Any, make: Any, write: Any) -> None:
    """The table says which burst was replayed, and that growth is that of the recorded rates."""
    log = write(make.paced())
    plain = penstock("advise", log, "--latency", "9").out
    assert plain.startswith("worst latency of the rows, replayed; the bound is 9 s")
    assert "at 2x" in plain
    assert "recorded" in plain
    for burst in ("5", "5x"):
        shown = penstock("advise", log, "--latency", "3", "--burst", burst).out
        title = "worst latency of the rows, replayed with 60 s of 5x the mean rates; the bound is 3 s"
        assert shown.startswith(title)


def test_advice_that_misses_the_bound_says_so(penstock: Any, make: Any, write: Any) -> None:
    """Advice after which the bound is still missed says so, one by one or, where none keeps it, once for all."""
    log = write(make.paced(count=200, noise=0.02))
    kinds = set()
    for bound in ("1", "3", "5", "10", "20", "40", "70"):
        words = ("advise", log, "--latency", bound, "--burst", "5", "--burst-length", "30")
        advice = penstock(*words, "--json").document["advice"]
        shown = " ".join(penstock(*words).out.split())
        misses = [row["after"]["worst"][1] > float(bound) for row in advice]
        closing = f"no advice alone keeps the bound of {bound} s" in shown
        said = shown.count(f"still misses the bound of {bound} s")
        assert closing == (len(misses) > 1 and all(misses))
        assert said == (0 if closing else sum(misses))
        kinds |= {"closing"} if closing else {"each"} if said else set()
    assert kinds == {"closing", "each"}


def test_pictures_go_where_they_are_wanted(penstock: Any, make: Any, write: Any, tmp_path: Path) -> None:
    """--plot writes pictures and names them."""
    done = penstock("advise", write(make.paced(trigger=20.0)), "--latency", "8", "--plot", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    assert all(Path(path).exists() for path in done.document["written"])
    assert (tmp_path / "out" / "load.png").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "expected logs or --network"),
        (["LOG", "--network", "n.toml"], "expected logs or --network"),
        (["--network", "examples/two-chains/network.toml"], "--rates"),
        (["LOG", "--latency", "soon"], "duration"),
        (["LOG", "--latency", "0"], "--latency"),
        (["LOG", "--weight", "clicks"], "--weight"),
        (["LOG", "--weight", "clicks=a"], "--weight"),
        (["LOG", "--weight", "clocks=1"], "no query"),
        (["LOG", "--burst", "-1"], "--burst"),
        (["LOG", "--burst", "3y"], "expected a factor such as 3 or 3x"),
        (["LOG", "--cores", "app-2=4"], "did you mean 'app-1'?"),
        (["LOG", "--cores", "app-1=0"], "expected a number of cores > 0"),
        (["LOG", "--cores", "app-1"], "--cores"),
        (["--network", "examples/two-chains/network.toml", "--cores", "h1=2"], "goes with logs"),
        (["LOG", "--hosts", "3"], "--hosts: goes with --network"),
        (["LOG", "--statistics", "nope"], "--statistics: goes with --network"),
        (["LOG", "--duration", "30"], "--duration: goes with --network"),
        (["--network", "examples/two-chains/network.toml", "--until", "bogus"], "--until: goes with logs"),
        ([""], "expected logs, got an empty name"),
        (["LOG", "--seed", "-1"], "--seed"),
        (["LOG", "--forecast", "1d"], "needs 72 h"),
        (["missing.log"], "missing.log"),
    ],
)
def test_bad_input_is_one_message(
    penstock: Any, root: Path, make: Any, write: Any, words: list[str], says: str
) -> None:
    """Bad input leaves with 2, one message that says what is wrong, and nothing on standard output."""
    log = str(write(make.paced()))
    done = penstock("advise", *(log if word == "LOG" else word for word in words), "--json")
    assert done.code == 2
    assert says in done.err
    assert done.out == ""
    assert "Traceback" not in done.err
