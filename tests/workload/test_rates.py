"""Rates: files, inline, standard shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.workload import Rates, fluctuating, on_off, read_rates, stable
from penstock.workload.rates import joined


def written(folder: Path, text: str) -> Path:
    path = folder / "rates.csv"
    path.write_text(text)
    return path


def test_reads_a_file(tmp_path: Path) -> None:
    """Rows of equal steps become one series per source, ordered by name, in read-only arrays."""
    rates = read_rates(written(tmp_path, "time,b,a\n10,1,2\n12,3,4\n\n14,5,6\n"))
    assert (rates.sources, rates.period, rates.start, rates.periods) == (("a", "b"), 2.0, 10.0, 3)
    assert rates.of_source("b").tolist() == [1, 3, 5]
    with pytest.raises(ValueError, match="read-only"):
        rates.values[0, 0] = 1


def test_short_steps_at_late_times_are_equal(tmp_path: Path) -> None:
    """Times since 1970 in steps of 0.1 s are equal steps, as far as numbers of their size can tell."""
    rows = "".join(f"{1767225600 + k * 0.1:.1f},{k}\n" for k in range(30))
    assert read_rates(written(tmp_path, "time,a\n" + rows)).period == pytest.approx(0.1, rel=1e-6)


def test_inline_rates_last_for_the_duration() -> None:
    """Inline rates are constant over --duration, cut into --period."""
    rates = read_rates("a=1,b=2.5", 10, 0.5)
    assert rates.values.tolist() == [[1.0] * 20, [2.5] * 20]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "expected the columns time"),
        ("time\n0\n", 1, "expected the columns time"),
        ("t,a\n0,1\n", 1, "expected the columns time"),
        ("time,a,a\n0,1,2\n", 1, "'a' is given twice"),
        ("time,a\n", None, "at least one row"),
        ("time,a\n0,1\n1,2,3\n", 3, "expected 2 cells, got 3"),
        ("time,a\n0,x\n", 2, "column a: expected a number, got 'x'"),
        ("time,a\n0,1_000\n", 2, "column a: expected a number, got '1_000'"),
        ("time,a\n0,nan\n", 2, "finite"),
        ("time,a\n0,-1\n", 2, ">= 0"),
        ("time,a\n0,inf\n", 2, "finite"),
        ("time,a\n0,1\n1,1\n3,1\n", 4, "equal steps of 1 s"),
        ("time,a\n1,1\n0,1\n", 3, "a time after 1"),
        ('time,a\n0,"1\n', 2, "not valid CSV"),
    ],
)
def test_refuses_with_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    """Each mistake in a rates file is one message with the line."""
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_rates(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: " if line else f"{path}: "), message
    assert words in message


@pytest.mark.parametrize("text", ["a=1,a=2", "a=1,b", "a=x", "a=1_0", "a=-1", "a=nan", "=1", "a="])
def test_bad_inline_rates(text: str) -> None:
    """Inline rates that are not source=number are refused."""
    with pytest.raises(InputError, match="--rates"):
        read_rates(text)


def test_a_bad_inline_rate_names_its_source() -> None:
    """Of several inline rates, the one that is no number is named."""
    with pytest.raises(InputError) as caught:
        read_rates("a=1,b=220/s")
    assert str(caught.value) == "--rates: b: expected a number, got '220/s'"


@pytest.mark.parametrize(("duration", "period", "periods"), [(10, 4, 3), (10, 1, 10), (0.5, 0.5, 1), (60, 7, 9)])
def test_constant_rates_last_as_long_as_they_should(duration: float, period: float, periods: int) -> None:
    """Where the duration is no multiple of the period, periods are shorter, and not more than fit."""
    rates = Rates.constant({"a": 5.0}, duration, period)
    assert (rates.periods, rates.duration) == (periods, pytest.approx(duration))
    assert rates.period <= period


def test_a_missing_rate_is_added_where_the_others_are() -> None:
    """To rates in a file a column is to be added, to inline ones a rate."""
    rates = Rates.constant({"a": 1})
    assert rates.check(["a"], inline=True) is rates
    for inline, hint in ((False, "(add a column 'b')"), (True, "(add b=RATE)")):
        with pytest.raises(InputError) as caught:
            rates.check(["a", "b"], inline=inline)
        assert str(caught.value).endswith(hint)


def test_rates_have_exactly_the_sources() -> None:
    """A missing source and a stranger are named."""
    rates = Rates.constant({"a": 1, "b": 1})
    assert rates.check(["b", "a"]) is rates
    with pytest.raises(InputError, match="'b' is no source"):
        rates.check(["a"])
    with pytest.raises(InputError, match="source 'c' has no rate"):
        rates.check(["a", "b", "c"])


def test_every_source_has_a_rate_for_every_period() -> None:
    """A source with fewer or more rates than the others is named."""
    with pytest.raises(InputError, match=r"rates\.s: expected as many rates as 'r' has, 1, got 2"):
        Rates.of(1.0, {"s": [1, 2], "r": [1]})


@given(
    st.lists(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), min_size=2, max_size=20),
    st.floats(0.01, 100),
    st.sampled_from([0.0, 1.7e9]),
)
@example([[1.0] * 3] * 20, 1 / 3, 1.7e9)
@settings(max_examples=50)
def test_written_rates_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], period: float, start: float
) -> None:
    """A rates file that penstock writes reads back as the same rates."""
    path = tmp_path_factory.mktemp("rates") / "r.csv"
    rates = Rates.of(period, {f"s{k}": [row[k] for row in rows] for k in range(3)}, start)
    rates.write_csv(path)
    again = read_rates(path)
    assert (again.sources, again.start) == (rates.sources, start)
    assert again.period == pytest.approx(period, rel=1e-9, abs=np.spacing(start))
    np.testing.assert_array_equal(again.values, rates.values)


def test_some_sources_and_joined_tables() -> None:
    """Rates of some sources, joined again, are the same rates; tables of other periods are refused, longer ones cut."""
    rates = Rates.of(0.5, {"a": [1, 2], "b": [3, 4]})
    parts = {name: rates.only([name]) for name in rates.sources}
    assert parts["a"].sources == ("a",)
    again = joined(parts | {"b": Rates.of(0.5, {"b": [3, 4, 5]})})
    assert (again.period, again.sources, again.values.tolist()) == (0.5, ("a", "b"), [[1, 2], [3, 4]])
    with pytest.raises(InputError, match="equal periods"):
        joined(parts | {"b": Rates.of(1.0, {"b": [3]})})


def test_stable() -> None:
    """A stable workload is one rate."""
    assert stable(5, 3).tolist() == [5, 5, 5]


@given(
    mean=st.floats(0.1, 1000), ratio=st.floats(1, 10), cycle=st.sampled_from([2.0, 5.0, 10.0]), offset=st.floats(0, 10)
)
@settings(max_examples=50)
def test_fluctuating_has_mean_and_ratio(mean: float, ratio: float, cycle: float, offset: float) -> None:
    """High over low is the ratio, and whole cycles have the mean, whatever the offset."""
    series = fluctuating(mean, 10 * cycle, cycle=cycle, ratio=ratio, offset=offset, period=cycle / 10)
    assert series.mean() == pytest.approx(mean)
    assert series.max() <= 2 * ratio / (ratio + 1) * mean * (1 + 1e-9)
    exact = fluctuating(mean, 10 * cycle, cycle=cycle, ratio=ratio, period=cycle / 10)
    assert exact.max() / exact.min() == pytest.approx(ratio)


def test_on_off_is_seeded_and_half_active() -> None:
    """Exponential on and off times of equal mean are active half of the time, the same for the same seed."""
    series = on_off(10, 20000, np.random.default_rng(1))
    assert series.mean() == pytest.approx(5, rel=0.1)
    assert (series == on_off(10, 20000, np.random.default_rng(1))).all()
    assert 0 <= series.min() <= series.max() <= 10 * (1 + 1e-12)
