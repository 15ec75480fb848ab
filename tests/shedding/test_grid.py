"""The index of points: what it finds, and how often it looks at them while it is made."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.grid import LEAF, best_below, indexed


class Watched(np.ndarray):  # type: ignore[type-arg]
    """Points that count how many numbers of them are looked at."""

    looked = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        plain = [np.asarray(each) for each in inputs]
        Watched.looked += max(each.size for each in plain)
        return getattr(ufunc, method)(*plain, **more)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_index_finds_the_best_point_below(seed: int) -> None:
    """What is found is as good as the best of all points that are nowhere above the rates; -1 where there is none."""
    rng = np.random.default_rng(seed)
    count, dims = int(rng.integers(0, 40 * LEAF)), int(rng.integers(1, 5))
    points, score = rng.integers(0, 9, (count, dims)) * rng.uniform(0, 2, dims), rng.uniform(0, 10, count)
    arrays = indexed(points, score, {"row": np.arange(count)})
    assert np.array_equal(points[arrays["row"]], arrays["points"])
    assert np.array_equal(score[arrays["row"]], arrays["score"])
    rates = rng.uniform(0, 18, dims)
    below = score[(points <= rates).all(axis=1)]
    found = best_below(arrays, rates)
    assert (found < 0) == (below.size == 0)
    if found >= 0:
        assert arrays["score"][found] == below.max()


def test_an_index_is_made_in_time() -> None:
    """Each level of the tree looks at each point a few times, however many nodes it has."""
    points = np.random.default_rng(0).uniform(0, 1, (LEAF << 9, 3))
    Watched.looked = 0
    nodes = len(indexed(points.view(Watched), points.sum(axis=1), {})["first"])
    assert Watched.looked <= 5 * np.log2(nodes) * points.size
