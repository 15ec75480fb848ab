"""``penstock advise`` on logs and on networks: its document, its exits, its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    done = penstock("advise", log, "--latency", "8", "--burst", "4", "--weight", "a=3,b=2", "--json")
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
