"""Selectivities of which few outputs were seen: what is rare is not worth nothing because it did not come of late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.control.flow import Floats

FEW = 20.0
"""Outputs below which a selectivity is unsure: what was seen fades no further as long as more of them come."""

GIVEN = 5.0
"""Outputs that a given selectivity counts for where none were seen; from `FEW` on it counts for nothing."""

SLOW = 10.0
"""Factor on the half-life of what was seen where few outputs come."""


def fading(before: Floats, fresh: Floats, share: float, grows: Sequence[bool], enough: float) -> Floats:
    """Return the share with which what operators tried and put out counts on, array (operators,).

    Parameters
    ----------
    before, fresh
        Arrays (operators, 2), tuples tried and put out, until now and in the newest look.
    share
        With which other things count on.
    grows
        Operators whose selectivity depends on the rate: it has to be of the rates that count now, however few came.
    enough
        Tuples tried below which nothing fades.
    """
    with np.errstate(divide="ignore"):
        few, tried = FEW / before[:, 1], np.minimum(enough / before[:, 0], 1.0)
    # What is dropped teaches nothing newer.
    slow = np.where(grows, share, np.where(fresh[:, 0] > 0, share ** (1 / SLOW), 1.0))
    found: Floats = np.maximum(np.clip(few, share, slow), tried)
    return found


def likely(tried: Floats, emitted: Floats, given: Floats) -> Floats:
    """Return selectivities from what was tried and put out, all arrays (n,), and from those given where that is little.

    Given as 0 is what was too rare to be seen elsewhere; it may be as rare here. nan: nothing else is to count.
    """
    weight = np.where(np.isnan(given), 0.0, GIVEN * np.clip(1 - emitted / FEW, 0.0, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(given > 0, given, np.where(given == 0, 1 / tried, 1.0))
        found: Floats = (emitted + weight) / (tried + weight / expected)
    return found
