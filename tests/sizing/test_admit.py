"""Admission: the answer of trying every host, on small networks, and what the command says."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_network, renamed, runs

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import Infeasible, InputError
from penstock.latency.batches import PlacedBatches
from penstock.latency.mace import mace
from penstock.latency.models import MODELS
from penstock.latency.pipelined import pipelined
from penstock.load import load_model
from penstock.load.statistics import HostStatistics, Statistics
from penstock.network import Network, Operator, Sink, Source, chain, chains
from penstock.network.model import Growth
from penstock.sizing.admit import admit, merged
from penstock.workload import Rates


def random_admission(seed, *, most=2, link=None, joins=True):
    """Return a running network, a new one, rates, placement and cluster near overload."""
    rng = np.random.default_rng(seed)
    running = random_network(rng, int(rng.integers(2, 12)), 2, joins=joins)
    new = renamed(random_network(rng, int(rng.integers(1, most + 1)), 2, joins=False), "new-")
    cluster = Cluster.of(
        [Host(name=f"h{k}", capacity=float(rng.choice((0.5, 1.0, 2.0)))) for k in range(int(rng.integers(1, 5)))],
        link or Link(),
    )
    rates = Rates.of(1.0, {f"s{k}": rng.choice([50.0, 200.0, 500.0], 12) for k in range(2)})
    placement = Placement({name: str(rng.choice(list(cluster.hosts))) for name in running.operators})
    return running, new, rates, placement, cluster


def best_of_all(running, new, rates, placement, cluster, model):
    """Try every host for every new operator."""
    loads = load_model(merged(running, new), rates)
    return min(
        model(loads, Placement({**placement, **dict(zip(new.operators, hosts, strict=True))}), cluster).total.worst
        for hosts in itertools.product(cluster.hosts, repeat=len(new.operators))
    )


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_admission_is_trying_every_host(seed: int, linked: bool) -> None:
    """With few new operators the answer is that of trying every host, with links as without."""
    case = random_admission(seed, most=3, link=Link(0.1, 150.0) if linked else Link())
    running, new, rates, placement, cluster = case
    best = best_of_all(*case, mace)
    found = admit(runs(running, rates, placement, cluster), new, best)
    assert found.admitted
    assert found.after.total.worst == pytest.approx(best, abs=1e-9)
    assert found.exhaustive
    if best > 1e-6:
        refused = admit(runs(running, rates, placement, cluster), new, best * 0.999)
        assert not refused.admitted
        assert refused.breaks
    assert list(found.placement) == sorted(new.operators)


@pytest.mark.parametrize("model", MODELS)
def test_a_query_without_results_needs_room_too(model: str) -> None:
    """A filter that passes nothing and asks for more than a host is not admitted, though no sink is late."""
    rare = Operator(name="rare", kind="filter", inputs=("s",), cost=(0.012,), selectivity=(0.0,))
    new = Network.of("alarm", [Source(name="s")], [rare], [Sink(name="k", input="rare")])
    seen = Operator(name="a", kind="map", inputs=("s",), cost=(0.001,))
    running = Network.of("n", [Source(name="s")], [seen], [Sink(name="ka", input="a")])
    deployed = runs(running, Rates.constant({"s": 100.0}, 60.0), Placement({"a": "h1"}), Cluster.uniform(2))
    found = admit(deployed, new, 1.0, model=model)
    assert not found.admitted
    assert dict(found.placement) == {"rare": "h2"}
    assert found.breaks == ("h2",)
    # What sinks get is as it was, and so is what stands beside a measurement.
    assert found.before is not None
    assert found.after.total.worst >= 12.0 - 1e-6
    assert found.after.tuples == found.after.sinks["ka"] == found.before.sinks["ka"]
    assert found.after.sinks["k"].worst == 0.0
    cheap = new.having([attrs.evolve(rare, cost=(0.006,))])
    assert admit(deployed, cheap, 1.0, model=model).admitted


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_admission_by_pipelined_is_trying_every_host(seed: int) -> None:
    """The slower model gives the answer of trying every host too."""
    case = random_admission(seed, most=2)
    running, new, *known = case
    found = admit(runs(running, *known), new, 0.0, model="pipelined")
    assert found.after.total.worst == pytest.approx(best_of_all(*case, pipelined), abs=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["mace", "pipelined"]))
def test_hosts_do_what_was_measured_in_place(seed: int, model: str) -> None:
    """Hosts on which rows take longer or shorter than alone are hosts of other capacities, for search and answer."""
    running, new, rates, placement, cluster = random_admission(seed, joins=False)
    factors = dict(zip(cluster.hosts, (0.6, 1.7, 1.0, 0.9), strict=False))
    statistics = Statistics(hosts={name: HostStatistics(factor=factor) for name, factor in factors.items()})
    hosts = [attrs.evolve(host, capacity=1 / (factors[name] / host.capacity)) for name, host in cluster.hosts.items()]
    known = attrs.evolve(runs(running, rates, placement, cluster), statistics=statistics)
    expected = admit(runs(running, rates, placement, cluster.having(hosts)), new, 0.3, model=model)
    found = admit(known, new, 0.3, model=model)
    assert (found.admitted, found.placement, found.after.total) == (
        expected.admitted, expected.placement, expected.after.total,
    )  # fmt: skip


def test_large_query_is_never_worse_than_no_search() -> None:
    """Many new operators on many hosts get a placement at least as good as all of them on the emptiest host."""
    rng = np.random.default_rng(3)
    running, new = random_network(rng, 30, 2), renamed(random_network(rng, 12, 2, joins=False), "new-")
    cluster = Cluster.uniform(20)
    rates = Rates.of(1.0, {f"s{k}": rng.choice([50.0, 200.0], 20) for k in range(2)})
    placement = Placement({name: f"h{1 + k % 19}" for k, name in enumerate(running.operators)})
    found = admit(runs(running, rates, placement, cluster), new, 1.0)
    loads = load_model(merged(running, new), rates)
    whole = mace(loads, Placement({**placement, **dict.fromkeys(new.operators, "h20")}), cluster)
    assert found.after.total.worst <= whole.total.worst


def test_a_slow_model_is_not_asked_about_every_placement_of_many_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of estimates the search takes the best that it has, and says that there may be better."""
    monkeypatch.setattr("penstock.sizing.candidates.ESTIMATES", 4)
    running, new = chain([0.001] * 8), renamed(chain([0.002, 0.001, 0.001]), "new-")
    placement = Placement({name: f"h{k + 1}" for k, name in enumerate(running.operators)})
    rates = Rates.constant(dict.fromkeys(running.sources, 100.0), 5.0)
    found = admit(runs(running, rates, placement, Cluster.uniform(8)), new, 5.0, model="sharing")
    assert found.admitted
    assert not found.exhaustive
    two = renamed(chain([0.002, 0.001]), "new-")
    assert admit(runs(running, rates, placement, Cluster.uniform(8)), two, 5.0, model="sharing").exhaustive


def test_micro_batches_are_followed_where_a_placement_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all placements only the answer gets a whole estimate, and only the parts that it may change are followed."""
    parts: list[tuple[str, ...]] = []
    whole: list[int] = []
    worst, bar = PlacedBatches.worst, PlacedBatches.error_bar
    monkeypatch.setattr(PlacedBatches, "worst", lambda it: parts.append((*it.placement,)) or worst(it))
    monkeypatch.setattr(PlacedBatches, "error_bar", lambda it, *a, **k: whole.append(1) or bar(it, *a, **k))
    running, new = chains([[0.001]] * 6), renamed(chain([0.002, 0.001]), "new-")
    placement = Placement({name: f"h{k + 1}" for k, name in enumerate(running.operators)})
    rates = Rates.constant(dict.fromkeys(running.sources, 100.0), 5.0)
    found = admit(runs(running, rates, placement, Cluster.uniform(6)), new, 5.0, model="microbatch")
    assert found.exhaustive
    assert len(whole) == 2  # That of the answer, and the one before.
    assert parts.count(("o1.1",)) == 1
    assert max(map(len, parts)) == 4


def test_tighter_bounds_of_single_sinks() -> None:
    """A bound of one sink refuses what the bound of all would admit, and is named."""
    running = chain([0.006])
    new = Network.of(
        "new", [Source(name="s1")], [Operator(name="n", kind="map", inputs=("s1",), cost=(0.006,))],
        [Sink(name="t-new", input="n")],
    )  # fmt: skip
    rates = Rates.of(1.0, {"s1": [100.0, 0.0]})
    setting = runs(running, rates, Placement({"o1.1": "h1"}), Cluster.uniform(1))
    assert admit(setting, new, 0.3).admitted
    refused = admit(setting, new, 0.3, sinks={"t1": 0.1})
    assert not refused.admitted
    assert refused.breaks == ("t1",)


def test_growth_counts_and_not_its_slope() -> None:
    """A new operator finds the host that the load with growth leaves free."""
    aggregate = Operator(
        name="agg", kind="aggregate", inputs=("s1",), by=("k",), window=1.0, select="count(*) as n", cost=(0.0001,),
        selectivity=(0.5,), growth=Growth(exponent=0.0, at=100.0),
    )  # fmt: skip
    late = Operator(name="late", kind="map", inputs=("agg",), cost=(0.012,))
    other = Operator(name="other", kind="map", inputs=("s1",), cost=(0.003,))
    running = Network.of("n", [Source(name="s1")], [aggregate, late, other])
    new = Network.of("new", [Source(name="s1")], [Operator(name="q", kind="map", inputs=("s1",), cost=(0.006,))])
    placement = Placement({"agg": "h1", "late": "h1", "other": "h2"})
    setting = runs(running, Rates.constant({"s1": 100.0}, 60), placement, Cluster.uniform(2))
    found = admit(setting, new, 1.0)
    assert found.admitted
    assert dict(found.placement) == {"q": "h2"}


def test_quotas_and_pins_hold() -> None:
    """A new operator goes where its pin says, and nowhere beyond a quota below 1."""
    running = chain([0.001])
    operator = Operator(name="n", kind="map", inputs=("s1",), cost=(0.004,), pin="h2")
    new = Network.of("new", [Source(name="s1")], [operator])
    rates = Rates.constant({"s1": 100.0}, 5)
    placement = Placement({"o1.1": "h1"})
    assert admit(runs(running, rates, placement, Cluster.uniform(3)), new, 1.0).placement == {"n": "h2"}
    tight = Cluster.of([Host(name="h1"), Host(name="h2", quota=0.3)])
    with pytest.raises(Infeasible):
        admit(runs(running, rates, placement, tight), new, 1.0)


def test_a_host_that_runs_what_has_no_load_is_not_empty() -> None:
    """A host whose operators get no rows yet has less memory than an empty one, and the empty one is found."""
    seen = Operator(name="a", kind="aggregate", inputs=("r",), window=10.0, cost=(0.001,), state=900e6)
    running = Network.of("n", [Source(name="r")], [seen], [Sink(name="ka", input="a")])
    more = Operator(name="b", kind="aggregate", inputs=("s",), window=10.0, cost=(0.001,), state=500e6)
    new = Network.of("m", [Source(name="s")], [more], [Sink(name="kb", input="b")])
    cluster = Cluster.of([Host(name=name, memory=1e9) for name in ("h1", "h2")])
    rates = Rates.constant({"r": 0.0, "s": 100.0}, 60.0)
    for model in ("mace", "microbatch"):
        found = admit(runs(running, rates, Placement({"a": "h1"}), cluster), new, 30.0, model=model)
        assert dict(found.placement) == {"b": "h2"}


def test_shared_names_are_refused() -> None:
    """An operator or sink of both networks is bad input, a source of both is the same source."""
    running = chain([0.001])
    with pytest.raises(InputError, match="is also in"):
        merged(running, running)
    assert list(merged(running, renamed(running, "n-")).sources) == ["s1"]


def test_a_source_is_read_in_one_way() -> None:
    """A new query may say less of a source that runs, or how much of it is read at once, and nothing else."""

    def having(network: Network, **told: Any) -> Network:
        sources = [attrs.evolve(source, **told) for source in network.sources.values()]
        return Network.of(network.name, sources, network.operators.values(), network.sinks.values())

    running = having(chain([0.001]), format="json", schema="n int", options={"path": "in"})
    new = renamed(running, "n-")
    assert merged(running, having(new, format=None, schema=None, options={})).sources == running.sources
    assert merged(running, having(new, options={"path": "in", "maxFilesPerTrigger": "1"})).sources == running.sources
    for told in ({"options": {"path": "other"}}, {"schema": "n string"}, {"format": "csv"}):
        with pytest.raises(InputError, match=rf"sources\.s1\.{next(iter(told))}: 's1' is read otherwise"):
            merged(running, having(new, **told))


NEW = """
name = "extra"
[sources.clicks]
[operators.extra]
kind = "map"
input = "clicks"
cost = 0.0005
[sinks.extra-out]
input = "extra"
"""


def test_command(penstock, examples, tmp_path) -> None:
    """The document has the keys of the contract; exit 1 prints it too; the simulator's verdict is beside it."""
    two, new = examples / "two-chains", tmp_path / "new.toml"
    new.write_text(NEW)
    words = [
        "admit", two / "network.toml", new, "--hosts", 2, "--rates", two / "rates.csv",
        "--placement", "views=h2,scored=h1,paid=h2,billed=h2", "--json",
    ]  # fmt: skip
    yes = penstock(*words, "--latency", 0.5, "--check-with", "simulation")
    assert yes.code == 0, yes.err
    assert yes.document["admitted"] is True
    assert yes.document["placement"] == {"extra": "h2"}
    assert yes.document["latency"] == pytest.approx(0.144)
    assert yes.document["checked"]["holds"] is True
    no = penstock(*words, "--latency", 0.1)
    assert no.code == 1
    assert no.document["admitted"] is False
    assert no.document["breaks"] == ["dashboard", "h1"]
    tight = penstock(*words, "--latency", "0.5 s", "--sink-latency", "dashboard=10 ms,ledger=1")
    assert tight.code == 1
    assert "dashboard" in tight.document["breaks"]
    # The model knows of no service times: the simulator measures what a tuple takes at least.
    measured = penstock(*words, "--latency", 0.5, "--sink-latency", "ledger=0.01", "--check-with", "simulation")
    assert measured.code == 1
    assert measured.document["checked"]["holds"] is False
    assert measured.document["breaks"] == ["simulation"]
    shown = penstock(*words[:-1], "--latency", 0.1)
    assert shown.code == 1
    assert "not admitted" in shown.out


@pytest.mark.parametrize(
    "wrong",
    [
        ["--latency", "-1"],
        ["--latency", "nan"],
        ["--latency", "1", "--model", "magic"],
        ["--latency", "1", "--check-with", "luck"],
        ["--latency", "1", "--sink-latency", "nowhere=1"],
        ["--latency", "1", "--sink-latency", "ledger"],
        ["--latency", "1", "--sink-latency", "ledger=soon"],
    ],
)
def test_bad_options(penstock, examples, tmp_path, wrong) -> None:
    """A wrong option is exit code 2 with one message and no document."""
    two, new = examples / "two-chains", tmp_path / "new.toml"
    new.write_text(NEW)
    done = penstock(
        "admit", two / "network.toml", new, "--hosts", 2, "--rates", two / "rates.csv",
        "--placement", "views=h2,scored=h1,paid=h2,billed=h2", "--json", *wrong,
    )  # fmt: skip
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("refused", [["attach: no broker answers"], []])
def test_why_a_query_is_not_attached_is_said(penstock, examples, monkeypatch, refused) -> None:
    """A query that fits, and that the engine refuses all the same, is told of with the engine's reason."""

    class Folder:
        """Stands in for the folder of a controller at work."""

        def ask(self, kind, given):
            """Say what was decided, and what was not applied."""
            return {"done": not refused, "why": "it fits", "refused": refused}

    monkeypatch.setattr("penstock.control.folder.folder_of", lambda _: Folder())
    two = examples / "two-chains"
    given = ["--hosts", 2, "--rates", "clicks=160,buys=40", "--placement", "views=h1,scored=h1,paid=h2,billed=h2"]
    done = penstock("admit", two / "network.toml", two / "alarm.toml", *given, "--latency", 9, "--apply")
    assert done.code == len(refused)
    said = "not attached: attach: no broker answers" if refused else "attached: it fits"
    assert said in done.err.splitlines() + done.out.splitlines()
