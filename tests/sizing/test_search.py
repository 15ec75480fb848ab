"""The search that admission and provisioning share, beside every division."""

from __future__ import annotations

import itertools
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.latency.waits import worst_waits_plain
from penstock.sizing.search import Key, Search, Step


def case(seed: int) -> Search:
    """Return a search over random loads, in which some hosts are alike, with work on the others."""
    rng = np.random.default_rng(seed)
    operators, hosts, periods = int(rng.integers(1, 5)), int(rng.integers(1, 5)), 6
    alike = rng.random(hosts) < 0.5
    capacity = np.where(alike, 1.0, rng.choice([0.5, 1.0, 2.0], hosts))
    base = np.where(alike[:, None], 0.0, rng.uniform(0, 1, (hosts, periods)))
    kinds = [int(np.flatnonzero(alike)[0]) if same else number for number, same in enumerate(alike)]
    return Search(
        loads=rng.uniform(0, 1, (operators, periods)),
        places=[range(hosts)] * operators,
        capacity=capacity,
        usable=np.full(hosts, np.inf),
        base=base,
        kinds=kinds,
        period=1.0,
        budget=np.inf,
    )


def waits(search: Search, where: tuple[int, ...]) -> float:
    """Return the worst wait of the hosts that a division uses."""
    load = search.base.copy()
    np.add.at(load, list(where), search.loads)
    used = sorted(set(where))
    return float(worst_waits_plain(load[used], search.capacity[used], search.period).max())


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_best_is_that_of_every_division(seed: int) -> None:
    """The last better division has the least worst wait of all divisions, and its key says so."""
    search = case(seed)

    def judge(step: Step) -> tuple[Key, Key]:
        wait = step.wait()
        return (max((*step.before, wait)),), (wait, step.host)

    found = list(search.divisions(judge, better=True))
    assert found == sorted(found, key=lambda row: -row[0][0])
    every = itertools.product(range(len(search.base)), repeat=len(search.loads))
    best = min(waits(search, where) for where in every)
    assert np.isclose(found[-1][0][0], best)
    assert np.isclose(waits(search, found[-1][1]), best)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_every_division_once(seed: int) -> None:
    """Without a judgement each division comes once, but for those that exchange hosts that are alike."""
    search = case(seed)
    found = [where for _, where in search.divisions(lambda step: ((), ()))]
    every = itertools.product(range(len(search.base)), repeat=len(search.loads))

    def shape(where: tuple[int, ...]) -> tuple[object, ...]:
        groups = [
            (search.kinds[host], tuple(i for i, other in enumerate(where) if other == host)) for host in set(where)
        ]
        return tuple(sorted(groups))

    assert len(found) == len(set(found))
    assert sorted(map(shape, found)) == sorted({shape(where) for where in every})


def test_budget_ends_a_search_that_has_found_something() -> None:
    """With the budget spent the first division found is the last, and without a budget all come."""
    search = case(11)
    search.budget = 0
    found = list(search.divisions(lambda step: ((step.wait(),), ())))
    assert len(found) == 1


def test_operators_may_be_more_than_calls_within_calls() -> None:
    """A search goes as deep as there are operators, however many Python lets functions call each other."""
    count = sys.getrecursionlimit() + 100
    search = Search(
        loads=np.ones((count, 1)),
        places=[[0, 1]] * count,
        capacity=np.ones(2),
        usable=np.full(2, np.inf),
        base=np.zeros((2, 1)),
        kinds=[0, 0],
        period=1.0,
        budget=np.inf,
    )
    found = list(itertools.islice(search.divisions(lambda step: ((), (step.used,))), 3))
    assert [where[-3:] for _, where in found] == [(0, 0, 0), (0, 0, 1), (0, 1, 0)]
