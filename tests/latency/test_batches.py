"""One reading of hosts, costs and factors for every prediction of batches."""

from __future__ import annotations

import json
import math
import os
import tracemalloc

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_case, scaled_costs

from penstock.cluster import Cluster, Host, Link, Placement, SparkSettings
from penstock.errors import InputError
from penstock.latency.batches import BatchHosts, PlacedBatches, microbatch_estimate
from penstock.latency.estimate import Estimate, Spread
from penstock.latency.intervals import with_interval
from penstock.latency.models import MODELS, model_of
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.load.setting import Setting
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chain
from penstock.running.as_modelled import simulated
from penstock.running.prediction import predict
from penstock.workload import Rates

MORE = int(os.environ.get("PENSTOCK_EXAMPLES", "1"))


def case(seed: int, *, operators: int = 8):
    """Return model, placement, cluster and statistics with random capacities, factors, overheads and measured costs."""
    rng = np.random.default_rng(seed)
    model, placement, cluster = random_case(seed, joins=False, links=False, operators=operators, hosts=3, peak=1.5)
    hosts, known = [], {}
    for name, host in cluster.hosts.items():
        capacity, factor = float(rng.choice([0.5, 1.0, 2.0, 4.0])), float(rng.uniform(0.5, 2.0))
        hosts.append(attrs.evolve(host, capacity=host.capacity * capacity))
        known[name] = HostStatistics(overhead=float(rng.uniform(0, 0.2)), factor=factor, error=0.02)
    measured = {
        name: OperatorStatistics(
            cost=tuple(2 * c for c in operator.cost), error=0.01, overhead=float(rng.choice([0.0, 0.05]))
        )
        for name, operator in model.network.operators.items()
        if rng.random() < 0.5
    }
    settings_ = SparkSettings(trigger=float(rng.choice([0.5, 1.0])), hop=str(rng.choice(["directory", "kafka"])))
    statistics = Statistics(operators=measured, hosts=known)
    return model, placement, Cluster.of(hosts, Link(), spark=settings_), statistics


@settings(max_examples=2 * MORE)
@given(st.integers(0, 2**32 - 1))
def test_estimate_is_what_run_predicts(seed: int) -> None:
    """The same costs, capacities and factors give the same latencies and intervals before a run and in its report."""
    model, placement, cluster, statistics = case(seed)
    network = model.network
    found = microbatch_estimate(load_model(statistics.complete(network), model.rates), placement, cluster, statistics)
    setting = Setting(network=network, cluster=cluster, placement=placement, statistics=statistics)
    prediction = predict(setting, model.rates)
    told = prediction.result.quantiles().figures()
    assert (told["max"], told["p99"], told["p50"]) == (found.total.worst, found.total.p99, found.total.p50)
    assert told["mean"] == pytest.approx(found.total.mean)
    beside = predict(setting, model.rates, rng=np.random.default_rng(seed), scheduled=False)
    interval = with_interval(
        found, prediction.model, placement, cluster, statistics, np.random.default_rng(seed)
    ).spread
    assert interval is not None
    assert beside.spread is not None
    for key, pair in interval.total.items():
        assert beside.spread.total[key] == pytest.approx(pair)
    bar = prediction.error.document()
    assert bar["host"] == found.error.host == found.bottleneck
    assert bar["latency_error"] == found.error.relative


def test_simulator_agrees() -> None:
    """The simulator's micro-batches, tuple by tuple, are as late as the recursion says, but for jumps of a trigger."""
    worst, mean = [], []
    for seed in range(24):
        model, placement, cluster, statistics = case(seed, operators=4)
        found = microbatch_estimate(model, placement, cluster, statistics)
        setting = Setting(network=model.network, cluster=cluster, placement=placement, statistics=statistics)
        true = simulated(setting, model.rates).latency
        mean.append(abs(found.total.mean / true["mean"] - 1))
        # Of what appears evenly during a batch the recursion has no single tuples.
        if cluster.spark.hop == "directory":
            worst.append(abs(found.total.worst / true["max"] - 1))
    assert np.quantile(mean, 0.9) <= 0.05
    assert max(worst) <= 0.05


@pytest.mark.parametrize("name", MODELS)
def test_the_simulator_has_the_factors_of_every_model(name: str) -> None:
    """Hosts that take twice as long in place do so in the simulator too, whatever the model that it checks."""
    model, cluster = load_model(chain([0.01]), Rates.constant({"s1": 60.0}, 60.0)), Cluster.uniform(1)
    placement, statistics = Placement({"o1.1": "h1"}), Statistics(hosts={"h1": HostStatistics(factor=2.0)})
    found = model_of(name)(model, placement, cluster, statistics).tuples.worst
    setting = Setting(network=model.network, cluster=cluster, placement=placement, statistics=statistics)
    assert simulated(setting, model.rates, name).latency["max"] == pytest.approx(found, rel=0.05)
    assert found > 10


@pytest.mark.parametrize("capacity", [0.5, 1.0, 2.0, 16.0])
def test_capacity_and_factor_are_one_pace(capacity: float) -> None:
    """A host of twice the capacity at twice the factor takes as long: only their ratio counts."""
    model = load_model(chain([0.006]), Rates.of(1.0, {"s1": [200.0, 200.0, 20.0, 20.0]}))
    placement = Placement({"o1.1": "h1"})
    base = microbatch_estimate(model, placement, Cluster.uniform(1))
    cluster = Cluster.of([Host(name="h1", capacity=capacity)])
    statistics = Statistics(hosts={"h1": HostStatistics(factor=capacity)})
    assert microbatch_estimate(model, placement, cluster, statistics).total.worst == pytest.approx(base.total.worst)
    setting = Setting(network=model.network, cluster=cluster, placement=placement, statistics=statistics)
    worst = predict(setting, model.rates).result.whole()[1].max()
    assert worst == pytest.approx(base.total.worst)


def test_error_bar_names_the_host_that_decides() -> None:
    """Of a dear host and a cheap one the dear is named, whose factor moves the latency most."""
    network = chain([0.01, 0.015])
    rates = Rates.of(1.0, {"s1": [75.0] * 20 + [5.0] * 40})
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], spark=SparkSettings(trigger=0.02))
    placement = Placement({"o1.1": "h1", "o1.2": "h2"})

    def worst(first: float, second: float) -> tuple[float, str, float]:
        hosts = {"h1": HostStatistics(factor=first, error=0.05), "h2": HostStatistics(factor=second, error=0.05)}
        setting = Setting(network=network, cluster=cluster, placement=placement, statistics=Statistics(hosts=hosts))
        prediction = predict(setting, rates)
        bar = prediction.error.document()
        return float(prediction.result.whole()[1].max()), bar["host"], bar["latency_error"]

    base, host, bar = worst(2.0, 1.0)
    assert host == "h1"
    assert bar == pytest.approx(abs(worst(2.0 * 1.05, 1.0)[0] / base - 1))
    # Batches jump to other triggers, so the slope is that over many small changes.
    changes = np.linspace(-0.05, 0.05, 41)
    dear = np.polyfit(changes, [worst(2.0 * (1 + c), 1.0)[0] / base for c in changes], 1)[0]
    cheap = np.polyfit(changes, [worst(2.0, 1 + c)[0] / base for c in changes], 1)[0]
    assert dear > 3 * abs(cheap)


@pytest.mark.parametrize(("error", "more"), [(0.1, 0.1), (0.0, 0.01), (20.0, 0.5)])
def test_error_bar_counts_what_a_batch_takes_besides(error: float, more: float) -> None:
    """Where overhead fills a host that its rows would not, the bar says what dearer rows do in the model itself."""
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], spark=SparkSettings(trigger=2.0))
    model = load_model(chain([0.001, 0.001]), Rates.of(1.0, {"s1": [100.0] * 5 + [860.0] * 20 + [100.0] * 10}))

    def found(times: float) -> Estimate:
        hosts = {
            "h1": HostStatistics(overhead=0.1, factor=0.5, error=error),
            "h2": HostStatistics(overhead=0.4, factor=times, error=error),
        }
        return microbatch_estimate(model, {"o1.1": "h1", "o1.2": "h2"}, cluster, Statistics(hosts=hosts))

    bar = found(1.0).error
    assert (bar.host, bar.cost_error) == ("h2", error)
    assert bar.load == pytest.approx(0.86 + 0.4 / 2.0)
    change = found(1.0 + more).total.worst / found(1.0).total.worst - 1
    assert change > 1.5 * more
    assert bar.amplification == pytest.approx(change / more)


def test_error_bar_is_of_a_host_on_which_the_answer_depends() -> None:
    """A host whose rows come out nowhere is the latest, and yet is not what makes those late that a run measures."""
    network = Network.of(
        "two",
        [Source(name="s"), Source(name="r")],
        [Operator(name="a", kind="filter", inputs=("s",), cost=(0.02,), selectivity=(0.0,)),
         Operator(name="b", kind="map", inputs=("r",), cost=(0.002,))],
        [Sink(name="t", input="a"), Sink(name="u", input="b")],
    )  # fmt: skip
    model = load_model(network, Rates.constant({"s": 100.0, "r": 100.0}, 10.0))
    placement, cluster = Placement({"a": "h1", "b": "h2"}), Cluster.uniform(2)
    assert microbatch_estimate(model, placement, cluster).bottleneck == "h1"
    bar = predict(Setting(network=network, cluster=cluster, placement=placement), model.rates).error
    assert bar.host == "h2"
    assert bar.amplification > 0


def test_file_costs_win_in_every_command(penstock, tmp_path) -> None:
    """Measured costs fill what the network leaves open; a number in the file stays, also in a run's prediction."""
    network = chain([0.004, 0.004])
    rows = [attrs.evolve(o, cost=None) if o.name == "o1.2" else o for o in network.operators.values()]
    open_ = type(network).of("n", network.sources.values(), rows, network.sinks.values())
    known = Statistics(operators={name: OperatorStatistics(cost=(0.009,)) for name in network.operators})
    cluster, placement = Cluster.uniform(1), Placement(dict.fromkeys(network.operators, "h1"))
    setting = Setting(network=open_, cluster=cluster, placement=placement, statistics=known)
    prediction = predict(setting, Rates.of(1.0, {"s1": [10.0] * 5}))
    costs = {name: operator.cost for name, operator in prediction.model.network.operators.items()}
    assert costs == {"o1.1": (0.004,), "o1.2": (0.009,)}
    text = '[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.004\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + text)
    (tmp_path / "s.json").write_text(json.dumps({"operators": {"a": {"cost": 0.1}}}))
    common = ["estimate", tmp_path / "n.toml", "--hosts", 1, "--rates", "s=100", "--placement", "a=h1", "--json"]
    plain = penstock(*common, "--model", "microbatch").document
    beside = penstock(*common, "--model", "microbatch", "--statistics", tmp_path / "s.json").document
    assert plain["worst"] == beside["worst"]


def test_scaled_costs_are_a_factor() -> None:
    """All costs times two are a factor of two on every host."""
    model, placement, cluster, _ = case(3)
    twice = Statistics(hosts={name: HostStatistics(factor=2.0) for name in cluster.hosts})
    one = microbatch_estimate(scaled_costs(model, 2.0), placement, cluster)
    two = microbatch_estimate(model, placement, cluster, twice)
    assert one.total.worst == pytest.approx(two.total.worst)


def test_a_spark_table_decides_the_default_model(penstock, tmp_path) -> None:
    """A cluster that says how it runs on Spark is estimated by the model of that mode, any other by Mace."""
    text = '[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.004\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + text)
    given = [tmp_path / "n.toml", "--rates", "s=100", "--placement", "a=h1", "--json"]
    for table, name in (
        ("", "mace"),
        ('[spark]\ntrigger = "2 s"\n', "microbatch"),
        ('[spark]\nmode = "real-time"\n', "mace"),
    ):
        (tmp_path / "c.toml").write_text("[hosts.h1]\n" + table)
        done = penstock("estimate", *given, "--cluster", tmp_path / "c.toml").document
        assert done["model"] == name
        replicas = penstock("estimate", *given[:-2], "a=h1,a#2=h1", "--json", "--cluster", tmp_path / "c.toml").document
        assert replicas["model"] == "mace"
        told = penstock("estimate", *given, "--cluster", tmp_path / "c.toml", "--model", "pipelined").document
        assert told["model"] == "pipelined"


def test_a_cluster_in_real_time_mode_is_estimated_by_what_runs_in_it(penstock, tmp_path) -> None:
    """All in micro-batches means their model, all in real-time mode Mace, and a mixture is refused by name."""
    (tmp_path / "c.toml").write_text('[hosts.h1]\n[spark]\nmode = "real-time"\n')
    plain = '[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.004\n'
    window = '[operators.b]\nkind = "aggregate"\ninput = "{}"\nwindow = 1\ncost = 0.001\nselectivity = 0.1\n'
    for operators, name in ((plain, "mace"), (window.format("s"), "microbatch"), (plain + window.format("a"), None)):
        last = "b" if "operators.b" in operators else "a"
        text = f'name = "n"\n[sources.s]\n{operators}[sinks.t]\ninput = "{last}"\n'
        (tmp_path / "n.toml").write_text(text)
        placed = ",".join(f"{each}=h1" for each in "ab" if f"operators.{each}" in operators)
        given = ["estimate", tmp_path / "n.toml", "--rates", "s=100", "--placement", placed, "--json"]
        done = penstock(*given, "--cluster", tmp_path / "c.toml")
        if name is None:
            assert done.code == 2
            assert "'b' is a window" in done.err
            again = penstock(*given, "--cluster", tmp_path / "c.toml", "--model", "microbatch")
            assert again.document["model"] == "microbatch"
        else:
            assert done.document["model"] == name


def test_simulate_works_at_the_pace_of_the_statistics(penstock, tmp_path) -> None:
    """In micro-batches `simulate` has the overheads and factors that estimate, run and demo have."""
    text = '[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.004\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + text)
    known = {"operators": {"a": {"overhead": 0.2}}, "hosts": {"h1": {"overhead": 0.1, "factor": 1.5}}}
    (tmp_path / "s.json").write_text(json.dumps(known))
    (tmp_path / "c.toml").write_text('[hosts.h1]\ncapacity = 2\n[spark]\ntrigger = "1 s"\n')
    given = [tmp_path / "n.toml", "--rates", "s=100", "--placement", "a=h1", "--cluster", tmp_path / "c.toml"]
    given += ["--statistics", tmp_path / "s.json", "--json"]
    expected = penstock("estimate", *given).document
    found = penstock("simulate", *given, "--trigger", 1, "--policy", "stimulus", "--drain").document
    assert found["latency"]["max"] == pytest.approx(expected["worst"], rel=0.03)
    assert found["latency"]["mean"] == pytest.approx(expected["mean"], rel=0.03)
    assert expected["worst"] == pytest.approx(1.0 + 0.1 + 0.2 + 1.5 * 100 * 0.004 / 2, abs=0.03)


def test_simulate_says_how_far_off_the_statistics_may_be(penstock, tmp_path) -> None:
    """A simulation in micro-batches carries the interval of the batch model, that of estimate with the same seed."""
    text = '[sources.s]\nformat = "nexmark"\n[operators.a]\nkind = "map"\ninput = "s"\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + text)
    known = {"operators": {"a": {"cost": 0.006}}, "hosts": {"h1": {"overhead": 0.1, "error": 0.03, "residual": 0.02}}}
    (tmp_path / "s.json").write_text(json.dumps(known))
    (tmp_path / "c.toml").write_text('[hosts.h1]\n[spark]\ntrigger = "1 s"\n')
    given = [tmp_path / "n.toml", "--rates", "s=100", "--placement", "a=h1", "--cluster", tmp_path / "c.toml"]
    given += ["--statistics", tmp_path / "s.json", "--json"]
    expected = penstock("estimate", *given).document
    found = penstock("simulate", *given, "--trigger", 1, "--policy", "stimulus", "--drain").document
    assert found["interval"] == expected["interval"]
    assert "interval" not in penstock("simulate", *given).document


def test_a_trigger_of_0_looks_as_often_as_spark_does(penstock, tmp_path) -> None:
    """Batches that follow each other at once are those of a trigger of 10 ms, in estimate and in simulate."""
    text = '[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.02\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + text)
    given = [tmp_path / "n.toml", "--rates", "s=100", "--duration", 5, "--placement", "a=h1", "--json"]
    found = []
    for trigger in ("0 ms", "10 ms"):
        (tmp_path / "c.toml").write_text(f'[hosts.h1]\n[spark]\ntrigger = "{trigger}"\n')
        found.append(penstock("estimate", *given, "--cluster", tmp_path / "c.toml").document)
    assert found[0]["worst"] == found[1]["worst"] > 0
    simulated = penstock("simulate", *given, "--cluster", tmp_path / "c.toml", "--trigger", 0, "--drain").document
    assert simulated["latency"]["max"] == pytest.approx(found[0]["worst"], rel=0.1)


TWO = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=1.0))


def batch_model(load: float, duration: float, known: Statistics) -> PlacedBatches:
    """Return the batch model of two hosts, of which the first has so many times the work that it can do."""
    model = load_model(chain([0.001, 1e-5]), Rates.constant({"s1": 1000 * load}, duration))
    return BatchHosts.of(known, TWO).placed(model, {"o1.1": "h1", "o1.2": "h2"})


def spread_in(placed: PlacedBatches) -> Spread:
    spread = placed.spread(np.random.default_rng(1), count=20)
    assert spread is not None
    return spread


def estimated(placed: PlacedBatches) -> Estimate:
    return microbatch_estimate(placed.model, placed.placement, TWO, placed.hosts.statistics)


@pytest.mark.parametrize(("load", "duration"), [(20.0, 300.0), (2.0, 2 * 3600.0)])
def test_what_takes_hours_to_deliver_counts(load: float, duration: float) -> None:
    """Rows wait for all the work that comes before them, however long after the rates end that is done."""
    error = HostStatistics(error=0.01)
    placed = batch_model(load, duration, Statistics(hosts={"h1": error, "h2": error}))
    found, spread = estimated(placed), spread_in(placed)
    behind = (load - 1) * duration
    assert behind < found.total.worst < 1.02 * load * duration
    assert found.series[-1] > 0.95 * behind
    assert 0.9 * behind < spread.total["worst"][0] < found.total.worst < spread.total["worst"][1]


@pytest.mark.parametrize("silly", [{"overhead": 1e9}, {"factor": 1e300}, {"overhead": 1e300, "factor": 1e300}])
def test_numbers_without_sense_give_no_small_latency(silly: dict[str, float]) -> None:
    """A host whose batches never end makes the interval huge, and it stays one of numbers; an estimate refuses it."""
    placed = batch_model(0.5, 30.0, Statistics(hosts={"h1": HostStatistics(**silly, error=0.01)}))
    low, high = spread_in(placed).total["worst"]
    assert 0.9e9 < low <= high < math.inf
    with pytest.raises(InputError, match="too long to be followed"):
        estimated(placed)


@pytest.mark.parametrize(("rows", "longest"), [(5e10, 5e8), (1e12, None)])
def test_what_is_too_long_to_be_followed_is_refused(rows: float, longest: float | None) -> None:
    """A backlog is worked off by batches as long as they are, or refused with what to do: it is not cut short."""
    model = load_model(chain([0.01]), Rates.of(1.0, {"s1": [rows, 0.0]}))
    cluster = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=1.0))
    if longest is None:
        with pytest.raises(InputError, match=r"the backlog is too long to be followed .*lower the rates"):
            microbatch_estimate(model, {"o1.1": "h1"}, cluster)
    else:
        assert microbatch_estimate(model, {"o1.1": "h1"}, cluster).total.worst == pytest.approx(longest, rel=1e-6)


@pytest.mark.filterwarnings("error")
def test_runs_that_differ_without_bounds_are_drawn() -> None:
    """Where earlier runs were off by more than numbers can say, there is an interval all the same."""
    placed = batch_model(0.5, 30.0, Statistics(hosts={"h1": HostStatistics(overhead=0.1, between_runs=800.0)}))
    low, high = spread_in(placed).total["worst"]
    assert 0 < low < 1e6 < high < math.inf


def test_an_estimate_of_scheduled_sources_is_that_of_the_run(penstock, tmp_path) -> None:
    """Whatever a file of rates calls the moment at which it begins, scheduled sources begin with a window."""
    text = '[operators.a]\nkind = "aggregate"\ninput = "s"\nby = "auction"\nwindow = 10.0\nselect = "count(*) AS n"\n'
    text += 'cost = 1e-4\nselectivity = 0.1\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n[sources.s]\nformat = "nexmark"\n' + text)
    (tmp_path / "c.toml").write_text('[hosts.h1]\n[spark]\ntrigger = "3 s"\n')
    found = []
    for begin in (0, 3):
        (tmp_path / "r.csv").write_text("time,s\n" + "".join(f"{begin + k},200\n" for k in range(30)))
        given = [tmp_path / "n.toml", "--rates", tmp_path / "r.csv", "--placement", "a=h1"]
        found.append(penstock("estimate", *given, "--cluster", tmp_path / "c.toml", "--json").document)
    assert found[0]["worst"] > 0
    assert found[0] == found[1]


def test_estimate_says_where_hosts_will_share_cores(penstock, tmp_path, monkeypatch) -> None:
    """Hosts that would be started here and are more than the cores are said to share them in a run."""
    monkeypatch.setattr("penstock.spark.hosts.cores_here", lambda: 2)
    given = ["estimate", "--rates", "s1=10", "--model", "microbatch", "--json"]
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s1]\n'
        + "".join(f'[operators.o{k}]\nkind = "map"\ninput = "s1"\ncost = 0.001\n' for k in range(3))
        + "".join(f'[sinks.t{k}]\ninput = "o{k}"\n' for k in range(3))
    )
    for hosts, said in (("h1,h2,h3", True), ("h1,h2,h2", False)):
        placed = ",".join(f"o{k}={host}" for k, host in enumerate(hosts.split(",")))
        notes = penstock(*given, tmp_path / "n.toml", "--hosts", 3, "--placement", placed).document["notes"]
        assert any("they share 2 cores" in note for note in notes) == said


def test_the_simulator_is_said_to_share_no_cores(penstock, tmp_path) -> None:
    """Where hosts share a machine with too few cores, a note says that the simulator gives each its own."""
    text = '[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.001\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + text)
    given = [tmp_path / "n.toml", "--rates", "s=100", "--duration", 5, "--placement", "a=h1", "--model", "microbatch"]
    for cores in (1, 2):
        machine = 'machine = "m"\n'
        (tmp_path / "c.toml").write_text(f"[hosts.h1]\n{machine}[hosts.h2]\n{machine}[machines.m]\ncores = {cores}\n")
        done = penstock("estimate", *given, "--cluster", tmp_path / "c.toml", "--check-with", "simulation", "--json")
        assert any("cores of their own" in note for note in done.document["notes"]) == (cores == 1)


def test_what_the_simulator_takes_otherwise_is_told(penstock, tmp_path) -> None:
    """Every command that sets the simulator beside the batch model names the windows, joins and hosts that differ."""
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s]\n[sources.u]\n[sinks.t]\ninput = "a"\n[sinks.v]\ninput = "j"\n'
        '[operators.a]\nkind = "aggregate"\ninput = "s"\nwindow = 2.0\ncost = 0.001\nselectivity = 0.1\n'
        '[operators.j]\nkind = "join"\ninputs = ["s", "u"]\nwithin = 1.0\ncost = 0.001\nselectivity = 0.01\n'
    )
    (tmp_path / "new.toml").write_text(
        'name = "new"\n[sources.s]\n[operators.b]\nkind = "map"\ninput = "s"\ncost = 0.001\n[sinks.w]\ninput = "b"\n'
    )
    network, rates, model = tmp_path / "n.toml", ["--rates", "s=20,u=20", "--duration", 5], ["--model", "microbatch"]
    on = ["--hosts", 1, "--placement", "a=h1,j=h1", *rates]
    check = [*model, "--check-with", "simulation"]
    given: list[list[object]] = [
        ["estimate", network, *on, *check],
        ["compare", network, "--hosts", 1, *rates, *check],
        ["admit", network, tmp_path / "new.toml", *on, *check, "--latency", 60],
        ["provision", network, "--host-like", "h1", "--latency", 60, *rates, *check],
        ["simulate", network, *on, "--trigger", 1],
    ]
    for words in given:
        said = penstock(*words)
        told = " ".join((said.out + said.err).split())
        for note in ("ends the windows of a on time", "pairs the rows of j one by one", "runs all of h1 in one batch"):
            assert note in told, words[0]
            if words[0] != "simulate":
                assert any(note in row for row in penstock(*words, "--json").document["notes"])
    rowwise = penstock("estimate", network, *on, "--model", "mace", "--check-with", "simulation", "--json").document
    assert not any("the simulator" in note for note in rowwise["notes"])


def test_streams_that_the_next_batch_reads_are_told(penstock, tmp_path) -> None:
    """A stream between operators of one query that passes through a log is named beside the simulator's latency."""
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s]\n[sinks.t]\ninput = "b"\n[sinks.v]\ninput = "a"\n'
        '[operators.a]\nkind = "delay"\ninput = "s"\ncost = 0.001\nselectivity = 0.5\n'
        '[operators.b]\nkind = "union"\ninputs = ["a", "s"]\ncost = 0.001\nselectivity = 1.0\n'
    )
    given = ["estimate", tmp_path / "n.toml", "--rates", "s=100", "--duration", 5, "--model", "microbatch", "--json"]
    for hosts, placed, said in ((1, "a=h1,b=h1", True), (2, "a=h1,b=h2", False)):
        words = [*given, "--hosts", hosts, "--placement", placed, "--check-with", "simulation"]
        notes = penstock(*words).document["notes"]
        assert any("hands on the rows of a->b within a batch" in note for note in notes) == said


def test_rows_one_by_one_on_a_cluster_of_batches_are_said_to_be(penstock, tmp_path) -> None:
    """Where a cluster says that hosts work in batches, a simulation without a trigger says what does not count."""
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.001\n[sinks.t]\ninput = "a"\n'
    )
    given = ["simulate", tmp_path / "n.toml", "--rates", "s=10", "--duration", 5, "--placement", "a=h1"]
    cluster = tmp_path / "c.toml"
    for table, more, said in (
        ('[spark]\ntrigger = "2 s"\n', [], True),
        ('[spark]\ntrigger = "2 s"\n', ["--trigger", 2], False),
        ('[spark]\nmode = "real-time"\n', [], False),
        ("", [], False),
    ):
        cluster.write_text(f"[hosts.h1]\n{table}")
        for form in ([], ["--json"]):
            assert ("count with --trigger 2" in penstock(*given, *more, *form, "--cluster", cluster).err) == said


def _windowed(window: float, slide: float | None, values: list[float], period: float) -> PlacedBatches:
    counted = Operator(
        name="counted",
        kind="aggregate",
        inputs=("s",),
        window=window,
        slide=slide,
        by=(),
        cost=(1e-4,),
        selectivity=(0.1,),
    )
    network = Network.of("windows", [Source(name="s")], [counted], [Sink(name="out", input="counted")])
    model = load_model(network, Rates.of(period, {"s": values}))
    cluster = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=period))
    known = Statistics(hosts={"h1": HostStatistics(overhead=0.01, error=1e-9)})
    return BatchHosts.of(known, cluster).placed(model, {"counted": "h1"})


def test_every_window_that_holds_a_row_is_there() -> None:
    """A row is in each window that begins at most a length before it, also where slides do not divide the length."""
    ends = [root.ends.tolist() for root in _windowed(5.0, 2.0, [100.0, *[0.0] * 9], 1.0).made.roots]
    assert ends[-1] == [1.0, 3.0, 5.0]


def test_windows_that_slide_often_take_no_more_room_than_they_are() -> None:
    """A long window that slides often is followed in memory for the windows, not for each window of each row."""
    tracemalloc.start()
    made = _windowed(400.0, 0.02, [10.0] * 100, 1.0).made
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.roots[-1].times.size == pytest.approx(500 / 0.02, rel=0.01)
    assert most < 50e6


def test_the_interval_counts_windows_in_the_periods_of_the_prediction() -> None:
    """A window that ends as a period begins belongs to that one, in the prediction and in its interval."""
    placed = _windowed(0.3, None, [100.0] * 20, 0.1)
    spread = placed.spread(np.random.default_rng(0), count=20)
    assert spread is not None
    assert np.flatnonzero(spread.low).tolist() == np.flatnonzero(placed.run().worst(0.1, 20)).tolist()
