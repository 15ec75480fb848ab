from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shedding_cases import figure_1, figure_7, random_program, two_hosts

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import Infeasible, InputError
from penstock.native import jit
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import (
    PLANNERS,
    Exact,
    LookUp,
    Program,
    Question,
    build_program,
    build_table,
    read_table,
    replica_plan,
    save_table,
)
from penstock.shedding.fit import plain_table, planned_table
from penstock.shedding.grid import TooLarge


def overloads(program: Program, upto: np.ndarray, count: int, seed: int) -> np.ndarray:  # type: ignore[type-arg]
    """Random points of the region, some of them on its faces and at its corners."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 1, (count, len(upto)))
    points[rng.random(points.shape) < 0.1] = 0.0
    points[rng.random(points.shape) < 0.05] = 1.0
    points *= upto
    return points[[not program.feasible(program.flow(point)) for point in points]]


@pytest.mark.parametrize("planner", ["exact", "solver", "c-fit", "d-fit"])
@pytest.mark.parametrize("error", [0.1, 0.05])
@pytest.mark.parametrize("costs", [(64.0, 32.0), (88.0, 8.0), (48.0, 48.0)])
def test_promise_on_the_papers_networks(planner: str, error: float, costs: tuple[float, float]) -> None:
    """Every answer is feasible on every host and within the promised error of the optimum; no point is unmapped."""
    program = two_hosts((costs[0] / 1e3, costs[1] / 1e3), (costs[1] / 1e3, costs[0] / 1e3))
    exact, upto = Exact(program), np.array([100.0, 100.0])
    look_up = LookUp(program, build_table(planner, Question(exact, upto, error)))
    points = overloads(program, upto, 1500, 1)
    best = exact.values(points)
    for point, optimum in zip(points, best, strict=True):
        kept = look_up.plan(point)
        assert program.feasible(kept)
        assert program.score(kept) >= (1 - error) * optimum * (1 - 1e-8)


@pytest.mark.parametrize("planner", ["solver", "c-fit"])
def test_promise_on_random_networks(planner: str) -> None:
    """The promise holds with splits, unions and joins."""
    rng = np.random.default_rng(17)
    for _ in range(6):
        program = random_program(rng, 2, 2)
        exact, upto = Exact(program), np.array([2.0, 2.0])
        look_up = LookUp(program, build_table(planner, Question(exact, upto, 0.2)))
        for point in overloads(program, upto, 200, 2):
            kept = look_up.plan(point)
            assert program.feasible(kept)
            assert program.score(kept) >= 0.8 * exact.values(point[None])[0] * (1 - 1e-8)


@pytest.mark.parametrize("planner", ["exact", "solver", "c-fit", "d-fit"])
def test_what_loads_nothing_is_kept(planner: str) -> None:
    """The promise holds beside sources that load no host, of which every row is worth something."""
    program = two_hosts((0.03, 0.0, 0.0), (0.06, 0.0, 0.0))
    exact, upto = Exact(program), np.full(3, 50.0)
    look_up = LookUp(program, build_table(planner, Question(exact, upto, 0.2)))
    points = overloads(program, upto, 100, 3)
    for point, optimum in zip(points, exact.values(points), strict=True):
        assert program.score(look_up.plan(point)) >= 0.8 * optimum * (1 - 1e-8)


def test_promise_with_three_inputs() -> None:
    """c-fit keeps its promise with three different inputs over three hosts' worth of load."""
    program = two_hosts((0.03, 0.05, 0.02), (0.06, 0.01, 0.04))
    exact, upto = Exact(program), np.full(3, 100.0)
    look_up = LookUp(program, build_table("c-fit", Question(exact, upto, 0.1)))
    for point in overloads(program, upto, 1000, 3):
        kept = look_up.plan(point)
        assert program.feasible(kept)
        assert program.score(kept) >= 0.9 * exact.values(point[None])[0] * (1 - 1e-8)


@pytest.mark.parametrize("planner", ["random-drop", "input-only"])
def test_baselines_are_feasible(planner: str) -> None:
    """The baselines keep every host within its quota, and never beat the optimum."""
    rng = np.random.default_rng(23)
    for _ in range(20):
        program = random_program(rng, 3, 3)
        exact, upto = Exact(program), np.full(3, 3.0)
        look_up = LookUp(program, build_table(planner, Question(exact, upto)))
        for point in overloads(program, upto, 20, 4):
            kept = look_up.plan(point)
            assert program.feasible(kept)
            assert program.score(kept) <= exact.values(point[None])[0] * (1 + 1e-7)


def test_solver_w_expects_less_than_the_error() -> None:
    """solver-w's mean loss over its workload is at most the error, with fewer cells than solver."""
    program = two_hosts((0.064, 0.032), (0.032, 0.064))
    exact, upto = Exact(program), np.array([100.0, 100.0])
    question = Question(exact, upto, 0.05, scale=0.2)
    weighted, strict = build_table("solver-w", question), build_table("solver", question)
    assert 0 < weighted.entries < strict.entries
    look_up = LookUp(program, weighted)
    rng = np.random.default_rng(5)
    points = rng.exponential(20.0, (4000, 2))
    points = points[(points < 100).all(axis=1)]
    loss = []
    for point in points:
        kept, best = look_up.plan(point), exact.values(point[None])[0]
        assert program.feasible(kept)
        loss.append(1 - program.score(kept) / best if not program.feasible(program.flow(point)) else 0.0)
    assert np.mean(loss) <= 0.05


def test_figure_5() -> None:
    """A point of a cell is scaled to the cell's lower corner: (60, 75) keeps 50/60 and 50/75 of its inputs."""
    # A host that takes 50 + 50, in a region of (0, 0)..(100, 100): the upper right quarter starts at (50, 50).
    program = two_hosts((0.01, 0.01), (0.01, 0.01))
    table = build_table("solver", Question(Exact(program), np.array([100.0, 100.0]), 0.05))
    keep = program.keep(np.array([60.0, 75.0]), LookUp(program, table).plan(np.array([60.0, 75.0])))
    assert keep == pytest.approx({"s0->a0": 50 / 60, "s1->a1": 50 / 75})
    assert table.entries < 200


@pytest.mark.parametrize("planner", ["exact", "solver", "c-fit", "d-fit"])
def test_small_tables_need_no_compiler(planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted kernels give the same tables and plans as compiled ones, bit by bit."""

    def made() -> list[np.ndarray]:  # type: ignore[type-arg]
        program, upto = two_hosts((0.03, 0.05), (0.06, 0.01)), np.array([60.0, 50.0])
        table = build_table(planner, Question(Exact(program), upto, 0.3))
        points = overloads(program, upto, 20, 3)
        return [*table.arrays.values(), *map(LookUp(program, table).plan, points), Exact(program).values(points)]

    compiled = made()
    monkeypatch.setattr(jit, "_always", False)
    for one, two in zip(compiled, made(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_region_tree_equals_scan() -> None:
    """The quadtree finds the cell that a scan over all cells finds, or one whose corner is below the point."""
    from penstock.shedding import points_kernel as kernels

    program = figure_1()
    upto = np.array([2.0, 2.0])
    table = build_table("solver", Question(Exact(program), upto, 0.1))
    child, row, plans = table.arrays["child"], table.arrays["row"], table.arrays["plans"]
    cells: list[tuple[int, np.ndarray, np.ndarray]] = []  # type: ignore[type-arg]
    waiting = [(0, np.zeros(2), upto)]
    while waiting:
        node, low, high = waiting.pop()
        if child[node] < 0:
            cells.append((node, low, high))
            continue
        half = (high - low) / 2
        for number in range(4):
            corner = low + np.array([number & 1, number >> 1]) * half
            waiting.append((int(child[node]) + number, corner, corner + half))
    rng = np.random.default_rng(1)
    for point in rng.uniform(0, 2, (500, 2)):
        [found] = [node for node, low, high in cells if (low <= point).all() and (point < high).all()]
        assert kernels.descend(child, np.zeros(2), upto, point) == found
        if row[found] >= 0:
            assert (program.G @ plans[row[found]] + program.S @ point >= plans[row[found]] - 1e-9).all()


def test_index_equals_scan() -> None:
    """The index finds a point as good as the linear scan does."""
    from penstock.shedding import points_kernel as kernels

    program = two_hosts((0.03, 0.05, 0.02), (0.06, 0.01, 0.04))
    arrays = plain_table(Exact(program), 0.2)
    tree = kernels.Tree(arrays["low"], arrays["first"], arrays["last"], arrays["most"])
    for point in overloads(program, np.full(3, 60.0), 500, 2):
        a = kernels.scan(arrays["points"], arrays["score"], point)
        b = kernels.search(tree, arrays["points"], arrays["score"], point)
        assert a >= 0
        assert arrays["score"][a] == arrays["score"][b]


def test_fit_of_figure_1() -> None:
    """C-FIT's grid of figure 1 falls from the global greatest rates 1/3 and 1/2 and includes 0."""
    points = plain_table(Exact(figure_1()), 0.1)["points"]
    assert points.max(axis=0) == pytest.approx([1 / 3, 1 / 2])
    assert points.min(axis=0) == pytest.approx([0, 0])


def test_equal_inputs_are_merged() -> None:
    """Eight inputs of two kinds need no more points than two inputs."""
    two = plain_table(Exact(two_hosts((64, 32), (32, 64))), 0.1)
    eight = plain_table(Exact(two_hosts((64, 32) * 4, (32, 64) * 4)), 0.1)
    assert len(eight["points"]) == len(two["points"])


def test_distributed_equals_central() -> None:
    """d-fit's answers equal c-fit's within the error, though no host knows another's load."""
    program = two_hosts((0.064, 0.02, 0.03), (0.032, 0.05, 0.01))
    exact, upto = Exact(program), np.full(3, 60.0)
    central = LookUp(program, build_table("c-fit", Question(exact, upto, 0.1)))
    spread = LookUp(program, build_table("d-fit", Question(exact, upto, 0.1)))
    for point in overloads(program, upto, 300, 8):
        a, b = program.score(central.plan(point)), program.score(spread.plan(point))
        assert program.feasible(spread.plan(point))
        assert abs(a - b) <= 0.1 * max(a, b)


def test_split_needs_local_plans() -> None:
    """c-fit handles figure 7 with complementary plans: 0.28 at rate 0.2 within its error, above input drops."""
    program = figure_7()
    look_up = LookUp(program, build_table("c-fit", Question(Exact(program), np.array([1.0]), 0.05)))
    kept = look_up.plan(np.array([0.2]))
    assert program.feasible(kept)
    assert 0.28 * 0.95 <= program.score(kept) <= 0.28 * (1 + 1e-9)


@pytest.mark.parametrize("planner", list(PLANNERS))
def test_saved_tables_answer_alike(planner: str, tmp_path: Path) -> None:
    """A table that was written and read answers the same, bit by bit, and is written the same again."""
    program, upto = figure_1(), np.array([2.0, 2.0])
    table = build_table(planner, Question(Exact(program), upto, 0.1))
    save_table(table, tmp_path / "a.json")
    again = read_table(tmp_path / "a.json")
    save_table(again, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    before, after = LookUp(program, table), LookUp(program, again)
    rng = np.random.default_rng(1)
    for point in rng.uniform(0, 2, (50, 2)):
        assert before.plan(point).tobytes() == after.plan(point).tobytes()


def test_tables_of_others_are_refused(tmp_path: Path) -> None:
    """A table of another network, a damaged one, another version, and rates outside the region are refused."""
    program, upto = figure_1(), np.array([2.0, 2.0])
    table = build_table("solver", Question(Exact(program), upto, 0.1))
    with pytest.raises(InputError, match="another network"):
        LookUp(two_hosts((1.0, 2.0), (3.0, 1.5)), table)
    with pytest.raises(InputError, match="covers rates up to 2"):
        LookUp(program, table).plan(np.array([3.0, 1.0]))
    path = tmp_path / "table.json"
    save_table(table, path)
    text = path.read_text()
    for old, new, said in [
        ('"version": 1', '"version": 9', "version 1"),
        ("penstock plan table", "something", "as --save writes it"),
        ('"shape": [', '"shape": [7, ', r"damaged.*build it again with --save"),
        ('"upto"', '"up"', r"damaged.*build it again with --save"),
    ]:
        path.write_text(text.replace(old, new))
        with pytest.raises(InputError, match=said):
            read_table(path)
    for wrong in (None, 2.0, [2.0], [2.0, None]):
        path.write_text(json.dumps({**json.loads(text), "upto": wrong}))
        with pytest.raises(InputError, match=r"damaged.*build it again with --save"):
            LookUp(program, read_table(path))


@pytest.mark.parametrize(("seconds", "advice"), [(1.0, "--error 0.15 fits"), (2.0, "--error 0.25 fits")])
def test_a_larger_error_is_looked_for_from_the_largest(
    seconds: float, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tables are too large the advice is the smallest error found to fit, and the dear tries come last."""
    tried = []

    def make(_program: Program, _upto: np.ndarray, error: float) -> None:  # type: ignore[type-arg]
        tried.append(error)
        if error < 0.12:
            raise TooLarge("too large")

    monkeypatch.setattr("penstock.shedding.planners.make_tables", make)
    monkeypatch.setattr("penstock.shedding.fit.plain", lambda _: False)
    clock = itertools.count(step=seconds)
    question = Question(Exact(figure_1()), np.array([2.0, 2.0]), 0.05, clock=lambda: float(next(clock)))
    with pytest.raises(TooLarge) as refused:
        build_table("d-fit", question)
    assert advice in str(refused.value)
    assert tried[1:] == sorted(tried[1:], reverse=True)


def replicated(
    capacity: float, places: dict[str, str], hosts: int, bandwidth: float = np.inf
) -> tuple[Program, Cluster, Placement]:
    """A chain of filters o1 -> o2 -> o3 of equal cost, with copies."""
    names = sorted({copy.partition("#")[0] for copy in places})
    network = Network.of(
        "copies",
        [Source(name="s")],
        [
            Operator(name=name, kind="map", inputs=("s" if k == 0 else names[k - 1],), cost=(0.1 + 0.01 * (9 - k),))
            for k, name in enumerate(names)
        ],
        [Sink(name="t", input=names[-1])],
    )
    cluster = Cluster.of([Host(name=f"h{k + 1}", capacity=capacity) for k in range(hosts)], Link(0.0, bandwidth))
    placement = Placement(places)
    return build_program(network, cluster, placement), cluster, placement


def test_replica_scenario_1() -> None:
    """Scenario 1 of Xiao et al.: N1 sheds o1, so N2 must shed o2, and the chain o1' -> o2' stays intact."""
    program, cluster, placement = replicated(0.35, {"o1": "h1", "o2#2": "h1", "o2": "h2", "o1#2": "h2"}, 2)
    plan = replica_plan(program, cluster, placement, np.array([1.0]))
    assert set(plan.keep) == {"o1", "o2"}
    assert plan.intact == {"o1": "o1#2", "o2": "o2#2"}
    assert all(load <= 1 + 1e-9 for load in plan.load.values())


def test_replica_scenario_2() -> None:
    """Scenario 2: three overloaded hosts shed o1, o2 and o3, one of each, and o1' -> o2' -> o3' stays intact."""
    places = {"o1": "h1", "o3#2": "h1", "o2": "h2", "o1#2": "h2", "o3": "h3", "o2#2": "h3"}
    program, cluster, placement = replicated(0.34, places, 3)
    plan = replica_plan(program, cluster, placement, np.array([1.0]))
    assert sorted(copy.partition("#")[0] for copy in plan.keep) == ["o1", "o2", "o3"]
    assert set(plan.intact) == {"o1", "o2", "o3"}


def test_replica_falls_back_on_a_backup() -> None:
    """Where a peer of every copy sheds already the heaviest one sheds too, if a copy elsewhere drops nothing."""
    places = {"o1": "h1", "o2": "h1", "o1#2": "h2", "o3": "h2", "o1#3": "h3"}
    program, cluster, placement = replicated(0.25, places, 3)
    plan = replica_plan(program, cluster, placement, np.array([1.0]))
    assert set(plan.keep) == {"o1", "o1#2"}
    assert plan.intact["o1"] == "o1#3"
    assert all(load <= 1 + 1e-9 for load in plan.load.values())


@settings(max_examples=80)
@given(seed=st.integers(0, 10**6))
def test_replica_finds_what_can_stay_intact(seed: int) -> None:
    """The answer is no only where no choice of one copy of each operator fits hosts and links, all choices tried."""
    rng = np.random.default_rng(seed)
    places = {f"o{k}" + ("#2" if c else ""): f"h{h + 1}"
              for k in range(1, 6) for c, h in enumerate(rng.permutation(4)[:2].tolist())}  # fmt: skip
    capacity, bandwidth = float(rng.uniform(0.2, 0.6)), float(rng.choice([1.5, 2.5, np.inf]))
    program, cluster, placement = replicated(capacity, places, 4, bandwidth)
    work = {name: float(np.sum(operator.cost)) for name, operator in program.network.operators.items()}
    fitting = []
    for copies in itertools.product(("", "#2"), repeat=5):
        chosen = [places[f"o{k}{copy}"] for k, copy in enumerate(copies, 1)]
        load = Counter[str]()
        for host, needed in zip(chosen, work.values(), strict=True):
            load[host] += needed
        sent = Counter(pair for pair in itertools.pairwise(chosen) if pair[0] != pair[1])
        fitting.append(max(load.values()) <= capacity and max(sent.values(), default=0) <= bandwidth)
    try:
        plan = replica_plan(program, cluster, placement, np.array([1.0]))
    except Infeasible:
        assert not any(fitting)
        return
    assert any(fitting)
    assert max(plan.load.values()) <= 1 + 1e-9
    # Each copy sends on what it does, to each host with a copy of the next one, and not what is dropped there.
    kept = {copy: plan.keep.get(copy, 1.0) for copy in places}
    carried = Counter[tuple[str, str]]()
    for writer, reader in itertools.product(places, places):
        if int(writer[1]) + 1 == int(reader[1]) and places[writer] != places[reader]:
            carried[places[writer], places[reader]] += kept[writer] * kept[reader]
    assert max(carried.values(), default=0) <= bandwidth * (1 + 1e-9)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_replica_plans_keep_a_chain_intact(seed: int) -> None:
    """On random placements no host is overloaded, loads are those of the keep fractions, one copy of each is intact."""
    rng = np.random.default_rng(seed)
    places = {
        f"o{k}" + (f"#{c + 1}" if c else ""): f"h{h + 1}"
        for k in range(1, 4)
        for c, h in enumerate(rng.permutation(4)[: rng.integers(2, 4)].tolist())
    }
    program, cluster, placement = replicated(float(rng.uniform(0.15, 0.5)), places, 4)
    plan = None
    with contextlib.suppress(Infeasible):
        plan = replica_plan(program, cluster, placement, np.array([1.0]))
    assume(plan)
    assert plan is not None
    load = dict.fromkeys(cluster.hosts, 0.0)
    for copy, host in places.items():
        name = copy.partition("#")[0]
        load[host] += plan.keep.get(copy, 1.0) * float(np.sum(program.network.operators[name].cost))
    for host, machine in cluster.hosts.items():
        assert load[host] == pytest.approx(plan.load[host] * machine.capacity)
        assert load[host] <= machine.usable * (1 + 1e-6)
    assert set(plan.intact) == {"o1", "o2", "o3"}
    assert not set(plan.intact.values()) & set(plan.keep)


def test_copies_that_share_a_link_shed_together() -> None:
    """Two copies that read the same tuples over a link both drop, since neither relieves it alone."""
    operators = [
        Operator(name=name, kind="map", inputs=(given,), cost=(0.001,))
        for name, given in (("o", "s"), ("a", "o"), ("b", "o"))
    ]
    sinks = [Sink(name=f"k{name}", input=name) for name in "ab"]
    network = Network.of("n", [Source(name="s")], operators, sinks)
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h1", "h2"): Link(bandwidth=7.0)})
    placement = Placement({"o": "h1", "a": "h1", "a#2": "h2", "b": "h2", "b#2": "h1"})
    program = build_program(network, cluster, placement)
    plan = replica_plan(program, cluster, placement, np.array([10.0]))
    passed = 10 * (1 - (1 - plan.keep["a#2"]) * (1 - plan.keep["b"]))
    assert passed == pytest.approx(7.0)
    assert plan.intact == {"o": "o", "a": "a", "b": "b#2"}


def test_replica_says_no() -> None:
    """Without a copy that may shed the answer is no."""
    program, cluster, placement = replicated(0.1, {"o1": "h1", "o2": "h2"}, 2)
    with pytest.raises(Infeasible, match="h1"):
        replica_plan(program, cluster, placement, np.array([1.0]))


def test_a_table_for_a_source_without_tuples_is_one_point():
    """A table of one source that is made up to a rate of 0 holds that rate alone."""
    source, operator = Source(name="s"), Operator(name="a", kind="map", inputs=("s",), cost=(0.01,))
    program = build_program(
        Network.of("n", [source], [operator], [Sink(name="z", input="a")]), Cluster.uniform(1), {"a": "h1"}
    )
    table = planned_table(Exact(program), np.zeros(1), 0.1)
    assert table["points"].tolist() == [[0.0]]
