"""What a run teaches, by batches that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from penstock.cluster import Cluster, Placement, SparkSettings
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator, Sink, Source
from penstock.network.file import parse_network
from penstock.running.job import Job
from penstock.running.learned import learned, measured_rates
from penstock.spark.run import Batch, Outcome
from penstock.spark.run.history import History
from penstock.workload import Rates

EPOCH = 1.8e9
DOCUMENT = {
    "name": "n",
    "sources": {"s": {"format": "nexmark"}},
    "operators": {
        "f": {"kind": "filter", "input": "s", "where": "true"},
        "g": {"kind": "filter", "input": "f", "where": "true"},
    },
    "sinks": {"o": {"input": "g"}},
}
NETWORK = parse_network(DOCUMENT)
CLUSTER = attrs.evolve(Cluster.uniform(3), spark=SparkSettings(trigger=1.0))
PLACEMENT = {"f": "h1", "g": "h2"}
BEFORE = {"f": 0.25, "g": 0.9}
HOST = HostStatistics(overhead=0.1, factor=1.1, error=0.01, speed=1e7)
KNOWN = Statistics(
    operators={n: OperatorStatistics(cost=(0.0005,), selectivity=(share,), error=0.02) for n, share in BEFORE.items()},
    hosts=dict.fromkeys(("h1", "h2", "h3"), HOST),
)
JOB = Job(NETWORK, CLUSTER, Placement(PLACEMENT), "", KNOWN)
RATES = Rates.of(1.0, {"s": [200.0 + k % 5 * 300 for k in range(60)]})


def outcome(seconds: int, rows: Callable[[int], int] = lambda k: 200 + k % 5 * 300, behind: int = 0) -> Outcome:
    """Return a run in which half of the rows pass `f` and of these 0.8 `g`, whose last batches are not done yet."""
    rng, batches = np.random.default_rng(0), []
    for k in range(seconds):
        came = rows(k)
        some, few = came // 2, came * 2 // 5
        took = np.exp(rng.normal(0, 0.02, 2)) * [0.1 + 0.00055 * came, 0.2 + 0.0006 * some]
        batches.append(
            Batch("f", k, EPOCH + k, took[0], came, {"s->f": (came, 0)}, speed=((EPOCH, 1e7),), logged={"f": (k, some)})
        )
        if k < seconds - behind:
            counts = {"f->g": (some, 0), "g->o": (few, 0)}
            batches.append(Batch("g", k, EPOCH + k + 0.5, took[1], some, counts, speed=((EPOCH, 1e7),)))
    return Outcome(EPOCH, batches, {}, {}, {}, float(seconds))


def shares(found: Statistics) -> dict[str, float]:
    """Return the selectivities of operators."""
    return {name: row.selectivity[0] for name, row in found.operators.items()}


@pytest.mark.parametrize(
    ("run", "rates"),
    [
        (outcome(60), RATES),
        (outcome(20), RATES),
        (outcome(60), RATES.scaled(0.5)),
        (outcome(60), None),
        (outcome(1), RATES),
        (outcome(60, behind=20), RATES),
        (attrs.evolve(outcome(60), history=History(counts={"s->f": (9000, 0), "f->g": (9000, 0)})), RATES),
        (attrs.evolve(outcome(60), batches=outcome(60).batches[110:] + outcome(60).batches[1:110:2]), RATES),
    ],
    ids=[
        "whole",
        "cut off",
        "twice the rates",
        "rates unknown",
        "one batch",
        "a host behind",
        "resumed",
        "older reads",
    ],
)
def test_selectivities_are_what_came_out_of_what_went_in(run: Outcome, rates: Rates | None) -> None:
    """However long a run was, and whatever was expected of it, its own counts tell which share passes."""
    found = shares(learned(JOB, run, rates))
    assert found == pytest.approx({"f": 0.5, "g": 0.8}, rel=0.01)


def test_joins_are_learned_at_the_level_at_which_tuples_came() -> None:
    """A join's selectivity is told by what the model makes of the rates, as they were in shape and as many as came."""
    share, operators = 0.001, [Operator(name="j", kind="join", inputs=("a", "b"), on="true", within=2.0)]
    network = Network.of("n", [Source(name="a"), Source(name="b")], operators, [Sink(name="o", input="j")])
    known = attrs.evolve(KNOWN, operators={"j": OperatorStatistics(cost=(1e-4,) * 2, selectivity=(0.002,) * 2)})
    true = attrs.evolve(operators[0], cost=(1e-4,) * 2, selectivity=(share,) * 2)
    came = Rates.of(1.0, {"a": RATES.of_source("s"), "b": RATES.of_source("s") / 2})
    model = load_model(network.having([true]), came)
    out = model.arrivals[model.stream_index["j->o"]]
    batches = [
        Batch("j", k, EPOCH + k, 0.5, 1, {"a->j": (int(a), 0), "b->j": (int(b), 0), "j->o": (round(c), 0)})
        for k, (a, b, c) in enumerate(zip(*came.values, out, strict=True))
    ]
    run = Outcome(EPOCH, batches, {}, {}, {}, 60.0)
    longer = Rates.of(1.0, {name: np.tile(came.of_source(name), 3) for name in came.sources})
    for rates in (came, came.scaled(0.5), longer, None):
        found = learned(Job(network, CLUSTER, Placement({"j": "h1"}), "", known), run, rates)
        assert shares(found) == pytest.approx({"j": share}, rel=0.02)


def test_rows_that_begin_late_teach_what_they_would_have_taught_at_once() -> None:
    """A join of rows that come only after a third of the run has the selectivity that its pairs show."""
    row = OperatorStatistics(cost=(1e-4,) * 2, selectivity=(0.002,) * 2)
    network = Network.of(
        "n",
        [Source(name="a"), Source(name="b")],
        [Operator(name="j", kind="join", inputs=("a", "b"), on="true", within=2.0)],
        [Sink(name="o", input="j")],
    )
    rates = Rates.of(1.0, dict.fromkeys(("a", "b"), [0.0] * 20 + [100.0] * 40))
    batches = [
        Batch("j", k, EPOCH + k, 0.5, 200, {"a->j": (100, 0), "b->j": (100, 0), "j->o": (40, 0)}) for k in range(20, 60)
    ]
    known = attrs.evolve(KNOWN, operators={"j": row})
    complete = attrs.evolve(network.operators["j"], cost=row.cost, selectivity=row.selectivity)
    model = load_model(network.having([complete]), rates)
    pairs = float(model.arrivals[model.stream_index["j->o"]].sum()) / 0.002
    job = Job(network, CLUSTER, Placement({"j": "h1"}), "", known)
    for expected in (rates, rates.scaled(0.5), None):
        found = learned(job, Outcome(EPOCH, batches, {}, {}, {}, 60.0), expected)
        assert shares(found) == pytest.approx({"j": 40 * 40 / pairs}, rel=0.02)


@pytest.mark.parametrize("even", [False, True])
def test_measured_rates_begin_when_the_run_did(even: bool) -> None:
    """Rows count in the second in which they came, from the beginning of the run; those of before it in the first."""
    late = [attrs.evolve(batch, start=batch.start + 33) for batch in outcome(5).batches]
    rates = measured_rates(NETWORK, Outcome(EPOCH, late, {}, {}, {}, 40.0), even=even)
    assert rates is not None
    assert rates.start == EPOCH
    came = rates.of_source("s")
    assert came[:33].sum() == 0
    assert came[33:38].sum() == pytest.approx(sum(200 + k % 5 * 300 for k in range(5)))
    early = [attrs.evolve(batch, start=batch.start - 3) for batch in outcome(5).batches]
    rates = measured_rates(NETWORK, Outcome(EPOCH, early, {}, {}, {}, 5.0), even=even)
    assert rates is not None
    assert rates.of_source("s").sum() == pytest.approx(sum(200 + k % 5 * 300 for k in range(5)))
    assert rates.of_source("s")[0] >= 200 + 500 + 800
    unknown = measured_rates(NETWORK, Outcome(0.0, late, {}, {}, {}, 40.0), even=even)
    assert unknown is not None
    assert (unknown.start, unknown.of_source("s")[0] > 0) == (EPOCH + 33, True)


def test_hosts_on_which_nothing_ran_stay_as_they_were() -> None:
    """What was known of other hosts of the cluster is not forgotten."""
    found = learned(JOB, outcome(60), RATES).hosts
    assert found["h3"] == HOST
    assert found["h2"].overhead == pytest.approx(0.2, rel=0.05)


def test_queries_that_were_attached_teach_nothing_here() -> None:
    """Batches of queries that the placement does not have are passed over, with the state that they kept."""
    run = outcome(60)
    other = Batch("q", 0, EPOCH, 0.5, 100, {"s->q": (100, 0)}, state={"s->q": (10, 0.1)})
    known = attrs.evolve(KNOWN, operators={**KNOWN.operators, "q": OperatorStatistics(cost=(0.1,))})
    job = attrs.evolve(JOB, statistics=known)
    found = learned(job, attrs.evolve(run, batches=[*run.batches, other]), RATES)
    assert found.hosts == learned(job, run, RATES).hosts


@pytest.mark.parametrize(("seconds", "code"), [(3, 1), (60, 0)])
def test_a_run_that_teaches_nothing_has_its_answer(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, code: int
) -> None:
    """A run that was too short for --learn is reported all the same; OUT is not written, and the exit code says so."""
    run = attrs.evolve(outcome(seconds), visible={"o": np.array([EPOCH + 1])}, stimulus={"o": np.array([EPOCH])})
    monkeypatch.setattr("penstock.spark.hosts.start_hosts", lambda *_, **__: nullcontext())
    monkeypatch.setattr("penstock.spark.run.Engine", lambda *_: None)
    monkeypatch.setattr("penstock.running.job.execute", lambda *_, **__: run)
    tables = ['name = "n"\n[sources.s]\nformat = "nexmark"\n[sinks.o]\ninput = "g"\n']
    for name, row in DOCUMENT["operators"].items():
        row = {**row, "cost": 0.0005, "selectivity": BEFORE[name]}
        tables.append(f"[operators.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items()))
    (tmp_path / "n.toml").write_text("".join(tables))
    given = [tmp_path / "n.toml", "--hosts", 2, "--placement", "f=h1,g=h2", "--rates", "s=300", "--duration", seconds]
    out = tmp_path / "out.json"
    done = penstock("run", *given, "--learn", out, "--directory", tmp_path / "run", "--json")
    assert done.code == code
    assert done.document["latency"]["max"] == 1.0
    assert out.exists() == (code == 0)
    assert (f"--learn {out}: not written" in done.err) == (code == 1)
