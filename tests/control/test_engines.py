"""One suite for every engine: what the loop may rely on."""

from __future__ import annotations

import numpy as np
import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import build_program, make_tables
from penstock.simulation import MicroBatch
from penstock.sizing.admit import merged
from penstock.steering import Plan

SPARK = [pytest.mark.spark, pytest.mark.timeout(900)]

DEEPER = pytest.mark.parametrize(
    "engine", ["simulation", pytest.param("spark", marks=[*SPARK, pytest.mark.slow])], indirect=True
)
"""For what tests of the Spark engine alone look at more closely."""


@pytest.fixture(params=["simulation", pytest.param("spark", marks=SPARK)])
def engine(request, tmp_path):
    """Return a maker of engines, (network, placement, rates) -> engine, that are closed at the end."""
    made = []

    def on_spark(network, placement, rates):
        from penstock.spark.run import Engine, SparkEngine

        hosts = Engine(*request.getfixturevalue("shared"))
        deployment = hosts.prepare(network, placement, tmp_path, rates=rates, live=True, apart=network.operators)
        return SparkEngine(hosts, deployment)

    def make(*parts, batches=None):
        given = {} if request.param == "spark" else {"microbatch": batches}
        made.append((on_spark if request.param == "spark" else simulated)(*parts, **given))
        return made[-1]

    yield make
    for each in made:
        each.close()


def looks(engine, until, every=1.0):
    """Return the observations up to a time."""
    found = []
    while engine.now < until - 1e-9 and engine.wait(engine.now + every):
        found.append(engine.observe())
    return found


def test_every_tuple_is_counted_in_one_look(engine):
    """Looks partition the tuples: their counts add up to what the report says of the whole run."""
    running = engine(two_queries(), APART, stepped((6, 50.0)))
    seen = looks(running, 6.0)
    running.wait(20.0)
    seen.append(running.observe())
    report = running.report()
    for index, name in enumerate(seen[0].streams):
        assert sum(int(look.arrived[index]) for look in seen) == report["streams"][name]["arrived"]
    assert sum(int(look.entered.sum()) for look in seen) == 600
    assert report["balanced"]


def test_looks_cost_no_time_and_know_where_things_are(engine):
    """An observation carries the network, the cluster and the placement that are in force, at its own time."""
    running = engine(two_queries(), APART, stepped((6, 50.0)))
    running.wait(2.0)
    before = running.now
    seen = running.observe()
    assert seen.at == pytest.approx(before, abs=0.5)
    assert dict(seen.placement) == APART
    assert set(seen.network.operators) == set(APART)
    assert {"h1", "h2"} <= set(seen.cluster.hosts)
    # Work is exact, or that of a unit, also of one with a single operator, which says how sure it is.
    exact = ~np.isnan(seen.work)
    assert exact.all() or (not exact.any() and {name for unit in seen.units for name in unit.operators} == set(APART))


@DEEPER
def test_moved_operator_goes_on_elsewhere_and_loses_nothing(engine):
    """A move is told by `moving` until it has ended; afterwards the placement says so and every tuple is there."""
    running = engine(two_queries(), TOGETHER, stepped((8, 50.0)))
    running.wait(2.0)
    running.observe()
    applied = running.apply(Plan(placement={"dear2": "h2"}))
    assert [(c.kind, c.name, c.to) for c in applied.begun] == [("move", "dear2", "h2")]
    again = running.apply(Plan(placement={"dear2": "h1"}))
    looks(running, 8.0)
    seen = running.observe()
    # A busy machine takes its time; the test's own limit ends what never does.
    while seen.moving:
        running.wait(running.now + 2.0)
        seen = running.observe()
    running.wait(running.now + 30.0)
    assert seen.placement["dear2"] == ("h2" if again.refused else "h1")
    assert not seen.moving
    streams = running.report()["streams"]
    assert streams["dear2->t2"]["delivered"] == streams["s2->cheap2"]["arrived"] == 400


def test_keep_fractions_are_in_force_and_counted(engine):
    """A plan's keep fractions replace those before, are told by the next look, and drops are counted by stream."""
    running = engine(two_queries(), APART, stepped((8, 100.0)))
    running.wait(2.0)
    running.observe()
    running.apply(Plan(keep={"s1->cheap1": 0.25}))
    running.wait(3.0)
    running.observe()
    running.wait(6.0)
    seen = running.observe()
    row = dict(zip(seen.streams, zip(seen.arrived.tolist(), seen.dropped.tolist(), strict=True), strict=True))
    arrived, dropped = row["s1->cheap1"]
    assert 1 - dropped / arrived == pytest.approx(0.25, abs=0.1)
    assert row["s2->cheap2"][1] == 0
    assert dict(seen.keep) == {"s1->cheap1": 0.25}
    running.apply(Plan(keep={}))
    running.wait(20.0)
    assert running.report()["balanced"]


def test_limited_source_is_read_later_and_whole(engine):
    """Under a limit the rest waits, as the look says in tuples and seconds; once it is lifted everything arrives."""
    running = engine(two_queries(), APART, stepped((6, 100.0), (8, 20.0)))
    running.wait(2.0)
    running.observe()
    applied = running.apply(Plan(limits={"s1": 25.0, "s9": 1.0, "s2": 0.0}))
    assert [(c.kind, c.name, c.to) for c in applied.begun] == [("limit", "s1", 25.0)]
    assert {each.change.name for each in applied.refused} == {"s2", "s9"}
    running.wait(7.0)
    seen = running.observe()
    assert dict(seen.limits) == {"s1": 25.0}
    waiting, behind = (dict(zip(seen.operators, row, strict=True)) for row in (seen.waiting, seen.behind))
    assert waiting["cheap1"] > 100
    assert behind["cheap1"] > 1.0
    while running.observe().moving:
        running.wait(running.now + 1.0)
    applied = running.apply(Plan(limits={"s1": None}))
    assert not applied.refused
    running.wait(running.now + 40.0)
    assert dict(running.observe().limits) == {}
    report = running.report()
    assert report["streams"]["dear1->t1"]["delivered"] == report["streams"]["dear2->t2"]["delivered"] == 760
    assert report["balanced"]


def test_limits_and_triggers_of_one_plan_are_all_in_force(engine):
    """What is read and how often may change of one host at once, and a later plan sets both back to what they were."""
    running = engine(
        two_queries(), TOGETHER, stepped((8, 20.0), (6, 0.0)), batches=MicroBatch(trigger=0.5, overhead=0.05)
    )
    running.wait(2.0)
    first = running.observe().cluster.spark.trigger
    limits, slower = {"s1": 25.0, "s2": 30.0}, {"h1": first + 1.0}
    for plan in (Plan(limits=limits, triggers=slower), Plan(limits=dict.fromkeys(limits), triggers={"h1": first})):
        assert not running.apply(plan).refused
        running.wait(running.now + 0.5)
        while (seen := running.observe()).moving:
            running.wait(running.now + 0.5)
        assert dict(seen.limits) == {name: limit for name, limit in plan.limits.items() if limit is not None}
        assert seen.triggers["h1"] == plan.triggers["h1"]
    running.wait(running.now + 40.0)
    assert running.report()["streams"]["dear1->t1"]["delivered"] == 160


def test_attached_query_runs_beside_the_others(engine):
    """A query that is attached gets what enters from then on; what ran before goes on undisturbed."""
    running = engine(two_queries(), APART, stepped((10, 50.0)))
    running.wait(3.0)
    running.observe()
    new = Network.of(
        "third", [Source(name="s1")],
        [Operator(name="third", kind="filter", where="true", inputs=("s1",), cost=(0.001,), selectivity=(1.0,))],
        [Sink(name="t3", input="third")],
    )  # fmt: skip
    applied = running.apply(Plan(network=merged(running.observe().network, new), placement={"third": "h2"}))
    assert [change.kind for change in applied.begun] == ["attach"]
    running.wait(30.0)
    streams = running.report()["streams"]
    assert 0 < streams["third->t3"]["delivered"] <= 350
    assert streams["dear1->t1"]["delivered"] == streams["dear2->t2"]["delivered"] == 500


def test_what_cannot_be_is_refused_and_the_rest_is_done(engine):
    """Strangers are refused one by one with a reason, and leave what is right to be done."""
    running = engine(two_queries(), APART, stepped((6, 50.0)))
    running.wait(1.0)
    applied = running.apply(
        Plan(placement={"nobody": "h1", "dear1": "h9", "cheap2": "h2"}, keep={"a->b": 0.5}, retire=("h1",))
    )
    assert {each.change.name for each in applied.refused} == {"nobody", "dear1", "", "h1"}
    assert all(each.why for each in applied.refused)
    assert running.observe().placement == APART


def test_hosts_decide_alone_while_nobody_looks(engine):
    """Hosts with tables of their own drop what exceeds their capacity, without a look or a plan after that."""
    network = two_queries()
    program = build_program(network, Cluster.uniform(2), APART)
    tables = make_tables(program, np.full(2, 4000.0), 0.05).hosts
    running = engine(network, APART, stepped((3, 50.0), (7, 900.0)))
    running.wait(1.0)
    applied = running.apply(Plan(tables={host: table.document() for host, table in tables.items()}))
    assert [(change.kind, change.name) for change in applied.begun] == [("tables", "")]
    running.wait(120.0)
    seen = running.observe()
    assert dict(seen.tables) == {host: table.version for host, table in tables.items()}
    report = running.report()
    for stream in ("s1->cheap1", "s2->cheap2"):
        counts = report["streams"][stream]
        # At 900 tuples/s a quarter fits: of the first batch of the burst at most a part is kept by mistake.
        assert 0.35 * counts["arrived"] < counts["dropped"] < 0.8 * counts["arrived"]
    assert report["balanced"]
    running.apply(Plan(keep={}))
    assert not running.observe().tables
