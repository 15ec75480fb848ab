"""What batches tell where it is known about what their rows cost."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from penstock.inspection import fit_batches, fit_given
from penstock.inspection.given import FAR, FEW
from penstock.inspection.regression import weights

DOUBT = 0.3


def drawn(rng, overhead, factor, noise, spread=1.4, count=20):
    """Return sizes and seconds of batches of which the largest have ``spread`` times the work of the smallest."""
    sizes = rng.uniform(0.3, 0.3 * spread, count)
    return sizes, (overhead + factor * sizes) * np.exp(rng.normal(0, noise, count))


def test_what_is_said_holds_the_truth_as_often_as_it_says():
    """Overhead and factor are within two of their errors, 90 times in a hundred, with costs as far off as is said."""
    inside, runs = np.zeros(2), 300
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        overhead, factor = rng.uniform(0.05, 0.4), max(0.2, rng.normal(1, DOUBT))
        fit = fit_given(*drawn(rng, overhead, factor, 0.15), DOUBT)
        off = [abs(fit.overhead - overhead) / fit.overhead_error, abs(fit.cost - factor) / fit.cost_error]
        inside += np.array(off) <= 2
    assert (inside >= 0.9 * runs).all()


def test_batches_of_about_one_size_are_no_riddle():
    """Where batches are alike both come out far nearer to the truth than without the costs that are given."""
    off = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        factor = rng.normal(1, 0.1)
        mine = drawn(rng, 0.2, factor, 0.1)
        with_costs, without = fit_given(*mine, DOUBT), fit_batches(*mine)
        off.append([abs(with_costs.overhead - 0.2), abs((without.overhead or 0.0) - 0.2)])
    mean = np.mean(off, axis=0)
    assert mean[0] < 0.06
    assert mean[0] < mean[1] / 2


@pytest.mark.parametrize("factor", [0.1, 5.0, 20.0])
def test_costs_of_another_machine_are_not_believed(factor):
    """Batches of different sizes outweigh costs that are many times off."""
    rng = np.random.default_rng(1)
    fit = fit_given(*drawn(rng, 0.1, factor, 0.05, spread=6.0, count=40), DOUBT)
    assert fit.cost == pytest.approx(factor, rel=0.15)


def test_a_batch_of_a_new_size_counts():
    """The first batch of a burst tells a cost, which smaller ones before it had told wrong by chance."""
    rng = np.random.default_rng(3)
    sizes = np.concatenate([rng.uniform(0.23, 0.3, 19), [0.77]])
    seconds = 0.2 + sizes
    seconds[:19] += 1.2 * (sizes[:19] - 0.26) + rng.normal(0, 0.02, 19)
    fit = fit_given(sizes, seconds, DOUBT)
    assert fit.cost == pytest.approx(1.0, abs=0.1)
    assert fit.overhead == pytest.approx(0.2, abs=0.05)


def test_it_is_the_most_likely_line():
    """With weights and noise as they come out, the line is the minimum of residuals and prior, found by a search."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes, seconds = drawn(rng, rng.uniform(0.0, 0.3), rng.uniform(0.4, 2.0), 0.1, rng.uniform(1.2, 4))
        fit = fit_given(sizes, seconds, DOUBT)
        weight = weights(sizes, seconds, fit.overhead, fit.cost)[0] / (FEW * fit.spread) ** 2
        prior = 1 / (DOUBT**2 + ((fit.cost - 1) / FAR) ** 2)

        def cost(line, sizes=sizes, seconds=seconds, weight=weight, prior=prior):
            return float(weight @ (seconds - line[0] - line[1] * sizes) ** 2 + prior * (line[1] - 1) ** 2)

        best = minimize(cost, [0.1, 1.0], bounds=[(0, None), (0, None)], tol=1e-12)
        assert cost([fit.overhead, fit.cost]) <= best.fun * 1.01 + 1e-9


def test_neither_part_is_negative():
    """Batches that take less than their rows should, or less the more rows they have, leave nothing below nought."""
    fit = fit_given(np.linspace(0.2, 0.4, 10), np.linspace(0.1, 0.2, 10), DOUBT)
    assert fit.overhead == 0
    assert fit.cost == pytest.approx(0.5, abs=0.05)
    falling = fit_given(np.linspace(0.1, 2.0, 30), np.linspace(2.0, 0.1, 30), DOUBT)
    assert falling.cost >= 0
    assert falling.overhead >= 0


def test_one_batch_tells_overhead_by_the_costs_that_are_given():
    """What a single batch took beyond what its rows should is overhead, as unsure as they are."""
    fit = fit_given(np.array([0.4]), np.array([0.7]), DOUBT)
    assert (fit.overhead, fit.cost) == (pytest.approx(0.3), pytest.approx(1.0))
    assert fit.cost_error == pytest.approx(DOUBT, rel=0.05)
