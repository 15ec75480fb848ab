"""Hill climbing on the worst latency: what it may answer, how near it comes, and what its parts promise."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.experiments.mace import bursts
from penstock.latency.mace import cumulative_excess
from penstock.native.jit import compiling, kernel
from penstock.placement import Arrays, Divided, algorithm, objective
from penstock.placement.climb import MaceClimb
from penstock.placement.correlation import LargestFirst
from penstock.placement.episode import Loads, episode

_spec = importlib.util.spec_from_file_location("placement_problems", Path(__file__).with_name("problems.py"))
problems = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)


def tight(seed: int, hosts: int = 4, operators: int = 14, level: float = 0.9) -> Arrays:
    """Few large operators of random phase and size on unequal hosts: quotas bind."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.2, 1.0, (operators, 1)) * rng.choice([0.2, 1.0, 2.0], (operators, 20))
    capacity = rng.choice([1.0, 1.0, 2.0], hosts)
    return Arrays.of(load * (level * capacity.sum() / load.mean(axis=1).sum()), capacity)


def judged(arrays: Arrays, **options: object) -> tuple[bool, float]:
    """Return whether the answer keeps the quotas, and its worst latency."""
    where = MaceClimb(**options)(arrays, np.random.default_rng(0))
    within = (arrays.host_mean(where) <= arrays.usable * (1 + 1e-9)).all()
    return bool(within), objective.latency(arrays, where)


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000))
def test_more_is_never_worse(seed):
    """More starts, and a larger budget, keep the quotas and never make the answer worse."""
    arrays = tight(seed)
    for options in (
        [{"restarts": k, "budget": 4000} for k in (1, 3, 8)],
        [{"restarts": 3, "budget": b} for b in (1, 300, 2000, 9000)],
    ):
        found = [judged(arrays, **each) for each in options]
        if not any(within for within, _ in found):
            continue
        # Whatever start keeps the quotas wins over those that do not.
        assert all(within for within, _ in found[1:])
        values = [value for within, value in found if within]
        assert all(after <= before + 1e-9 for before, after in pairwise(values))


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000))
def test_small_networks_are_placed_as_by_the_oracle(seed):
    """On a few hosts the default budget ends within 5 % of the best of all placements."""
    arrays = tight(seed, hosts=3, operators=9, level=0.75)
    within, value = judged(arrays)
    best = objective.latency(arrays, algorithm("exact", objective="latency")(arrays, np.random.default_rng(0)))
    assert within
    assert best - 1e-9 <= value <= best * 1.05 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_near_the_bound_on_the_papers_workload(seed):
    """On 20 hosts with the bursts of Figure 12 the answer is within 10 % of the perfectly divided load."""
    arrays = bursts(1, np.random.default_rng([seed, 1]))
    with compiling():
        within, value = judged(arrays, gap=0.05)
    assert within
    assert value <= 1.1 * objective.latency_bound(arrays)


def test_seed_and_time_limit():
    """The same seed gives the same placement, and a clock that runs out ends with the best one so far."""
    arrays = tight(1)
    one, two = (MaceClimb()(arrays, np.random.default_rng(5)) for _ in range(2))
    assert (one == two).all()
    ticks = iter(range(1000))
    late = MaceClimb(seconds=2.0, clock=lambda: float(next(ticks)))(arrays, np.random.default_rng(5))
    assert (arrays.host_mean(late) <= arrays.usable * (1 + 1e-9)).all()
    assert objective.latency(arrays, late) >= objective.latency(arrays, one) - 1e-9
    for wrong in ({"restarts": 0}, {"budget": 0}, {"seconds": 0.0}):
        with pytest.raises(InputError, match="expected"):
            MaceClimb(**wrong)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 5), min_size=1, max_size=30), st.floats(0.1, 3))
def test_episode_is_the_largest_excess_of_any_interval(load, capacity):
    """The worst excess is the largest sum of load less capacity over all intervals, and the interval has it."""
    series = np.array(load)
    most, first, end = episode(series, capacity)
    sums = [(series[a:b] - capacity).sum() for a in range(len(load)) for b in range(a + 1, len(load) + 1)]
    assert most == pytest.approx(max([0.0, *sums]), abs=1e-9)
    assert most == pytest.approx((series[first:end] - capacity).sum(), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_state_stays_that_of_the_placement(seed):
    """After a climb the kept loads, levels and waits are those computed anew, and the answer is the least seen."""
    arrays = tight(seed, level=0.7)
    code = kernel("penstock.placement.climb_kernel", 0)
    where = LargestFirst()(arrays, np.random.default_rng(seed))
    before = objective.latency(arrays, where)
    free = np.ones(len(where), bool)
    state = code.begun(Loads(arrays.load, arrays.mean, arrays.capacity, arrays.usable, free, where, 1.0))
    least, tried = code.climb(state, objective.latency_bound(arrays), 1000, 3000, np.arange(4))
    assert least == pytest.approx(objective.latency(arrays, state.best))
    assert least <= before
    assert tried <= 3000 + 128 * 128
    now = np.zeros(len(where), np.int64)
    for h in range(4):
        o = state.head[h]
        while o >= 0:
            now[o], o = h, state.after[o]
    assert state.host == pytest.approx(arrays.host_load(now), abs=1e-9)
    assert state.level == pytest.approx(arrays.host_mean(now), abs=1e-9)
    excess = cumulative_excess(arrays.host_load(now), arrays.capacity, 1.0).max(axis=1) / arrays.capacity
    assert state.latency == pytest.approx(excess, abs=1e-9)
    count = state.counts[0]
    bound = state.excess[:, :count].max(axis=1, initial=0.0) / arrays.capacity
    assert (bound <= state.latency + 1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_evening_out_lowers_the_squares(seed):
    """Swaps of the start bring the hosts nearer to their shares in the intervals that are weighed, within quotas."""
    arrays = tight(seed, hosts=5, operators=30, level=0.8)
    code = kernel("penstock.placement.even_kernel", 0)
    where = LargestFirst()(arrays, np.random.default_rng(seed))
    goal = objective.latency_bound(arrays) * 1.05
    spans = code.intervals(arrays.host_load(where), arrays.capacity)
    after, free = where.copy(), np.ones(len(where), bool)
    limit = arrays.usable * (1 + 1e-9)
    given = Loads(arrays.load, arrays.mean, arrays.capacity, limit, free, after, 1.0)
    rows = code.weighed(given, spans, goal)

    def squares(at: np.ndarray) -> float:
        off = np.zeros((5, rows.shape[1]))
        np.add.at(off, at, rows)
        off -= arrays.capacity[:, None] / arrays.capacity.sum() * rows.sum(axis=0)
        return float(((off**2).sum(axis=1) / arrays.capacity).sum())

    code.evened(given, goal, np.arange(5), 10**6)
    assert squares(after) <= squares(where) + 1e-9
    assert (arrays.host_mean(after) <= np.maximum(limit, arrays.host_mean(where)) + 1e-9).all()


def test_hosts_that_are_just_full_are_placed():
    """Where all that comes in an interval is what all hosts together can do, there is an answer."""
    course = np.array([[3.0, 1.0], [1.0, 3.0]] * 2)
    within, latency = judged(Arrays.of(np.tile(course / 4.0, 2), np.ones(2)))
    assert within
    assert latency == 0.0


def test_domains_share_the_time():
    """A time limit is that of all domains together, each of which gets its part."""
    climb = Divided(domains=4).of(algorithm("mace-climb", seconds=2.0))
    assert climb.inner.seconds == 0.5


def test_a_problem_is_packed_once(monkeypatch):
    """Where no start can be brought within the quotas by moves, packing anew is tried once, and not for every start."""
    asked = []
    monkeypatch.setattr("penstock.placement.climb.packed", asked.append)
    arrays = Arrays.of(np.full((5, 4), 0.6), np.ones(4))
    MaceClimb(restarts=8)(arrays, np.random.default_rng(0))
    assert asked == [arrays]
