"""How long a host is busy with batches that overlap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.latency.cores import FEWEST, beside, covered

MOMENTS = st.integers(-5, 25)


@given(st.lists(st.tuples(MOMENTS, MOMENTS), max_size=8), MOMENTS, MOMENTS)
def test_what_is_covered_is_counted_once(spans: list[tuple[int, int]], begin: int, end: int) -> None:
    """The parts are in order and apart, and together the moments of the interval that lie in any span."""
    parts = covered(spans, begin, end)
    moments = np.arange(-6, 26) + 0.5
    inside = np.zeros(moments.size, bool)
    for start, stop in spans:
        inside |= (moments > start) & (moments < stop)
    inside &= (moments > begin) & (moments < end)
    assert sum(stop - start for start, stop in parts) == pytest.approx(float(inside.sum()))
    assert all(one[1] <= two[0] for one, two in pairwise(parts))


@given(st.floats(0.3, 1.0), st.integers(0, 2**32 - 1))
def test_a_core_is_compared_with_itself(slow: float, seed: int) -> None:
    """What a core loses while others work is found whatever its own speed, and its own batches do not count."""
    rng = np.random.default_rng(seed)
    spans = {"h1": [(0.0, 100.0)], "h2": [(20.0, 45.0), (40.0, 60.0)], "h3": [(80.0, 90.0)]}
    at = np.arange(0.5, 100.0)
    busy = ((at > 20) & (at < 60)) | ((at > 80) & (at < 90))
    steps = 3e7 * np.where(busy, slow, 1.0) * np.exp(rng.normal(0, 0.01, at.size))
    found = beside({"h1": list(zip(at.tolist(), steps.tolist(), strict=True)), "h2": []}, spans)
    assert found == {"h1": pytest.approx(slow, rel=0.02)}


def test_few_moments_tell_nothing_of_a_core() -> None:
    """A core that was hardly looked at while others worked, or while none did, is left out."""
    spans = {"h1": [], "h2": [(0.0, 10.0)]}
    for alone in (FEWEST, FEWEST - 1):
        moments = [(1.0 + k, 5.0) for k in range(FEWEST)] + [(20.0 + k, 5.0) for k in range(alone)]
        assert bool(beside({"h1": moments}, spans)) == (alone == FEWEST)
