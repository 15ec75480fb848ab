"""The fit of batch times: against closed forms, under noise and disturbances, and refused where it must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.inspection.fit import fit_batches
from penstock.inspection.warm import warm


@given(overhead=st.floats(0.001, 100), cost=st.floats(1e-7, 1), seed=st.integers(0, 1000))
def test_exact_batches_are_fitted_exactly(overhead: float, cost: float, seed: int) -> None:
    """Batches without noise give overhead and cost back, whatever their size."""
    rng = np.random.default_rng(seed)
    # Rows such that the cost is seen beside the overhead.
    rows = overhead / cost * 10 ** rng.uniform(-0.5, 1, 30)
    fit = fit_batches(rows, overhead + cost * rows)
    assert fit.overhead == pytest.approx(overhead, rel=1e-5)
    assert fit.cost == pytest.approx(cost, rel=1e-6)
    assert fit.error is not None
    assert fit.error < 1e-6


def test_without_outliers_it_is_weighted_least_squares() -> None:
    """On normal noise the fit is near the closed form of least squares with relative residuals."""
    rng = np.random.default_rng(1)
    rows = rng.uniform(100, 10_000, 400)
    seconds = (0.5 + 0.0004 * rows) * (1 + 0.03 * rng.standard_normal(400))
    fit = fit_batches(rows, seconds)
    table = np.stack([np.ones(400), rows]).T / (0.5 + 0.0004 * rows)[:, None]
    (overhead, cost), *_ = np.linalg.lstsq(table, seconds / (0.5 + 0.0004 * rows), rcond=None)
    assert fit.overhead == pytest.approx(overhead, rel=0.01)
    assert fit.cost == pytest.approx(cost, rel=0.005)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2])
@pytest.mark.parametrize("seed", range(5))
def test_disturbed_batches_do_not_sway(share: float, seed: int) -> None:
    """A fifth of the batches may take three to thirty times as long, and overhead and cost stay within 5 %."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(100, 20_000, 300)
    seconds = (0.3 + 0.0002 * rows) * np.exp(0.05 * rng.standard_normal(300))
    disturbed = rng.random(300) < share
    seconds[disturbed] *= rng.uniform(3, 30, disturbed.sum())
    fit = fit_batches(rows, seconds)
    assert fit.overhead == pytest.approx(0.3, rel=0.05)
    assert fit.cost == pytest.approx(0.0002, rel=0.05)


def test_standard_errors_cover() -> None:
    """Over many draws the true cost and overhead lie within two standard errors 19 times of 20, about."""
    rng = np.random.default_rng(3)
    within = np.zeros(2)
    draws = 400
    for _ in range(draws):
        rows = rng.uniform(100, 5000, 80)
        fit = fit_batches(rows, (0.2 + 0.0003 * rows) * np.exp(0.1 * rng.standard_normal(80)))
        assert fit.cost is not None
        assert fit.cost_error is not None
        assert fit.overhead is not None
        assert fit.overhead_error is not None
        # A log-normal's median is what the fit estimates: nearly 1 here.
        within += [abs(fit.overhead - 0.2) < 2 * fit.overhead_error, abs(fit.cost - 0.0003) < 2 * fit.cost_error]
    assert (within / draws > 0.88).all()
    assert (within / draws < 0.99).all()


@given(seed=st.integers(0, 100), longer=st.floats(0.01, 100), more=st.floats(0.01, 100))
def test_units_do_not_matter(seed: int, longer: float, more: float) -> None:
    """Other units of time and rows scale overhead and cost, and nothing else."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(1000, 90_000, 40)
    seconds = (1 + 0.0001 * rows) * np.exp(0.1 * rng.standard_normal(40))
    one, other = fit_batches(rows, seconds), fit_batches(more * rows, longer * seconds)
    assert (one.cost is None) == (other.cost is None)
    if one.cost is not None and other.cost is not None and one.overhead and other.overhead:
        assert other.cost == pytest.approx(one.cost * longer / more, rel=1e-3)
        assert other.overhead == pytest.approx(one.overhead * longer, rel=1e-3)


def test_equal_batches_are_refused() -> None:
    """Batches of one size cannot tell overhead from cost: both are None, with the most that a row can cost."""
    fit = fit_batches(np.full(100, 500.0), np.full(100, 0.8))
    assert (fit.overhead, fit.cost) == (None, None)
    assert fit.cost_most == pytest.approx(0.8 / 500)
    assert "cannot be told apart" in str(fit.reason)
    np.testing.assert_allclose(fit.seconds(np.array([10.0, 500.0])), 0.8)


def test_few_batches_are_refused() -> None:
    """Fewer than eight batches are too few, and no batch with rows gives no numbers at all."""
    fit = fit_batches(np.arange(1.0, 6.0), np.arange(1.0, 6.0))
    assert fit.cost is None
    assert "only 5 batches" in str(fit.reason)
    assert fit_batches(np.zeros(20), np.ones(20)).reason == "no batch has rows"


@pytest.mark.parametrize("seed", range(10))
def test_a_cost_within_the_noise_is_not_told(seed: int) -> None:
    """Where batches with more rows do not take longer, there is an overhead and no cost, but a bound on it."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(10, 1000, 100)
    fit = fit_batches(rows, 0.5 * np.exp(0.1 * rng.standard_normal(100)))
    if fit.cost is None:  # chance makes a slope of two standard errors once in 20
        assert fit.overhead == pytest.approx(0.5, rel=0.05)
        assert fit.cost_most is not None
        assert 0 <= fit.cost_most < 1e-3
    else:
        assert fit.error is not None
        assert fit.error > 0.2


@pytest.mark.parametrize("seed", range(5))
def test_a_row_costs_no_more_than_all_of_its_batch(seed: int) -> None:
    """However little the noise shows of a cost, at most the whole batch is the rows'."""
    rng = np.random.default_rng(seed)
    rows, seconds = rng.uniform(700, 1200, 12), np.exp(0.5 * rng.standard_normal(12))
    fit = fit_batches(rows, seconds)
    assert fit.overhead is not None
    assert fit.cost is None
    assert fit.cost_most is not None
    assert fit.cost_most <= np.median(seconds / rows)


@given(
    rows=st.lists(st.integers(0, 10**9), min_size=1, max_size=40),
    seconds=st.lists(st.floats(0, 1e6), min_size=40, max_size=40),
)
def test_any_batches_give_a_sane_fit(rows: list[int], seconds: list[float]) -> None:
    """Whatever the batches are, overhead and cost are None or finite and not negative."""
    fit = fit_batches(np.array(rows, dtype=float), np.array(seconds[: len(rows)]))
    for value in (fit.overhead, fit.cost, fit.cost_most):
        assert value is None or (np.isfinite(value) and value >= 0)
    assert fit.cost is None or (fit.error is not None and fit.error <= 0.5)
    assert (fit.cost is None or fit.overhead is None) == (fit.reason is not None)


def test_warm_up_is_left_out() -> None:
    """The first batches of each run, slower than the rest, are marked, and no others."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(1000, 5000, 200)
    seconds = (0.2 + 0.0001 * rows) * np.exp(0.02 * rng.standard_normal(200))
    run = np.repeat([0, 1], 100)
    for first in (0, 100):
        seconds[first : first + 12] *= np.linspace(5, 1.6, 12)
    done = warm(rows, seconds, run)
    assert not done[:10].any()
    assert not done[100:110].any()
    assert done[16:100].all()
    assert done[116:].all()


def test_company_is_no_warm_up() -> None:
    """First batches that are slow beside another query's batches are not taken for a warm-up."""
    rows = np.random.default_rng(0).uniform(1000, 5000, 60)
    seconds = (0.2 + 0.0001 * rows) * np.where(np.arange(60) < 15, 1.6, 1.0)
    run = np.zeros(60, dtype=np.int64)
    assert (~warm(rows, seconds, run)).sum() == 15
    assert warm(rows, seconds, run, np.where(np.arange(60) < 15, 0.9, 0.0)).all()


def test_steady_batches_are_all_warm() -> None:
    """Without a warm-up no batch is left out."""
    rows = np.random.default_rng(0).uniform(1000, 5000, 200)
    assert warm(rows, 0.2 + 0.0001 * rows, np.zeros(200, dtype=np.int64)).all()


@pytest.mark.parametrize("noise", [0.03, 0.2])
def test_a_short_burst_tells_the_cost(noise: float) -> None:
    """A dozen far larger batches among thousands of one size tell overhead and cost; fewer than a fit needs do not."""
    rng = np.random.default_rng(0)
    rows = np.full(2000, 1670.0)
    rows[1000:1012] = np.linspace(4000, 90_000, 12)
    seconds = (0.5 + 2e-4 * rows) * np.exp(noise * rng.standard_normal(2000))
    fit = fit_batches(rows, seconds)
    assert fit.cost is not None
    assert fit.cost_error is not None
    assert abs(fit.cost - 2e-4) < 3 * fit.cost_error < 1e-4
    assert fit.overhead == pytest.approx(0.5, rel=0.1)
    assert fit_batches(np.delete(rows, range(1000, 1005)), np.delete(seconds, range(1000, 1005))).cost is None
