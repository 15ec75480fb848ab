"""The replay against closed forms, the batch model, the simulator, and itself in plain Python."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from batch_model import microbatch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.advice import recursion
from penstock.advice.draw import Draw, drawn
from penstock.advice.kernel import batches as compiled
from penstock.advice.measure import correlation, crowded, interval
from penstock.advice.rates import with_burst
from penstock.advice.replay import replay
from penstock.cluster import Cluster, Placement
from penstock.latency.fragments import Fragment
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import MicroBatch, Options, simulate
from penstock.workload import Rates


def one_query(cost: float) -> Network:
    return Network.of(
        "one",
        [Source(name="s")],
        [Operator(name="q", kind="map", inputs=("s",), cost=(cost,), selectivity=(1.0,))],
        [Sink(name="out", input="q")],
    )


@pytest.mark.parametrize(("trigger", "rate"), [(2.0, 400.0), (5.0, 100.0), (1.0, 700.0)])
def test_steady_state_is_the_closed_form(job: Any, deployment: Any, trigger: float, rate: float) -> None:
    """Batches that end within the trigger: a row waits up to the trigger, on average half of it, and then the batch."""
    rows = replay(deployment(job(rates=rate, trigger=trigger)))["q"].latency
    length = 0.2 + 0.001 * rate * trigger
    assert rows.worst == pytest.approx(trigger + length, rel=0.01)
    assert rows.quantile(0.5) == pytest.approx(trigger / 2 + length, rel=0.02)


def test_batches_without_a_trigger_settle(job: Any, deployment: Any) -> None:
    """Without a trigger, batches settle at overhead / (1 - rate * cost)."""
    found = replay(deployment(job(rates=500.0)))["q"]
    assert (found.end - found.start)[-10:-1] == pytest.approx(0.2 / (1 - 0.5), rel=0.02)


def test_a_limit_bounds_every_batch(job: Any, deployment: Any) -> None:
    """No batch takes more than the limit, and every row is taken once."""
    found = replay(with_burst(deployment(job(limit=300.0)), 3.0, 10.0))["q"]
    assert found.rows.max() == 300
    assert found.rows.sum() == 60 * 400 + 10 * 1200 + 10 * 400


@pytest.mark.parametrize(("period", "length"), [(180.0, 60.0), (10.0, 25.0), (1.0, 30.0)])
def test_a_burst_is_as_long_as_asked(job: Any, deployment: Any, period: float, length: float) -> None:
    """A burst lasts as long as asked for whatever the step of the rates, and what is recorded stays as it was."""
    found = with_burst(deployment(job(rates=np.full(4, 100.0)), period=period), 8.0, length)
    rates = found.jobs["q"].rates
    assert found.period * (rates == 800.0).sum() == pytest.approx(length)
    assert found.recorded is not None
    assert found.period * found.recorded == pytest.approx(4 * period)
    assert found.period * rates.sum() == pytest.approx(100 * (4 * period + length) + 800 * length)


def test_backlog_of_a_limited_query_is_the_closed_form(job: Any, deployment: Any) -> None:
    """While rows wait, limited batches follow each other: after a burst the last row waits for all full batches."""
    rates = np.concatenate([np.full(10, 3000.0), np.zeros(60)])
    found = replay(deployment(job(rates=rates, limit=1000.0)))["q"]
    # 30,000 rows in batches of 1,000 that take 1.2 s, after a first one of a single row.
    full = found.rows == 1000
    assert (found.end - found.start)[full] == pytest.approx(1.2)
    assert found.end[-1] == pytest.approx(30_000 / 1000 * 1.2, rel=0.02)
    assert found.latency.worst == pytest.approx(found.end[-1] - 10.0, rel=0.02)


def test_rows_that_wait_at_the_beginning_are_the_closed_form(job: Any, deployment: Any) -> None:
    """A backlog leaves in full batches, counted from the beginning; rows that come meanwhile wait behind it."""
    for rates in (np.zeros(60), np.concatenate([np.full(5, 1000.0), np.zeros(55)])):
        found = replay(deployment(job(rates=rates, limit=1000.0, waiting=30_000.0)))["q"]
        assert found.rows.sum() == 30_000 + rates.sum()
        assert found.rows == pytest.approx(1000.0)
        assert found.end[29] == pytest.approx(30 * 1.2)
        # Those that come from 4 s on leave with batch 35.
        assert found.latency.worst == pytest.approx(35 * 1.2 - 4 if rates.any() else 30 * 1.2)


def test_no_batch_is_shorter_than_the_shortest(job: Any, deployment: Any) -> None:
    """Where overhead and cost are not known a batch lasts the typical time, and longer only by the cost of its rows."""
    query = job(rates=np.concatenate([np.full(30, 100.0), np.full(2, 4000.0)]), overhead=0.0, shortest=3.0)
    found = replay(deployment(query))["q"]
    assert found.end - found.start == pytest.approx(np.maximum(3.0, 0.001 * found.rows))
    assert (found.rows > 4000).any()
    assert query.seconds(10.0) == 3.0
    # In the cores that it keeps busy the time without rows' work counts as overhead.
    assert attrs.evolve(query, tasks=0.0).wanted(np.array([300.0, 6000.0])) == pytest.approx([0.1, 1.0])


@settings(max_examples=30)
@given(
    trigger=st.sampled_from([0.55, 1.1, 2.1, 3.2]),
    overhead=st.floats(0.1, 1.0),
    cost=st.floats(1e-4, 2e-3),
    rates=st.lists(st.integers(100, 900), min_size=5, max_size=15),
)
def test_one_query_is_the_batch_model(
    job: Any, deployment: Any, trigger: float, overhead: float, cost: float, rates: list[int]
) -> None:
    """Without limit and company the replay has the batches of the model of micro-batches."""
    # The first tuple comes between two triggers: at one of them only the model would take it, as it does not
    # count whole rows, and all batches would be others.
    values = np.array([0, *rates], float)
    model = load_model(one_query(cost), Rates.of(1.0, {"s": values}))
    there = microbatch(
        model, [Fragment("h", "h", ("q",))], trigger=trigger, overhead={"h": overhead}, reading=0.0, commit=0.0
    )
    here = replay(deployment(job(rates=values, trigger=trigger, overhead=overhead, cost=cost)))["q"]
    # Where a row falls on the other side of a batch's start, a batch may be there once more or once less.
    lasted = float(sum(batch.duration for batch in there.batches))
    assert float((here.end - here.start).sum()) == pytest.approx(lasted, rel=0.02, abs=overhead + 0.02)
    _, latency, weight = there.whole()
    assert here.latency.worst == pytest.approx(float(latency[weight > 0].max()), rel=0.05, abs=0.2)


def test_one_query_is_the_simulated_host(job: Any, deployment: Any) -> None:
    """The simulator's micro-batch host measures the latency that the replay predicts, burst included."""
    rates = np.concatenate([np.full(20, 200.0), np.full(10, 1200.0), np.full(30, 200.0)])
    here = replay(deployment(job(rates=rates, trigger=2.0)))["q"].latency
    options = Options(policy="stimulus", drain=True, microbatch=MicroBatch(trigger=2.0, overhead=0.2))
    there = simulate(
        one_query(0.001), Cluster.uniform(1), Placement({"q": "h1"}), Rates.of(1.0, {"s": rates}), options
    ).latency
    assert here.worst == pytest.approx(there["max"], rel=0.02)
    assert here.quantile(0.99) == pytest.approx(there["p99"], rel=0.02)
    assert here.quantile(0.5) == pytest.approx(there["p50"], rel=0.05)


def test_batches_at_once_share_the_cores(job: Any, deployment: Any) -> None:
    """Two like queries on one core take twice as long for their batches; on two cores as long as alone."""
    pair = (job("a", trigger=10.0), job("b", trigger=10.0))
    shared, free = replay(deployment(*pair)), replay(deployment(*pair, cores=2.0))
    length = 0.2 + 0.001 * 4000
    assert (shared["a"].end - shared["a"].start)[1] == pytest.approx(2 * length, rel=0.01)
    assert (free["a"].end - free["a"].start)[1] == pytest.approx(length, rel=0.01)
    assert crowded(deployment(*pair), shared, "d") > 0.9
    # What the driver's thread does of it goes on beside the other's tasks.
    beside = replay(deployment(*(attrs.evolve(each, tasks=0.0) for each in pair)))
    assert (beside["a"].end - beside["a"].start)[1] == pytest.approx(0.2 + 2 * 0.001 * 4000, rel=0.01)
    assert crowded(deployment(*pair, cores=2.0), free, "d") == 0


def test_progressive_rows_do_not_wait_for_the_end(job: Any, deployment: Any) -> None:
    """Where rows become visible during the batch, the first ones leave at its beginning."""
    steady = job(trigger=2.0)
    late, early = (replay(deployment(attrs.evolve(steady, progressive=p)))["q"].latency for p in (False, True))
    assert early.worst < late.worst
    assert early.worst == pytest.approx(2.0, rel=0.3)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_the_compiled_recursion_is_the_plain_one(seed: int) -> None:
    """The compiled recursion gives the batches of the plain one, bit by bit."""
    rng = np.random.default_rng(seed)
    jobs, periods = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    table = np.column_stack(
        [
            rng.uniform(0, 0.5, jobs),
            rng.uniform(0, 0.003, jobs),
            rng.choice([0.0, 0.5, 2.0], jobs),
            rng.choice([np.inf, 50.0, 400.0], jobs),
            rng.uniform(0.2, 3, jobs),
            np.zeros(jobs),
            rng.choice([0.0, 0.4, 1.0], jobs),
            rng.choice([0.0, 0.3], jobs),
        ]
    )
    arrived = np.zeros((jobs, periods + 1))
    arrived[:, 1:] = np.cumsum(rng.integers(0, 600, (jobs, periods)), axis=1)
    arrived += rng.choice([0.0, 700.0], (jobs, 1))
    noise = np.exp(0.2 * rng.standard_normal((jobs, 7)))
    args = (table, arrived, 1.0, float(rng.uniform(0.5, 4)), noise, 5000)
    assert np.array_equal(compiled(*args), recursion.batches(*args))
    assert compiled(*args)[:, 3].sum() == arrived[:, -1].sum()


def test_draws_follow_the_errors(job: Any, deployment: Any) -> None:
    """Draws have the spread that the fit states, are the same for a seed, and none without errors."""
    sure, unsure = job("a"), job("b", overhead_error=0.02, cost_error=1e-4)
    rng = np.random.default_rng(5)
    lines = np.array([drawn({"b": unsure}, rng).line(unsure) for _ in range(2000)])
    assert lines.mean(axis=0) == pytest.approx([0.2, 0.001], rel=0.02)
    assert lines.std(axis=0) == pytest.approx([0.02, 1e-4], rel=0.06)
    assert drawn({"a": sure}, rng).line(sure) == (0.2, 0.001)
    one, two = (drawn({"b": unsure}, np.random.default_rng(1)).line(unsure) for _ in range(2))
    assert one == two


def test_batches_years_apart_come_to_an_end(job: Any, deployment: Any) -> None:
    """Batches last as long however late they are, also where a moment can no longer be told to a nanosecond."""
    found = replay(deployment(job(rates=np.full(20, 1e-7), trigger=2.0), period=5e7))["q"]
    assert found.rows.sum() == 100
    assert found.end[-1] > 9e8
    assert found.end - found.start == pytest.approx(0.201, abs=1e-6)


def test_nothing_arrives(job: Any, deployment: Any) -> None:
    """A query without rows has no batches and no latency."""
    found = replay(deployment(job(rates=0.0)))["q"]
    assert found.rows.size == 0
    assert found.latency.worst == found.latency.quantile(0.99) == 0


def test_correlation_is_that_of_the_loads(job: Any, deployment: Any) -> None:
    """Queries that peak together correlate by 1, in turn by -1, with a constant one by 0."""
    wave = 400 + 300 * np.sin(np.arange(60))
    loads = deployment(job("a", rates=wave), job("b", rates=2 * wave), job("c", rates=800 - wave), job("d"))
    assert correlation(loads)[0] == pytest.approx([1, 1, -1, 0])
    assert correlation(with_burst(loads, 3, 20))[0] == pytest.approx([1, 1, -1, 0])


def test_intervals_are_ordered() -> None:
    """Low, middle and high are quantiles in this order."""
    assert interval(list(np.arange(101.0))) == (5.0, 50.0, 95.0)
    assert Draw().share == 0.5
