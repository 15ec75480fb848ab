"""What a run in real-time mode teaches, by rows that need no Spark."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from penstock.arrays import Array
from penstock.cluster import Cluster, Host, Placement, SparkSettings
from penstock.errors import EngineError
from penstock.latency.models import MODELS, model_of
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.load.statistics import HostStatistics
from penstock.network.file import parse_network
from penstock.running.job import Job
from penstock.running.learned import learned
from penstock.spark.run import Batch, Outcome
from penstock.workload import Rates

EPOCH = 1.8e9
KAFKA = {"format": "kafka"}
NETWORK = parse_network(
    {
        "name": "n",
        "sources": {"s": {**KAFKA, "schema": "n int", "options": {"subscribe": "in"}}},
        "operators": {
            "f": {"kind": "filter", "input": "s", "where": "n % 2 = 0"},
            "g": {"kind": "delay", "input": "f"},
        },
        "sinks": {"o": {"input": "g", **KAFKA, "options": {"topic": "out"}}},
    }
)
CLUSTER = Cluster.of([Host(name="h1"), Host(name="h2", capacity=2.0)], spark=SparkSettings(mode="real-time"))
PLACEMENT = {"f": "h1", "g": "h2"}
KNOWN = Statistics(
    operators={
        "f": OperatorStatistics(cost=(0.0005,), selectivity=(0.4,)),
        "g": OperatorStatistics(cost=(0.001,), selectivity=(1.0,)),
    },
    hosts={"h2": HostStatistics(overhead=0.1, factor=0.7)},
)
JOB = Job(NETWORK, CLUSTER, Placement(PLACEMENT), "", KNOWN)


def through(came: Array, cost: float) -> Array:
    """Return when rows leave a host that takes them one after the other."""
    order, free = np.argsort(came, kind="stable"), 0.0
    left = np.zeros(len(came))
    for row in order:
        free = left[row] = max(free, came[row]) + cost
    return left


def outcome(peak: float, first: float, second: float) -> Outcome:
    """Return a run of two hops that take some time a row (s), of which every second passes the first one."""
    rates = np.where((np.arange(40) >= 10) & (np.arange(40) < 18), peak, 300.0).astype(int)
    came = EPOCH + np.concatenate([k + np.arange(rate) / rate for k, rate in enumerate(rates)])
    middle = through(came, first)[::2]
    visible = through(middle, second)
    rows, passed = len(came), len(middle)
    batches = [
        Batch("f", 0, EPOCH, 40.0, rows, {"s->f": (rows, 0)}, logged={"f": (0, passed)}),
        Batch("g", 0, EPOCH, 40.0, passed, {"f->g": (passed, 0), "g->o": (passed, 0)}),
    ]
    between = {"f": (middle, came[::2])}
    return Outcome(EPOCH, batches, {"o": visible}, {"o": came[::2]}, {}, 40.0, between=between)


@pytest.mark.parametrize(
    ("peak", "first", "second", "factors"),
    [
        (1500, 0.0008, 0.0008, {"h1": 1.6, "h2": 0.7}),
        (1500, 0.0004, 0.0016, {"h2": 3.2}),
        (1500, 0.0008, 0.0018, {"h1": 1.6, "h2": 3.6}),
    ],
    ids=["the first queues", "the second queues", "both queue"],
)
def test_hosts_where_rows_queue_have_the_factor_that_these_show(
    peak: float, first: float, second: float, factors: dict[str, float]
) -> None:
    """What rows took where they queued, over what they should have taken there; of other hosts nothing is learned."""
    found = learned(JOB, outcome(peak, first, second), None)
    assert {name: row.factor for name, row in found.hosts.items()} == pytest.approx(factors, rel=0.02)
    assert found.hosts["h2"].overhead == 0.1
    assert found.operators["f"].selectivity == pytest.approx((0.5,), rel=0.01)
    assert found.measured["queued"] == [name for name in factors if factors[name] != 0.7]


def test_a_run_without_queues_teaches_nothing() -> None:
    """Where rows queued on no host it is an error that says so."""
    with pytest.raises(EngineError, match="rows queued on no host"):
        learned(JOB, outcome(400, 0.0008, 0.0008), None)


def test_a_run_in_real_time_mode_writes_what_it_taught(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--learn writes the factors of hosts where rows queued once their code was warm, and estimate takes them."""
    monkeypatch.setattr("penstock.spark.hosts.start_hosts", lambda *_, **__: nullcontext())
    monkeypatch.setattr("penstock.spark.run.Engine", lambda *_: None)
    monkeypatch.setattr("penstock.running.job.execute", lambda *_, **__: outcome(1500, 0.0008, 0.0004))
    monkeypatch.setattr("penstock.running.drift.YOUNG", 11.0)
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s]\nformat = "kafka"\nschema = "n int"\noptions = { subscribe = "in" }\n'
        '[operators.f]\nkind = "filter"\ninput = "s"\nwhere = "n % 2 = 0"\ncost = 0.0005\nselectivity = 0.5\n'
        '[operators.g]\nkind = "delay"\ninput = "f"\ncost = 0.001\nselectivity = 1\n'
        '[sinks.o]\ninput = "g"\nformat = "kafka"\noptions = { topic = "out" }\n'
    )
    (tmp_path / "c.toml").write_text(
        '[hosts.h1]\n[hosts.h2]\n[spark]\nmode = "real-time"\nkafka = { bootstrap = "127.0.0.1:1" }\n'
    )
    out, given = tmp_path / "out.json", [tmp_path / "n.toml", "--cluster", tmp_path / "c.toml"]
    words = ["--placement", "f=h1,g=h2", "--for", 40, "--directory", tmp_path / "run", "--json"]
    done = penstock("run", *given, *words, "--learn", out)
    assert done.code == 0, done.err
    hosts = json.loads(out.read_text())["hosts"]
    assert (list(hosts), hosts["h1"]["factor"]) == (["h1"], pytest.approx(1.6, rel=0.02))
    asked = [*given, "--placement", "f=h1,g=h2", "--rates", "s=1500", "--duration", 10, "--json"]
    alone, told = (penstock("estimate", *asked, *more) for more in ([], ["--statistics", out]))
    assert alone.document["worst"] == 0
    assert told.document["worst"] == pytest.approx(10 * (1500 * 0.0008 - 1), rel=0.1)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"microbatch"}))
def test_models_of_single_tuples_take_hosts_for_as_fast_as_measured(name: str) -> None:
    """A host whose costs are twice those measured alone is one that has half the capacity."""
    rates = Rates.of(1.0, {"s": [200.0, 1500.0, 900.0, 0.0, 0.0, 0.0]})
    slow = attrs.evolve(KNOWN, hosts={"h1": HostStatistics(factor=2.0), "h2": HostStatistics(factor=1.0)})
    hosts = {**CLUSTER.hosts, "h1": attrs.evolve(CLUSTER.hosts["h1"], capacity=0.5)}
    half = attrs.evolve(CLUSTER, hosts=hosts)
    loads = load_model(KNOWN.complete(NETWORK), rates)
    even = attrs.evolve(KNOWN, hosts={})
    one, other = (model_of(name)(loads, PLACEMENT, *each) for each in ((CLUSTER, slow), (half, even)))
    assert one.total == other.total
    assert one.total.worst > 0
    assert one.sinks == other.sinks
