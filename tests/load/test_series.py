"""Load series: population statistics that rounding, scale and constant rows do not lead astray."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.load import correlation_matrix, deviation


def test_deviation_by_hand() -> None:
    """The deviation is that of the population; of nothing, of one number and of a constant series it is 0."""
    assert deviation([2, 4]) == 1
    assert deviation([1, 2, 3]) == pytest.approx(np.sqrt(2 / 3))
    assert deviation([]) == deviation([5]) == deviation([0, 0]) == 0
    assert deviation([0.1 + 0.2, 0.3]) == 0  # constant up to rounding


def test_rows_of_other_sizes_correlate_as_well() -> None:
    """Rows that are multiples of each other correlate by 1 and -1, however large or small they are."""
    row = np.array([1.0, 3.0, 2.0, 5.0])
    matrix = correlation_matrix([1e9 * row, 1e-15 * row, -4 * row])
    assert matrix.ravel().tolist() == pytest.approx([1, 1, -1, 1, 1, -1, -1, -1, 1])


def test_constant_rows_correlate_with_nothing() -> None:
    """A row that is constant up to rounding, also a large one, correlates by 0 with others and by 1 with itself."""
    matrix = correlation_matrix([[1e9 * (0.1 + 0.2), 1e9 * 0.3], [1, 2], [0, 0]])
    assert matrix.tolist() == np.eye(3).tolist()


def test_rounding_takes_no_entry_beyond_one() -> None:
    """Entries of the matrix lie within -1..1 exactly, however the sums are rounded."""
    for seed in range(100):
        row = np.random.default_rng(seed).uniform(0, 1, 50)
        matrix = correlation_matrix([row, 3 * row, -7 * row])
        assert np.abs(matrix).max() <= 1
        assert matrix[0, 1:].tolist() == pytest.approx([1, -1])
