"""What puts out little: it keeps its worth while nothing comes, and loses it once enough was seen."""

from __future__ import annotations

import numpy as np
import pytest
from engines import simulated, stepped
from steered import steered

from penstock.control.rare import fading, likely
from penstock.network import Network, Operator, Sink, Source

HERE = {"fraud": "h1", "view": "h1"}


def watched(share: float | None, weight: float) -> Network:
    """Return a filter that passes few of the rows that a board shows as well."""
    steps = [
        Operator(name=name, kind="filter", where="true", inputs=("s",), cost=(0.005,), selectivity=given)
        for name, given in (("fraud", None if share is None else (share,)), ("view", (1.0,)))
    ]
    sinks = [Sink(name="alerts", input="fraud", weight=weight), Sink(name="board", input="view")]
    return Network.of("watched", [Source(name="s")], steps, sinks)


def learned(parts, given=0.001, enough=20.0):
    """Return the selectivity after looks: how many, and how many tuples each tried and put out."""
    sums, found = np.zeros((1, 2)), []
    for looks, tried, emitted in parts:
        for _ in range(looks):
            fresh = np.array([[tried, emitted]])
            sums = sums * fading(sums, fresh, 0.5**0.1, [False], enough)[:, None] + fresh
        found.append(float(likely(*sums.T, np.array([given]))[0]))
    return found


@pytest.mark.parametrize(("weight", "first", "last"), [(5000.0, "view", "fraud"), (100.0, "fraud", "view")])
def test_what_comes_seldom_is_dropped_only_where_it_is_worth_less(weight, first, last):
    """An overload drops what is worth less by what the network gives, though no alert has come until then."""
    engine = simulated(watched(0.001, weight), HERE, stepped((30, 150.0), sources=("s",)), 1)
    _, looks = steered(engine, "shed", 30)
    assert 0.2 < looks[-1].keep[f"s->{first}"] < 0.5
    assert f"s->{last}" not in looks[-1].keep


@pytest.mark.parametrize("share", [0.001, 0.0])
def test_a_query_of_which_nothing_comes_is_not_dropped_wholly(share):
    """Where half of a single query fits half is kept, although it has put nothing out yet."""
    step = Operator(name="fraud", kind="filter", where="true", inputs=("s",), cost=(0.01,), selectivity=(share,))
    network = Network.of("alerts", [Source(name="s")], [step], [Sink(name="t", input="fraud")])
    _, looks = steered(simulated(network, {"fraud": "h1"}, stepped((30, 200.0), sources=("s",)), 1), "shed", 30)
    assert looks[-1].keep["s->fraud"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("given", [0.001, 0.0, 1.0])
def test_what_is_seen_often_counts_alone(given):
    """However wrong the given selectivity was, it counts for nothing once twenty outputs were seen."""
    assert learned([(10, 100, 2.5)], given) == [pytest.approx(0.025)]


def test_silence_lowers_a_selectivity_slowly_and_drops_not_at_all():
    """What is tried and puts nothing out becomes worth less, but never nothing; what is not tried stays as it is."""
    usual, dropped, silent = learned([(60, 150, 0.15), (600, 0, 0), (600, 150, 0)])
    assert usual == pytest.approx(0.001, rel=0.1)
    assert dropped == usual
    assert 0.0001 < silent < 0.0005


def test_what_was_silent_for_an_hour_is_believed_again_within_a_minute():
    """What was tried for long without an output is forgotten once many come."""
    assert learned([(3600, 100, 0), (60, 100, 50)])[1] > 0.4
