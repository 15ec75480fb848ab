"""Memory for state as a second resource: whatever places operators keeps within it, or says which host is short."""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, Link, read_cluster
from penstock.errors import Infeasible, InputError
from penstock.load import load_model
from penstock.load.statistics import parse_statistics
from penstock.network import Network, Operator, Sink, Source
from penstock.placement import ALGORITHMS, Problem, Terms, objective, place
from penstock.placement.base import as_arrays
from penstock.placement.repair import fits, repaired
from penstock.placement.verify import faults
from penstock.units import size, size_text
from penstock.workload import Rates

_spec = importlib.util.spec_from_file_location("placement_problems", Path(__file__).with_name("problems.py"))
problems = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)

ONE_COPY = [name for name, row in ALGORITHMS.items() if row.replicas != "apart"]


def with_state(seed: int, operators: int = 6, hosts: int = 3, room: float = 1.3) -> Problem:
    """Return a random problem whose operators keep state, and hosts that hold ``room`` times all of it together."""
    found = problems.drawn(seed, hosts=hosts, operators=operators, level=0.5)
    rng = np.random.default_rng(seed)
    network, state = found.model.network, rng.choice([0.0, 1.0, 2.0, 5.0], len(found.names)) * 2**20
    rows = [attrs.evolve(o, state=float(s)) for o, s in zip(network.operators.values(), state, strict=True)]
    whole = Network.of(network.name, network.sources.values(), rows, network.sinks.values())
    share = rng.dirichlet(np.full(hosts, 4.0)) * room * max(state.sum(), 1.0)
    machines = [attrs.evolve(h, memory=float(m)) for h, m in zip(found.cluster.hosts.values(), share, strict=True)]
    return Problem(load_model(whole, found.model.rates), Cluster.of(machines))


@pytest.mark.parametrize("name", ONE_COPY)
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_every_algorithm_keeps_within_memory(name: str, seed: int) -> None:
    """An answer puts no more state on a host than it can hold; where none is found the host or the sum is named."""
    problem = with_state(seed)
    told = ""
    try:
        told = "; ".join(faults(problem, place(problem, name, np.random.default_rng(seed)).placement))
    except Infeasible as error:
        assert any(word in str(error) for word in ("quota", "memory", "state", "no division"))  # noqa: PT017
    assert not told


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), goal=st.sampled_from(["latency", "balance", "hosts"]))
def test_exact_is_the_best_within_memory(seed: int, goal: str) -> None:
    """The oracle's placement is the best that keeps within quotas and memory, and there is none where it says so."""
    problem = with_state(seed, operators=5)
    arrays = as_arrays(problem)
    able = [
        objective.value(arrays, where, goal)
        for where in map(np.array, itertools.product(range(3), repeat=len(arrays.names)))
        if fits(arrays, where)
    ]
    if not able:
        with pytest.raises(Infeasible):
            place(problem, "exact", np.random.default_rng(0), Terms(measure=goal))
        return
    found = place(problem, "exact", np.random.default_rng(0), Terms(measure=goal))
    assert found.value == pytest.approx(min(able), rel=1e-9, abs=1e-12)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000))
def test_a_repair_keeps_both(seed: int) -> None:
    """What is put right keeps within quotas and memory, and what was right stays as it was."""
    arrays = as_arrays(with_state(seed, operators=8))
    where = np.random.default_rng(seed).integers(0, 3, len(arrays.names))
    found = repaired(arrays, where)
    if fits(arrays, where):
        assert found is not None
        assert (found == where).all()
    elif found is not None:
        assert fits(arrays, found)
        assert not arrays.over_memory(found).any()


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), room=st.floats(0.9, 1.3))
def test_a_repair_is_found_where_there_is_one(seed: int, room: float) -> None:
    """Of few operators all divisions are tried: a repair is given up only where none keeps within what hosts have."""
    arrays = as_arrays(with_state(seed, operators=6))
    arrays = attrs.evolve(arrays, mean=arrays.mean * arrays.limit.sum() / arrays.mean.sum() / room)
    every = [np.array(where) for where in itertools.product(range(3), repeat=len(arrays.names))]
    found = repaired(arrays, np.zeros(len(arrays.names), np.int64))
    assert (found is not None) == any(fits(arrays, where) for where in every)


def test_a_full_host_is_named() -> None:
    """Where all state fits on no division of the hosts, the answer names what is short and by how much."""
    problem = with_state(1, room=0.5)
    with pytest.raises(Infeasible, match=r"has memory for .* of state: short by|operators keep .* of state"):
        place(problem, "largest-first", np.random.default_rng(0))
    everywhere = dict.fromkeys(problem.names, "h1")
    (told,) = [fault for fault in faults(problem, everywhere, quotas=False) if "memory" in fault]
    assert "host 'h1' has memory for" in told


def test_no_bound_changes_nothing() -> None:
    """With memory for all, or none said, algorithms answer as without state."""
    plain = problems.drawn(5)
    network = plain.model.network
    rows = [attrs.evolve(o, state=2.0**30) for o in network.operators.values()]
    whole = Network.of(network.name, network.sources.values(), rows, network.sinks.values())
    wide = Cluster.of([attrs.evolve(h, memory=2.0**50) for h in plain.cluster.hosts.values()])
    for name in ONE_COPY:
        one = place(plain, name, np.random.default_rng(1)).placement
        for cluster in (plain.cluster, wide):
            other = place(Problem(load_model(whole, plain.model.rates), cluster), name, np.random.default_rng(1))
            assert dict(other.placement) == dict(one), name


def test_sizes_are_read_as_spark_writes_them() -> None:
    """Bytes come with or without a unit; all units are powers of 1024."""
    assert [size(text) for text in ("512m", "4g", "1.5 GiB", "2kb", 100, "7")] == [
        512 * 2**20, 4 * 2**30, 1.5 * 2**30, 2048, 100, 7,
    ]  # fmt: skip
    assert [size_text(count) for count in (7, 1536, 3 * 2**20)] == ["7 B", "1.5 KiB", "3 MiB"]
    for wrong in ("", "4 apples", -1, 0, float("nan"), True):
        with pytest.raises(InputError, match="expected a size such as"):
            size(wrong)


def test_files_say_memory_and_state(tmp_path: Path) -> None:
    """A cluster file says what hosts hold, a statistics file what operators keep; nonsense names its key."""
    file = tmp_path / "cluster.toml"
    file.write_text('[hosts.h1]\nmemory = "2g"\n[hosts.h2]\n')
    hosts = read_cluster(file).hosts
    assert (hosts["h1"].memory, hosts["h2"].memory) == (2 * 2**30, np.inf)
    file.write_text('[hosts.h1]\nmemory = "much"\n')
    with pytest.raises(InputError, match=r"hosts\.h1\.memory"):
        read_cluster(file)
    document = {"operators": {"o1.1": {"cost": 0.001, "selectivity": 1.0, "state": 4096}}}
    known = parse_statistics(json.loads(json.dumps(document)))
    network = known.complete(problems.filters(0.5, 1).model.network)
    assert network.operators["o1.1"].state == 4096
    assert known.document()["operators"]["o1.1"]["state"] == 4096


def test_exact_names_the_link_that_is_short_and_no_state() -> None:
    """Where hosts have room for all state, what stands in the way of every placement is a link."""
    steps = [Operator(name=n, kind="map", inputs=(before,), cost=(0.007,), state=1.0) for before, n in ("sa", "ab")]
    network = Network.of("n", [Source(name="s")], steps, [Sink(name="t", input="b")])
    cluster = Cluster.of([Host(name="h1", memory=100.0), Host(name="h2", memory=100.0)], Link(0.0, 10.0))
    problem = Problem(load_model(network, Rates.constant({"s": 100.0})), cluster)
    with pytest.raises(Infeasible, match="link h1->h2 carries 100 of 10"):
        place(problem, "exact", np.random.default_rng(0))
