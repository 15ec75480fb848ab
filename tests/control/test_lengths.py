"""What batches of known overhead and cost tell of both, and what is dropped for it."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import simulated, stepped, two_queries

from penstock.cluster import Cluster, Host
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.policies.shed import Shed
from penstock.control.situation import BATCH, Situation
from penstock.network import Network
from penstock.shedding.optimum import Solver
from penstock.shedding.program import build_program
from penstock.spark.run.lengths import Lengths
from penstock.spark.run.outcome import Batch
from penstock.steering import HostSeen, UnitSeen

TRIGGER, BOUND = 0.5, 3.0


def batches(rows, overhead, cost, noise, rng, idle=None):
    """Return batches of a unit: a fixed time, a time per row, and noise in proportion; empty ones are shorter."""
    found = []
    for number, count in enumerate(rows):
        usual = overhead + cost * count if count else idle
        took = usual * float(np.exp(rng.normal(0, noise)))
        found.append(Batch("u", number, TRIGGER * number, took, int(count), {}, host="h1"))
    return found


@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize("overhead", [0.03, 0.25])
@pytest.mark.parametrize("share", [0.3, 0.8, 1.5])
def test_work_is_within_what_is_said_of_it(share, overhead, noise):
    """Whatever the load, what a row costs is within two standard errors of the truth, 85 times in a hundred."""
    cost, runs, inside = 0.001, 80, 0
    for seed in range(runs):
        rng, known = np.random.default_rng(seed), Lengths()
        mine = batches(rng.poisson(rng.uniform(0.3, 1.7, 20) * share * TRIGGER / cost), overhead, cost, noise, rng)
        known.add(mine)
        work, doubt = known.work(mine[-2:])
        inside += abs(work - cost * sum(batch.rows for batch in mine[-2:])) <= 2 * doubt
        assert known.fixed == pytest.approx(overhead, abs=5 * noise * (overhead + share * TRIGGER))
    assert inside >= 0.85 * runs


def test_a_row_costs_nothing_where_overheads_differ_by_more():
    """Small batches tell no cost: what they take is overhead, and all that is said is what work is at most."""
    rng = np.random.default_rng(3)
    known, mine = Lengths(), batches(rng.integers(5, 15, 20), 0.3, 1e-5, 0.1, rng)
    known.add(mine)
    work, doubt = known.work(mine)
    assert doubt >= work / 2


def test_overhead_stays_known_while_batches_are_alike():
    """Batches of one size tell neither; by the overhead that others told they tell work; elsewhere all begins anew."""
    rng = np.random.default_rng(4)
    known, told = Lengths(), batches(rng.integers(50, 500, 20), 0.2, 0.001, 0.02, rng)
    known.add(told)
    assert known.fixed == pytest.approx(0.2, abs=0.02)
    alike = batches([300] * 25, 0.2, 0.001, 0.02, rng)
    known.add(alike)
    work, doubt = known.work(alike)
    assert known.fixed == pytest.approx(0.2, abs=0.02)
    assert work == pytest.approx(25 * 300 * 0.001, rel=0.1)
    assert doubt < 0.2 * work
    known.add([attrs.evolve(batch, host="h2") for batch in alike])
    assert known.fixed is None


def test_what_is_dropped_is_no_work():
    """Where a keep fraction changes the rows that are worked on tell the cost, not those that were read."""
    from penstock.spark.run.lengths import work_in

    network, rng = two_queries(0.008), np.random.default_rng(5)
    mine = ("cheap1", "dear1")
    meter = Lengths(lambda batch: work_in(network, mine, batch.counts, batch.rows))
    read = [70] * 10 + [350] * 20
    keeps = [1.0] * 10 + list(rng.uniform(0.1, 0.9, 20))
    found = []
    for number, (rows, keep) in enumerate(zip(read, keeps, strict=True)):
        left = round(rows * keep)
        counts = {"s1->cheap1": (rows, rows - left), "cheap1->dear1": (left, 0), "s2->cheap2": (900, 0)}
        found.append(Batch("u", number, TRIGGER * number, 0.15 + 0.0088 * left, rows, counts, host="h1"))
    meter.add(found)
    assert meter.fixed == pytest.approx(0.15, abs=0.01)
    last = found[-1]
    work, doubt = meter.work([last])
    assert work == pytest.approx(0.0088 * (last.rows - last.counts["s1->cheap1"][1]), rel=0.05)
    assert doubt < 0.05 * work


def test_a_cold_batch_tells_nothing():
    """The first batch on a host, which loads and compiles, is no batch without rows."""
    meter = Lengths()
    meter.add([Batch("u", 0, 0.0, 2.1, 0, {}, host="h1"), Batch("u", 1, 3.0, 0.1, 0, {}, host="h1")])
    assert meter.fixed == pytest.approx(0.1)


def looked(network, rate, overhead, noise, seed, *, meter=Lengths, looks=15):
    """Return the situation of two queries in two units that an engine counts only as wholes, after a burst began.

    Rates grow over the looks, as they do while a burst begins; no batch is empty.
    """
    rng, cost = np.random.default_rng(seed), 0.008 * 1.1
    engine = simulated(network, dict.fromkeys(network.operators, "h1"), stepped((looks, rate)), 1, seed=seed)
    known, flow = Knowledge(), Flow.of(network)
    parts = {f"u{q}": (f"cheap{q}", f"dear{q}") for q in (1, 2)}
    meters = {name: meter() for name in parts}
    for k in range(looks):
        engine.wait(k + 1.0)
        seen, units, served = engine.observe(), [], dict.fromkeys(network.operators, 0)
        for q, (name, operators) in enumerate(parts.items()):
            rows = rng.poisson(seen.entered[q] * TRIGGER * rng.uniform(0.4, 1.0), 2)
            served |= dict.fromkeys(operators, int(rows.sum()))
            mine = batches(rows, overhead, cost, noise, rng)
            meters[name].add(mine)
            work, doubt = meters[name].work(mine)
            units.append(UnitSeen(name=name, operators=operators, host="h1", work=work, doubt=doubt, batches=2))
        counts = np.array([served[name] for name in seen.operators])
        fixed = [each.fixed for each in meters.values() if each.fixed is not None]
        seen = attrs.evolve(
            seen, work=np.full(len(counts), np.nan), units=tuple(units), triggers={"h1": TRIGGER}, waiting=None,
            served=counts, tried=counts, emitted=counts,
            hosts={"h1": HostSeen(overhead=float(np.mean(fixed)) if fixed else None)},
        )  # fmt: skip
        known = known.updated(seen, network)
    return Situation(seen=seen, known=known, flow=flow, goals=Goals(bound=BOUND))


class Whole(Lengths):
    """Takes whole batches for work, as is right where overhead is nothing."""

    def work(self, batches):
        """Return all that batches took."""
        return sum(batch.duration for batch in batches), 0.0


def kept(now, network, overhead):
    """Return what a plan is worth, and the load that it leaves, each by that of the optimum for the true costs."""
    rates = now.known.steady(network, now.seen.period)
    plan = Shed(low=0.0)(now, np.random.default_rng(0)).plan
    host = Host(name="h1", quota=1 - 2 * overhead / (BATCH * BOUND))
    program = build_program(network, Cluster.of([host]), dict.fromkeys(network.operators, "h1"))
    flow = program.flow(rates, plan.keep)
    best = program.flow(rates, program.keep(rates, Solver(program).solve(rates)))
    return program.score(flow) / program.score(best), float((program.K @ flow / program.limit).max())


def weighted():
    """Return two queries, of which one is worth more."""
    plain = two_queries(0.008)
    sinks = [attrs.evolve(sink, weight={"t1": 3.0, "t2": 1.0}[sink.name]) for sink in plain.sinks.values()]
    return Network.of("two", plain.sources.values(), plain.operators.values(), sinks)


@pytest.mark.parametrize("rate", [60.0, 90.0, 140.0])
@pytest.mark.parametrize("overhead", [0.05, 0.15])
def test_what_is_kept_is_nearly_the_optimum_of_the_true_costs(rate, overhead):
    """A busy host whose batches are never empty keeps 0.995 of what it could, under several loads and overheads."""
    network = weighted()
    for seed in range(3):
        score, load = kept(looked(network, rate, overhead, 0.002, seed), network, overhead)
        assert score >= 0.995
        assert load <= 1.01
    assert kept(looked(network, rate, overhead, 0.002, 0, meter=Whole), network, overhead)[0] < 0.98


def test_a_cost_is_no_more_than_there_was_time_for():
    """A cost that was learned on a slow machine falls to what whole batches took, though these tell no cost."""
    network = two_queries(0.008)
    engine = simulated(network, dict.fromkeys(network.operators, "h1"), stepped((5, 40.0)), 1)
    engine.wait(3.0)
    seen, flow = engine.observe(), Flow.of(network)
    true = float(seen.work.sum())
    slow = Knowledge().updated(attrs.evolve(seen, work=seen.work * 3), network)
    assert slow.costs(flow)[0] == pytest.approx(flow.given[0] * 3, rel=0.05)
    unit = UnitSeen(name="u", operators=seen.operators, host="h1", work=0.7 * true, doubt=0.7 * true)
    unsure = attrs.evolve(seen, work=np.full(len(seen.operators), np.nan), units=(unit,))
    for _ in range(20):
        slow = slow.updated(unsure, network)
    assert slow.costs(flow)[0] == pytest.approx(flow.given[0] * 1.4, rel=0.1)


def test_an_unsure_look_changes_no_cost_that_is_known():
    """Where a unit's work is anybody's guess the network's cost stays; where none is known the guess is taken."""
    network = two_queries(0.008)
    engine = simulated(network, dict.fromkeys(network.operators, "h1"), stepped((5, 40.0)), 1)
    engine.wait(3.0)
    seen = engine.observe()
    unit = UnitSeen(name="u", operators=seen.operators, host="h1", work=9.0, doubt=9.0)
    unsure = attrs.evolve(seen, work=np.full(len(seen.operators), np.nan), units=(unit,))
    flow = Flow.of(network)
    assert Knowledge().updated(unsure, network).costs(flow)[0] == pytest.approx(flow.given[0])
    learned = Knowledge().updated(seen, network)
    for _ in range(100):
        learned = learned.updated(unsure, network)
    assert learned.costs(flow)[0] == pytest.approx(Knowledge().updated(seen, network).costs(flow)[0])
    bare = [attrs.evolve(operator, cost=None) for operator in network.operators.values()]
    unknown = Network.of("two", network.sources.values(), bare, network.sinks.values())
    total = Knowledge().updated(unsure, unknown)
    assert float(total.sums[:, 1].sum()) > 0


def as_wholes(seen, network, served, work):
    """Return an observation with other tuples served, in which only the work of all together is known."""
    counts = np.array([served.get(name, 0) for name in seen.operators])
    unit = UnitSeen(name="u", operators=seen.operators, host="h1", work=work, doubt=0.0)
    return attrs.evolve(
        seen, work=np.full(counts.size, np.nan), served=counts, tried=counts, emitted=counts, units=(unit,)
    )


def test_work_is_divided_as_the_given_costs_are_to_each_other():
    """What one operator was taken to cost by mistake does not stay with it: the network says what ratio costs have."""
    network = two_queries(0.008)
    engine = simulated(network, dict.fromkeys(network.operators, "h1"), stepped((5, 40.0)), 1)
    engine.wait(3.0)
    seen, flow = engine.observe(), Flow.of(network)
    skewed = attrs.evolve(seen, work=seen.work * np.array([1.0, 5.0, 1.0, 1.0]))
    known, served = Knowledge().updated(skewed, network), dict.fromkeys(seen.operators, 100)
    for _ in range(60):
        known = known.updated(as_wholes(seen, network, served, 1.5 * 100 * float(flow.given[0].sum())), network)
    assert known.costs(flow)[0] == pytest.approx(1.5 * flow.given[0], rel=0.05)


def test_a_cost_of_which_nothing_new_is_learned_follows_the_others():
    """Costs of a cold host are not believed for as long as input is dropped: they fall as the unit's others do."""
    network = two_queries(0.008)
    engine = simulated(network, dict.fromkeys(network.operators, "h1"), stepped((5, 40.0)), 1)
    engine.wait(3.0)
    seen, flow = engine.observe(), Flow.of(network)
    known = Knowledge().updated(attrs.evolve(seen, work=seen.work * 3), network)
    some = dict.fromkeys(("cheap1", "dear1"), 100)
    for _ in range(60):
        known = known.updated(as_wholes(seen, network, some, 1.2 * 100 * 0.0088), network)
    assert known.costs(flow)[0] == pytest.approx(1.2 * flow.given[0], rel=0.05)


def test_what_becomes_shorter_is_overhead():
    """Batches that are alike and shorter than was told have less overhead, as unsure as that; longer ones more work."""
    rng = np.random.default_rng(6)
    known = Lengths()
    known.add(batches(rng.integers(50, 500, 20), 0.2, 0.001, 0.02, rng))
    warm = batches([300] * 25, 0.1, 0.001, 0.02, rng)
    known.add(warm)
    work, doubt = known.work(warm)
    assert known.fixed == pytest.approx(0.1, abs=0.02)
    assert work == pytest.approx(25 * 300 * 0.001, rel=0.1)
    assert doubt > 0.2 * work
    slow = batches([300] * 25, 0.2, 0.002, 0.02, rng)
    known.add(slow)
    assert known.fixed == pytest.approx(0.2, abs=0.02)
    assert known.work(slow)[0] == pytest.approx(25 * 300 * 0.002, rel=0.1)


def test_where_costs_are_given_batches_of_a_cold_host_tell_nothing():
    """Batches that become shorter by the second, whatever their rows, say neither cost nor overhead; warm ones do."""
    rng, cost = np.random.default_rng(7), 0.009
    meter = Lengths(lambda batch: cost * batch.rows, given=True)
    cold = batches(np.linspace(30, 18, 15).astype(int), 0.4, cost, 0.01, rng)
    for number, batch in enumerate(cold):
        meter.add([attrs.evolve(batch, start=0.5 * number, duration=batch.duration - 0.02 * number)])
    assert meter.fixed is None
    warm = batches([20, 21] * 10, 0.1, cost, 0.01, rng)
    meter.add([attrs.evolve(batch, start=20 + batch.start) for batch in warm])
    assert meter.fixed == pytest.approx(0.1, abs=0.02)
    work, doubt = meter.work(warm[-2:])
    assert work == pytest.approx(2 * 20.5 * cost, rel=0.1)
    assert doubt >= 0.2 * work


def test_work_is_drawn_to_the_costs_that_are_given():
    """Between what batches tell and what the network gives lies what was worked, nearer to the surer one."""
    cost, learned = 0.009, []
    for spread in (1.2, 3.0, 12.0):
        rng = np.random.default_rng(8)
        meter = Lengths(lambda batch: cost * batch.rows, given=True)
        mine = batches(rng.uniform(20, 20 * spread, 21).astype(int), 0.1, 1.5 * cost, 0.03, rng)
        meter.add([mine[0], *(attrs.evolve(batch, start=20 + batch.start) for batch in mine)])
        work, doubt = meter.work(mine[-5:])
        nominal = cost * sum(batch.rows for batch in mine[-5:])
        learned.append((work / nominal, doubt / nominal))
    factors, doubts = np.array(learned).T
    assert (np.diff(factors) > 0).all()
    assert (np.diff(doubts) < 0).all()
    assert factors[-1] == pytest.approx(1.5, abs=0.1)
    assert 1.0 < factors[0] < 1.3
