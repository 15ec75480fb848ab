"""Sources of which too little was seen to tell how fast they are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_rebalance import APART, TWO, seen_of

from penstock.control.decision import seen_of as shortly
from penstock.control.knowledge import Knowledge


def looks(*rates, unsure=()):
    """Return what is known after looks at both sources, of which the last is unsure of some."""
    known = Knowledge()
    for number, (first, second) in enumerate(rates):
        last = frozenset(unsure) if number == len(rates) - 1 else frozenset()
        known = known.updated(seen_of(TWO, number, {"s1": first, "s2": second}, APART, unsure=last), TWO)
    return known


def test_a_rate_stays_as_it_was_until_enough_is_seen():
    """A look that cannot tell is none of an idle source: the rate is that of the look before, and is kept so."""
    known = looks((300, 100), (300, 100), (0, 0), unsure=["s1"])
    assert known.steady(TWO, 1.0) == pytest.approx([300, 0])
    again = Knowledge.read(json.loads(json.dumps(known.document())))
    assert again.steady(TWO, 1.0) == pytest.approx([300, 0])


def test_nothing_is_known_of_a_source_that_was_never_seen():
    """Where no rate was known before it is none, as long as nothing can be told."""
    known = looks((0, 50), unsure=["s1"])
    assert known.steady(TWO, 1.0) == pytest.approx([0, 50])
    nothing = looks((0, 0), unsure=["s1", "s2"])
    assert nothing.steady(TWO, 1.0) == pytest.approx([0, 0])
    assert nothing.series(TWO).tolist() == [[0], [0]]
    assert nothing.updated(seen_of(TWO, 1, {"s1": 200, "s2": 50}, APART), TWO).steady(TWO, 1.0) == pytest.approx(
        [200, 50]
    )


def test_a_source_that_comes_later_counts_as_it_was_seen_since():
    """Before its first look a source counts with the mean of its looks, and the others' looks count as they did."""
    rng = np.random.default_rng(1)
    long = tuple(rng.poisson(200, 32).astype(float))
    alone = Knowledge(rates={"s1": long, "s2": long}).steady(TWO, 1.0)[0]
    for row, mean in (((), 0.0), ((50.0,), 50.0), ((40.0, 80.0), 60.0)):
        known = Knowledge(rates={"s1": long, "s2": row})
        assert known.series(TWO)[0].tolist() == list(long[-10:])
        assert known.series(TWO)[1].mean() == pytest.approx(mean)
        assert known.series(TWO)[1, 10 - len(row) :].tolist() == list(row)
        assert known.steady(TWO, 1.0)[0] == alone


def test_a_look_tells_that_it_cannot_tell():
    """In the log the rate of such a source is null."""
    seen = seen_of(TWO, 1, {"s1": 0, "s2": 70}, APART, unsure=frozenset(["s1"]))
    assert shortly(seen)["rates"] == {"s1": None, "s2": 70}
