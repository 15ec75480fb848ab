"""The interval of a prediction: closed forms, coverage where the truth is drawn as the errors say, and the command."""

from __future__ import annotations

import json
import time
from statistics import NormalDist

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_case

from penstock.cluster import Cluster, Link, Placement, SparkSettings
from penstock.latency.batches import BatchHosts, microbatch_estimate
from penstock.latency.draws import by_chance, draw
from penstock.latency.intervals import with_interval
from penstock.latency.mace import mace
from penstock.latency.microbatch import COMMIT
from penstock.latency.models import MODELS, model_of
from penstock.latency.recosted import recosted
from penstock.latency.spread import HIGH, LOW
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.load.fitting import ALONE
from penstock.load.statistics import HostStatistics, read_statistics
from penstock.network.file import parse_network
from penstock.network.shapes import chain
from penstock.running.two_sites import bursts
from penstock.running.two_sites import network as two_sites
from penstock.workload import Rates

EDGE = NormalDist().inv_cdf(HIGH)
TRIGGER = SparkSettings(trigger=1.0)


def test_chance_has_the_tails_that_batches_have() -> None:
    """One batch in ten is beyond 1.7 standard deviations, as with a normal distribution, but one in fifty beyond 3."""
    drawn = np.abs(by_chance(np.random.default_rng(1), (200, 500)))
    assert np.quantile(drawn, [0.9, 0.98]) == pytest.approx([1.71, 3.0], rel=0.02)


def test_one_batch_in_closed_form() -> None:
    """The end of a single batch is off by what its factor and overhead are, and these by their joint errors."""
    model = load_model(chain([0.01]), Rates.of(1.0, {"s1": [100.0]}))
    cluster = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=10.0))
    for tied in (-0.8, 0.0, 0.5):
        host = HostStatistics(overhead=0.5, factor=2.0, error=0.05, overhead_error=0.04, correlation=tied)
        placed = BatchHosts.of(Statistics(hosts={"h1": host}), cluster).placed(model, {"o1.1": "h1"})
        # The first batch takes the first tuple alone, the second at 10 s the other 99.
        latency = placed.run().whole()[1].max()
        assert latency == pytest.approx(10 + 0.5 + 2 * 0.99 - COMMIT - 0.01)
        spread = placed.spread(np.random.default_rng(1), count=4000)
        work, fixed = 2 * 0.99 * 0.05, 0.04
        error = np.sqrt(work**2 + fixed**2 + 2 * tied * work * fixed)
        assert spread is not None
        assert spread.total["worst"] == pytest.approx(
            (latency - EDGE * error, latency + EDGE * error), abs=0.08 * error
        )


def test_a_burst_in_closed_form() -> None:
    """An error e of the cost is e·ρ/(ρ−1) of a burst's worst latency: the interval says the same as the explanation."""
    model = load_model(chain([0.01]), Rates.of(1.0, {"s1": [125.0] * 20 + [10.0] * 20}))
    placement, cluster = Placement({"o1.1": "h1"}), Cluster.uniform(1)
    known = Statistics(operators={"o1.1": OperatorStatistics(cost=(0.01,), error=0.02)})
    found = mace(model, placement, cluster, known)
    told = with_interval(found, model, placement, cluster, known, np.random.default_rng(0))
    assert found.error.relative == pytest.approx(0.02 * 1.25 / 0.25)
    width = EDGE * found.error.relative * found.total.worst
    assert told.spread is not None
    low, high = told.spread.total["worst"]
    assert (found.total.worst - low, high - found.total.worst) == pytest.approx((width, width), rel=0.2)


def test_an_interval_is_over_what_its_total_is_over() -> None:
    """Over tuples the interval is that of the tuples: of the only sink, not of the periods, most of which are quiet."""
    model = load_model(chain([0.01]), Rates.of(1.0, {"s1": [125.0] * 20 + [10.0] * 80}))
    placement, cluster = Placement({"o1.1": "h1"}), Cluster.uniform(1)
    known = Statistics(operators={"o1.1": OperatorStatistics(cost=(0.01,), error=0.02)})
    found = mace(model, placement, cluster, known).over_tuples()
    told = with_interval(found, model, placement, cluster, known, np.random.default_rng(0))
    (sink,) = told.sinks
    assert told.total == told.sinks[sink]
    assert told.total.mean > 2 * np.mean(told.series)
    assert told.spread is not None
    assert told.spread.total == told.spread.sinks[sink]


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_errors_of_a_mix_leave_what_was_measured_in_place(seed: int) -> None:
    """Where factors come from the deployed hosts, drawn costs change the mix of a host and not its load."""
    model, placement, cluster = random_case(seed, joins=False, links=False, operators=8)
    operators = {name: OperatorStatistics(error=0.3) for name in model.network.operators}
    measured = {name: HostStatistics(error=0.01) for name in cluster.hosts}
    guessed = {name: HostStatistics(error=ALONE) for name in cluster.hosts}
    rng = np.random.default_rng(seed)
    drawn = draw(model, placement, list(cluster.hosts), Statistics(operators=operators, hosts=measured), rng, count=5)
    for host in cluster.hosts:
        here = [k for k, name in enumerate(model.network.operators) if placement[name] == host]
        load = model.mean_load[here]
        assert drawn.cost[:, here] @ load == pytest.approx(np.full(5, load.sum()))
    # A factor that nobody measured leaves costs as far off as they are.
    alone = draw(model, placement, list(cluster.hosts), Statistics(operators=operators, hosts=guessed), rng, count=200)
    assert alone.cost.std() == pytest.approx(0.3, rel=0.2)


@pytest.mark.parametrize(("rate", "decided"), [(61.3, True), (474.63, False), (3003.7, True)])
def test_where_a_millisecond_decides_both_are_possible(rate: float, decided: bool) -> None:
    """Windows that end at a trigger come with its batch if that sees a row from behind them, else a trigger later."""
    operator = {
        "kind": "aggregate", "input": "s", "window": "2 seconds", "select": "count(*) AS n",
        "cost": 1e-5, "selectivity": 0.01,
    }  # fmt: skip
    document = {
        "name": "n", "sources": {"s": {"format": "nexmark"}},
        "operators": {"a": operator}, "sinks": {"out": {"input": "a"}},
    }  # fmt: skip
    model = load_model(parse_network(document), Rates.of(1.0, {"s": [rate] * 8}))
    cluster = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=2.0))
    host = HostStatistics(overhead=0.2, factor=1.0, error=0.001, overhead_error=0.001)
    placed = BatchHosts.of(Statistics(hosts={"h1": host}), cluster).placed(model, {"a": "h1"})
    spread = placed.spread(np.random.default_rng(0))
    assert spread is not None
    low, high = spread.total["worst"]
    assert high - low == pytest.approx(0.0 if decided else 2.0, abs=0.01)


def test_a_host_that_was_never_measured_is_not_certain() -> None:
    """Beside a measured host its overhead is about that one's, within a wide interval, and a note says so."""
    rates = Rates.of(1.0, {"s1": [500.0] * 10 + [1200.0] * 10 + [100.0] * 10})
    model = load_model(chain([0.0005, 0.0009]), rates)
    cluster = attrs.evolve(Cluster.uniform(2), spark=TRIGGER)
    placement = Placement({"o1.1": "h1", "o1.2": "h2"})
    host = HostStatistics(overhead=0.5, error=0.03, overhead_error=0.03)
    both, one = Statistics(hosts={"h1": host, "h2": host}), Statistics(hosts={"h1": host})
    found = {}
    for name in ("microbatch", "mace"):
        for known in (both, one):
            told = model_of(name)(model, placement, cluster, known)
            told = with_interval(told, model, placement, cluster, known, np.random.default_rng(0))
            assert any("h2 not measured" in note for note in told.notes) == (known is one)
            assert told.spread is not None
            found[known is one] = told.total.worst, *told.spread.total["worst"]
        assert found[True][0] == pytest.approx(found[False][0])
        assert found[True][1] < found[False][1] < found[False][2] < found[True][2]


def test_truth_drawn_as_the_errors_say_is_covered() -> None:
    """Of truths that differ as the statistics say they may, nine of ten lie inside the interval, also by period."""
    rng = np.random.default_rng(5)
    model = load_model(chain([0.004, 0.003]), Rates.of(1.0, {"s1": [100.0] * 5 + [330.0] * 5 + [80.0] * 20}))
    cluster = attrs.evolve(Cluster.uniform(2), spark=TRIGGER)
    placement = {"o1.1": "h1", "o1.2": "h2"}
    host = HostStatistics(
        overhead=0.2, factor=1.0, error=0.03, overhead_error=0.03, correlation=-0.6, residual=0.05, unrest=0.03
    )
    known = Statistics(hosts={"h1": host, "h2": host})
    placed = BatchHosts.of(known, cluster).placed(model, placement)
    spread = placed.spread(rng, count=400)
    assert spread is not None
    truths = [placed.spread(rng, count=1) for _ in range(400)]
    error = np.sqrt(0.9 * 0.1 / 400 + 0.9 * 0.1 / 400)
    for key, (low, high) in spread.total.items():
        inside = np.mean([low <= truth.total[key][0] <= high for truth in truths])
        assert inside == pytest.approx(HIGH - LOW, abs=3.5 * error), key
    periods = np.array([(spread.low <= truth.low) & (truth.low <= spread.high) for truth in truths]).mean(axis=0)
    assert periods.mean() == pytest.approx(HIGH - LOW, abs=0.03)


def test_forecast_of_the_demo_takes_less_than_a_second() -> None:
    """200 draws for the demo's network and burst take at most 1 s of processor time."""
    share = {"filter": 0.5, "map": 1.0, "python": 1.0, "delay": 1.0, "aggregate": 0.3, "join": 0.001}
    network = two_sites()
    known = {
        name: OperatorStatistics(
            cost=((operator.cost or (2e-5,))[0],) * len(operator.inputs),
            selectivity=(share[operator.kind],),
            error=0.02,
        )
        for name, operator in network.operators.items()
    }
    host = HostStatistics(overhead=0.4, factor=1.1, error=0.02, overhead_error=0.03, residual=0.05, unrest=0.04)
    statistics = Statistics(operators=known, hosts={"h1": host, "h2": host})
    model = load_model(statistics.complete(network), bursts())
    placement = {name: "h1" if name.startswith("checked") else "h2" for name in network.operators}
    cluster = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=2.0))
    placed = BatchHosts.of(statistics, cluster).placed(model, placement)
    began = time.process_time()
    spread = placed.spread(np.random.default_rng(0))
    assert time.process_time() - began <= 1.0
    assert spread is not None
    assert spread.draws == 200


@pytest.mark.parametrize("name", MODELS)
def test_an_interval_counts_what_ends_in_an_operator(name: str) -> None:
    """Where the worst is that of tuples that no sink gets, its interval is theirs, and a run's is of what sinks get."""
    model = load_model(chain([0.012], 0.0), Rates.constant({"s1": 100.0}, 20.0))
    placement, cluster = Placement({"o1.1": "h1"}), Cluster.uniform(1)
    known = Statistics(operators={"o1.1": OperatorStatistics(cost=(0.012,), error=0.1)})
    found = model_of(name)(model, placement, cluster, known)
    told = with_interval(found, model, placement, cluster, known, np.random.default_rng(0)).spread
    assert told is not None
    low, high = told.total["worst"]
    # A tenth of the work of twenty seconds, to either side.
    assert low <= found.total.worst - 1.0
    assert high >= found.total.worst + 1.0
    placed = BatchHosts.of(known, cluster).placed(model, placement)
    assert not placed.run().whole()[2].any()
    seen = placed.spread(np.random.default_rng(0), count=20)
    assert seen is not None
    assert seen.total["worst"] == (0.0, 0.0)


def test_nothing_known_is_nothing_drawn() -> None:
    """Without errors in the statistics the interval is the prediction, and a note says that none are known."""
    model = load_model(chain([0.01]), Rates.of(1.0, {"s1": [125.0] * 5}))
    placement, cluster = Placement({"o1.1": "h1"}), Cluster.uniform(1)
    found = with_interval(mace(model, placement, cluster), model, placement, cluster, None, np.random.default_rng(0))
    assert found.document()["interval"]["worst"] == [found.total.worst] * 2
    assert any("no errors" in note for note in found.notes)


@pytest.mark.parametrize("name", ["mace", "pipelined", "sharing", "microbatch"])
def test_estimate_prints_its_interval(name, penstock, tmp_path) -> None:
    """Every answer has p05 and p95 of worst, p99, p50, mean and series around it, the same for the same seed."""
    text = '[sources.s]\nformat = "nexmark"\n[operators.a]\nkind = "map"\ninput = "s"\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + text)
    host = {
        "overhead": 0.1,
        "factor": 1.1,
        "error": 0.02,
        "overhead_error": 0.01,
        "correlation": -0.5,
        "residual": 0.05,
    }
    rows = {"a": {"cost": 0.008, "error": 0.03, "tuples": 1000}}
    (tmp_path / "s.json").write_text(json.dumps({"operators": rows, "hosts": {"h1": {**host, "unrest": 0.02}}}))
    given = ["estimate", tmp_path / "n.toml", "--hosts", 1, "--rates", "s=150", "--duration", 10]
    given += ["--placement", "a=h1", "--statistics", tmp_path / "s.json", "--model", name]
    found = penstock(*given, "--json").document
    assert found == penstock(*given, "--json").document
    assert found["draws"] >= 50
    for key in ("worst", "p99", "p50", "mean"):
        low, high = found["interval"][key]
        assert low <= found[key] <= high
        assert low < high
        assert (found["p05"][key], found["p95"][key]) == (low, high)
        assert found["sinks"]["t"]["interval"][key][0] <= found["sinks"]["t"][key]
    for low, middle, high in zip(found["p05"]["series"], found["series"], found["p95"]["series"], strict=True):
        assert low <= middle <= high
    assert "p05 to p95" in penstock(*given).out


def test_statistics_keep_their_errors(tmp_path) -> None:
    """What calibration knows of its errors is read as it was written, and a correlation beyond 1 is refused."""
    host = HostStatistics(overhead=0.1, overhead_error=0.02, correlation=-0.4, residual=0.05, unrest=0.03, error=0.01)
    Statistics(hosts={"h1": host}).write(tmp_path / "s.json")
    assert read_statistics(tmp_path / "s.json").hosts["h1"] == host


def test_phase_is_drawn_where_nobody_sets_it() -> None:
    """Sources that begin by themselves begin anywhere between two triggers, and the interval knows it."""
    model = load_model(chain([0.001]), Rates.of(1.0, {"s1": [0.0, 200.0, 0.0, 0.0]}))
    cluster = attrs.evolve(Cluster.uniform(1), spark=TRIGGER)
    found = microbatch_estimate(model, {"o1.1": "h1"}, cluster)
    told = with_interval(found, model, {"o1.1": "h1"}, cluster, None, np.random.default_rng(0))
    assert told.spread is not None
    low, high = told.spread.total["worst"]
    # The second with input begins 0 to 1 s after a batch, which then waits for the rest of the second.
    assert high - low > 0.1


def test_long_runs_have_fewer_draws() -> None:
    """Of a long run fewer draws are made, of a very long one none, and a note says why; the prediction stays."""
    host = HostStatistics(overhead=0.01, error=0.05)
    known, cluster = Statistics(hosts={"h1": host}), attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=0.1))
    for periods, draws in ((1_200, 33), (3_000, 0)):
        model = load_model(chain([0.001]), Rates.of(1.0, {"s1": [1.0] * periods}))
        found = microbatch_estimate(model, {"o1.1": "h1"}, cluster, known)
        told = with_interval(found, model, {"o1.1": "h1"}, cluster, known, np.random.default_rng(0))
        assert told.spread is not None
        assert told.spread.draws == draws
        assert any("too long" in note for note in told.notes) == (draws == 0)


def test_speed_of_a_core_is_drawn_once_and_for_each_stretch_of_time() -> None:
    """How a core's speed wanders widens the interval, over a long time too: it may differ from that of calibration."""

    def half(wander: float, seconds: int) -> float:
        known = Statistics(hosts={"h1": HostStatistics(overhead=0.1, wander=wander)})
        model = load_model(chain([0.01]), Rates.of(1.0, {"s1": [60.0] * seconds}))
        cluster = attrs.evolve(Cluster.uniform(1), spark=TRIGGER)
        found = BatchHosts.of(known, cluster).placed(model, {"o1.1": "h1"}).spread(np.random.default_rng(2))
        if found is None:
            return 0.0
        low, high = found.total["mean"]
        return (high - low) / (high + low)

    assert half(0.0, 40) == 0.0
    assert 1.5 * half(0.1, 40) < half(0.2, 40)
    assert half(0.2, 300) > 0.2


@pytest.mark.parametrize("doubtful", ["h1", "h2"])
def test_the_least_known_host_of_copies_counts(doubtful: str) -> None:
    """Whichever host of an operator's copies is the one whose costs are not known, interval and error bar say so."""
    model = load_model(chain([0.012]), Rates.of(1.0, {"s1": [100.0] * 20}))
    placement, cluster = Placement({"o1.1": "h1", "o1.1#2": "h2"}), Cluster.uniform(2)
    errors = {name: 0.2 if name == doubtful else 0.0 for name in cluster.hosts}
    known = Statistics(hosts={name: HostStatistics(error=error) for name, error in errors.items()})
    found = mace(model, placement, cluster, known)
    told = with_interval(found, model, placement, cluster, known, np.random.default_rng(0))
    assert (found.error.host, found.error.cost_error) == (doubtful, 0.2)
    assert told.spread is not None
    low, high = told.spread.total["worst"]
    assert low < 0.5 * found.total.worst < 2 * found.total.worst < high


@pytest.mark.parametrize("model", ["mace", "microbatch"])
def test_costs_that_could_not_be_told_from_nothing_are_drawn_up_to_what_could(model: str) -> None:
    """A cost far below its resolution may be anything that noise would have hidden; the point stays as it is."""
    least, rate = 1e-5, 4e5
    hidden = OperatorStatistics(cost=(1e-9,), error=1.0, resolution=least)
    known = Statistics(operators={"o1.1": hidden})
    loads = load_model(known.complete(chain([1e-9])), Rates.constant({"s1": rate}, 60.0))
    drawn = draw(loads, {"o1.1": "h1"}, ["h1"], known, np.random.default_rng(1), count=4000)
    # The standard error is half of the resolution, and no cost is below 0.
    assert np.quantile(drawn.cost * 1e-9, [0.5, HIGH]) == pytest.approx([0.674 * least / 2, 1.96 * least / 2], rel=0.05)
    cluster, placement = attrs.evolve(Cluster.uniform(1), spark=TRIGGER), Placement({"o1.1": "h1"})
    found = model_of(model)(loads, placement, cluster, known)
    wide = with_interval(found, loads, placement, cluster, known, np.random.default_rng(1))
    assert wide.spread is not None
    assert max(found.total.worst, wide.spread.total["worst"][0]) < 3
    assert 50 < wide.spread.total["worst"][1] < 300


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_mace_with_other_costs_is_mace_of_a_network_that_has_them(seed: int, narrow: bool) -> None:
    """Draws give what a network with their costs would, to the bit, with links and copies as without."""
    model, placement, cluster = random_case(seed, hosts=3, operators=8)
    if narrow:
        cluster = Cluster.of(cluster.hosts.values(), Link(0.05, 150.0))
        placement = {**placement, f"{next(iter(placement))}#2": "h1"}
    operators = model.network.operators.values()
    factors = np.random.default_rng(seed).uniform(0.5, 2.0, (2, len(operators)))
    for units in ("periods", "tuples"):
        rows, sinks, series = recosted(model, placement, cluster, factors, units)
        for k, row in enumerate(factors):
            dear = [
                attrs.evolve(o, cost=tuple(cost * factor for cost in o.cost))
                for o, factor in zip(operators, row.tolist(), strict=True)
            ]
            wanted = mace(load_model(model.network.having(dear), model.rates), placement, cluster)
            total = wanted.total if units == "periods" else wanted.tuples
            assert rows[k].tolist() == [*total.by_key().values()]
            assert {n: each[k].tolist() for n, each in sinks.items()} == {
                n: [*each.by_key().values()] for n, each in wanted.sinks.items()
            }
            assert series[k].tolist() == wanted.series.tolist()


def test_the_interval_of_mace_makes_no_network_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways and arrivals are the same in all draws, and found once."""
    model, placement, cluster = random_case(1, hosts=3, operators=8)
    known = Statistics(operators={name: OperatorStatistics(error=0.1) for name in model.network.operators})
    found = mace(model, placement, cluster, known)
    monkeypatch.setattr("penstock.latency.intervals.load_model", None)
    assert with_interval(found, model, placement, cluster, known, np.random.default_rng(1)).spread.draws == 200
