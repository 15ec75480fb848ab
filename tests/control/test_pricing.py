"""What courses cost: a drop for as long as it is needed, what is late, and what is left waiting."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import APART, simulated, stepped, two_queries
from hypothesis import given, settings
from hypothesis import strategies as st
from steered import steered
from test_situation import moment

from penstock.control.flow import Flow
from penstock.control.goals import Goals, Prices
from penstock.control.knowledge import Knowledge
from penstock.control.policies.pricing import _beyond, _Course, price
from penstock.control.policies.shed import Shed
from penstock.control.situation import Situation
from penstock.network import Network, Operator, Sink, Source
from penstock.steering import Plan, UnitSeen

HERE = {"dear": "h1", "plain": "h1"}


def worth() -> Network:
    """Return two queries on one host, of which one is worth ten times the other."""
    return Network.of(
        "worth",
        [Source(name="s1"), Source(name="s2")],
        [
            Operator(name=name, kind="map", inputs=(given,), cost=(0.005,), selectivity=(1.0,))
            for name, given in (("dear", "s1"), ("plain", "s2"))
        ],
        [Sink(name="t1", input="dear", weight=10.0), Sink(name="t2", input="plain", weight=1.0)],
    )


def cost(policy, goals, rates):
    """Return what a run costs: what was lost and what was late, in the currency of the prices."""
    network, late = worth(), []
    weight = np.array([sink.weight for sink in network.sinks.values()])

    def trace(rows):
        late.append(float(weight[rows["sink"][rows["egress"] - rows["stimulus"] > goals.bound]].sum()))

    engine = simulated(network, HERE, rates, 1, trace=trace)
    steered(engine, policy, int(rates.duration), goals=goals)
    streams = engine.report()["streams"]
    lost = 10 * streams["s1->dear"]["dropped"] + streams["s2->plain"]["dropped"]
    return goals.prices.value * lost + goals.prices.late * sum(late)


@pytest.mark.parametrize("long", [30, 90])
@pytest.mark.parametrize("late", [5e-5, 1e-3, 1e-7])
def test_without_spare_hosts_it_costs_no_more_than_to_shed_or_to_wait(late, long):
    """Whatever lateness costs, and however long too much comes, it is as cheap as the better of the two."""
    goals, rates = Goals(prices=Prices(late=late)), stepped((20, 60.0), (long, 150.0), (40, 20.0))
    least = min(cost(policy, goals, rates) for policy in ("shed", ""))
    assert cost("cheapest", goals, rates) <= 1.05 * least + 1e-3


def behind(rate: float, waiting: float) -> Situation:
    """Return a moment at which tuples come at a rate for long, and some wait."""
    network, known = worth(), Knowledge()
    engine = simulated(network, HERE, stepped((60, rate)), 1)
    for at in range(1, 40):
        engine.wait(float(at))
        seen = engine.observe()
        known = known.updated(seen, network)
    seen = attrs.evolve(seen, waiting=np.array([0.0, waiting]))
    return Situation(seen=seen, known=known, flow=Flow.of(network), goals=Goals(prices=Prices(hour=0.0)))


def test_a_drop_is_paid_for_as_long_as_it_drains():
    """What works a backlog off costs what is in it, and no more for a longer horizon."""
    now, keep = behind(80.0, 800.0), {"s2->plain": 0.0}
    # 4 s of work, of which 1.4 s may wait, at 0.6 s a second: 80 tuples/s are lost for 4.3 s.
    lost = 80 * (4 - Shed().high * 5) / 0.6
    assert price(now, Plan(keep=keep), Shed()) == pytest.approx(1e-4 * lost, rel=0.05)
    longer = attrs.evolve(now, goals=attrs.evolve(now.goals, horizon=120.0))
    assert price(longer, Plan(keep=keep), Shed()) == pytest.approx(1e-4 * lost, rel=0.05)


def test_what_is_left_waiting_is_paid_for():
    """Of two moments that are late all the horizon, the one with more left when it ends costs more."""
    little, much = (price(behind(95.0, 200 * wait), Plan(), Shed()) for wait in (8.0, 9.0))
    assert little < much
    # It costs no more than to drop what waits.
    assert much <= 1e-4 * 95 * 11 * 30 + 200 * 9.0 * 1e-4


@settings(max_examples=100, deadline=None)
@given(wait=st.floats(0, 20), slope=st.integers(-100, 300).map(lambda part: part / 100), seconds=st.floats(0, 40))
def test_time_beyond_the_bound_is_that_of_small_steps(wait, slope, seconds):
    """The closed form is what steps of a hundredth of a second count."""
    steps = np.linspace(0, seconds, max(2, int(100 * seconds)))
    counted = float((wait + slope * steps > 5.0).mean()) * seconds
    assert _beyond(np.array([wait]), np.array([slope]), seconds, 5.0)[0] == pytest.approx(counted, abs=0.05)


def test_unit_that_moves_is_paid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators of one query move together: they cost one move, and what passes them is late once."""
    now = attrs.evolve(moment(two_queries(), APART, stepped((20, 100.0))), goals=Goals(bound=1.0, pause=3.0))
    units = tuple(UnitSeen(name=f"u{q}", operators=(f"cheap{q}", f"dear{q}"), host=f"h{q}") for q in (1, 2))
    one = attrs.evolve(now, seen=attrs.evolve(now.seen, units=units))
    monkeypatch.setattr(_Course, "price", lambda *_: 0.0)
    assert now.moving(["dear1"]) == one.moving(["cheap1", "dear1"]) == 1
    alone = price(now, Plan(placement={"dear1": "h3"}), Shed())
    assert alone > price(now, Plan(), Shed())
    assert price(one, Plan(placement=one.together({"dear1": "h3"})), Shed()) == pytest.approx(alone)
    both = {"dear1": "h3", "dear2": "h3"}
    assert price(one, Plan(placement=one.together(both)), Shed()) == pytest.approx(
        price(now, Plan(placement=both), Shed())
    )
