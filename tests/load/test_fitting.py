"""What the durations of batches say about a host, without Spark."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster import Cluster, SparkSettings
from penstock.latency.batches import BatchHosts
from penstock.latency.estimate import Spread
from penstock.load import Statistics, load_model, read_statistics
from penstock.load.fitting import (
    FAR,
    FOLLOWS,
    LEAST,
    SHORTEST,
    USUAL,
    Agreement,
    HostBatches,
    Slope,
    agreement,
    between,
    fit,
    levelled,
    overhead_anew,
    pooled,
    told,
    told_apart,
    unrest,
    warm_from,
)
from penstock.load.statistics import HostStatistics
from penstock.network.shapes import chain
from penstock.workload import Rates

seeds = st.integers(0, 2**32 - 1)


@given(overhead=st.floats(SHORTEST, 3), factor=st.floats(2 * LEAST, 20), seed=seeds)
def test_exact_batches_give_their_costs(overhead: float, factor: float, seed: int) -> None:
    """Batches that last just overhead and factor times load give both back."""
    load = np.random.default_rng(seed).uniform(0.01, 3.0, 20)
    found = fit(load, overhead + factor * load)
    assert found.overhead == pytest.approx(overhead, abs=1e-3)
    assert found.factor == pytest.approx(factor, rel=1e-3)


@given(share=st.floats(0, 0.2), seed=seeds)
def test_a_few_disturbed_batches_do_not_sway(share: float, seed: int) -> None:
    """Some batches that were held up, however long, change the costs little."""
    draw = np.random.default_rng(seed)
    load = draw.uniform(0.01, 3.0, 40)
    took = (0.5 + 1.2 * load) * draw.normal(1, 0.01, 40)
    took[: int(share * 40)] += draw.uniform(1, 10)
    found = fit(load, took)
    assert found.factor == pytest.approx(1.2, rel=0.1)
    assert found.overhead == pytest.approx(0.5, abs=0.1)


@given(seed=seeds)
def test_hidden_costs_are_not_negative(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where noise of the overhead hides the cost, the host's figures are still such as a statistics file may have."""
    draw = np.random.default_rng(seed)
    load = draw.uniform(0.001, 0.01, 20)
    found = fit(load, draw.uniform(0.4, 0.8, 20))
    assert found.factor >= LEAST
    assert 0 <= found.overhead <= 0.8
    assert found.error >= 0
    path = Path(tmp_path_factory.mktemp("fit")) / "statistics.json"
    Statistics(hosts={"h1": found}).write(path)
    assert read_statistics(path).hosts["h1"] == attrs.evolve(found, error=min(found.error, 1.0))


def test_errors_of_a_fit_cover_what_it_predicts() -> None:
    """Of hosts known from forty batches each, nine of ten predictions hold what the true hosts then do."""
    draw = np.random.default_rng(9)
    rates = Rates.of(1.0, {"s1": [60.0] * 4 + [290.0] * 5 + [60.0] * 16})
    model = load_model(chain([0.004]), rates)
    cluster = attrs.evolve(Cluster.uniform(1), spark=SparkSettings(trigger=1.0))

    def latency(host: HostStatistics, count: int) -> Spread:
        placed = BatchHosts.of(Statistics(hosts={"h1": host}), cluster).placed(model, {"o1.1": "h1"})
        found = placed.spread(draw, count=count)
        assert found is not None
        return found

    covered, repeats = [], 60
    for _ in range(repeats):
        true = HostStatistics(
            overhead=float(draw.uniform(0.1, 0.3)), factor=float(draw.uniform(0.8, 1.2)), residual=0.05
        )
        load = draw.uniform(0.05, 2.0, 40)
        usual = true.overhead + true.factor * load
        took = usual + draw.normal(0, true.residual, 40) * np.sqrt(usual)
        guess, then = latency(fit(load, took), 80), latency(true, 1)
        covered.append([low <= then.total[key][0] <= high for key, (low, high) in guess.total.items()])
    share = np.mean(covered, axis=0)
    assert share == pytest.approx(np.full(4, 0.9), abs=3 * np.sqrt(0.9 * 0.1 / repeats))


def run(draw: np.random.Generator, count: int, *, slow: float = 0.0, noise: float = 0.03) -> HostBatches:
    """Return batches of a host that at first takes longer by a share, which falls within 8 s to a third."""
    at, load = np.arange(count) * 1.0, draw.uniform(0.05, 2.0, count)
    took = (0.2 + 1.1 * load) * (1 + slow * np.exp(-at / 8)) * np.exp(draw.normal(0, noise, count))
    return HostBatches(at, load, took, np.zeros(0))


def test_warm_up_is_found_from_the_data() -> None:
    """Of a host that is slow at first the slow batches are left out; of one that is warm few, and its costs hold."""
    draw = np.random.default_rng(3)
    for _ in range(30):
        young = run(draw, 60, slow=1.5)
        first = warm_from(young)
        assert 10 <= first <= 30
        found = told(young)
        assert found is not None
        assert found.overhead + found.factor == pytest.approx(1.3, rel=0.06)
    kept = [60 - warm_from(run(draw, 60)) for _ in range(30)]
    assert np.median(kept) >= 45
    assert min(kept) >= 30


def test_a_burst_at_the_beginning_counts() -> None:
    """Where large batches come only early, they are kept, however evenly the small ones run after them."""
    draw = np.random.default_rng(4)
    for _ in range(20):
        load = np.concatenate([draw.uniform(0.1, 0.4, 3), draw.uniform(1.0, 3.0, 5), draw.uniform(0.1, 0.25, 30)])
        chance = np.concatenate([draw.normal(0, 0.1, 8), draw.normal(0, 0.03, 30)])
        early = HostBatches(np.arange(38.0), load, 0.3 + 1.2 * load + chance, np.zeros(0))
        found = told(early)
        assert found is not None
        assert found.overhead + 2 * found.factor == pytest.approx(2.7, rel=0.1)


def test_what_batches_tell_besides_their_costs() -> None:
    """Batches without input tell the idle time, loops the speed, and what a fit leaves over how restless a host is."""
    batches = run(np.random.default_rng(5), 60)
    bare = told(batches)
    assert bare is not None
    assert (bare.idle, bare.speed) == (None, None)
    warm = batches.since(warm_from(batches))
    assert bare.unrest == unrest(warm.at, warm.ratios(bare), warm.expected(bare))
    more = {"empty": np.array([0.1, 0.9, 0.2]), "empty_speed": np.full(3, 6.0)}
    full = told(attrs.evolve(batches, **more, speed=np.full(60, 6.0)))
    assert full is not None
    assert (full.idle, full.speed, full.wander) == pytest.approx((0.2, 6.0, 0.0))


def test_costs_are_those_of_one_speed_of_the_core() -> None:
    """Of a core that is now fast and now slow the costs are those at one speed, and how it changes stands apart."""
    draw = np.random.default_rng(8)
    even = run(draw, 120, noise=0.01)
    speed = np.repeat(draw.choice([8e6, 12.8e6], 12), 10)
    uneven = attrs.evolve(even, took=even.took * (1e7 / speed) ** FOLLOWS, speed=speed)
    known, found = told(even), told(uneven, 1e7)
    assert known is not None
    assert found is not None
    assert (found.overhead, found.factor) == (pytest.approx(known.overhead), pytest.approx(known.factor))
    assert found.unrest == pytest.approx(known.unrest)
    assert found.wander == pytest.approx(FOLLOWS * np.std(np.log(speed[::10]), ddof=1))
    mean = told(uneven)
    assert mean is not None
    assert mean.speed == pytest.approx(uneven.took @ speed / uneven.took.sum())
    assert mean.factor == pytest.approx(known.factor * (1e7 / mean.speed) ** FOLLOWS)
    blind = told(attrs.evolve(uneven, speed=np.full(120, np.nan)))
    assert blind is not None
    assert blind.unrest > 5 * found.unrest


def test_ratios_are_bounded() -> None:
    """However far a batch is from what is expected, it counts as `FAR` off at most, on either side."""
    at, load = np.arange(3.0), np.ones(3)
    batches = HostBatches(at, load, np.array([1e9, 0.0, 2.0]), np.zeros(0))
    ratios = batches.ratios(HostStatistics(overhead=1.0, factor=1.0))
    assert ratios.tolist() == [FAR, -FAR, 0.0]


def test_batches_that_tell_nothing() -> None:
    """Too few batches, or all of one size, tell nothing."""
    draw = np.random.default_rng(1)
    assert told(run(draw, 7)) is None
    alike = run(draw, 30)
    assert told(HostBatches(alike.at, np.ones(30), alike.took, alike.empty)) is None


def test_batches_that_are_alike_leave_the_cost_as_it_was() -> None:
    """Batches of one size, which cannot tell cost from overhead, change only the overhead of what is known."""
    known = HostStatistics(overhead=0.2, factor=1.5, error=0.02, idle=0.1, speed=1e6)
    alike = HostBatches(np.arange(20.0), np.full(20, 0.1), np.full(20, 0.45), np.full(3, 0.3))
    assert told(alike) is None
    assert overhead_anew(known, alike) == attrs.evolve(known, overhead=pytest.approx(0.3), idle=0.3)
    nothing = HostBatches(*(np.zeros(0) for _ in range(4)))
    assert overhead_anew(known, nothing) == known


def test_unrest_is_what_chance_does_not_explain() -> None:
    """Stretches of other speeds give their standard deviation, a host that keeps its speed next to none."""
    draw = np.random.default_rng(4)
    at = np.arange(400) * 1.0
    level = np.repeat(draw.normal(0, 0.1, 40), 10)
    assert unrest(at, level + draw.normal(0, 0.03, 400)) == pytest.approx(level.std(), rel=0.3)
    calm = [unrest(at, draw.normal(0, 0.05, 400)) for _ in range(20)]
    assert np.mean(calm) <= 0.01


def test_unrest_of_few_stretches_is_near_what_machines_usually_have() -> None:
    """Where nothing tells of unrest it is what machines usually have, and two stretches alike change it little."""
    assert unrest(np.zeros(0), np.zeros(0)) == unrest(np.zeros(3), np.zeros(3)) == USUAL
    two = unrest(np.arange(20.0), np.zeros(20))
    assert 0.5 * USUAL < two < USUAL


def test_long_batches_tell_more_of_a_stretch() -> None:
    """How a host changes its speed is seen by its long batches, also where short ones hide it."""
    draw = np.random.default_rng(6)
    at, size = np.arange(200.0), np.where(np.arange(200) % 5 == 0, 5.0, 0.3)
    level = np.repeat(draw.normal(0, 0.08, 20), 10)
    assert unrest(at, level + draw.normal(0, 0.1, 200) / size, size) == pytest.approx(level.std(), rel=0.25)


def test_bursts_that_differ_more_than_by_chance_tell_of_unrest() -> None:
    """Two bursts far apart are unrest, those as far apart as chance has it are what machines usually have."""
    load = np.linspace(0.2, 2.0, 12)
    known = HostStatistics(overhead=0.3, factor=1.0, residual=0.05)

    def burst(slow: float) -> HostBatches:
        return HostBatches(np.arange(12.0), load, (0.3 + load) * slow, np.zeros(0))

    far, near = between([burst(0.9), burst(1.1)], known), between([burst(0.995), burst(1.005)], known)
    assert far == pytest.approx(np.log(1.1 / 0.9) / np.sqrt(2 * 3), rel=0.1)
    assert near <= USUAL


@given(jitter=st.floats(0.01, 0.1), residual=st.floats(0.0, 0.1), seed=seeds)
def test_chance_is_told_apart_by_size(jitter: float, residual: float, seed: int) -> None:
    """Hiccups of all batches and those that grow with them are both found, so that batches of any size are known."""
    draw = np.random.default_rng(seed)
    load = np.concatenate([draw.uniform(0.01, 0.3, 300), draw.uniform(2.0, 8.0, 300)])
    usual = 0.3 + 1.1 * load
    found = fit(load, usual + draw.normal(0, 1, 600) * np.sqrt(jitter**2 + residual**2 * usual))
    for seconds in (0.4, 5.0):
        told = np.sqrt(found.jitter**2 + found.residual**2 * seconds)
        assert told == pytest.approx(np.sqrt(jitter**2 + residual**2 * seconds), rel=0.25)


@given(seed=seeds, warming=st.lists(st.floats(1.0, 2.0), min_size=1, max_size=3))
def test_bursts_of_younger_code_are_brought_to_the_level_of_the_last(seed: int, warming: list[float]) -> None:
    """What earlier bursts took more than the last as a whole is taken away, to a hundredth."""
    draw = np.random.default_rng(seed)
    last = run(draw, 12, noise=0.0)
    earlier = [run(draw, 12, noise=0.0) for _ in warming]
    younger = [attrs.evolve(one, took=one.took * much) for one, much in zip(earlier, warming, strict=True)]
    found = levelled(younger, last)
    np.testing.assert_allclose(found.took, pooled([*earlier, last]).took, rtol=1e-2)
    np.testing.assert_array_equal(found.load, pooled([*earlier, last]).load)


def test_two_bursts_agree_or_not() -> None:
    """Bursts agree where their batches take as long on every host; what tells nothing agrees with nothing."""

    def burst(factor: float, count: int = 9) -> HostBatches:
        load = np.linspace(0.2, 2.0, count)
        return HostBatches(np.arange(count) * 1.0, load, (0.5 + load) * factor, np.zeros(0))

    one, near, far = burst(1.0), burst(1.02), burst(1.3)
    assert agreement([{"h1": one, "h2": one}]) == Agreement(False, {})
    close = agreement([{"h1": far, "h2": far}, {"h1": one, "h2": one}, {"h1": near, "h2": one}])
    assert close.done
    assert close.apart == {"h1": pytest.approx(0.02, rel=0.05), "h2": pytest.approx(0.0, abs=1e-6)}
    assert not agreement([{"h1": one, "h2": one}, {"h1": one, "h2": far}]).done
    missing = agreement([{"h1": burst(1.0, 2), "h2": one}, {"h1": burst(1.0, 2), "h2": one}])
    assert not missing.done
    assert list(missing.apart) == ["h2"]


def test_a_job_that_was_held_up_changes_no_slope() -> None:
    """One job among three that stood still for a second leaves the cost as it is, and is told as unrest."""
    steady = Slope.between([0.10, 0.11, 0.10], [0.50, 0.51, 0.50], 200, 1000)
    assert steady.mean == pytest.approx(0.0005)
    assert steady.tuples == 3000
    for lows, highs in (([0.10, 1.11, 0.10], [0.50, 0.51, 0.50]), ([0.10, 0.11, 0.10], [0.50, 1.51, 0.50])):
        held_up = Slope.between(lows, highs, 200, 1000)
        assert held_up.mean == pytest.approx(0.0005, rel=0.03)
        assert held_up.spread > 100 * steady.spread


def test_a_cost_below_the_resolution_is_told_as_such() -> None:
    """A cost is what remains without reading, and one that noise would give as well lies below the resolution."""
    cost, error, least = told_apart(
        Slope(5e-6, 1e-7), Slope.mixed([(Slope(1e-6, 1e-7), 0.5), (Slope(3e-6, 1e-7), 0.5)])
    )
    assert (cost, error) == pytest.approx((3e-6, np.sqrt(1.5) * 1e-7 / 3e-6))
    assert cost > least
    hidden, error, least = told_apart(Slope(1e-6, 3e-7), Slope(1.2e-6, 4e-7))
    assert least == pytest.approx(1e-6)
    assert 0 < hidden < least
    assert error == 1.0
    # Nothing is below the resolution of a measurement without noise.
    assert told_apart(Slope(2e-6, 0.0), Slope(1e-6, 0.0)) == pytest.approx((1e-6, 0.0, 0.0))
