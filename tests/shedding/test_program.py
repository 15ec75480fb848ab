from __future__ import annotations

import numpy as np
import pytest
from shedding_cases import figure_1, figure_7, optimum, random_program, two_hosts

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import Exact, Program, build_program, upper_bound
from penstock.shedding.baselines import input_only, random_drop
from penstock.shedding.optimum import Solver

AT_1 = np.array([1.0, 1.0])


def test_figure_1_optimum() -> None:
    """Table 1's plan 4 is the optimum: keep 1/5 and 2/5, both hosts full, score 3/5."""
    program = figure_1()
    kept = Exact(program).plan(AT_1)
    assert program.keep(AT_1, kept) == pytest.approx({"s0->a0": 1 / 5, "s1->a1": 2 / 5})
    assert program.score(kept) == pytest.approx(3 / 5, rel=1e-12)
    assert program.load(kept) == pytest.approx([1, 1])


def test_figure_1_duals() -> None:
    """Where both hosts are full the score is worth 2/5 of A's and 1/5 of B's capacity: the duals of Table 1."""
    table = Exact(figure_1()).table
    row = int(np.argmin(table.alpha + table.beta @ AT_1))
    assert table.alpha[row] == pytest.approx(2 / 5 + 1 / 5, rel=1e-6)


@pytest.mark.parametrize(
    ("rates", "loads", "delivered"),
    [((1 / 3, 1 / 3), (1, 4 / 3), None), ((1, 0), (1, 3), None), ((0, 1 / 2), (1, 1 / 2), 1 / 2)],
)
def test_table_1_loads(rates: tuple[float, float], loads: tuple[float, float], delivered: float | None) -> None:
    """The loads of plans 1, 2 and 3 of Table 1 are those that the paper prints."""
    program = figure_1()
    kept = program.flow(np.array(rates))
    assert program.load(kept) == pytest.approx(loads)
    if delivered is not None:
        assert program.feasible(kept)
        assert program.score(kept) == pytest.approx(delivered)


def test_table_1_baseline() -> None:
    """Dropping without coordination yields plan 1's score of 1/2, and so does the same share of every input."""
    program = figure_1()
    assert program.score(random_drop(program, AT_1)) == pytest.approx(1 / 2)
    assert program.score(input_only(program, AT_1)) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("rate", "score"), [(0.1, 0.2), (0.125, 0.25), (0.2, 0.28), (0.25, 0.30), (1 / 3, 1 / 3), (0.4, 1 / 3), (1, 1 / 3)]
)
def test_figure_7_scores(rate: float, score: float) -> None:
    """The optimum of figure 7 is that of the reference results at every listed rate."""
    program = figure_7()
    kept = Exact(program).plan(np.array([rate]))
    assert program.score(kept) == pytest.approx(score, rel=1e-9)
    assert program.feasible(kept)


def test_figure_7_drops() -> None:
    """At rate 0.2 figure 7 sheds 60 % of the bottom branch only; at 0.4 it drops the rest at the input."""
    program = figure_7()
    exact = Exact(program)
    assert program.keep(np.array([0.2]), exact.plan(np.array([0.2]))) == pytest.approx({"common->bottom": 0.4})
    keep = program.keep(np.array([0.4]), exact.plan(np.array([0.4])))
    assert keep == pytest.approx({"s->common": 5 / 6, "common->bottom": 0.0})
    assert program.score(input_only(program, np.array([0.2]))) == pytest.approx(0.25)


def test_equals_scipy() -> None:
    """The table's plan reaches scipy's optimum within 1e-9 on random networks with splits, unions and joins."""
    rng = np.random.default_rng(7)
    for number in range(60):
        program = random_program(rng, int(rng.integers(1, 9)), int(rng.integers(1, 5)), links=number % 3 == 0)
        exact = Exact(program)
        for _ in range(10):
            rates = rng.uniform(0, 3, len(program.sources)) * (rng.random(len(program.sources)) > 0.1)
            best = optimum(program, rates)
            kept = exact.plan(rates)
            assert program.feasible(kept)
            assert program.score(kept) == pytest.approx(best, rel=1e-9, abs=1e-12)
            assert exact.values(rates[None])[0] == pytest.approx(best, rel=1e-7, abs=1e-9)


@pytest.mark.slow
def test_equals_highs_at_ten_thousand_points() -> None:
    """The table answers 10,000 random points by itself, feasible and within 1e-9 of scipy's optimum."""
    rng = np.random.default_rng(11)
    points = 0
    while points < 10_000:
        program = random_program(rng, int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        exact = Exact(program)
        if not exact.table.complete:
            continue
        kept = np.zeros(program.arcs)
        for _ in range(200):
            rates = rng.uniform(0, 4, len(program.sources))
            assert exact.find(rates, kept) >= 0
            assert program.feasible(kept)
            assert program.score(kept) == pytest.approx(optimum(program, rates), rel=1e-9)
            points += 1


def test_equal_operators() -> None:
    """Operators that are equal in everything, where optima tie, are answered by the table too."""
    program = two_hosts((16, 8) * 4, (8, 16) * 4)
    exact = Exact(program)
    rng = np.random.default_rng(3)
    kept = np.zeros(program.arcs)
    for _ in range(200):
        rates = rng.uniform(0, 0.1, 8)
        assert exact.find(rates, kept) >= 0
        assert program.score(kept) == pytest.approx(optimum(program, rates), rel=1e-9)


def test_highs_equals_table() -> None:
    """The warm-started program gives the optimum of the table, whatever it solved before."""
    rng = np.random.default_rng(5)
    program = random_program(rng, 4, 3)
    exact, solver = Exact(program), Solver(program)
    for _ in range(50):
        rates = rng.uniform(0, 3, 4)
        kept = solver.solve(rates)
        assert program.feasible(kept)
        assert program.score(kept) == pytest.approx(program.score(exact.plan(rates)), rel=1e-6)


def test_incomplete_table_is_exact() -> None:
    """Where the dual vertices are too many to list, the linear program answers and nothing is lost."""
    from penstock.shedding.exact import dual_table

    program = two_hosts((1, 2, 3, 4), (4, 1, 2, 3))
    small = Exact(program, dual_table(program, most=4))
    assert not small.table.complete
    rates = np.array([1.0, 1.0, 1.0, 1.0])
    assert program.score(small.plan(rates)) == pytest.approx(optimum(program, rates), rel=1e-7)


def chain(hosts: list[Host], link: Link | None = None, weight: float = 1.0, **first: object) -> tuple[Network, Program]:
    """A chain of two operators of cost 0.5 and 0.25 on h1 and h2."""
    network = Network.of(
        "chain",
        [Source(name="s")],
        [
            Operator(name="a", kind="map", inputs=("s",), cost=(0.5,), **first),  # type: ignore[arg-type]
            Operator(name="b", kind="map", inputs=("a",), cost=(0.25,)),
        ],
        [Sink(name="t", input="b", weight=weight)],
    )
    cluster = Cluster.of(hosts, links={("h1", "h2"): link or Link()})
    return network, build_program(network, cluster, Placement({"a": "h1", "b": "h2"}))


def test_quota_and_weight() -> None:
    """Capacity counts as capacity · quota, and a sink's weight multiplies the score."""
    _, program = chain([Host(name="h1", capacity=2, quota=0.5), Host(name="h2")], weight=3.0)
    rates = np.array([4.0])
    kept = Exact(program).plan(rates)
    assert program.score(kept) == pytest.approx(2.0 * 3.0)
    assert program.load(kept) == pytest.approx([0.5, 0.5])


def test_bandwidth() -> None:
    """A link of limited bandwidth limits the score as a host does."""
    _, program = chain([Host(name="h1", capacity=9), Host(name="h2", capacity=9)], Link(bandwidth=1.5))
    rates = np.array([4.0])
    kept = Exact(program).plan(rates)
    assert program.score(kept) == pytest.approx(1.5)
    assert min(program.keep(rates, kept).values()) == pytest.approx(1.5 / 4)


def test_readers_share_a_crossing() -> None:
    """A tuple crosses a link once, however many operators read it there."""
    network = Network.of(
        "fan",
        [Source(name="s")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(0.01,))]
        + [Operator(name=name, kind="map", inputs=("a",), cost=(0.01,)) for name in ("b", "c")],
        [Sink(name="t", input="b"), Sink(name="u", input="c")],
    )
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h1", "h2"): Link(bandwidth=2)})
    program = build_program(network, cluster, Placement({"a": "h1", "b": "h2", "c": "h2"}))
    kept = Exact(program).plan(np.array([4.0]))
    assert program.score(kept) == pytest.approx(4.0)
    assert program.keep(np.array([4.0]), kept)


def test_keep_reproduces_the_plan() -> None:
    """Applying the keep fractions along the network gives the planned rates."""
    rng = np.random.default_rng(9)
    for _ in range(30):
        program = random_program(rng, 4, 3)
        rates = rng.uniform(0, 3, 4)
        kept = Exact(program).plan(rates)
        again = program.flow(rates, program.keep(rates, kept))
        assert program.feasible(again)
        assert program.score(again) == pytest.approx(program.score(kept), rel=1e-9)


def pairs(rng: np.random.Generator) -> tuple[Program, np.ndarray]:  # type: ignore[type-arg]
    """Two sources joined over a time window, and an operator behind the join on another host."""
    network = Network.of(
        "pairs",
        [Source(name="x"), Source(name="y")],
        [
            Operator(
                name="j",
                kind="join",
                inputs=("x", "y"),
                cost=tuple(rng.uniform(0.05, 0.3, 2)),
                selectivity=(0.5, 0.5),
                within=1.0,
            ),
            Operator(name="z", kind="map", inputs=("j",), cost=(float(rng.uniform(0.05, 0.5)),)),
        ],
        [Sink(name="t", input="z")],
    )
    program = build_program(network, Cluster.uniform(2), Placement({"j": "h1", "z": "h2"}))
    return program, rng.uniform(1, 10, 2)


def test_time_window_join() -> None:
    """With a time-window join the plan is feasible, as good as a fine search finds, and below the stated bound."""
    rng = np.random.default_rng(2)
    grid = np.linspace(0, 1, 101)
    first, second = (axis.ravel() for axis in np.meshgrid(grid, grid))
    for _ in range(60):
        program, rates = pairs(rng)
        kept = Exact(program).plan(rates)
        assert program.feasible(kept)
        a, b = program.network.operators["j"].cost  # type: ignore[misc]
        (c,) = program.network.operators["z"].cost  # type: ignore[misc]
        x, y = rates[0] * first, rates[1] * second
        fits = a * x + b * y <= 1 + 1e-12
        best = float(np.minimum((x * y)[fits], 1 / c).max())
        bound = upper_bound(program, rates)
        assert program.score(kept) >= 0.9999 * best
        assert bound >= program.score(kept) * (1 - 1e-8)
        assert bound >= best * (1 - 1e-8)


def test_bound_is_the_optimum_of_a_linear_network() -> None:
    """Where no join has a time window, the bound is the optimum."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        program = random_program(rng, 3, 3)
        rates = rng.uniform(0, 3, 3)
        assert upper_bound(program, rates) == pytest.approx(optimum(program, rates), rel=1e-9)


def copied(*hosts: str) -> Program:
    """Return one operator of cost 0.5 with a copy on each of these hosts."""
    network = Network.of(
        "one",
        [Source(name="s")],
        [Operator(name="a", kind="map", inputs=("s",), cost=(0.5,))],
        [Sink(name="t", input="a")],
    )
    placement = {"a" if k == 0 else f"a#{k + 1}": host for k, host in enumerate(hosts)}
    return build_program(network, Cluster.uniform(len(set(hosts))), Placement(placement))


def test_replicas_cost_on_every_host() -> None:
    """Each replica reads and pays for every tuple, while the score counts a result once."""
    program = copied("h1", "h2")
    kept = program.flow(np.array([1.0]))
    assert program.load(kept) == pytest.approx([0.5, 0.5])
    assert program.score(kept) == pytest.approx(1.0)


def test_a_crossing_divides_by_what_its_readers_keep() -> None:
    """Keep fractions of readers beyond a link are of what was put out, whatever the crossing itself let through."""
    network = Network.of(
        "fan",
        [Source(name="s", host="h1")],
        [Operator(name=name, kind="map", inputs=("s",), cost=(cost,)) for name, cost in (("b", 0.0), ("c", 1.0))],
        [Sink(name="t", input="b"), Sink(name="u", input="c", weight=0.0)],
    )
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h1", "h2"): Link(bandwidth=3)})
    program = build_program(network, cluster, Placement({"b": "h2", "c": "h2"}))
    assert program.resources == ("h1", "h2", "h1->h2")
    assert program.hosts == 2
    assert program.places == {"b": ("h2",), "c": ("h2",)}
    b, c = (int(program.arc[program.streams.index(name)]) for name in ("s->b", "s->c"))
    [crossing] = set(range(program.arcs)) - set(program.arc.tolist())
    kept = np.zeros(program.arcs)
    kept[crossing], kept[b], kept[c] = 3.0, 3.0, 1.0
    assert program.feasible(kept)
    for end in ("b->t", "c->u"):
        arc = int(program.arc[program.streams.index(end)])
        kept[arc] = program.offered(np.array([6.0]), kept)[arc]
    assert program.keep(np.array([6.0]), kept) == pytest.approx({"s->b": 0.5, "s->c": 1 / 6})
    assert program.keep(np.array([0.0]), np.zeros(program.arcs)) == {}


@pytest.mark.parametrize("seed", range(60))
def test_a_tuple_crosses_a_link_once_for_all_who_read_it_there(seed: int) -> None:
    """Readers with copies on some hosts get what the narrowest of their links lets through, whoever else is there.

    Three and more readers of which each two share another link cross as one: the narrowest link counts for all.
    """
    rng = np.random.default_rng(seed)
    names = [f"r{number}" for number in range(int(rng.integers(1, 7)))]
    network = Network.of(
        "copies",
        [Source(name="s", host="h0")],
        [Operator(name=name, kind="map", inputs=("s",), cost=(0.0,)) for name in names],
        [Sink(name=f"t-{name}", input=name, weight=float(rng.integers(1, 5))) for name in names],
    )
    hosts = [f"h{number}" for number in range(4)]
    width = {host: float(rng.integers(1, 8)) for host in hosts[1:]}
    if seed % 2 and len(names) > 2:
        width = dict.fromkeys(width, 3.0)
    cluster = Cluster.of(
        [Host(name=host) for host in hosts],
        links={("h0", host): Link(bandwidth=bandwidth) for host, bandwidth in width.items()},
    )
    placed = {name: rng.permutation(hosts)[: int(rng.integers(1, 4))].tolist() for name in names}
    copies = {f"{name}#{k + 1}" if k else name: host for name, row in placed.items() for k, host in enumerate(row)}
    program = build_program(network, cluster, Placement(copies))
    kept = Exact(program).plan(np.array([5.0]))
    score = program.score(kept)
    for host, bandwidth in width.items():
        for name in names:
            if host in placed[name]:
                assert kept[program.arc[program.streams.index(f"s->{name}")]] <= bandwidth + 1e-9
    best = {name: min([5.0, *(width[host] for host in row if host != "h0")]) for name, row in placed.items()}
    wanted = sum(network.sinks[f"t-{name}"].weight * rate for name, rate in best.items())
    assert score <= wanted + 1e-9
    if len(names) < 3 or len({*width.values()}) == 1:
        assert score == pytest.approx(wanted)


def test_a_sink_may_be_beyond_a_link() -> None:
    """What goes to a sink on another host crosses the link, and a sink without a host is where its writer is."""
    operators = [Operator(name="a", kind="map", inputs=("s",), cost=(0.01,))]
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h1", "h2"): Link(bandwidth=2)})
    rates, placement = np.array([4.0]), Placement({"a": "h1"})
    for host, score in (("h2", 2.0), ("h1", 4.0), (None, 4.0)):
        network = Network.of("sink", [Source(name="s")], operators, [Sink(name="t", input="a", host=host)])
        program = build_program(network, cluster, placement)
        assert program.score(Exact(program).plan(rates)) == pytest.approx(score)


@pytest.mark.parametrize(
    ("join", "offered"),
    [
        ({"counts": (3, 5), "selectivity": (0.5, 0.25)}, 0.5 * 5 * 2 + 0.25 * 3 * 7),
        ({"counts": (3, 5)}, 5 * 2 + 3 * 7),
        ({"within": 4.0, "selectivity": (0.5, 0.25)}, (0.5 + 0.25) * 4 * 2 * 7),
        ({"within": 4.0}, 2 * 4 * 2 * 7),
    ],
)  # fmt: skip
def test_what_a_join_puts_out(join: dict[str, object], offered: float) -> None:
    """Counted windows pair each tuple with a window of the other input, windows of time give a product of rates."""
    network = Network.of(
        "join",
        [Source(name="x"), Source(name="y")],
        [Operator(name="j", kind="join", inputs=("x", "y"), cost=(0.0, 0.0), **join)],  # type: ignore[arg-type]
        [Sink(name="t", input="j")],
    )
    program = build_program(network, Cluster.uniform(1), Placement({"j": "h1"}))
    rates = np.array([2.0, 7.0])
    kept = program.flow(rates)
    assert kept[program.arc[program.streams.index("j->t")]] == pytest.approx(offered)
    assert program.offered(rates, kept) == pytest.approx(kept)


def test_inputs_of_a_union_add_up() -> None:
    """A source that reaches a union on two ways is paid for, and put out, on both."""
    network = Network.of(
        "self",
        [Source(name="s")],
        [
            Operator(name="a", kind="map", inputs=("s",), cost=(0.1,), selectivity=(0.5,)),
            Operator(name="u", kind="union", inputs=("s", "a"), cost=(0.2, 0.3)),
        ],
        [Sink(name="t", input="u")],
    )
    program = build_program(network, Cluster.uniform(1), Placement({"a": "h1", "u": "h1"}))
    kept = program.flow(np.array([2.0]))
    assert program.score(kept) == pytest.approx(2 + 1)
    assert program.load(kept) == pytest.approx([0.2 + 0.4 + 0.3])
    halved = program.flow(np.array([2.0]), {"s->a": 0.5})
    assert program.score(halved) == pytest.approx(2 + 0.5)
    assert program.keep(np.array([2.0]), halved) == pytest.approx({"s->a": 0.5})
    assert program.keep(np.array([2.0]), np.zeros(program.arcs)) == {"s->a": 0.0, "s->u": 0.0}


def test_routed_readers_divide_a_crossing() -> None:
    """Readers of a routed stream beyond one link share what crosses as the routes say."""
    network = Network.of(
        "routed",
        [Source(name="s")],
        [Operator(name="o", kind="map", inputs=("s",), cost=(0.0,), route={"a": 0.2, "b": 0.3, "c": 0.5})]
        + [Operator(name=name, kind="map", inputs=("o",), cost=(0.0,)) for name in ("a", "b", "c")],
        [Sink(name=f"t-{name}", input=name, weight=weight) for name, weight in (("a", 1), ("b", 10), ("c", 100))],
    )
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], links={("h1", "h2"): Link(bandwidth=4)})
    program = build_program(network, cluster, Placement({"o": "h1", "a": "h2", "b": "h2", "c": "h1"}))
    rates = np.array([10.0])
    kept = program.flow(rates)
    assert program.score(kept) == pytest.approx(2 + 30 + 500)
    assert not program.feasible(kept)
    assert program.feasible(program.flow(rates, {"s->o": 0.8}))
    assert not program.feasible(program.flow(rates, {"s->o": 0.81}))


@pytest.mark.parametrize("seed", range(30))
def test_each_routed_reader_crosses_with_tuples_of_its_own(seed: int) -> None:
    """The optimum behind a route fills each link with the tuples worth most, and drops the others before they cross."""
    rng = np.random.default_rng(seed)
    names = [f"r{number}" for number in range(int(rng.integers(2, 6)))]
    share = dict(zip(names, rng.dirichlet(np.ones(len(names))).tolist(), strict=True))
    weight = {name: float(rng.integers(1, 9)) for name in names}
    network = Network.of(
        "routed",
        [Source(name="s")],
        [Operator(name="o", kind="map", inputs=("s",), cost=(0.0,), route=share)]
        + [Operator(name=name, kind="map", inputs=("o",), cost=(0.0,)) for name in names],
        [Sink(name=f"t-{name}", input=name, weight=weight[name]) for name in names],
    )
    width = {"h2": float(rng.uniform(1, 50)), "h3": float(rng.uniform(1, 50))}
    cluster = Cluster.of(
        [Host(name=host) for host in ("h1", *width)],
        links={("h1", host): Link(bandwidth=b) for host, b in width.items()},
    )
    home = {name: str(rng.choice(["h1", "h2", "h3"])) for name in names}
    program = build_program(network, cluster, Placement({"o": "h1", **home}))
    best, room = 0.0, width | {"h1": np.inf}
    for name in sorted(names, key=lambda name: -weight[name]):
        passed = min(100 * share[name], room[home[name]])
        room[home[name]] -= passed
        best += weight[name] * passed
    rates = np.array([100.0])
    kept = Exact(program).plan(rates)
    assert program.score(kept) == pytest.approx(best)
    assert program.score(program.flow(rates, program.keep(rates, kept))) == pytest.approx(best)


def test_copies_on_one_host_are_paid_for_twice() -> None:
    """Each copy of an operator costs its host, also where both are on the same one."""
    program = copied("h1", "h1")
    assert program.load(program.flow(np.array([1.0]))) == pytest.approx([1.0])
    assert program.places == {"a": ("h1",)}


def test_programs_cannot_be_changed() -> None:
    """The arrays of a program are read only: tables are made for it."""
    program = figure_1()
    for array in (program.G, program.S, program.K, program.limit, program.weight, program.arc, program.capacity):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
