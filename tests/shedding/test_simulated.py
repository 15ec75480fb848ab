"""Plan tables at work in the simulator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from shedding_cases import random_placed

from penstock.cluster import Cluster, Placement
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import Exact, LookUp, Question, build_program, build_table
from penstock.simulation import Arrivals, Failure, Options, Recording, Shed, simulate
from penstock.simulation.state import ARRIVAL, COMPLETE
from penstock.workload import Rates

PERIOD, SETTLED, PERIODS = 2000.0, 20, 80


def steady(network: Network, cluster: Cluster, placement: Placement, rates: Any, shed: Shed) -> tuple[Any, Any]:
    """Return load of each host over its quota, and the delivered score, once what the first period left is served."""

    def run(periods: int) -> Any:
        given = Rates.constant(rates, PERIOD * periods, PERIOD)
        return simulate(network, cluster, placement, given, Options(shed=shed)).streams

    early, late = run(SETTLED), run(PERIODS)
    span = PERIOD * (PERIODS - SETTLED)
    load = dict.fromkeys(cluster.hosts, 0.0)
    score = 0.0
    for stream in network.streams:
        first, last = early[stream.name], late[stream.name]
        if stream.reader in network.sinks:
            score += (last["delivered"] - first["delivered"]) / span * network.sinks[stream.reader].weight
            continue
        operator = network.operators[stream.reader]
        kept = (last["arrived"] - last["dropped"] - first["arrived"] + first["dropped"]) / span
        price = operator.cost[operator.inputs.index(stream.writer)]  # type: ignore[index]
        load[placement[stream.reader]] += kept * price
    return {name: used / cluster.hosts[name].usable for name, used in load.items()}, score


@pytest.mark.parametrize("seed", range(12))
def test_steady_overload(seed: int) -> None:
    """Under a plan no host exceeds its quota by 1 %, the score is as predicted, and above random drops where it can."""
    rng = np.random.default_rng(seed)
    network, cluster, placement = random_placed(rng, int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    program = build_program(network, cluster, placement)
    full = program.K @ program.flow(np.ones(len(program.sources))) / program.limit
    # Twice to four times what the busiest host can take.
    rates = np.full(len(program.sources), float(rng.uniform(2, 4)) / full.max())
    named = dict(zip(program.sources, rates.tolist(), strict=True))
    question = Question(Exact(program), 1.1 * rates, 0.05)
    scores, predicted = {}, {}
    for planner in ("exact", "random-drop"):
        table = build_table(planner, question)
        load, scores[planner] = steady(network, cluster, placement, named, Shed(table=table, period=PERIOD))
        predicted[planner] = program.score(LookUp(program, table).plan(rates))
        assert max(load.values()) <= 1.01
        assert scores[planner] == pytest.approx(predicted[planner], rel=0.01)
    if predicted["exact"] > 1.02 * predicted["random-drop"]:
        assert scores["exact"] > scores["random-drop"]


def line(**extra: Any) -> tuple[Network, Cluster, Placement]:
    """A source, an operator of 10 ms, and a sink."""
    network = Network.of(
        "line",
        [Source(name="s")],
        [Operator(name="a", **{"kind": "map", "inputs": ("s",), "cost": (0.01,), **extra})],
        [Sink(name="t", input="a")],
    )
    return network, Cluster.uniform(1), Placement({"a": "h1"})


def table_of(case: tuple[Network, Cluster, Placement], upto: float, planner: str = "exact") -> Any:
    program = build_program(*case)
    return build_table(planner, Question(Exact(program), np.full(len(program.sources), upto), 0.05))


def test_keep_follows_the_rates() -> None:
    """Keep fractions follow the rates of the period before: a burst is thinned after one period, and no longer."""
    case = line()
    rates = Rates.of(10.0, {"s": [50.0, 400.0, 400.0, 50.0, 50.0]})
    result = simulate(*case, rates, Options(shed=Shed(table=table_of(case, 500.0), period=5.0)))
    assert result.shed is not None
    assert [look.at for look in result.shed] == [5.0 * k for k in range(1, 11)]
    assert [look.rates["s"] for look in result.shed] == [50, 50, 400, 400, 400, 400, 50, 50, 50, 50]
    kept = [look.keep.get("s->a", 1.0) for look in result.shed]
    assert kept == pytest.approx([1, 1, 0.25, 0.25, 0.25, 0.25, 1, 1, 1, 1])
    dropped = result.streams["s->a"]["dropped"]
    # 15 s at 400/s and 5 s at 50/s are thinned.
    assert dropped == pytest.approx(0.75 * (15 * 400 + 5 * 50), rel=0.03)
    assert result.balanced


def test_latency_comes_back() -> None:
    """A burst that would queue for minutes without a plan is worked off with one while it lasts."""
    case = line()
    rates = Rates.of(10.0, {"s": [50.0, *[300.0] * 12, 50.0]})
    plain = simulate(*case, rates, Options(drain=True)).latency
    shed = Shed(table=table_of(case, 300.0), period=1.0)
    planned = simulate(*case, rates, Options(drain=True, shed=shed))
    assert plain["max"] > 200
    assert planned.latency["max"] < 10


@pytest.mark.parametrize("planner", ["exact", "c-fit", "solver", "input-only"])
def test_beyond_the_region(planner: str) -> None:
    """Rates beyond the table's region are served as at its border, and said."""
    case = line()
    times = np.arange(0, 20, 1 / 400)
    shed = Shed(table=table_of(case, 200.0, planner), period=1.0)
    result = simulate(*case, Arrivals.of(times, "s"), Options(shed=shed))
    assert result.document()["plan"]["outside"] == 19
    assert result.hosts["h1"] <= 1
    kept = result.streams["s->a"]["arrived"] - result.streams["s->a"]["dropped"]
    assert kept <= 400 + 1.05 * 100 * 19
    with pytest.raises(InputError, match="up to 200, got 400"):
        simulate(*case, Rates.constant({"s": 400}, 5), Options(shed=shed))


def test_windows_drop_whole_while_fractions_change() -> None:
    """In front of an aggregate a window is kept or dropped whole, though the keep fraction changes within it."""
    network, cluster, placement = line(kind="aggregate", window=0.7, selectivity=(0.1,))
    rates = Rates.of(1.0, {"s": np.tile([50.0, 400.0, 200.0, 300.0], 40)})
    shed = Shed(table=table_of((network, cluster, placement), 500.0), period=0.5)
    idle = Cluster.of([*Cluster.uniform(1, 1e3).hosts.values()])
    result = simulate(
        network, cluster, placement, rates, Options(shed=shed, drain=True), record=Recording(trace=True, log=True)
    )
    assert result.streams["s->a"]["dropped"] > 1000
    counts: dict[int, set[bool]] = {}
    true = simulate(network, idle, placement, rates, Options(drain=True), record=Recording(log=True))
    entered = {e["identity"]: e["time"] for e in true.log if e["kind"] == ARRIVAL}  # type: ignore[union-attr]
    served = {e["identity"] for e in result.log if e["kind"] == COMPLETE}  # type: ignore[union-attr]
    for identity, time in entered.items():
        counts.setdefault(math.floor(time / 0.7), set()).add(identity in served)
    assert all(len(fates) == 1 for fates in counts.values())
    assert {True} in counts.values()
    assert {False} in counts.values()


def test_same_with_failure_and_seed() -> None:
    """A plan and a failing host go together: everything stays counted, and the same seed gives the same document."""
    network = Network.of(
        "two",
        [Source(name="s", arrivals="poisson")],
        [Operator(name=n, kind="map", inputs=(given,), cost=(0.01,)) for n, given in (("a", "s"), ("b", "a"))],
        [Sink(name="t", input="b")],
    )
    case = (network, Cluster.uniform(2), Placement({"a": "h1", "b": "h2"}))
    options = Options(shed=Shed(table=table_of(case, 300.0)), failures=(Failure("h2", 7.5),), duration=20.0, seed=3)
    results = [simulate(*case, Rates.constant({"s": 200}, 20), options) for _ in range(2)]
    assert results[0].balanced
    assert results[0].totals["dropped"] > 0
    assert results[0].totals["lost"] > 0
    assert results[0].document() == results[1].document()


def test_bad_plans() -> None:
    """A table of another network, fractions beside a table, and a period of 0 are refused."""
    case, other = line(), line(cost=(0.02,))
    table, rates = table_of(other, 100.0), Rates.constant({"s": 10}, 5)
    with pytest.raises(InputError, match="another network"):
        simulate(*case, rates, Options(shed=Shed(table=table)))
    with pytest.raises(InputError, match="got both"):
        simulate(*other, rates, Options(shed=Shed(table=table), keep={"s->a": 0.5}))
    with pytest.raises(InputError, match="period > 0"):
        Shed(table=table, period=0.0)


def test_a_copy_has_a_fraction_of_its_own() -> None:
    """A stream's fraction holds for all copies of its reader, but for those that have one of their own."""
    network, cluster, _ = line()
    placement = Placement({"a": "h1", "a#2": "h2", "a#3": "h3"})
    keep = {"s->a": 0.25, "s->a#2": 1.0, "s->a#3": 0.5}
    given = (network, Cluster.uniform(3), placement, Rates.constant({"s": 50}, 100))
    result = simulate(*given, Options(keep=keep, drain=True))
    served = {name: row["served"] for name, row in result.operators.items()}
    assert served == {"a": pytest.approx(1250, rel=0.1), "a#2": 5000, "a#3": pytest.approx(2500, rel=0.1)}
    assert result.latency["count"] == 5000
    assert result.balanced
    with pytest.raises(InputError, match="no stream"):
        simulate(*given, Options(keep={"s->a#4": 0.5}))
    assert cluster.hosts


def test_aggregates_are_shed_by_windows() -> None:
    """An overloaded aggregate is thinned by whole windows to its quota, and delivers the planned score."""
    case = line(kind="aggregate", window=1.0, selectivity=(0.1,), cost=(0.05,))
    table = table_of(case, 60.0)
    program = build_program(*case)
    span, rate = 40_000.0, 50.0
    result = simulate(*case, Rates.constant({"s": rate}, span, span), Options(shed=Shed(table=table, period=10.0)))
    kept = result.streams["s->a"]["arrived"] - result.streams["s->a"]["dropped"]
    predicted = program.score(LookUp(program, table).plan(np.array([rate])))
    # 40,000 windows of 50 tuples, of which 0.4 are kept: one standard deviation is 0.6 %.
    assert kept * 0.05 / span == pytest.approx(1.0, rel=0.02)
    assert result.streams["a->t"]["delivered"] / span == pytest.approx(predicted, rel=0.02)
