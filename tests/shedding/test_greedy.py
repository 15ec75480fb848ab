"""Greedy local plans of hosts that read from each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shedding_cases import optimum, random_tree

from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import Exact, LookUp, Program, Question, build_program, build_table, fit
from penstock.shedding.greedy import Branches, Curve, Greedy, curve_of, thinned
from penstock.shedding.hosts import host_parts


def fan(branches: int, hosts: int) -> Program:
    """A common operator on one host, and branches of rising cost dealt out to others, or on the same."""
    costs = 0.128 * np.arange(1, branches + 1) / (branches * (branches + 1))
    network = Network.of(
        "fan",
        [Source(name="s")],
        [Operator(name="common", kind="map", inputs=("s",), cost=(0.008,))]
        + [Operator(name=f"b{k}", kind="map", inputs=("common",), cost=(cost,)) for k, cost in enumerate(costs)],
        [Sink(name=f"t{k}", input=f"b{k}") for k in range(branches)],
    )
    places = {"common": "h1"} | {f"b{k}": f"h{2 + k % hosts if hosts else 1}" for k in range(branches)}
    return build_program(network, Cluster.uniform(1 + hosts), places)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), roots=st.integers(1, 2), merges=st.sampled_from([0.0, 0.2]))
def test_greedy_is_optimal_on_trees(seed: int, roots: int, merges: float) -> None:
    """Where a greedy order is known its plans are feasible and as good as the optimum by another solver."""
    rng = np.random.default_rng(seed)
    program = build_program(*random_tree(rng, roots=roots, merges=merges))
    upto = np.full(len(program.sources), 3.0)
    try:
        greedy = Greedy(program, upto)
    except InputError:
        assume(False)
    points = rng.uniform(0, 1, (8, len(upto))) * upto
    for rates, kept in zip(points, greedy.plans(points), strict=True):
        assert program.feasible(kept)
        assert np.all(kept <= program.offered(rates, kept) * (1 + 1e-9) + 1e-12)
        assert program.score(kept) == pytest.approx(optimum(program, rates), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_compiled_equals_plain(seed: int) -> None:
    """The compiled thinning keeps what the plain one does, with curves at the arcs' ends."""
    from penstock.shedding import fit_kernel

    rng = np.random.default_rng(seed)
    for part in host_parts(build_program(*random_tree(rng, merges=0.0))).values():
        curves = {name: Curve(np.array([0.2, 0.7, 1.5]), np.array([3.0, 1.0, 0.25])) for name in part.streams
                  if "@" in name}  # fmt: skip
        host = Branches.of(part, curves)
        points = rng.uniform(0, 3, (20, len(part.inputs)))
        kept = np.array([part.flow(point) for point in points])
        fit_kernel.thinned(part.G, part.cost, host.ends, host.worth, kept)
        for point, fast in zip(points, kept, strict=True):
            assert host.score(fast) == pytest.approx(host.score(thinned(host, point)[0]), rel=1e-9, abs=1e-12)
            assert part.cost @ fast <= 1 + 1e-9


def test_curve_of_a_host() -> None:
    """A host with branches of cost 1 and 3 earns 2 a tuple up to 1/4, then trades one branch for the other, up to 1."""
    network = Network.of(
        "split",
        [Source(name="s")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(1.0,)),
         Operator(name="b", kind="map", inputs=("s",), cost=(3.0,))],
        [Sink(name="t1", input="a"), Sink(name="t2", input="b")],
    )  # fmt: skip
    program = build_program(network, Cluster.uniform(1), dict.fromkeys(network.operators, "h1"))
    [part] = host_parts(program).values()
    curve = curve_of(Branches.of(part, {}), 3.0)
    assert curve.rates == pytest.approx([1 / 4, 1, 3])
    assert curve.worth == pytest.approx([2, 2 / 3, 0], abs=1e-12)


@pytest.mark.parametrize("hosts", [0, 4])
@pytest.mark.parametrize("branches", [2, 4, 8, 16])
def test_c_fit_of_one_input_has_a_row_where_overload_begins(branches: int, hosts: int) -> None:
    """With one input a table for 1 % loses at most 0.42 % with 160 rows: the least is where overload begins."""
    program = fan(branches, hosts)
    exact, upto = Exact(program), np.array([100.0 * max(1, hosts)])
    table = build_table("c-fit", Question(exact, upto, 0.01))
    look_up = LookUp(program, table)
    rates = np.geomspace(10.0, upto[0], 2000)[:, None]
    kept = np.array([look_up.plan(rate) for rate in rates])
    assert all(program.feasible(plan) for plan in kept)
    assert (np.array([program.score(plan) for plan in kept]) >= 0.9958 * exact.values(rates)).all()
    assert table.entries <= 160


@pytest.mark.parametrize(("branches", "hosts"), [(2, 2), (4, 4), (16, 4)])
def test_c_fit_plans_greedily_over_hosts(branches: int, hosts: int) -> None:
    """With branches on several hosts c-fit keeps 1 % with 60 to 200 rows, the same as the linear program's plans do."""
    program = fan(branches, hosts)
    exact, upto = Exact(program), np.array([100.0 * hosts])
    table = build_table("c-fit", Question(exact, upto, 0.01))
    assert 60 <= table.entries <= 200
    assert table.entries == len(fit.planned_table(exact, upto, 0.01)["points"])
    assert fit.local_plans(exact, upto) is not exact
    look_up = LookUp(program, table)
    for rates in np.random.default_rng(0).uniform(0, 1, (100, 1)) * upto:
        kept, best = look_up.plan(rates), optimum(program, rates)
        assert program.feasible(kept)
        assert program.score(kept) >= 0.99 * best * (1 - 1e-9)
