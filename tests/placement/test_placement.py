"""Goldens, the contract that every algorithm keeps, and the oracle."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import Infeasible, InputError
from penstock.latency.mace import mace
from penstock.load import correlation, load_model
from penstock.network.shapes import chain, chains, tree
from penstock.placement import (
    ALGORITHMS,
    OBJECTIVES,
    Divided,
    Problem,
    Terms,
    Weights,
    algorithm,
    as_arrays,
    distribute,
    exact,
    faults,
    objective,
    place,
)
from penstock.placement.base import Arrays
from penstock.placement.correlation import average_correlation, greedy_plainly, improve_plainly
from penstock.placement.distribute import Given, greedy, improve
from penstock.placement.domains import Domains
from penstock.placement.economical import Replicated
from penstock.placement.exact import Exact
from penstock.placement.grouping import groups, together
from penstock.placement.potential import Potential
from penstock.workload import Rates

_spec = importlib.util.spec_from_file_location("placement_problems", Path(__file__).with_name("problems.py"))
problems = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)

SINGLE = [name for name, row in ALGORITHMS.items() if row.replicas != "apart"]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Goldens of the papers


def test_correlation_mixes_phases():
    """Two chains in opposite phase are cut so that each host has one operator of each and its load is flat."""
    problem = problems.antiphase()
    answer = place(problem, "correlation", rng())
    assert answer.placement["o1.1"] != answer.placement["o1.2"]
    assert answer.placement["o2.1"] != answer.placement["o2.2"]
    load = problem.model.host_load(answer.placement, problem.cluster)
    assert load.var(axis=1).mean() == pytest.approx(0, abs=1e-18)


def test_connected_keeps_queries_whole():
    """The connected plan of the two chains has four times the variance of one operator on each host."""
    problem = problems.antiphase()
    answer = place(problem, "connected", rng())
    assert answer.placement["o1.1"] == answer.placement["o1.2"] != answer.placement["o2.1"]
    load = problem.model.host_load(answer.placement, problem.cluster)
    assert load.var(axis=1).mean() == pytest.approx(4 * problem.model.load[0].var())


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_table_3_order(seed):
    """With evenly spread phases correlation reaches about one half, the baselines about zero, connected −1/(n−1)."""
    arrays = problems.fluctuating_chains(20, seed)
    found = {
        name: average_correlation(arrays.host_load(algorithm(name)(arrays, rng(seed))))
        for name in ("correlation", "largest-first", "random")
    }
    assert found["correlation"] > 0.3
    assert abs(found["largest-first"]) < 0.06
    assert abs(found["random"]) < 0.06


def test_score_is_half_the_difference_on_two_hosts():
    """The general score is half the difference of correlations when there are two hosts."""
    from penstock.placement.correlation import score

    series = rng(3).random((3, 12))
    pair = (correlation(series[0], series[1]) - correlation(series[0], series[2])) / 2
    assert score(series[0], series[1:], 1) == pytest.approx(pair)


@pytest.mark.parametrize(
    ("rho", "economical", "resilient", "replicated"),
    [
        (0.2, (1, 0.70), (5, 0.14), (3, 0.7 / 3)),
        (0.4, (2, 0.70), (5, 0.28), (3, 1.4 / 3)),
        (0.5, (2, 0.875), (5, 0.35), (3, 1.75 / 3)),
        (0.6, (3, 0.70), (5, 0.42), (3, 0.70)),
    ],
)
def test_replicas_golden(rho, economical, resilient, replicated):
    """Three filters and their replicas on five hosts use the hosts and fill them as worked out by hand."""
    problem = problems.filters(rho)
    names = ("economical", "resilient", "economical-replicated")
    for name, (hosts, filled) in zip(names, (economical, resilient, replicated), strict=True):
        answer = place(problem, name, rng())
        used = sorted(set(answer.placement.values()))
        mean = problem.model.host_load(answer.placement, problem.cluster).mean(axis=1)
        assert len(used) == hosts, name
        assert mean.sum() / hosts == pytest.approx(filled), name


@pytest.mark.parametrize(
    ("copies", "first_fit", "fewest"),
    [
        (2, (2, 3, 2, 3), (2, 3, 2, 3)),
        (3, (3, 4, 5, 3, 4, 5, 3), (3, 4, 5, 3, 4, 4, 3)),
        (4, (4, 5, 6, 7, 4, 5, 6), (4, 5, 6, 7, 4, 5, 5)),
    ],
)
def test_colouring_numbers(copies, first_fit, fewest):
    """First fit needs as many hosts as the paper's rule gives, the minimal colouring as few as are possible."""
    start = 4 if copies == 2 else copies
    for count, (rough, least) in enumerate(zip(first_fit, fewest, strict=True), start):
        model = load_model(chain([1e-3] * count), problems.rates({"s1": np.full(2, 1.0)}))
        arrays = as_arrays(Problem(model, Cluster.uniform(12), replicas=copies))
        for colouring, hosts in (("first-fit", rough), ("minimal", least)):
            where = Replicated(colouring=colouring)(arrays, rng())
            assert len(np.unique(where)) == hosts, (count, colouring)


def test_more_copies_than_operators_is_refused():
    """More replicas than operators, or than hosts, is refused with the reason."""
    with pytest.raises(InputError, match="at most as many copies"):
        place(problems.filters(0.1, replicas=4), "economical-replicated", rng())
    with pytest.raises(Infeasible, match="short by 1"):
        place(problems.filters(0.1, replicas=3, hosts=2), "economical-replicated", rng())


def test_load_potential_golden():
    """The energy of load is x below the quota and 1 + 20·(x − 1) beyond."""
    energy = objective.load_potential(np.array([0.8, 1.0, 1.2, 2.0]), np.ones(4))
    assert energy == pytest.approx([0.8, 1.0, 5.0, 21.0])


def test_weights_only_count_in_ratio():
    """Scaling all weights of potential energy leaves the placement as it is."""
    for name in ("potential-greedy", "potential-dynamic", "potential-dynamic-printed"):
        problem = problems.drawn(4, links=True)
        small = place(problem, name, rng(), Terms(weights=Weights(1, 2, 3)))
        large = place(problem, name, rng(), Terms(weights=Weights(100, 200, 300)))
        assert small.placement == large.placement
        assert large.value == pytest.approx(100 * small.value)


def test_latency_is_that_of_mace():
    """The objective latency is the worst of the model Mace, and no placement is below its bound."""
    for seed in range(4):
        problem = problems.drawn(seed, level=0.95)
        answer = place(problem, "random", rng(seed), Terms(measure="latency"))
        assert answer.value == pytest.approx(mace(problem.model, answer.placement, problem.cluster).total.worst)
        assert answer.value >= answer.bound


# The contract that every algorithm keeps


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_pure_and_right(name):
    """The same problem and seed give the same checked placement, whatever was asked in between."""
    problem = problems.drawn(1)
    copies = 2 if ALGORITHMS[name].replicas == "apart" else 1
    problem = attrs.evolve(problem, replicas=copies)
    if copies == 2:
        hosts = [Host(name=f"h{k}", capacity=2.0) for k in range(8)]
        problem = attrs.evolve(problem, cluster=Cluster.of(hosts))
    first = place(problem, name, rng(5))
    place(problems.drawn(2), "correlation", rng(9))
    assert place(problem, name, rng(5)) == first
    assert faults(problem, first.placement, apart=copies > 1) == ()
    assert first.moved == ()
    assert first.moved_load == 0


@pytest.mark.parametrize("name", SINGLE)
@settings(max_examples=12)
@given(seed=st.integers(0, 10_000))
def test_pins_quotas_and_theta(name, seed):
    """Pins hold, quotas hold, and with theta 1 nothing moves."""
    problem = problems.drawn(seed, hosts=4, operators=8, level=0.5)
    names = sorted(problem.model.network.operators)
    light = min(names, key=lambda o: problem.model.mean_load[problem.model.operator_index[o]])
    pinned = attrs.evolve(problem, pins={light: "h2"})
    answer = place(pinned, name, rng(seed))
    assert answer.placement[light] == "h2"
    assert faults(pinned, answer.placement) == ()
    again = place(attrs.evolve(pinned, previous=answer.placement), name, rng(seed + 1), Terms(theta=1.0))
    assert again.placement == answer.placement
    assert again.moved == ()
    if answer.bound is not None:
        assert answer.value >= answer.bound - 1e-9


@pytest.mark.parametrize("name", SINGLE)
def test_scaling_of_time(name):
    """Twice the rates at half the cost is the same problem."""
    base = problems.antiphase(3)
    values = {name: 2 * row for name, row in zip(base.model.rates.sources, base.model.rates.values, strict=True)}
    faster = load_model(chains([[5e-4, 5e-4], [5e-4, 5e-4]]), problems.rates(values))
    one = place(base, name, rng(2))
    two = place(attrs.evolve(base, model=faster), name, rng(2))
    assert one.placement == two.placement


@pytest.mark.parametrize("name", [name for name in SINGLE if not name.startswith("random")])
def test_an_added_host_never_hurts(name):
    """Another empty host does not raise the largest share of load where that is what the algorithm is measured by."""
    if ALGORITHMS[name].objective != "balance":
        pytest.skip("measured by something else")
    for seed in range(20):
        problem = problems.drawn(seed)
        hosts = [*problem.cluster.hosts.values(), Host(name="h9")]
        wide = attrs.evolve(problem, cluster=Cluster.of(hosts))
        assert place(wide, name, rng()).value <= place(problem, name, rng()).value + 1e-9


def test_moves_must_pay():
    """A high cost of moving keeps everything in place, none at all allows the better placement."""
    problem = problems.antiphase()
    all_on_one = Placement(dict.fromkeys(problem.names, "h1"))
    problem = attrs.evolve(problem, previous=all_on_one)
    free = place(problem, "correlation", rng(), Terms(measure="balance"))
    dear = place(problem, "correlation", rng(), Terms(measure="balance", move_cost=100.0))
    assert len(free.moved) == 2
    assert free.moved_load == pytest.approx(0.4)
    assert dear.moved == ()


def test_one_way_moves_least():
    """Of the pairwise steps one-way moves the least load, and all bring the hosts nearer to each other."""
    problem = problems.drawn(7, hosts=2, operators=12, level=0.4)
    names = problem.names
    skewed = Placement({name: "h1" if index % 4 else "h2" for index, name in enumerate(names)})
    problem = attrs.evolve(problem, previous=skewed, cluster=Cluster.uniform(2, 2.0))
    before = objective.balance(as_arrays(problem), as_arrays(problem).previous)
    moved = {}
    for name in ("correlation-one-way", "correlation-two-way", "correlation-exchange", "largest-first-balance"):
        answer = place(problem, name, rng(), Terms(measure="balance"))
        assert answer.value <= before + 1e-9
        moved[name] = answer.moved_load
    assert moved["correlation-one-way"] <= moved["correlation-two-way"] + 1e-9


def test_short_capacity_is_said():
    """Too little capacity is answered with the shortfall."""
    with pytest.raises(Infeasible, match="short by 2"):
        place(problems.filters(4.0, replicas=1), "correlation", rng())
    split = chain([0.6, 0.6, 0.6])
    model = load_model(split, problems.rates({"s1": np.ones(2)}))
    for name in ("economical", "exact", "largest-first"):
        with pytest.raises(Infeasible, match=r"short by|has 1"):
            place(Problem(model, Cluster.uniform(2)), name, rng())


@pytest.mark.parametrize("level", [0.85, 1.1])
@pytest.mark.parametrize("seed", range(3))
def test_overload_is_one_rule(seed, level):
    """Where no placement keeps the quotas all say no; allowed, exact is the best of all and heuristics answer."""
    problem = problems.drawn(seed, hosts=3, operators=6, level=level, links=True)
    arrays = as_arrays(problem)
    everywhere = list(_all_placements(arrays))
    fits = [where for where in everywhere if (arrays.host_mean(where) <= arrays.usable * (1 + 1e-9)).all()]
    for name in SINGLE:
        for measure in OBJECTIVES:
            allowed = place(problem, name, rng(seed), Terms(measure=measure, overload=True))
            assert bool(allowed.over) == bool(faults(problem, allowed.placement))
            try:
                strict = place(problem, name, rng(seed), Terms(measure=measure))
            except Infeasible:
                assert allowed.over
            else:
                assert fits
                assert strict == allowed
            if name == "exact":
                assert bool(allowed.over) == (not fits)
                if measure != "hosts":
                    best = min(worth(problem, arrays, where, measure) for where in fits or everywhere)
                    assert allowed.value == pytest.approx(best, abs=1e-9)


def test_lifted_quotas_are_lifted_by_little():
    """Fewest hosts in an overload are those for all quotas raised alike, and no more than they need."""
    problem = problems.filters(2.5, replicas=1, hosts=3)
    answer = place(problem, "economical", rng(), Terms(overload=True))
    mean = problem.model.host_load(answer.placement, problem.cluster).mean(axis=1)
    assert answer.over
    assert mean.max() == pytest.approx(2.5)
    with pytest.raises(Infeasible, match="short by"):
        place(problem, "economical", rng())
    with pytest.raises(Infeasible, match="need 3 hosts"):
        place(problems.filters(0.1, replicas=3, hosts=2), "economical-replicated", rng(), Terms(overload=True))


def test_thresholds_are_parameters():
    """A host that is good enough is left alone: the thresholds decide how much the pairwise steps move."""
    problem = problems.drawn(7, hosts=2, operators=12, level=0.4)
    skewed = Placement({name: "h1" if index % 3 else "h2" for index, name in enumerate(problem.names)})
    problem = attrs.evolve(problem, previous=skewed, cluster=Cluster.uniform(2, 2.0))
    eager = place(problem, "correlation-one-way", rng(), load_threshold=0.0)
    lazy = place(problem, "correlation-one-way", rng(), load_threshold=1.0)
    assert len(eager.moved) > len(lazy.moved) == 0
    for wrong in ({"load_threshold": -0.1}, {"score_threshold": 2.0}, {"improvement_threshold": -3.0}):
        with pytest.raises(InputError, match="expected a threshold"):
            place(problem, "correlation-exchange", rng(), **wrong)


def test_short_link_is_said():
    """A link that carries more than its bandwidth is named, with what is missing."""
    model = load_model(chain([0.004, 0.004]), problems.rates({"s1": np.full(2, 200.0)}))
    cluster = Cluster.of([Host(name="a"), Host(name="b")], Link(0.1, 50.0))
    with pytest.raises(Infeasible, match=r"link a->b carries 200 of 50 tuples/s: short by 150"):
        place(Problem(model, cluster), "largest-first", rng())
    best = place(Problem(model, cluster), "largest-first", rng(), Terms(overload=True))
    assert [sentence.split(":")[0] for sentence in best.over] == ["link a->b carries 200 of 50 tuples/s"]
    assert not best.document()["feasible"]


def test_unknown_names_and_parameters():
    """A misspelt algorithm, parameter, objective or weight is refused with a hint."""
    problem = problems.antiphase()
    with pytest.raises(InputError, match="did you mean 'correlation'"):
        place(problem, "corelation", rng())
    with pytest.raises(InputError, match=r"--restarts: correlation has no such .*algorithms that have it: mace-climb"):
        place(problem, "correlation", rng(), restarts=3)
    with pytest.raises(InputError, match="did you mean 'restarts'"):
        place(problem, "mace-climb", rng(), restart=3)
    with pytest.raises(InputError, match="expected one of latency"):
        place(problem, "exact", rng(), Terms(measure="speed"))
    with pytest.raises(InputError, match="did you mean 'network'"):
        Weights.parse("netwrk=3")


# Kernels beside plain code


@pytest.mark.parametrize("seed", range(4))
def test_greedy_kernel_is_the_printed_algorithm(seed):
    """The incremental kernel places as the step-by-step algorithm does, on equal hosts and on others."""
    arrays = problems.fluctuating_chains(4, seed, per_host=8)
    if seed % 2:
        arrays = Arrays.of(arrays.load, np.array([1.0, 2.0, 1.0, 2.0]))
    given = Given(arrays.load, arrays.mean, arrays.usable, arrays.fixed < 0, arrays.fixed.copy())
    greedy(given)
    assert (given.where == greedy_plainly(arrays)).all()


@pytest.mark.parametrize("seed", range(6))
def test_improvement_kernel_is_the_printed_algorithm(seed):
    """The improvement with rows brought up to date when asked for divides the pairs that the plain one does."""
    load = rng(seed).random((6 + 5 * seed, 8)) * rng(seed + 1).random((6 + 5 * seed, 1))
    arrays = Arrays.of(load[np.argsort(-load.mean(axis=1))], np.ones(2 + seed))
    start = np.arange(len(load)) % (2 + seed)
    plain = improve_plainly(arrays, start, 0.8)
    assert seed == 0 or (plain != start).any()
    given = Given(arrays.load, arrays.mean, arrays.usable, np.ones(len(load), bool), start.copy())
    improve(given, 0.8)
    assert (given.where == plain).all()


def test_improvement_makes_room_for_hosts_that_grow(monkeypatch):
    """Hosts that come to hold more than there was room for are improved as if there had always been room."""
    laid_out, address = [], distribute._address
    monkeypatch.setattr(distribute, "_address", lambda g, arrays: laid_out.append(set(arrays)) or address(g, arrays))
    load = np.concatenate([rng(1).random((6, 8)) * 5, rng(2).random((60, 8)) * 0.01])
    arrays = Arrays.of(load[np.argsort(-load.mean(axis=1))], np.ones(12))
    start = np.arange(len(load)) % 12
    given = Given(arrays.load, arrays.mean, arrays.usable, np.ones(len(load), bool), start.copy())
    improve(given, 0.99)
    assert "members" in set.intersection(*laid_out[-2:])
    assert (given.where == improve_plainly(arrays, start, 0.99)).all()


def test_compiled_and_interpreted_agree(monkeypatch):
    """Compiled and interpreted kernels give the same placement."""
    from penstock.native import jit

    arrays = problems.fluctuating_chains(6, 3, per_host=6)
    found = []
    for limit in (0, 10**15):
        monkeypatch.setattr(jit, "LIMIT", limit)
        found.append(algorithm("largest-first")(arrays, rng(1)))
    assert (found[0] == found[1]).all()


def test_order_of_names_does_not_matter():
    """Where operators come from in the arrays does not change the value of a placement."""
    arrays = problems.fluctuating_chains(5, 2)
    shuffled = Arrays.of(arrays.load[rng(1).permutation(len(arrays.load))], arrays.capacity)
    for name in ("correlation", "largest-first", "mace-climb"):
        one = np.sort(arrays.host_mean(algorithm(name)(arrays, rng(1))))
        two = np.sort(shuffled.host_mean(algorithm(name)(shuffled, rng(1))))
        assert one == pytest.approx(two, abs=1e-9)


# The oracle


def _all_placements(arrays: Arrays):
    n, m = len(arrays.hosts), len(arrays.names)
    for code in range(n**m):
        yield np.array([code // n**i % n for i in range(m)])


def worth(problem, arrays, where, measure):
    """Return what a placement is worth; links count in the latency, as `estimate` has it."""
    if measure != "latency":
        return objective.value(arrays, where, measure)
    return mace(problem.model, arrays.placement(where), problem.cluster).total.worst


@pytest.mark.parametrize("name", OBJECTIVES)
def test_exact_is_exact(name):
    """Branch and bound finds the best value that trying all placements finds, with links and unequal hosts."""
    for seed in range(3):
        problem = problems.drawn(seed, hosts=3, operators=6, level=0.75, links=True)
        arrays = as_arrays(problem)
        best = min(
            worth(problem, arrays, where, name)
            for where in _all_placements(arrays)
            if (arrays.host_mean(where) <= arrays.usable * (1 + 1e-9)).all()
        )
        assert place(problem, "exact", rng(), Terms(measure=name)).value == pytest.approx(best, abs=1e-9)


@pytest.mark.slow
def test_nothing_beats_exact():
    """No algorithm beats the oracle, and climbing is within 5 % of it on nine of ten random networks."""
    near = total = 0
    heuristics = [name for name in SINGLE if name != "exact"]
    for seed in range(250):
        size = rng(seed)
        hosts, operators = int(size.integers(2, 5)), int(size.integers(4, 13))
        problem = problems.drawn(seed, hosts=hosts, operators=operators, level=0.7)
        for measure in ("latency", "balance", "hosts"):
            try:
                best = place(problem, "exact", rng(), Terms(measure=measure)).value
            except Infeasible:
                continue
            for name in heuristics if seed % 5 == 0 else ("correlation", "largest-first", "economical", "mace-climb"):
                climbing = name == "mace-climb" and measure == "latency"
                try:
                    more = {"restarts": 20} if climbing else {}
                    answer = place(problem, name, rng(seed), Terms(measure=measure), **more)
                except Infeasible:
                    total += climbing
                    continue
                assert answer.value >= best - 1e-9, (seed, name, measure)
                total += climbing
                near += climbing and answer.value <= best * 1.05 + 1e-9
    assert total >= 200
    assert near >= 0.9 * total


@pytest.mark.parametrize("seed", range(10))
def test_dynamic_is_no_worse_than_greedy(seed):
    """On trees the accumulated rule never ends with a larger sum of energies than the greedy one."""
    network = tree(4, 2, selectivity=0.8)
    draw = rng(seed)
    model = load_model(network, problems.rates({"s1": draw.uniform(50, 150, 12)}))
    hosts = [Host(name=f"h{k}", capacity=float(draw.uniform(0.5, 2))) for k in range(3)]
    arrays = as_arrays(Problem(model, Cluster.of(hosts, Link(0.05, 200.0))))
    assert Potential(rule="accumulated").solved(arrays)[1] <= Potential(rule="greedy").solved(arrays)[1] + 1e-9


def test_domains_keep_balance():
    """Two domains together place every operator, within the quotas, nearly as balanced as one."""
    problem = problems.drawn(3, hosts=4, operators=30)
    for name in ("correlation", "largest-first", "mace-climb"):
        whole = place(problem, name, rng(), Terms(measure="balance"))
        parts = place(problem, name, rng(), Terms(measure="balance", divided=Divided(domains=2)))
        assert faults(problem, parts.placement) == ()
        assert parts.value <= whole.value + 0.25


@pytest.mark.parametrize("overlap", [0.25, 1.0])
def test_overlapping_domains_hand_load_on(overlap):
    """Domains that reach into the next one balance nearly as well as an exchange that sees all hosts."""
    arrays = problems.fluctuating_chains(24, 5)
    inner = algorithm("correlation")
    central = Domains(inner=inner, count=6)(arrays, rng())
    handed = Domains(inner=inner, count=6, overlap=overlap)(arrays, rng())
    worst = [arrays.host_mean(where).max() for where in (central, handed)]
    assert worst[1] <= worst[0] + 0.05
    assert average_correlation(arrays.host_load(handed)) >= average_correlation(arrays.host_load(central)) - 0.1


def test_load_goes_around_the_ring():
    """Where all load is pinned near one domain's end, the others take of it through the borders that they share."""
    arrays = Arrays.of(np.full((40, 4), 0.1), np.ones(8))
    crowded = Domains(inner=lambda part, _: np.zeros(len(part.names), np.int64), count=4, overlap=0.5)
    assert arrays.host_mean(crowded(arrays, rng())).max() <= 0.7


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.5))
def test_groups_are_heavy_enough(seed, least):
    """A group has the least load, or all light operators of its host; heavier operators are alone; none is lost."""
    draw = np.random.default_rng(seed)
    count, hosts = int(draw.integers(1, 30)), 3
    previous = draw.integers(-1, hosts, count)
    arrays = Arrays.of(
        draw.exponential(0.1, (count, 4)), np.ones(hosts), previous=previous, part=draw.integers(0, 4, count)
    )
    group = groups(arrays, least)
    small, number = together(arrays, group)
    assert small.load.sum(axis=0) == pytest.approx(arrays.load.sum(axis=0))
    assert (np.diff(small.mean) <= 1e-9).all()
    for row in range(len(small.names)):
        members = np.flatnonzero(number == row)
        assert small.mean[row] == pytest.approx(arrays.mean[members].sum())
        assert len(set(arrays.previous[members])) == 1
        if len(members) > 1:
            assert (arrays.mean[members] < least).all()
        if small.mean[row] < least - 1e-9:
            light = np.flatnonzero((arrays.mean < least - 1e-9) & (arrays.previous == arrays.previous[members[0]]))
            assert set(light) == set(members)


@pytest.mark.parametrize(
    "name", ["correlation", "correlation-two-way", "largest-first", "potential-greedy", "mace-climb"]
)
def test_groups_are_placed_whole(name):
    """Grouped operators are placed within the quotas, each group on one host, nearly as balanced as single ones."""
    problem = problems.drawn(3, hosts=3, operators=30)
    whole = place(problem, name, rng(), Terms(measure="balance"))
    least = 0.05
    answer = place(problem, name, rng(), Terms(measure="balance", divided=Divided(least=least)))
    assert faults(problem, answer.placement) == ()
    arrays = as_arrays(problem)
    where, group = arrays.where(answer.placement), groups(arrays, least)
    assert len(np.unique(group)) < len(group)
    assert (where == where[group]).all()
    assert answer.value <= whole.value + 0.15


def test_copies_are_not_grouped():
    """Copies of an operator must be apart, so that grouping them is refused."""
    with pytest.raises(InputError, match="one group"):
        place(problems.filters(0.3), "economical", rng(), Terms(divided=Divided(least=0.1)))


@pytest.mark.parametrize("divided", [Divided(domains=2), Divided(overlap=0.5)])
def test_copies_are_not_placed_by_domains(divided):
    """Copies of an operator must be apart, which domains do not see: the two together are refused."""
    for name in ("economical", "economical-replicated"):
        with pytest.raises(InputError, match="domains"):
            place(problems.filters(0.3), name, rng(), Terms(divided=divided))


def test_groups_keep_the_hosts_of_ends_and_all_state():
    """A stream from a host far beyond the operators' numbers keeps it, and a group keeps the state of its members."""
    arrays = attrs.evolve(
        Arrays.of(np.full((2, 3), 0.1), np.ones(5)),
        writer=np.array([-5, 0, 1]), reader=np.array([0, 1, -4]), rate=np.ones(3), shared=np.zeros(3, bool),
        state=np.array([2.0, 3.0]),
    )  # fmt: skip
    joined, _ = together(arrays, np.zeros(2, np.int64))
    assert (joined.writer.tolist(), joined.reader.tolist()) == ([-5, 0], [0, -4])
    assert joined.state is not None
    assert joined.state.tolist() == [5.0]


@pytest.mark.parametrize("name", ["correlation", "largest-first", "exact", "potential-greedy"])
def test_a_cost_of_moving_does_not_keep_what_hosts_cannot_carry(name):
    """From a placement that overloads a host enough moves away, whatever moves cost."""
    network = chain([0.006, 0.006])
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 100.0)))
    before = Placement(dict.fromkeys(network.operators, "h1"))
    problem = Problem(model, Cluster.uniform(2), before, {})
    answer = place(problem, name, rng(), Terms(move_cost=100.0))
    assert set(answer.placement.values()) == {"h1", "h2"}
    assert answer.over == ()


@pytest.mark.parametrize(("name", "copies"), [("economical", 1), ("economical-replicated-minimal", 2)])
def test_a_cost_of_moving_keeps_to_lifted_quotas(name, copies):
    """Where all quotas are lifted, moves that keep to them so, or put copies apart, are not taken back."""
    network = chains([[0.006 / copies]] * 4)
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 100.0)))
    problem = Problem(model, Cluster.uniform(2), None, {}, replicas=copies)
    before = Placement(dict.fromkeys(network.operators, "h1"))
    answer = place(attrs.evolve(problem, previous=before), name, rng(), Terms(overload=True, move_cost=0.001))
    loads = as_arrays(problem).host_mean(as_arrays(attrs.evolve(problem, previous=answer.placement)).previous)
    assert loads.tolist() == pytest.approx([1.2, 1.2])


def test_what_first_fit_leaves_over_is_packed_anew():
    """An operator that fits on no host in the order of falling load does not make a feasible problem infeasible."""
    costs = [0.4, 0.4, 0.3, 0.3, 0.3, 0.3]
    network = chains([[cost] for cost in costs])
    model = load_model(network, Rates.constant(dict.fromkeys(network.sources, 1.0)))
    answer = place(Problem(model, Cluster.uniform(2), None, {}), "economical", rng())
    assert answer.over == ()
    with pytest.raises(Infeasible, match="short by"):
        place(Problem(model, Cluster.uniform(1), None, {}), "economical", rng())


def test_a_steady_operator_beside_a_large_one_has_no_correlation():
    """What rounding leaves of a large series is not taken for the course of a small steady one."""
    arrays = Arrays.of(np.array([[0.15, 0.85, 0.25, 0.55], [7e-6] * 4]), np.ones(1))
    assert objective.value(arrays, np.zeros(2, np.int64), "potential", Weights(0.0, 1.0, 0.0)) == 0.0


@pytest.mark.parametrize("level", [0.9, 2.5])
def test_soft_quotas_bound_the_fewest_hosts(level):
    """Fewest hosts are asked for within quotas, soft or not: without them one host would do for everything."""
    problem = problems.filters(level, replicas=1, hosts=3)
    soft = place(problem, "economical", rng(), Terms(overload=True, soft=True))
    assert soft == place(problem, "economical", rng(), Terms(overload=True))
    assert len(set(soft.placement.values())) > 1


@pytest.mark.parametrize("measure", OBJECTIVES)
def test_exact_pauses_where_it_goes_on(measure, monkeypatch):
    """A search in small parts, between which signals are heard, finds what one in a single part does."""
    problem = problems.drawn(3, hosts=3, operators=6, level=0.8)
    whole = place(problem, "exact", rng(), Terms(measure=measure))
    monkeypatch.setattr(exact, "CHUNK", 200)
    assert place(problem, "exact", rng(), Terms(measure=measure)) == whole


def test_exact_refuses_by_what_its_steps_take():
    """With many periods fewer placements can be tried in the same time: a network is too large sooner."""
    load = np.random.default_rng(0).uniform(0.0, 0.5, (9, 5))
    solve = Exact(limit=1_000_000)
    assert len(solve(Arrays.of(load, np.full(3, 0.9)), rng())) == 9
    with pytest.raises(InputError, match="too many to try all placements"):
        solve(Arrays.of(np.repeat(load, 1000, axis=1), np.full(3, 0.9)), rng())


@pytest.mark.parametrize("colouring", ["first-fit", "minimal"])
def test_copies_keep_within_memory(colouring):
    """Super-operators go where their state fits, and hosts of one size are not alike where their memories differ."""
    load, state = np.full((6, 4), 0.01), np.full(6, 3.0)
    base = np.repeat(np.arange(3), 2)
    names = tuple(f"{o}{copy}" for o in "abc" for copy in ("", "#2"))
    memory = np.array([2.0, 7.0, 7.0, 7.0])
    arrays = attrs.evolve(Arrays.of(load, np.ones(4)), names=names, base=base, state=state, memory=memory)
    where = Replicated(colouring=colouring)(arrays, rng())
    assert np.bincount(where, minlength=4).tolist() == [0, 2, 2, 2]


@pytest.mark.parametrize("name", ["economical-replicated", "economical-replicated-minimal"])
@pytest.mark.parametrize("theta", [0.5, 1.0])
def test_copies_stay_where_they_were(name, theta):
    """Copies that are held where no super-operator had them stay there."""
    problem = problems.filters(0.1, replicas=2, hosts=4)
    first, second, third = problem.model.network.operators
    before = {first: "h1", f"{first}#2": "h2", second: "h1", f"{second}#2": "h2", third: "h3", f"{third}#2": "h4"}
    problem = attrs.evolve(problem, previous=Placement(before))
    answer = place(problem, name, rng(), Terms(theta=theta))
    assert {third, f"{third}#2"}.isdisjoint(answer.moved)
    assert theta < 1.0 or dict(answer.placement) == before


def test_the_fewest_hosts_for_many_copies_are_looked_for_within_steps():
    """More super-operators than Python nests calls are coloured, no worse than by first fit."""
    count, copies = 1200, 2
    base = np.repeat(np.arange(count), copies)
    names = tuple(f"o{o}{copy}" for o in range(count) for copy in ("", "#2"))
    arrays = attrs.evolve(Arrays.of(np.full((count * copies, 1), 1e-3), np.full(9, 0.9)), names=names, base=base)
    first, least = (Replicated(colouring=way, limit=5000)(arrays, rng()) for way in ("first-fit", "minimal"))
    assert len(np.unique(least)) <= len(np.unique(first))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("mace-climb", {"restarts": 2.5}),
        ("mace-climb", {"restarts": "3"}),
        ("mace-climb", {"seconds": "2"}),
        ("mace-climb", {"budget": 1e6}),
        ("mace-climb", {"gap": float("nan")}),
        ("mace-climb", {"gap": -1}),
        ("mace-climb", {"clock": 3}),
        ("mace-climb", {"steps": 0}),
        ("potential-greedy", {"penalty": float("nan")}),
        ("potential-greedy", {"penalty": -5}),
        ("potential-greedy", {"linked": "yes"}),
        ("exact", {"limit": "x"}),
        ("exact", {"limit": 0}),
        ("economical-replicated-minimal", {"limit": -1}),
        ("correlation", {"load_threshold": None}),
        ("correlation", {"load_threshold": True}),
        ("correlation", {"name": "exact"}),
        ("correlation", {"rng": 3}),
        ("correlation", {"terms": 3}),
        (3, {}),
    ],
)
def test_parameters_of_a_wrong_kind_are_refused(name, wrong):
    """What a parameter cannot be is refused by its name, before anything is placed."""
    with pytest.raises(InputError, match=r"expected|no such parameter|no placement algorithm"):
        place(problems.antiphase(), name, rng(), Terms(), **wrong)


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (Terms, {"weights": {"load": 1}}),
        (Terms, {"theta": "0.5"}),
        (Terms, {"tighten": 2.5}),
        (Terms, {"move_cost": None}),
        (Terms, {"divided": 3}),
        (Terms, {"soft": 1}),
        (Divided, {"domains": 2.5}),
        (Weights, {"load": "1"}),
    ],
)
def test_terms_of_a_wrong_kind_are_refused(made, wrong):
    """Terms say which of them is of another kind than it must be; numbers may be numpy's."""
    with pytest.raises(InputError, match=f"{next(iter(wrong)).replace('_', '-')}: expected"):
        made(**wrong)
    assert Terms(theta=np.float64(0.5), tighten=np.int64(2), soft=np.bool_(True)).tighten == 2
