"""Filters on either side of joins: which plans are legal, that all give the same rows, and which is chosen."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Placement
from penstock.latency.estimate import Estimate
from penstock.latency.mace import mace
from penstock.load import LoadModel, load_model
from penstock.network import Network, Operator, Sink, Source, chain
from penstock.sizing.compare import compared, ranked
from penstock.sizing.joins import below, rewritings
from penstock.workload import Rates

Row = dict[str, Any]
WITHIN = 3.0


def pairs(**more: Any) -> Network:
    """Two streams of trades, joined by time; a cheap condition of one side below, a costly one of the other behind."""
    join = Operator(
        name="pairs", kind="join", inputs=("left", "right"), cost=(2e-4, 2e-4), selectivity=(0.01, 0.01), within=WITHIN,
        on="left.key = right.key",
    )  # fmt: skip
    return Network.of(
        "trades",
        [Source(name="a", schema="key int, x int"), Source(name="b", schema="key int, y int, `at` timestamp")],
        [
            Operator(name="cheap", kind="filter", inputs=("a",), cost=(1e-5,), selectivity=(0.5,), where="x > 2"),
            Operator(name="left", kind="map", inputs=("cheap",), cost=(1e-5,), selectivity=(1.0,), select="*, 1 as p"),
            Operator(name="right", kind="delay", inputs=("b",), cost=(1e-5,), selectivity=(1.0,)),
            attrs.evolve(join, **more),
            Operator(name="costly", kind="filter", inputs=("pairs",), cost=(0.02,), selectivity=(0.3,), where="y < 4"),
            Operator(name="same", kind="filter", inputs=("costly",), cost=(1e-5,), selectivity=(0.5,),
                     where="left_key < 3"),
        ],
        [Sink(name="t", input="same")],
    )  # fmt: skip


def answer(network: Network, rows: dict[str, list[Row]]) -> Counter[tuple[tuple[str, Any], ...]]:
    """What the sinks get, worked out row by row."""
    known = {name: [dict(row) for row in given] for name, given in rows.items()}

    def passes(where: str, row: Row) -> bool:
        return bool(eval(where, {}, row))  # noqa: S307 - conditions of this file

    for operator in network.operators.values():
        if operator.kind == "join":
            left, right = operator.inputs
            found = []
            for one, other in itertools.product(known[left], known[right]):
                if one["key"] == other["key"] and abs(one["_t"] - other["_t"]) <= WITHIN:
                    pair = {(f"{left}_{k}" if k in other else k): v for k, v in one.items() if k != "_t"}
                    pair |= {(f"{right}_{k}" if k in one else k): v for k, v in other.items() if k != "_t"}
                    found.append(pair | {"_t": max(one["_t"], other["_t"])})
            known[operator.name] = found
        elif operator.kind == "filter":
            known[operator.name] = [row for row in known[operator.inputs[0]] if passes(operator.where or "True", row)]
        else:
            extra = {"p": 1} if operator.kind == "map" else {}
            known[operator.name] = [row | extra for row in known[operator.inputs[0]]]
    return Counter(tuple(sorted(row.items())) for sink in network.sinks.values() for row in known[sink.input])


def where_are(network: Network) -> tuple[str, ...]:
    """The operators in the order in which they are worked off, as writer>reader."""
    return tuple(sorted(f"{s.writer}>{s.reader}" for name in network.operators for s in network.outputs(name)))


def test_every_legal_side_is_tried_once() -> None:
    """The three filters are tried on either side of the join and in each order there, the given plan first."""
    found = list(rewritings(pairs()))
    plans = [where_are(made) for _, made in found]
    assert found[0][0] == ()
    assert plans[0] == where_are(pairs())
    assert len(set(plans)) == len(plans)
    behind = [frozenset(n for n in ("cheap", "costly", "same") if below_join(made, n)) for _, made in found]
    assert set(behind) == {
        frozenset(names) for k in range(4) for names in itertools.combinations(("cheap", "costly", "same"), k)
    }
    # The row behind the join can be permuted; below it the last operator keeps its name, the others are permuted.
    assert Counter(behind)[frozenset()] == 6
    assert Counter(behind)[frozenset(("costly",))] == 2


def below_join(network: Network, name: str) -> bool:
    """Whether an operator is before the join."""
    readers = network.outputs(name)
    reader = readers[0].reader
    return reader == "pairs" or (reader in network.operators and below_join(network, reader))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_all_plans_give_the_same_rows(seed: int) -> None:
    """Every plan gives the rows, with the names of their columns, and the output rate of the given one."""
    rng = np.random.default_rng(seed)

    def rows(name: str) -> list[Row]:
        return [
            {"key": int(rng.integers(4)), name: int(rng.integers(6)), "_t": float(rng.uniform(0, 10))}
            for _ in range(12)
        ]

    network, given_rows = pairs(), {"a": rows("x"), "b": rows("y")}
    wanted = answer(network, given_rows)
    rates = Rates.constant({"a": 40.0, "b": 30.0}, 3)
    rate = sink_rate(network, rates)
    for _, made in rewritings(network):
        assert answer(made, given_rows) == wanted
        assert sink_rate(made, rates) == pytest.approx(rate, rel=1e-9)


def sink_rate(network: Network, rates: Rates) -> float:
    """What reaches the sink, in tuples per second."""
    model = load_model(network, rates)
    [row] = [row for name, row in model.stream_index.items() if name.endswith("->t")]
    return float(model.arrivals[row].mean())


@pytest.mark.parametrize(
    "changes",
    [
        {"within": None, "counts": (5, 5)},
        {"select": "left.key as key, x, y"},
    ],
)
def test_joins_that_count_or_select_stay(changes: dict[str, Any]) -> None:
    """A filter before a join that counts tuples would change which are in its window; a selection renames columns."""
    network = pairs(**changes)
    assert all(below_join(made, "cheap") and not below_join(made, "costly") for _, made in rewritings(network))


def test_in_doubt_nothing_moves() -> None:
    """Not below with an unknown schema, with columns of both sides, or without a condition; nor under a join's name."""
    network = pairs()
    costly = network.operators["costly"]

    def changed(sources: Iterable[Source] | None = None, **more: Any) -> Network:
        operators = network.operators | {"costly": attrs.evolve(costly, **more)}
        return Network.of("n", sources or network.sources.values(), operators.values(), network.sinks.values())

    assert below(network, "costly") is not None
    assert below(changed([Source(name="a", schema="key int, x int"), Source(name="b")]), "costly") is None
    assert below(changed(where="y < x"), "costly") is None
    assert below(changed(where="f(y) < 4"), "costly") is None
    assert below(changed(where=None), "costly") is None
    assert below(changed(where="right_key < 4 and y = 1"), "costly") is not None


def test_the_best_join_plan_is_that_of_a_brute_force() -> None:
    """Compared by Mace, the best plan is the one with the least latency of all plans, and its costly filter behind."""
    network, cluster = pairs(), Cluster.uniform(1)
    rates = Rates.constant({"a": 60.0, "b": 60.0}, 10)

    def choose(made: Network) -> list[tuple[str, Placement]]:
        return [("one", Placement(dict.fromkeys(made.operators, "h1")))]

    def estimate(model: LoadModel, placement: Placement) -> Estimate:
        return mace(model, placement, cluster)

    best = ranked(compared([("n", network)], rates, choose, estimate, reorder=True))[0][0]
    worst = []
    for _, made in rewritings(network):
        [(_, placement)] = choose(made)
        worst.append(estimate(load_model(made, rates), placement).total.worst)
    assert best.estimate.total.worst == min(worst) < worst[0]


def test_texts_stay_where_columns_are_renamed() -> None:
    """A filter that goes below a join calls its columns by other names, and what is in quotes is no column."""
    network = pairs()
    costly = attrs.evolve(network.operators["costly"], where="right_key < 4 and y <> \"y's right_key\" and `y` > 'y'")
    made = below(Network.of("n", network.sources.values(), (network.operators | {"costly": costly}).values(),
                            network.sinks.values()), "costly")  # fmt: skip
    assert made is not None
    assert made[1].operators["costly"].where == "key < 4 and y <> \"y's right_key\" and `y` > 'y'"


def test_long_rows_of_filters() -> None:
    """A thousand filters in a row have an order, and a thousand delays let a filter pass below a join behind them."""
    base, row = pairs(), chain([1e-5] * 1000)
    assert next(rewritings(row)) == ((), row)
    long = [
        Operator(name=f"d{k}", kind="delay", inputs=(f"d{k - 1}" if k else "b",), cost=(1e-5,), selectivity=(1.0,))
        for k in range(1000)
    ]
    right = attrs.evolve(base.operators["right"], inputs=("d999",))
    network = base.having([*long, right, *(o for o in base.operators.values() if o.name != "right")])
    assert below(network, "costly") is not None
