"""d-fit: tables that each host makes and follows alone."""

from __future__ import annotations

import json
from itertools import pairwise

import attrs
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from shedding_cases import figure_1, figure_7, optimum, random_tree, two_hosts

from penstock.cluster import Cluster, Host, Placement
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import (
    Exact,
    HostTable,
    LookUp,
    Program,
    Question,
    Tables,
    build_program,
    build_table,
    make_tables,
    messages,
)
from penstock.shedding.grid import TooLarge
from penstock.shedding.hosts import host_parts
from penstock.shedding.local import drop_order, local_plan
from penstock.shedding.program import Matrix


def rates_of(rng: np.random.Generator, upto: Matrix, count: int) -> Matrix:
    """Rates of the region: some 0, some small, some at its border."""
    points = rng.uniform(0, 1, (count, len(upto)))
    points[rng.random(points.shape) < 0.1] = 0.0
    points[rng.random(points.shape) < 0.1] *= 0.05
    points[rng.random(points.shape) < 0.05] = 1.0
    return points * upto


def alone(program: Program, tables: dict[str, HostTable], rates: Matrix) -> tuple[dict[str, float], Matrix]:
    """Return the keep fractions of hosts that see nothing but what arrives at them, and the kept rates."""
    source = dict(zip(program.sources, rates.tolist(), strict=True))
    keep: dict[str, float] = {}
    for table in tables.values():
        # What has arrived: the streams as thinned by the hosts above.
        kept = program.flow(rates, keep)
        flow = dict(zip(program.streams, kept[program.arc].tolist(), strict=True))
        here = {}
        for name in table.inputs:
            writer, _, host = name.partition("@")
            if writer in source:
                here[name] = source[writer]
            else:
                inputs = program.network.operators[writer].inputs
                out = sum(
                    flow[f"{given}->{writer}"] * factor
                    for given, factor in zip(inputs, factors(program.network.operators[writer]), strict=True)
                )
                door = [s for s in program.streams if s.startswith(f"{writer}->") and place_of(program, s) == host]
                here[name] = out * min(keep.get(stream, 1.0) for stream in door)
        for stream, share in table.decide(here).items():
            keep[stream] = keep.get(stream, 1.0) * share
    return keep, program.flow(rates, keep)


def factors(operator: Operator) -> list[float]:
    """Output per input tuple."""
    selectivity = list(operator.selectivity or (1.0,) * len(operator.inputs))
    if operator.kind == "join" and operator.counts:
        return [selectivity[0] * operator.counts[1], selectivity[1] * operator.counts[0]]
    return selectivity


def place_of(program: Program, stream: str) -> str | None:
    places = program.places.get(stream.partition("->")[2])
    return places[0] if places else None


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    roots=st.integers(1, 3),
    late=st.sampled_from([0.0, 0.3]),
    merges=st.sampled_from([0.0, 0.1]),
    error=st.sampled_from([0.25, 0.35]),
)
def test_random_trees(seed: int, roots: int, late: float, merges: float, error: float) -> None:
    """On any tree no host is overloaded and the score is within the error of the optimum, with c-fit's promise."""
    rng = np.random.default_rng(seed)
    program = build_program(*random_tree(rng, roots=roots, late=late, merges=merges))
    upto = np.full(len(program.sources), 3.0)
    exact = Exact(program)
    try:
        table = build_table("d-fit", Question(exact, upto, error))
    except TooLarge:
        reject()
    look_up = LookUp(program, table)
    for rates in rates_of(rng, upto, 25):
        kept = look_up.plan(rates)
        best = exact.values(rates[None])[0]
        assert program.feasible(kept)
        assert np.all(kept <= program.offered(rates, kept) * (1 + 1e-9) + 1e-12)
        assert program.score(kept) <= best * (1 + 1e-7) + 1e-12
        if not program.feasible(program.flow(rates)):
            assert program.score(kept) >= (1 - error) * best * (1 - 1e-8)
        else:
            assert program.keep(rates, kept) == {}


@pytest.mark.parametrize("seed", [2, 3, 14, pytest.param(24, marks=pytest.mark.slow), 33])
def test_hosts_decide_alone(seed: int) -> None:
    """Hosts that see only their own input rates thin the streams as the whole look-up says."""
    rng = np.random.default_rng(seed)
    program = build_program(*random_tree(rng, roots=2, late=0.2, merges=0.0))
    upto = np.full(len(program.sources), 3.0)
    question = Question(Exact(program), upto, 0.3)
    tables, look_up = make_tables(program, upto, 0.3), LookUp(program, build_table("d-fit", question))
    for rates in rates_of(rng, upto, 25):
        keep, kept = alone(program, dict(tables.hosts), rates)
        assert program.feasible(kept)
        whole = look_up.plan(rates)
        assert program.score(kept) == pytest.approx(program.score(whole), rel=1e-6, abs=1e-12)
        assert all(0 <= share <= 1 for share in keep.values())


def test_host_tables_as_json() -> None:
    """A host's table written as JSON and read again is the same, with the same id, and decides the same."""
    program = figure_7()
    [table] = make_tables(program, np.array([1.0]), 0.05).hosts.values()
    again = HostTable.of(json.loads(json.dumps(table.document())))
    assert again.version == table.version
    assert again.decide({"s@h1": 0.2}) == table.decide({"s@h1": 0.2})
    assert table.decide({"s@h1": 0.1}) == {}
    document = table.document()
    for key, value, said in [
        ("version", 9, "expected version 1"),
        ("format", "x", "expected a host's table"),
        ("host", "h9", "not that of its id"),
        ("arrays", {}, "damaged"),
    ]:
        with pytest.raises(InputError, match=said):
            HostTable.of(document | {key: value})
    with pytest.raises(InputError, match="needs the rate of s@h1"):
        table.decide({})


def test_figure_7_local_plan() -> None:
    """Figure 7 at rate 0.2: 60 % of the bottom branch is dropped, nothing of the input, which is cut above 1/3."""
    [part] = host_parts(figure_7()).values()
    order = drop_order(part, part.weight)
    assert [part.streams[arc] for arc in order.arcs] == ["common->bottom", "s->common"]
    assert order.ratio == pytest.approx([1 / 5, 1 / 3])
    kept = dict(zip(part.streams, local_plan(part, order, np.array([0.2])).tolist(), strict=True))
    assert kept["common->bottom"] == pytest.approx(0.4 * 0.2)
    assert kept["s->common"] == pytest.approx(0.2)
    kept = dict(zip(part.streams, local_plan(part, order, np.array([0.4])).tolist(), strict=True))
    assert (kept["s->common"], kept["common->bottom"]) == pytest.approx((1 / 3, 0))


@pytest.mark.parametrize("seed", range(8))
def test_greedy_is_optimal_on_one_host(seed: int) -> None:
    """On one host the greedy local plan is the optimum of the linear program, and the compiled one is the plain one."""
    from penstock.shedding import fit_kernel

    rng = np.random.default_rng(seed)
    program = build_program(*random_tree(rng, depth=1, merges=0.3))
    [part] = host_parts(program).values()
    order = drop_order(part, part.weight)
    points = rng.uniform(0, 3, (30, len(part.inputs)))
    kept, whole = np.zeros((30, len(part.arcs))), np.zeros(30, bool)
    fit_kernel.local_plans(fit_kernel.Arcs(part.S, part.G, part.cost, order.arcs, order.load), points, kept, whole)
    names = [name.partition("@")[0] for name in part.inputs]
    for point, fast in zip(points, kept, strict=True):
        plain = local_plan(part, order, point)
        assert fast == pytest.approx(plain, abs=1e-9)
        rates = np.array([dict(zip(names, point.tolist(), strict=True))[name] for name in program.sources])
        assert part.weight @ plain == pytest.approx(optimum(program, rates), rel=1e-7, abs=1e-9)


def test_undominated_equals_brute_force() -> None:
    """The compiled pruning keeps exactly the rows that no other beats, for any number of prices."""
    from penstock.shedding.merge import undominated

    rng = np.random.default_rng(4)
    for dims in (0, 1, 2, 3, 4):
        for _ in range(20):
            price, score = rng.integers(0, 4, (30, dims)).astype(float), rng.integers(0, 6, 30).astype(float)
            kept = undominated(price, score)
            assert kept is not None
            for row in range(30):
                covered = any((price[k] <= price[row]).all() and score[k] >= score[row] for k in kept)
                assert covered
            for a in kept:
                assert not any((price[b] <= price[a]).all() and score[b] >= score[a] for b in kept if b != a)


def test_best_pairs_equals_listing() -> None:
    """Of too many pairs of rows the compiled loop keeps the best of each cell, as listing all of them does."""
    from penstock.shedding import merge

    rng = np.random.default_rng(6)

    def table(names: tuple[str, ...], rows: int) -> merge.Partial:
        made = merge.table_of(names, rng.uniform(0.01, 1, (rows, len(names))), rng.uniform(0, 1, rows),
                              np.zeros(len(names)), 1, 2)  # fmt: skip
        return attrs.evolve(made, load=rng.uniform(0, 0.7, rows))

    one, other = table(("a", "b"), 60), table(("b", "c"), 50)
    left, right = merge._best_pairs(one, other, [1], [(1, 0)], 0.3)
    step, best = -np.log1p(-0.3) * merge.SIMILAR, {}
    for i in range(60):
        for j in range(50):
            load = one.load[i] + other.load[j]
            rates = (one.rates[i, 0], max(one.rates[i, 1], other.rates[j, 0]), other.rates[j, 1])
            if load <= 1:
                cell = tuple(np.floor(np.log([*rates, load]) / step).astype(int))
                best[cell] = max(best.get(cell, 0.0), one.score[i] + other.score[j])
    found = one.score[left] + other.score[right]
    assert sorted(found) == pytest.approx(sorted(best.values()))


def chain_tables(costs: tuple[float, float], selectivity: float = 1.0) -> tuple[Program, Matrix]:
    """Two chains, the first operators on h1 and the second on h2, of which one's selectivity can be set."""
    network = Network.of(
        "two",
        [Source(name="s0"), Source(name="s1")],
        [
            Operator(name="a0", kind="map", inputs=("s0",), cost=(0.048,)),
            Operator(name="a1", kind="map", inputs=("s1",), cost=(0.048,)),
            Operator(name="b0", kind="filter", inputs=("a0",), cost=(costs[0],), selectivity=(selectivity,)),
            Operator(name="b1", kind="map", inputs=("a1",), cost=(costs[1],)),
        ],
        [Sink(name="t0", input="b0"), Sink(name="t1", input="b1")],
    )
    places = Placement({"a0": "h1", "a1": "h1", "b0": "h2", "b1": "h2"})
    return build_program(network, Cluster.uniform(2), places), np.array([100.0, 100.0])


def checked(program: Program, tables: Tables, upto: Matrix, error: float) -> None:
    """Assert the promise of tables at random rates."""
    exact = Exact(program)
    for rates in rates_of(np.random.default_rng(1), upto, 200):
        _, kept = alone(program, dict(tables.hosts), rates)
        assert program.feasible(kept)
        assert program.score(kept) >= (1 - error) * exact.values(rates[None])[0] * (1 - 1e-8)


def test_unchanged_hosts_send_nothing() -> None:
    """Made again after no change, tables are the same and no host sends a byte."""
    program, upto = chain_tables((0.064, 0.032))
    first = make_tables(program, upto, 0.1)
    again = make_tables(program, upto, 0.1, first)
    assert set(again.sent.values()) == {0}
    assert [table.version for table in again.hosts.values()] == [table.version for table in first.hosts.values()]


def test_deltas_keep_the_promise() -> None:
    """After a change of cost a delta is sent where it is shorter, and shorter if more is allowed; the promise holds."""
    program, upto = chain_tables((0.064, 0.032))
    first = make_tables(program, upto, 0.05)
    moved, _ = chain_tables((0.060, 0.032))
    whole = make_tables(moved, upto, 0.05)
    sent = []
    for allowed in (0.0, 0.02, 0.05, 0.1):
        again = make_tables(moved, upto, 0.05, first, allowed)
        checked(moved, again, upto, 0.05 + allowed)
        sent.append(again.sent["h2"])
    assert all(a >= b for a, b in pairwise(sent))
    # The grid stays as it was, a little finer than a new one would be.
    assert sent[0] <= 1.05 * whole.sent["h2"]
    assert sent[-1] < whole.sent["h2"] / 2


def test_deltas_of_scores() -> None:
    """Where all scores change alike, the worth of a tuple is sent instead of the rows, and renews what is known."""
    before, upto = chain_tables((0.064, 0.032), 1.0)
    after, _ = chain_tables((0.064, 0.032), 0.9)
    first = make_tables(before, upto, 0.05)
    again = make_tables(after, upto, 0.05, first, 0.05)
    assert again.sent["h2"] < make_tables(after, upto, 0.05).sent["h2"] / 2
    known = again.known["h2"]
    assert known.score == pytest.approx(known.points @ np.array([0.9, 1.0]))
    checked(after, again, upto, 0.1)


def test_messages_survive_bytes() -> None:
    """Every message between hosts is the same after it was bytes; a row takes 8 bytes an input and 8 for its score."""
    tables = make_tables(two_hosts((0.064, 0.032), (0.032, 0.064)), np.array([100.0, 100.0]), 0.1)
    rows = tables.made["h2"].rows
    for message in (rows, tables.profiles["h2"], tables.limits["h2"]):
        data = messages.encoded(message)
        assert messages.encoded(messages.decoded(data)) == data
    fewer = attrs.evolve(rows, points=rows.points[:-1], score=rows.score[:-1])
    assert len(messages.encoded(rows)) - len(messages.encoded(fewer)) in (24, 25, 26)
    with pytest.raises(InputError, match="not a message"):
        messages.decoded(b"nonsense")
    delta = messages.difference(rows, rows, 0.0, tables.profiles["h2"].useful, np.ones(2))
    assert messages.changed(rows, delta).version == rows.version
    with pytest.raises(InputError, match="ask for the whole table"):
        messages.changed(fewer, delta)


def test_figure_1_rows() -> None:
    """B's table of figure 1 is on the grid of 1/3 and 1/2, leaves out what all hosts take, and overloads nobody."""
    tables = make_tables(figure_1(), np.array([2.0, 2.0]), 0.1)
    points = tables.made["h2"].rows.points
    assert points.max(axis=0) == pytest.approx([1 / 3, 1 / 2])
    assert (points @ np.array([3.0, 1.0]) <= 1 + 1e-9).all()
    up = points / (1 - 0.08)
    assert (
        (up @ np.array([3.0, 1.0]) > 1 - 1e-9) | (up @ np.array([1.0, 2.0]) > 1 - 1e-9) | (points == 0).any(axis=1)
    ).all()


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"a": "h1", "b": "h2", "c": "h1"}, "circle"),
        ({"a": "h1", "b": "h2", "c": "h3", "d": "h2"}, "reads from two hosts"),
        ({"a": "h1", "a#2": "h2", "b": "h2", "c": "h2"}, "replicas"),
    ],
)
def test_what_is_no_tree(places: dict[str, str], said: str) -> None:
    """Hosts that do not form trees are refused with the reason."""
    operators = [
        Operator(name="a", kind="map", inputs=("s",), cost=(0.1,)),
        Operator(name="b", kind="map", inputs=("a",), cost=(0.1,)),
        Operator(name="c", kind="map", inputs=("b",), cost=(0.1,)),
    ]
    if "d" in places:
        operators.append(Operator(name="d", kind="map", inputs=("c",), cost=(0.1,)))
    network = Network.of("x", [Source(name="s")], operators, [Sink(name="t", input=operators[-1].name)])
    cluster = Cluster.of(Host(name=name) for name in sorted(set(places.values())))
    program = build_program(network, cluster, Placement(places))
    if said == "reads from two hosts":
        operators[1] = attrs.evolve(operators[1], inputs=("s",))
        operators[2] = attrs.evolve(operators[2], kind="union", inputs=("a", "b"), cost=(0.1, 0.1))
        network = Network.of("x", [Source(name="s")], operators[:3], [Sink(name="t", input="c")])
        program = build_program(network, cluster, Placement({name: places[name] for name in "abc"}))
    with pytest.raises(InputError, match=said):
        make_tables(program, np.array([1.0]), 0.1)


@pytest.mark.parametrize("planner", ["c-fit", "d-fit"])
def test_too_many_inputs(planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many rows are refused with the smallest error that fits, and at that error the promise holds."""
    from penstock.shedding import grid

    monkeypatch.setattr(grid, "MOST_POINTS", 20_000)
    rng = np.random.default_rng(0)
    program = two_hosts(tuple(rng.uniform(0.002, 0.02, 4)), tuple(rng.uniform(0.002, 0.02, 4)))
    exact, upto = Exact(program), np.full(4, 300.0)
    with pytest.raises(TooLarge, match=r"--error 0\.\d+ is the smallest that fits") as refused:
        build_table(planner, Question(exact, upto, 0.1))
    error = float(str(refused.value).partition("--error ")[2].split()[0])
    look_up = LookUp(program, build_table(planner, Question(exact, upto, error)))
    for rates in rates_of(rng, upto, 100):
        kept = look_up.plan(rates)
        assert program.feasible(kept)
        assert program.score(kept) >= (1 - error) * exact.values(rates[None])[0] * (1 - 1e-8)


@pytest.mark.slow
def test_tables_that_fit_are_offered_where_streams_split() -> None:
    """Where hosts' tables are too large behind splits an error is named with which they are made."""
    operators = [
        Operator(name="buys", kind="filter", inputs=("s",), cost=(2e-5,), selectivity=(0.3,)),
        Operator(name="views", kind="filter", inputs=("s",), cost=(2e-5,), selectivity=(0.7,)),
        Operator(name="all", kind="union", inputs=("buys", "views"), cost=(1e-5, 1e-5)),
        Operator(name="counted", kind="map", inputs=("all",), cost=(3e-5,), selectivity=(0.01,)),
        Operator(name="slow", kind="map", inputs=("buys",), cost=(0.004,)),
    ]
    sinks = [Sink(name="t1", input="counted"), Sink(name="t2", input="slow", weight=3.0)]
    network = Network.of("shop", [Source(name="s")], operators, sinks)
    places = dict.fromkeys(network.operators, "h1") | {"counted": "h2"}
    program = build_program(network, Cluster.uniform(2), Placement(places))
    exact, upto = Exact(program), np.full(1, 3000.0)
    with pytest.raises(TooLarge, match=r"--error 0\.\d+ fits") as refused:
        build_table("d-fit", Question(exact, upto, 0.05))
    error = float(str(refused.value).partition("--error ")[2].split()[0])
    assert build_table("d-fit", Question(exact, upto, error)).entries < 1000


def test_the_papers_eight_inputs() -> None:
    """The paper's eight inputs are of two kinds: at 10 % its tables have few rows."""
    eight = two_hosts((0.016, 0.008) * 4, (0.016, 0.008) * 4)
    tables = make_tables(eight, np.full(8, 100.0), 0.1)
    assert all(len(table) < 200 for table in tables.hosts.values())
