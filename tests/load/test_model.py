"""The load model: exact by hand, linear where it should be, conserved everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster import Cluster, Placement
from penstock.errors import InputError
from penstock.load import correlation, correlation_matrix, expand_replicas, load_model
from penstock.network import Network, Operator, Sink, Source, chain, hybrid
from penstock.network.file import parse_network
from penstock.network.model import Growth
from penstock.workload import Rates


def network(operators: dict[str, object], sources: tuple[str, ...] = ("s", "r"), **sinks: str) -> Network:
    return parse_network(
        {
            "name": "n",
            "sources": {name: {} for name in sources},
            "operators": operators,
            "sinks": {name: {"input": given} for name, given in sinks.items()},
        }
    )


def test_union_and_split_by_hand() -> None:
    """A union adds its inputs, each at its own cost, and a split copies the stream whole."""
    graph = network(
        {
            "u": {"kind": "union", "inputs": ["s", "r"], "cost": [0.1, 0.2], "selectivity": [0.5, 1.0]},
            "a": {"kind": "filter", "input": "u", "cost": 1.0, "selectivity": 0.25},
            "b": {"kind": "map", "input": "u", "cost": 2.0},
        },
        t="a",
    )
    model = load_model(graph, Rates.of(1.0, {"s": [10, 20], "r": [1, 2]}))
    arrivals = dict(zip(model.stream_index, model.arrivals.tolist(), strict=True))
    assert arrivals == {"s->u": [10, 20], "r->u": [1, 2], "u->a": [6, 12], "u->b": [6, 12], "a->t": [1.5, 3]}
    assert model.load_of("u").tolist() == pytest.approx([1.2, 2.4])
    assert model.load_of("a").tolist() == [6, 12]
    assert model.load_of("b").tolist() == [12, 24]
    rows = dict(zip(graph.operators, model.coefficients.tolist(), strict=True))
    assert model.rates.sources == ("r", "s")
    assert rows["u"] == pytest.approx([0.2, 0.1])
    assert rows["b"] == pytest.approx([2.0, 1.0])


def test_count_window_join_by_hand() -> None:
    """A count-window join puts out selectivity · (w2·r1 + w1·r2)."""
    graph = network(
        {"j": {"kind": "join", "inputs": ["s", "r"], "window": [2, 5], "cost": 0.1, "selectivity": 0.1}}, t="j"
    )
    model = load_model(graph, Rates.of(1.0, {"s": [10], "r": [3]}))
    assert model.arrivals[model.stream_index["j->t"]].tolist() == pytest.approx([0.1 * (5 * 10 + 2 * 3)])
    assert model.load[0].tolist() == pytest.approx([1.3])


def test_time_window_join_by_hand() -> None:
    """A time-window join meets the rows of the last W seconds; its slope is that at the mean rates, held for long."""
    graph = network(
        {
            "j": {"kind": "join", "inputs": ["s", "r"], "within": 3, "cost": 0.1, "selectivity": 0.01},
            "m": {"kind": "map", "input": "j", "cost": 1.0},
        }
    )
    model = load_model(graph, Rates.of(1.0, {"s": [10, 30], "r": [5, 1]}))
    # In the mean over the second period the windows hold 5 of 6 parts of the rates before.
    later = 0.01 * 3 * (30 * (5 * 5 + 1) / 6 + 1 * (5 * 10 + 30) / 6)
    assert model.load_of("m").tolist() == pytest.approx([0.06 * 50, later])
    assert model.coefficients[model.operator_index["m"]].tolist() == pytest.approx([0.06 * 20, 0.06 * 3])


@pytest.mark.parametrize("seed", range(5))
def test_gains_make_the_output(seed: int) -> None:
    """What each input brings, times its gain, adds up to what an operator puts out."""
    rng = np.random.default_rng(seed)
    joins = [{"counts": (2, 3)}, {"within": 2.0}, {"within": 2.0, "growth": Growth(1.5, 7.0)}]
    operators = [
        Operator(name=f"j{k}", kind="join", inputs=("a", "b"), cost=(0.1, 0.2), selectivity=(0.3, 0.4), **keys)
        for k, keys in enumerate(joins)
    ]
    operators.append(Operator(name="u", kind="union", inputs=("j0", "b"), cost=(0.1, 0.2), selectivity=(0.0, 0.4)))
    network = Network.of("n", [Source(name="a"), Source(name="b")], operators,
                         [Sink(name=f"t{o.name}", input=o.name) for o in operators])  # fmt: skip
    model = load_model(network, Rates.of(1.0, {name: rng.integers(0, 9, 6) for name in "ab"}))
    for name in network.operators:
        made = (model.gain(name) * model.inflow(name)).sum(axis=0)
        assert made == pytest.approx(model.arrivals[model.stream_index[f"{name}->t{name}"]])


def test_growth_by_hand() -> None:
    """A join whose output follows rows instead of pairs, and a step that puts out as much whatever comes."""
    graph = network(
        {
            "j": {
                "kind": "join", "inputs": ["s", "r"], "within": 3, "cost": 0.1, "selectivity": 0.01,
                "growth": {"exponent": 1, "at": 10},
            },
            "p": {
                "kind": "python", "input": "j", "cost": 1.0, "selectivity": 0.5, "growth": {"exponent": 0, "at": 6},
            },
        },
        t="p",
    )  # fmt: skip
    model = load_model(graph, Rates.of(1.0, {"s": [10, 40, 0], "r": [10, 10, 10]}))
    # At the rate of 10 both give 0.01 · 2 · 3 · 10 · 10, and grow with the rate whose square the pairs grow with.
    squares = np.array([100.0, (40 * 10 + 10 * 15) / 2, 10 * (10 + 5 + 40) / 3 / 2])
    assert model.load_of("p").tolist() == pytest.approx((6 * np.sqrt(squares) / 10).tolist())
    assert model.arrivals[model.stream_index["p->t"]].tolist() == pytest.approx([3, 3, 3])


@given(st.floats(0, 3), st.floats(1, 100), st.sampled_from(["join", "aggregate"]), st.floats(1, 50), st.floats(1, 50))
def test_slopes_of_growth_are_derivatives(exponent: float, at: float, kind: str, one: float, two: float) -> None:
    """Coefficients about the mean rates are the derivatives of the load there."""
    table = {
        "join": {"kind": "join", "inputs": ["s", "r"], "within": 2},
        "aggregate": {"kind": "aggregate", "input": "s", "window": 5},
    }[kind]
    graph = network(
        {
            "g": {**table, "cost": 0.1, "selectivity": 0.02, "growth": {"exponent": exponent, "at": at}},
            "m": {"kind": "map", "input": "g", "cost": 1.0},
        }
    )

    def load(first: float, second: float) -> float:
        return float(load_model(graph, Rates.of(1.0, {"s": [first], "r": [second]})).load_of("m")[0])

    model = load_model(graph, Rates.of(1.0, {"s": [one], "r": [two]}))
    found = dict(zip(model.rates.sources, model.coefficients[model.operator_index["m"]], strict=True))
    step = 1e-5
    assert found["s"] == pytest.approx((load(one + step, two) - load(one - step, two)) / (2 * step), rel=1e-4, abs=1e-7)
    assert found["r"] == pytest.approx((load(one, two + step) - load(one, two - step)) / (2 * step), rel=1e-4, abs=1e-7)


def test_route_shares_by_hand() -> None:
    """A routed stream is divided by its shares."""
    graph = network(
        {
            "o": {"kind": "map", "input": "s", "cost": 0.0, "route": {"a": 0.25, "b": 0.75}},
            "a": {"kind": "map", "input": "o", "cost": 1.0},
            "b": {"kind": "map", "input": "o", "cost": 1.0},
        },
        sources=("s",),
    )
    model = load_model(graph, Rates.of(1.0, {"s": [8]}))
    assert [model.load_of(name).tolist() for name in "ab"] == [[2], [6]]


def test_host_load_and_link_traffic_by_hand() -> None:
    """Host load adds operators and replicas; a tuple crosses to a host once, however many operators there read it."""
    graph = network(
        {
            "o": {"kind": "map", "input": "s", "cost": 0.01},
            "a": {"kind": "map", "input": "o", "cost": 0.02},
            "b": {"kind": "map", "input": "o", "cost": 0.03},
        },
        sources=("s",),
    )
    model = load_model(graph, Rates.of(1.0, {"s": [10]}))
    cluster = Cluster.uniform(2)
    placement = Placement({"o": "h1", "a": "h2", "b": "h2", "b#2": "h1"})
    assert model.host_load(placement, cluster)[:, 0].tolist() == pytest.approx([0.4, 0.5])
    assert {pair: row.tolist() for pair, row in model.link_traffic(placement).items()} == {("h1", "h2"): [10]}


def test_drops_by_hand() -> None:
    """What a stream drops costs nothing behind it; a link carries what the reader that keeps more of it does."""
    graph = network(
        {
            "u": {"kind": "map", "input": "s", "cost": 0.1, "selectivity": 0.5},
            "a": {"kind": "map", "input": "u", "cost": 1.0},
            "b": {"kind": "map", "input": "u", "cost": 2.0},
        },
        ("s",),
        t="a",
    )
    model = load_model(graph, Rates.of(1.0, {"s": [10]}), {"s->u": 0.8, "u->a": 0.5, "u->b": 0.25, "u#2->a": 0.0})
    arrivals = dict(zip(model.stream_index, model.arrivals[:, 0].tolist(), strict=True))
    assert arrivals == pytest.approx({"s->u": 8, "u->a": 2, "u->b": 1, "a->t": 2})
    assert model.load[:, 0].tolist() == pytest.approx([0.8, 2, 2])
    assert model.coefficients[:, 0].tolist() == pytest.approx([0.08, 0.2, 0.2])
    traffic = model.link_traffic({"u": "h1", "a": "h2", "b": "h2"})
    assert {pair: row.tolist() for pair, row in traffic.items()} == {("h1", "h2"): [pytest.approx(2)]}


def test_link_traffic_of_ends_and_routes_by_hand() -> None:
    """Sources with a host use links and sinks do not, routed streams to one host add up, and so do several writers."""
    graph = parse_network(
        {
            "name": "n",
            "sources": {"s": {"host": "h1"}, "r": {}},
            "operators": {
                "o": {"kind": "map", "input": "s", "cost": 0.0, "route": {"a": 0.25, "b": 0.5, "c": 0.25}},
                "a": {"kind": "map", "input": "o", "cost": 1.0},
                "b": {"kind": "map", "input": "o", "cost": 1.0},
                "c": {"kind": "map", "input": "o", "cost": 1.0},
                "p": {"kind": "map", "input": "r", "cost": 1.0},
                "q": {"kind": "map", "input": "p", "cost": 1.0},
            },
            "sinks": {"t": {"input": "a", "host": "h3"}, "u": {"input": "b"}},
        }
    )
    model = load_model(graph, Rates.of(1.0, {"s": [8], "r": [3]}))
    placement = Placement({"o": "h2", "a": "h1", "b": "h1", "c": "h3", "p": "h2", "q": "h1"})
    traffic = model.link_traffic(placement)
    assert {pair: row.tolist() for pair, row in traffic.items()} == {
        ("h1", "h2"): [8],  # s to o
        ("h2", "h1"): [2 + 4 + 3],  # o to a and to b, which share nothing, and p to q
        ("h2", "h3"): [2],  # o to c
    }
    partly = Placement({name: host for name, host in placement.items() if name not in ("p", "q")})
    assert model.link_traffic(partly)["h2", "h1"].tolist() == [2 + 4]


@given(seed=st.integers(0, 10**6), operators=st.integers(1, 40), factor=st.floats(0.1, 10))
def test_linear_networks_are_linear(seed: int, operators: int, factor: float) -> None:
    """Without time-window joins load = coefficients · rates, exactly, for any rates."""
    rng = np.random.default_rng(seed)
    graph = hybrid(operators, 3, 0.6, rng)
    rates = Rates.of(1.0, {name: rng.uniform(0, 100, 7) for name in graph.sources})
    model = load_model(graph, rates)
    np.testing.assert_allclose(model.load, model.coefficients @ rates.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.arrivals, model.stream_coefficients @ rates.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(load_model(graph, rates.scaled(factor)).load, factor * model.load, rtol=1e-9)


def test_missing_costs_and_wrong_rates_are_refused() -> None:
    """A missing cost names the operator and the remedy; rates of a stranger are refused."""
    graph = network({"o": {"kind": "map", "input": "s"}}, sources=("s",))
    with pytest.raises(InputError, match=r"operators\.o\.cost: has no cost.*--statistics"):
        load_model(graph, Rates.constant({"s": 1}))
    with pytest.raises(InputError, match="'x' is no source"):
        load_model(chain([0.1]), Rates.constant({"s1": 1, "x": 1}))


def test_correlation_by_hand() -> None:
    """Correlations are those of the population; with an empty or constant series they are 0."""
    assert correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert correlation([1, 2, 3], [5, 5, 5]) == 0
    assert correlation([], []) == correlation([], [1, 2]) == correlation([1, 2], []) == 0
    assert correlation([0.1 + 0.2, 0.3], [1, 2]) == 0  # constant up to rounding


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 30))
def test_correlation_matrix_is_numpys(seed: int, rows: int, periods: int) -> None:
    """The matrix is symmetric, within -1..1, and equals numpy's and the pairs' where no row is constant."""
    series = np.random.default_rng(seed).uniform(0, 1, (rows, periods))
    matrix = correlation_matrix(series)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (np.abs(matrix) <= 1).all()
    if periods > 2:
        np.testing.assert_allclose(matrix, np.corrcoef(series).reshape(rows, rows), atol=1e-9)
        assert correlation(series[0], series[-1]) == pytest.approx(matrix[0, -1], abs=1e-12)


def test_rounding_takes_no_correlation_beyond_one() -> None:
    """A series correlates with its multiples by at most 1 and at least -1, however the sums are rounded."""
    for seed in range(200):
        series = np.random.default_rng(seed).uniform(0, 1, 50)
        assert 1 - 1e-12 <= correlation(series, 3 * series) <= 1
        assert -1 <= correlation(series, -7 * series) <= -1 + 1e-12


def test_replicas_are_named() -> None:
    """Copies of an operator are o, o#2, o#3 and so on."""
    assert expand_replicas(chain([0.1]), 3) == ("o1.1", "o1.1#2", "o1.1#3")


@pytest.mark.parametrize(
    ("rate", "cost", "selectivity", "at", "file"),
    [
        (1e80, 0.1, 1.0, "rates.s", None),
        (10.0, 1e308, 1.0, "operators.o.cost", "n.toml"),
        (10.0, 0.1, 1e308, "operators.o.selectivity", "n.toml"),
    ],
)
def test_numbers_beyond_all_bounds_are_refused(
    rate: float, cost: float, selectivity: float, at: str, file: str | None
) -> None:
    """What would overflow is refused with the name of the number that leads there, and with the file that has it."""
    operators = [
        Operator(name="o", kind="map", inputs=("s",), cost=(cost,), selectivity=(selectivity,)),
        Operator(name="p", kind="map", inputs=("o",), cost=(0.1,)),
    ]
    network = Network.of("n", [Source(name="s")], operators, [Sink(name="t", input="p")], "n.toml")
    with pytest.raises(InputError, match="too large") as caught:
        load_model(network, Rates.constant({"s": rate}, 2.0))
    assert (caught.value.file, caught.value.at) == (file, at)
