"""Advice: each kind where it must come and where it must not, against brute force, closed forms and the simulator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from penstock.advice import Aims, Burst, Report, advise, consult, deployed, with_burst
from penstock.advice.kinds import KINDS
from penstock.advice.kinds.hosts import with_cores
from penstock.advice.kinds.rate_limit import best_limit, limits
from penstock.advice.measure import correlation, harm_of
from penstock.advice.replay import replay
from penstock.advice.values import Advice, Facts
from penstock.cluster import Cluster, Placement
from penstock.errors import InputError
from penstock.inspection import inspect
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import MicroBatch, Options, simulate
from penstock.telemetry import read_telemetry
from penstock.workload import Rates

Ask = Callable[..., Report]


def ask(deployment: Any, latency: float | None = None, seed: int = 0, draws: int = 20) -> Report:
    return advise(deployment, Aims(latency=latency), np.random.default_rng(seed), draws)


def of_kind(report: Report, kind: str) -> list[Advice]:
    return [advice for advice in report.advice if advice.proposal.kind == kind]


def test_a_limit_keeps_the_bound_that_a_burst_misses(job: Any, deployment: Any) -> None:
    """Under a 3x burst the rows miss the bound; with the advised maxOffsetsPerTrigger they keep it."""
    busy = with_burst(deployment(job(trigger=2.0, overhead_error=0.005, cost_error=5e-6)), 3.0, 20.0)
    report = ask(busy, latency=10.0)
    (found,) = of_kind(report, "rate-limit")
    assert found.proposal.setting == "maxOffsetsPerTrigger"
    assert found.before.worst[0] > 10.0
    assert found.after.worst[2] < 10.0
    assert found.proposal.old is None
    followed = replay(found.proposal.after)["q"]
    assert followed.rows.max() <= float(found.proposal.new)


def simulated(rates: np.ndarray, trigger: float) -> float:
    """Return the worst latency that the simulator's micro-batch host measures."""
    network = Network.of(
        "one",
        [Source(name="s")],
        [Operator(name="q", kind="map", inputs=("s",), cost=(0.001,), selectivity=(1.0,))],
        [Sink(name="out", input="q")],
    )
    options = Options(policy="stimulus", drain=True, microbatch=MicroBatch(trigger=trigger, overhead=0.2))
    there = simulate(network, Cluster.uniform(1), Placement({"q": "h1"}), Rates.of(1.0, {"s": rates}), options)
    return float(there.latency["max"])


def test_before_and_after_are_what_the_simulator_measures(job: Any, deployment: Any) -> None:
    """Of all triggers, tried in the simulator, the advised one is the longest that keeps the bound."""
    long = deployment(job(trigger=30.0))
    (found,) = of_kind(ask(long, latency=10.0), "trigger")
    worst = {every: simulated(long.jobs["q"].rates, every) for every in (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0)}
    assert found.proposal.new == max(every for every, waits in worst.items() if waits <= 10.0)
    assert found.before.worst[1] == pytest.approx(worst[30.0], rel=0.02)
    assert found.after.worst[1] == pytest.approx(worst[float(found.proposal.new)], rel=0.02)


def limited_by_hand(rates: np.ndarray, limit: float, trigger: float, overhead: float, cost: float) -> float:
    """Return the worst latency of single rows under a limit, row by row: an independent recursion."""
    edges = np.concatenate([[0.0], np.cumsum(rates)])
    total = int(edges[-1])
    arrival = np.interp(np.arange(1, total + 1), edges, np.arange(edges.size, dtype=float))
    taken, free, start, worst = 0, 0.0, -1e9, 0.0
    while taken < total:
        begin = max(free, start + trigger if trigger == 0 else (np.floor(start / trigger + 1e-9) + 1) * trigger, 0.0)
        if arrival[taken] > begin:
            begin = np.ceil(arrival[taken] / trigger - 1e-9) * trigger if trigger else arrival[taken]
        waiting = int(np.searchsorted(arrival, begin + 1e-9, side="right"))
        many = int(min(waiting - taken, limit))
        end = begin + overhead + cost * many
        worst = max(worst, end - arrival[taken])
        taken, start, free = taken + many, begin, end
    return worst


@pytest.mark.parametrize("trigger", [0.0, 1.0, 3.0])
def test_the_limit_is_the_best_of_all(job: Any, deployment: Any, trigger: float) -> None:
    """No limit that brute force tries, row by row, is better by more than a grid's step."""
    busy = with_burst(deployment(job(trigger=trigger)), 3.0, 15.0)
    found = best_limit(busy, "q", Aims())
    assert found is not None
    limit, chosen, _ = found
    rates = busy.jobs["q"].rates
    advised = limited_by_hand(rates, limit, chosen, 0.2, 0.001)
    tried = [limited_by_hand(rates, many, how, 0.2, 0.001) for how in {trigger, 0.0} for many in range(500, 8000, 250)]
    assert advised <= 1.05 * min(tried)
    assert advised == pytest.approx(replay(busy.having("q", limit=limit, trigger=chosen))["q"].latency.worst, rel=0.02)


def test_no_limit_where_nothing_waits(job: Any, deployment: Any) -> None:
    """Without a burst, no limit is advised: every one would only add to the wait."""
    assert of_kind(ask(deployment(job(trigger=2.0)), latency=3.0), "rate-limit") == []
    assert of_kind(ask(deployment(job(trigger=2.0))), "rate-limit") == []


def test_limits_bear_the_mean_rate(job: Any) -> None:
    """Every limit that is tried keeps up with the mean rate with a twentieth to spare."""
    query = job(trigger=2.0)
    for trigger in (0.0, 2.0):
        tried = list(limits(query, trigger, 10_000.0))
        assert tried
        for limit in tried:
            assert limit / max(trigger, query.seconds(limit)) >= 1.05 * query.rate


def test_no_limit_where_the_overhead_is_not_known(make: Any, write: Any) -> None:
    """Where all batches are alike, overhead and cost cannot be told apart: no limit is advised, and a note says so."""
    found = deployed(inspect(read_telemetry([str(write(make.paced(rate=lambda n: 400)))])))
    report = ask(with_burst(found, 3.0, 20.0), latency=5.0)
    assert not found.jobs["clicks"].certain
    assert of_kind(report, "rate-limit") == []
    assert any("clicks" in note and "smaller limit" in note for note in report.notes)


def test_a_limit_is_raised_where_the_most_that_rows_cost_allows(job: Any, deployment: Any) -> None:
    """Where costs are not known, a larger limit is advised if it helps whatever a row costs, and no other one."""
    held = job(
        certain=False, overhead=0.0, cost=4e-4, shortest=0.6, trigger=10.0, limit=1500.0, rates=np.full(600, 200.0)
    )
    (found,) = ask(deployment(held), latency=20.0).advice
    assert found.proposal.kind == "rate-limit"
    assert float(found.proposal.new) >= 2000
    assert found.proposal.also == {}
    assert found.after.worst[2] < 20.0 < found.before.worst[0]
    assert ask(deployment(attrs.evolve(held, limit=3000.0)), latency=1.0).advice == ()


def test_no_limit_is_advised_that_cannot_bear_the_rate(job: Any, deployment: Any) -> None:
    """Where a limit holds a query back, one that falls behind too is never advised; a note says what would do."""
    held = job(rates=1000.0, overhead=1.0, cost=1.05e-3, limit=2000.0)
    report = ask(deployment(held))
    assert of_kind(report, "rate-limit") == []
    assert "q falls behind with at most 2,000 rows a batch, and no limit is enough" in report.notes[-1]
    # The replay ends long before batches are as large as they would have to be.
    report = ask(deployment(attrs.evolve(held, cost=0.99e-3)))
    assert of_kind(report, "rate-limit") == []
    assert "keeps up only with 100,000 rows or more" in report.notes[-1]
    report = ask(deployment(attrs.evolve(held, cost=0.5e-3, limit=1000.0)))
    (found,) = of_kind(report, "rate-limit")
    assert found.proposal.new == 4000
    assert not any("falls behind" in note for note in report.notes)


def test_a_kafka_sink_needs_no_limit(job: Any, deployment: Any) -> None:
    """Where rows leave during the batch, large batches do not keep them waiting twice: no limit is advised."""
    busy = with_burst(deployment(job(trigger=2.0, progressive=True)), 3.0, 20.0)
    assert of_kind(ask(busy, latency=5.0), "rate-limit") == []


def test_a_long_trigger_is_shortened(job: Any, deployment: Any) -> None:
    """A trigger of 30 s misses a bound of 10 s; the advised one keeps it, at the least work that does."""
    report = ask(deployment(job(trigger=30.0)), latency=10.0)
    (found,) = of_kind(report, "trigger")
    interval = float(found.proposal.new)
    assert found.proposal.old == 30.0
    # Under a trigger T a row waits for T and the batch: T + 0.2 + 0.4 T <= 10.
    assert interval + 0.2 + 0.4 * interval <= 10.0
    assert found.after.worst[2] <= 10.0 < found.before.worst[0]
    assert interval >= 5.0


def test_a_short_trigger_is_lengthened_where_the_bound_leaves_time(job: Any, deployment: Any) -> None:
    """A longer trigger frees the overhead's share of the cores that the closed form says, and keeps the bound."""
    (found,) = of_kind(ask(deployment(job(rates=np.full(600, 50.0), trigger=0.5)), latency=20.0), "trigger")
    interval = float(found.proposal.new)
    assert interval > 0.5
    assert found.after.worst[2] <= 20.0
    # Of every second the overhead took 0.2 / 0.5, and takes 0.2 / interval.
    assert found.proposal.saves == pytest.approx(0.2 / 0.5 - 0.2 / interval, abs=0.03)


def test_nothing_is_advised_where_all_is_well(job: Any, deployment: Any) -> None:
    """A query that keeps its bound at little work is left alone."""
    assert ask(deployment(job(rates=50.0, trigger=5.0, cost=1e-4)), latency=7.0).advice == ()


def test_queries_that_peak_together_are_separated(job: Any, deployment: Any) -> None:
    """Of three queries on one core, one that peaks with the heavy one goes; a lone query is never separated."""
    peak = np.tile(np.concatenate([np.full(10, 1500.0), np.full(20, 100.0)]), 3)
    calm = np.full(90, 50.0)
    jobs = (job("a", rates=peak), job("b", rates=peak), job("c", rates=calm))
    best = of_kind(ask(deployment(*jobs), latency=20.0), "separate")[0]
    assert best.proposal.query in ("a", "b")
    assert "correlation +1.00" in best.proposal.why
    assert best.proposal.after.drivers == {"d": 1.0, "d-2": 1.0}
    assert best.gain[0] > 0
    assert of_kind(ask(deployment(job("a", rates=peak)), latency=20.0), "separate") == []


def test_separating_agrees_with_brute_force(job: Any, deployment: Any) -> None:
    """The query that is separated first is the one whose removal does the least harm of all."""
    rng = np.random.default_rng(3)
    jobs = [job(name, rates=rng.uniform(0, 700, 60)) for name in "abcd"]
    whole = deployment(*jobs)
    best = of_kind(ask(whole, latency=2.0), "separate")[0]
    harms = {
        name: harm_of(attrs.evolve(whole.having(name, driver="e"), drivers={"d": 1.0, "e": 1.0}), Aims(latency=2.0))
        for name in "abcd"
    }
    assert best.proposal.query == min(harms, key=lambda name: harms[name])


def test_light_drivers_are_put_together(job: Any, deployment: Any) -> None:
    """Two drivers whose queries peak in turn become one, which frees the cores of the other."""
    wave = 200 + 150 * np.sin(np.arange(60))
    jobs = (job("a", rates=wave, driver="d", trigger=2.0), job("b", rates=400 - wave, driver="e", trigger=2.0))
    (found,) = of_kind(ask(deployment(*jobs), latency=6.0), "together")
    assert found.proposal.saves == 1.0
    assert len(found.proposal.after.drivers) == 1
    assert found.after.worst[2] <= 6.0
    heavy = (job("a", rates=700.0, driver="d"), job("b", rates=700.0, driver="e"))
    assert of_kind(ask(deployment(*heavy), latency=6.0), "together") == []


def test_a_burst_does_not_make_loads_alike(job: Any, deployment: Any) -> None:
    """The reason to put drivers together tells how alike their recorded loads are, without the burst behind them."""
    wave = 100 + 50 * np.sin(np.arange(60))
    jobs = (job("a", rates=wave, driver="d", trigger=2.0), job("b", rates=200 - wave, driver="e", trigger=2.0))
    recorded = deployment(*jobs)
    (found,) = of_kind(ask(with_burst(recorded, 3.0, 20.0), latency=60.0), "together")
    assert correlation(recorded)[0, 1] == pytest.approx(-1)
    assert "(load correlation -1.00)" in found.proposal.why


def test_the_fewest_cores_that_keep_the_bound(job: Any, deployment: Any) -> None:
    """The advised cores keep the bound, and one fewer does not, by replay."""
    busy = with_burst(deployment(job(trigger=2.0)), 5.0, 20.0)
    (found,) = of_kind(ask(busy, latency=5.0), "hosts")
    cores = int(found.proposal.new)
    worst = [replay(with_cores(busy, "d", count))["q"].latency.worst for count in (cores - 1, cores)]
    assert worst[1] <= 5.0 < worst[0]


def test_cores_that_nobody_needs_are_given_back(job: Any, deployment: Any) -> None:
    """A driver of eight cores with one light query that uses one needs one."""
    (found,) = of_kind(ask(deployment(job(trigger=2.0, rates=100.0), cores=8.0), latency=10.0), "hosts")
    assert (found.proposal.new, found.proposal.saves) == (1.0, 7.0)


def test_many_small_partitions_of_state_become_few(job: Any, deployment: Any) -> None:
    """200 partitions for little state, whose commit is half of a batch, become as many as there are cores."""
    facts = Facts(partitions=200.0, commit=0.6, state_rows=1000.0, state_bytes=1e5)
    query = job(overhead=0.6, rates=300.0, facts=facts, overhead_error=0.01)
    (found,) = of_kind(ask(deployment(query, cores=2.0)), "shuffle")
    assert found.proposal.setting == "spark.sql.shuffle.partitions"
    assert (found.proposal.old, found.proposal.new) == (200.0, 2.0)
    assert "checkpoint" in found.proposal.remark
    # How much is saved is not sure: the interval reaches from little to most of it.
    assert found.after.worst[2] - found.after.worst[0] > found.before.worst[2] - found.before.worst[0]
    few = attrs.evolve(facts, partitions=2.0)
    assert of_kind(ask(deployment(attrs.evolve(query, facts=few), cores=2.0)), "shuffle") == []


def test_large_state_goes_to_rocksdb(job: Any, deployment: Any) -> None:
    """State of millions of rows on the heap, whose commit is a large part of a batch, goes to RocksDB."""
    facts = Facts(partitions=4.0, commit=2.0, state_rows=5e6, state_bytes=1e8, provider="a.HDFSBackedProvider")
    query = job(overhead=1.0, rates=300.0, facts=facts)
    found = of_kind(ask(deployment(query, cores=2.0)), "shuffle")
    assert any("RocksDB" in str(advice.proposal.new) for advice in found)
    # Where the logs do not tell the store, it may be RocksDB.
    for told in ("", "a.RocksDBStateStoreProvider"):
        same = attrs.evolve(query, facts=attrs.evolve(facts, provider=told))
        others = of_kind(ask(deployment(same, cores=2.0)), "shuffle")
        assert not any("RocksDB" in str(advice.proposal.new) for advice in others)


def test_one_topic_is_read_once(job: Any, deployment: Any) -> None:
    """Two queries of a driver that read one topic at one rate become one; two that read different topics do not."""
    facts = Facts(reads=("KafkaV2[Subscribe[clicks]]",))
    pair = [job(name, rates=400.0, trigger=0.0, facts=facts) for name in "ab"]
    (found,) = of_kind(ask(deployment(*pair)), "source")
    assert found.proposal.query == "a,b"
    assert found.after.worst[1] < found.before.worst[1]
    other = attrs.evolve(pair[1], facts=Facts(reads=("KafkaV2[Subscribe[views]]",)))
    assert of_kind(ask(deployment(pair[0], other)), "source") == []


def test_queries_with_state_stay_apart(job: Any, deployment: Any, make: Any, write: Any) -> None:
    """In foreachBatch a batch knows nothing of those before: queries that keep state are not made one."""
    facts = Facts(reads=("KafkaV2[Subscribe[clicks]]",), stateful=True)
    assert of_kind(ask(deployment(*(job(name, facts=facts) for name in "ab"))), "source") == []
    for state in (None, 10):
        found = deployed(inspect(read_telemetry([str(write(make.paced(state=state)))])))
        assert found.jobs["clicks"].facts.stateful == (state is not None)


def test_the_least_weight_is_deferred(job: Any, deployment: Any) -> None:
    """Where not all can keep the bound, the query of least weight waits, and the others gain."""
    jobs = (job("a", weight=5.0), job("b", weight=1.0, rates=500.0), job("c", weight=3.0))
    busy = with_burst(deployment(*jobs), 2.0, 20.0)
    (found,) = of_kind(ask(busy, latency=8.0), "defer")
    assert found.proposal.query == "b"
    assert found.proposal.about == ("a", "c")
    assert found.after.worst[1] < found.before.worst[1]
    assert of_kind(ask(deployment(*jobs[:1]), latency=0.1), "defer") == []


def test_deferring_counts_the_wait_of_what_is_deferred(job: Any, deployment: Any) -> None:
    """A query that is stopped for the burst waits as long: where its weight makes that dear, it is not deferred."""
    jobs = (job("a", rates=300.0), job("b", rates=300.0))
    busy = with_burst(deployment(*jobs), 1.5, 20.0)
    assert of_kind(ask(busy, latency=4.0), "defer") == []


def test_replayed_batches_are_compared_with_the_recorded(make: Any, write: Any) -> None:
    """At the recorded rates, the replay's median batch is about the recorded one, and both are told."""
    found = deployed(inspect(read_telemetry([str(write(make.paced(count=120, noise=0.05)))])))
    told = consult(found, Aims(), Burst(), np.random.default_rng(0)).document()["queries"]["clicks"]["batch"]
    assert told["replayed"] == pytest.approx(told["recorded"], rel=0.1)


def test_the_best_comes_first(job: Any, deployment: Any) -> None:
    """Advice is ordered by what it gains, and every interval by low, middle, high."""
    jobs = (job("a", trigger=20.0, spread=0.1), job("b", trigger=5.0, cost_error=5e-5), job("c", rates=100.0))
    report = ask(with_burst(deployment(*jobs, cores=2.0), 3.0, 20.0), latency=6.0)
    gains = [advice.gain[1] for advice in report.advice]
    assert gains == sorted(gains, reverse=True)
    for advice in report.advice:
        for latency in (advice.before, advice.after):
            for row in latency.document().values():
                assert row == sorted(row)
            assert latency.p50[1] <= latency.p99[1] <= latency.worst[1]


def test_the_same_seed_gives_the_same_advice(job: Any, deployment: Any) -> None:
    """Draws come from the generator alone."""
    noisy = with_burst(deployment(job(trigger=2.0, spread=0.1, cost_error=5e-5)), 3.0, 20.0)
    assert ask(noisy, 10.0, seed=1).document() == ask(noisy, 10.0, seed=1).document()
    assert ask(noisy, 10.0, seed=1).document() != ask(noisy, 10.0, seed=2).document()


def test_larger_errors_make_wider_intervals(job: Any, deployment: Any) -> None:
    """The interval of a burst's latency grows with the error of the cost, as rho / (rho - 1) has it."""
    widths = []
    for error in (1e-6, 1e-5, 5e-5):
        busy = with_burst(deployment(job(trigger=2.0, cost_error=error)), 3.0, 40.0)
        worst = ask(busy, draws=40).latency["q"].worst
        widths.append(worst[2] - worst[0])
    assert widths == sorted(widths)


def test_growth_shows_what_breaks(job: Any, deployment: Any) -> None:
    """At five times the rates a query of 40 % load falls behind, and a light one does not."""
    report = ask(deployment(job("a", trigger=2.0), job("b", rates=20.0, trigger=2.0), cores=2.0))
    assert report.growth[5.0]["a"]["worst"] > 20
    assert report.growth[5.0]["b"]["worst"] < 5
    assert report.growth[1.0]["a"]["busy"] == pytest.approx((0.2 + 0.8) / 2, rel=0.03)


def test_growth_is_told_in_the_middle_of_the_same_draws(job: Any, deployment: Any) -> None:
    """At once the rates it is the latency beside it, noise and errors included, and from there on it grows."""
    noisy = job("a", rates=200.0, trigger=2.0, spread=0.4, overhead=0.6, overhead_error=0.1, cost_error=1e-4)
    report = ask(deployment(noisy, job("b", rates=20.0, trigger=2.0, spread=0.4), cores=2.0))
    for name, told in report.latency.items():
        now, twice, most = (report.growth[factor][name] for factor in (1.0, 2.0, 5.0))
        assert (now["worst"], now["p99"]) == pytest.approx((told.worst[1], told.p99[1]))
        assert told.worst[1] <= twice["worst"] <= most["worst"]


def test_every_kind_of_the_contract_is_there() -> None:
    """The table of kinds has the names that programs know."""
    assert set(KINDS) == {
        "rate-limit", "trigger", "separate", "together", "hosts", "shuffle", "source", "defer",
    }  # fmt: skip


def test_costs_are_found_as_they_are_without_company(make: Any, write: Any) -> None:
    """Of two queries on one core one waits for the tasks of the other, by turns: each is found as it would be alone."""
    overhead, cost = 0.1, 0.001
    rng = np.random.default_rng(3)
    rows = [250 + 200 * math.sin(number) for number in range(80)]
    first = rng.random(80) < 0.5

    def paced(name: str, waits: Any) -> Any:
        made = make.paced(
            name, count=80, trigger=2.0, overhead=overhead, cost=cost, rate=lambda n: rows[n],
            tasks=lambda n: (2 * cost * rows[n],),
        )  # fmt: skip
        return [
            attrs.evolve(batch, seconds=batch.seconds + 2 * cost * rows[n] * waits[n]) for n, batch in enumerate(made)
        ]

    log = write([*paced("a", first), *paced("b", ~first)], cores=1)
    found = deployed(inspect(read_telemetry([str(log)])))
    assert found.drivers == {"app-1": 1.0}
    for each in found.jobs.values():
        assert (each.overhead, each.cost) == (pytest.approx(overhead, abs=0.04), pytest.approx(cost, rel=0.05))
        assert (each.cores, each.tasks) == (1.0, pytest.approx(0.0, abs=0.2))
    recorded = inspect(read_telemetry([str(log)])).queries["a"].batches
    replayed = replay(found)["a"]
    # The replay lets both wait for half of what the other does, so that both end with the last.
    longest = [float(np.quantile(seconds, 0.9)) for seconds in (replayed.end - replayed.start, recorded.duration)]
    assert longest[0] == pytest.approx(longest[1], rel=0.15)
    # On a driver of its own each would be faster, and that is said.
    apart = of_kind(ask(found), "separate")
    assert apart[0].after.worst[1] < apart[0].before.worst[1]


def test_queries_that_share_a_core_evenly_are_replayed_as_recorded(make: Any, write: Any) -> None:
    """Queries whose batches and tasks were twice as long because they shared a core are replayed as they were."""
    pair = [
        make.paced(
            name,
            count=80,
            trigger=2.0,
            overhead=2 * 0.1,
            cost=2 * 0.0005,
            rate=lambda n: 250 + 200 * np.sin(n),
            tasks=lambda n: (0.1 + 0.0005 * (250 + 200 * np.sin(n)) * 2,),
        )
        for name in ("a", "b")
    ]
    seen = inspect(read_telemetry([str(write([*pair[0], *pair[1]], cores=1))]))
    found = deployed(seen)
    assert all(each.cores <= 1.0 for each in found.jobs.values())
    assert found.drivers == {"app-1": 1.0}
    replayed = replay(found)["a"]
    recorded = seen.queries["a"].batches.duration
    assert np.median(replayed.end - replayed.start) == pytest.approx(np.median(recorded), rel=0.1)


def test_a_weight_must_name_a_query(make: Any, write: Any) -> None:
    """A weight of a stranger, or a negative one, is bad input."""
    found = inspect(read_telemetry([str(write(make.paced()))]))
    with pytest.raises(InputError, match="no query"):
        deployed(found, {"clocks": 1.0})
    with pytest.raises(InputError, match="weight"):
        deployed(found, {"clicks": -1.0})


@pytest.mark.parametrize("burst", [Burst(factor=0.0), Burst(factor=float("nan")), Burst(factor=2, length=0.0)])
def test_a_burst_must_be_one(job: Any, deployment: Any, burst: Burst) -> None:
    """A burst without a factor or a length is bad input."""
    with pytest.raises(InputError, match="expected"):
        consult(deployment(job()), Aims(), burst, np.random.default_rng(0))
