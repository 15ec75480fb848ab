"""How long a host is busy with batches that overlap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.latency.cores import covered

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
