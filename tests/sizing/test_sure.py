"""Decisions by the upper end of the interval: what keeps a bound by the prediction alone may not keep it surely."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from latency_cases import random_network

from penstock.cluster import Cluster, Host, Placement
from penstock.errors import Infeasible
from penstock.latency.intervals import with_interval
from penstock.latency.mace import mace
from penstock.latency.models import model_of
from penstock.load import load_model
from penstock.load.statistics import HostStatistics, OperatorStatistics, Statistics
from penstock.sizing.fleet import Fleet
from penstock.sizing.provision import Provision, provision
from penstock.sizing.sure import doubted, surely
from penstock.workload import Rates


@pytest.fixture
def burst(tmp_path):
    """Return the words that name a network, a query to add, rates with a burst, and what is known of costs."""
    for file, operator in (("n.toml", "a"), ("new.toml", "n")):
        (tmp_path / file).write_text(
            f'name = "of-{operator}"\n[sources.s]\n[operators.{operator}]\nkind = "map"\ninput = "s"\n'
            f'[sinks.from-{operator}]\ninput = "{operator}"\n'
        )
    (tmp_path / "two.toml").write_text(
        'name = "two"\n[sources.s]\n'
        + "".join(f'[operators.{n}]\nkind = "map"\ninput = "s"\n[sinks.t{n}]\ninput = "{n}"\n' for n in "an")
    )
    (tmp_path / "r.csv").write_text("time,s\n" + "".join(f"{t},{200 if t < 10 else 10}\n" for t in range(30)))

    def known(error: float):
        costs = {name: {"cost": 0.004, "error": error, "tuples": 1000} for name in ("a", "n")}
        (tmp_path / "s.json").write_text(json.dumps({"operators": costs}))
        return ["--rates", tmp_path / "r.csv", "--statistics", tmp_path / "s.json", "--json"]

    return tmp_path, known


def test_admission_says_how_far_off_it_may_be(penstock, burst) -> None:
    """The answer has the interval of the whole and of sinks; only `--sure` holds its upper end against the bound."""
    folder, known = burst
    words = ["admit", folder / "n.toml", folder / "new.toml", "--hosts", 1, "--placement", "a=h1", *known(0.1)]
    found = penstock(*words, "--latency", 100).document
    low, high = found["interval"]["worst"]
    assert low <= found["latency"] <= high
    assert all(
        row["interval"]["worst"][0] <= row["worst"] <= row["interval"]["worst"][1] for row in found["sinks"].values()
    )
    bound = ["--latency", (found["latency"] + high) / 2]
    assert penstock(*words, *bound).document["admitted"]
    refused = penstock(*words, *bound, "--sure")
    assert (refused.code, refused.document["admitted"], refused.document["sure"]) == (1, False, True)
    assert refused.document["breaks"]
    assert penstock(*words, "--latency", 1.01 * high, "--sure").document["admitted"]
    tight = ["--latency", 100, "--sink-latency", f"from-n={bound[1]}"]
    assert penstock(*words, *tight).document["admitted"]
    assert penstock(*words, *tight, "--sure").document["breaks"] == ["from-n"]


def test_a_host_that_keeps_the_bound_surely_is_found(penstock, burst) -> None:
    """`--sure` takes the host whose interval keeps the bound where that of the best prediction does not."""
    folder, known = burst
    host = "[hosts.{}]\ncapacity = {}\n"
    (folder / "c.toml").write_text(host.format("h1", 1.0) + host.format("h2", 1.05) + host.format("h3", 1.0))
    words = ["admit", folder / "n.toml", folder / "new.toml", "--cluster", folder / "c.toml", "--placement", "a=h1"]
    words += [*known(0.02), "--rates", "s=270", "--latency", 20]
    costs = json.loads((folder / "s.json").read_text())
    hosts = {"h1": {"factor": 1.0}, "h2": {"factor": 1.0, "error": 0.5}, "h3": {"factor": 1.0, "error": 0.01}}
    (folder / "s.json").write_text(json.dumps({**costs, "hosts": hosts}))
    assert penstock(*words).document["placement"] == {"n": "h2"}
    found = penstock(*words, "--sure").document
    assert (found["admitted"], found["placement"]) == (True, {"n": "h3"})
    assert found["interval"]["worst"][1] <= 20


def test_without_known_errors_the_prediction_decides(penstock, burst) -> None:
    """Where statistics tell of no error there is no interval, and `--sure` says that it could not look at one."""
    folder, known = burst
    words = ["admit", folder / "n.toml", folder / "new.toml", "--hosts", 1, "--placement", "a=h1", *known(0.0)]
    plain, sure = (penstock(*words, "--latency", 100, *more).document for more in ([], ["--sure"]))
    assert "interval" not in plain
    assert "interval" not in sure
    assert plain["admitted"] == sure["admitted"]
    said = [note for note in sure["notes"] if note not in plain["notes"]]
    assert len(said) == 1
    assert "no errors of the costs are known" in said[0]


def answered(model, fleet: Fleet, bound: float, *, sure: bool) -> Provision | Infeasible:
    """Return hosts for a bound, as the command finds them, or why there are none."""

    def ask(taken: Fleet) -> Provision:
        return doubted(provision(model, taken, bound), model, fleet, np.random.default_rng(0), sure=sure)

    try:
        return surely(fleet, ask) if sure else ask(fleet)
    except Infeasible as error:
        return error


@pytest.mark.parametrize("seed", range(8))
def test_hosts_keep_the_bound_surely(seed: int) -> None:
    """The interval of the answer, drawn anew, ends below the bound; it has no fewer hosts than the prediction wants."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, int(rng.integers(3, 9)), 2, joins=False)
    rates = Rates.of(1.0, {f"s{k}": rng.choice([20.0, 300.0, 800.0], 10) for k in range(2)})
    model = load_model(network, rates)
    known = Statistics(operators={n: OperatorStatistics(cost=(1e-3,), error=0.1) for n in network.operators})
    fleet = Fleet.of(model, Cluster.of([Host(name="h1", capacity=0.8)]), ["h1"], known)
    bound = float(rng.uniform(0.2, 2.0))
    alone, found = (answered(model, fleet, bound, sure=sure) for sure in (False, True))
    if isinstance(alone, Infeasible):
        assert isinstance(found, Infeasible)
        return
    if isinstance(found, Infeasible):
        assert f"by the prediction alone {alone.hosts} are enough" in str(found)
        return
    assert found.hosts >= alone.hosts
    assert found.lower_bound == alone.lower_bound
    assert {host.capacity for host in found.cluster.hosts.values()} == {0.8}
    again = mace(model, found.placement, found.cluster, known)
    assert again.total == found.estimate.total
    drawn = with_interval(again, model, found.placement, found.cluster, known, np.random.default_rng(1))
    assert drawn.spread is not None
    assert drawn.spread.total["worst"][1] <= 1.1 * bound


@pytest.mark.parametrize("seed", [102, 108, 114, 120, 123])
def test_fewest_hosts_by_brute_force(seed: int) -> None:
    """No placement of a few operators on fewer hosts has an interval that ends below the bound."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 4, 2, joins=False)
    rates = Rates.of(1.0, {f"s{k}": rng.choice([20.0, 300.0, 800.0], 10) for k in range(2)})
    model, names = load_model(network, rates), list(network.operators)
    like = Host(name="h1", capacity=float(rng.choice([0.5, 1.7])))
    costs = {name: OperatorStatistics(cost=(1e-3,), error=0.1) for name in names}
    fleet = Fleet.of(
        model,
        Cluster.of([like]),
        ["h1"],
        Statistics(operators=costs, hosts={"h1": HostStatistics(factor=1.2, error=0.05)}),
    )
    bound = float(rng.uniform(0.2, 2.0))
    fewest = None
    for where in itertools.product(range(len(names)), repeat=len(names)):
        used = max(where) + 1
        # Hosts are alike: of those that are used, none is skipped.
        if any(h > max(where[:i], default=-1) + 1 for i, h in enumerate(where)) or used >= (fewest or np.inf):
            continue
        made = fleet.hosts({"h1": used})
        known, hosts = fleet.statistics(made), list(made.hosts)
        placement = Placement({name: hosts[h] for name, h in zip(names, where, strict=True)})
        plain = model_of("mace")(model, placement, made, known)
        drawn = with_interval(plain, model, placement, made, known, np.random.default_rng(0))
        if drawn.spread is not None and drawn.spread.total["worst"][1] <= bound + 1e-9:
            fewest = used
    found = answered(model, fleet, bound, sure=True)
    assert isinstance(found, Provision)
    assert found.hosts == fewest


def test_more_hosts_where_it_has_to_be_sure(penstock, burst) -> None:
    """A bound just above the prediction takes one host, and surely kept it takes another, or is out of reach."""
    folder, known = burst
    words = ["provision", folder / "two.toml", "--host-like", "h1", *known(0.1)]
    one = penstock(*words, "--latency", 6.5).document
    assert one["hosts"] == 1
    assert one["interval"]["worst"][0] < one["worst"] < 6.5 < one["interval"]["worst"][1]
    two = penstock(*words, "--latency", 6.5, "--sure").document
    assert (two["hosts"], two["lower_bound"]) == (2, 1)
    assert two["interval"]["worst"][1] <= 6.5


def test_people_are_told_what_is_not_known(penstock, burst) -> None:
    """The text says that no error is known where it was to decide, and that batches are not in the model."""
    folder, known = burst
    (folder / "c.toml").write_text('[hosts.h1]\n[spark]\ntrigger = "1 s"\n')
    words = ["provision", folder / "two.toml", "--host-like", "h1", *known(0.0)[:-1], "--latency", 9]
    plain, sure, spark = (penstock(*words, *more) for more in ([], ["--sure"], ["--cluster", folder / "c.toml"]))
    assert "its error is not known" not in plain.err
    assert "(its error is not known) by the model mace" in sure.err
    assert "--model microbatch" not in plain.err
    assert "--model microbatch" in spark.err
