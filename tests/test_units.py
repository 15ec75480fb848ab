"""Numbers and durations as people write them."""

from __future__ import annotations

import pytest

from penstock.units import digits, human


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        (0.9997, "1 s"), (0.0009997, "1 ms"), (9.997e-7, "1 µs"), (0.9994, "999 ms"), (119.0, "119 s"),
        (119.9, "2 min"), (7199.0, "2 h"), (1e9, "11,600 d"), (-0.9997, "-1 s"), (0.0, "0 s"),
    ],
)  # fmt: skip
def test_durations_have_no_power_of_ten(duration: float, said: str) -> None:
    """What rounds to the next unit is told in it, and long times are told in full."""
    assert human(duration) == said


@pytest.mark.parametrize(("value", "said"), [(99.7, "100"), (450.3, "450"), (1.26, "1.3"), (1.5e6, "1,500,000")])
def test_two_digits_have_no_power_of_ten(value: float, said: str) -> None:
    """A number of two digits is written in full."""
    assert digits(value, 2) == said
